"""Foreign use: what pods hold on nodes beside workers, and which foreign pods are pending.

The cache guards it with its lock.
"""

from collections.abc import Iterable, Set

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.quantities import NONE, Amounts, total
from scheduler.clusters.kubernetes.nodes import NodeFacts
from scheduler.clusters.kubernetes.pending_pods import WaitingPod, demands_of, waiting_pod
from scheduler.clusters.kubernetes.pods import PodKey, foreign_pod
from scheduler.model.foreign import Demand
from scheduler.model.ids import NodeName


class ForeignPods:
    """Foreign pods, and what workers' pods hold besides, by uid, since names are reused."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        #: What others hold, by node and pod; and the node and the names of each of these pods.
        self._held: dict[NodeName, dict[str, Amounts]] = {}
        self._node: dict[str, NodeName] = {}
        self._keys: dict[str, PodKey] = {}
        self._waiting: dict[str, WaitingPod] = {}
        #: What follows from those that wait, for one least priority; None: they or the nodes have changed.
        self._demands: tuple[int, tuple[Demand, ...]] | None = None
        #: Nodes on which others hold something else than when `take_changed` was called last.
        self._changed: set[NodeName] = set()

    def put(self, uid: str, pod: Document) -> bool:
        """Store a version of a foreign pod; return whether it is news."""
        waits = self._put_waiting(uid, pod)
        return self._put_held(uid, pod) or waits

    def put_rest(self, uid: str, pod: Document, own: Amounts) -> bool:
        """Store what a worker's pod holds beyond the numbers of its job (`own`); return whether that is news."""
        return self._put_held(uid, pod, own)

    def drop(self, uid: str) -> bool:
        """Drop a deleted pod; return whether it held or waited for anything."""
        waited = self._drop_waiting(uid)
        return self._drop_held(uid) or waited

    def keep_only(self, uids: Set[str]) -> bool:
        """Drop all pods but these; return whether any of the dropped held or waited for anything."""
        gone = [uid for uid in {**self._node, **self._waiting} if uid not in uids]
        for uid in gone:
            self.drop(uid)
        return bool(gone)

    def held_on(self, node: NodeName) -> Amounts:
        on_node = self._held.get(node)
        return NONE if on_node is None else total(on_node.values())

    def with_slots_on(self, node: NodeName) -> frozenset[PodKey]:
        """Pods that hold slots of the node."""
        on_node = self._held.get(node, {})
        return frozenset(self._keys[uid] for uid, amounts in on_node.items() if amounts.slots)

    def take_changed(self) -> set[NodeName]:
        """Nodes whose use by others has changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def demands(self, nodes: Iterable[NodeFacts], priority_min: int) -> tuple[Demand, ...]:
        """Demands of pending pods; cached until these, the priority, or the nodes (`nodes_changed`) change."""
        if self._demands is None or self._demands[0] != priority_min:
            self._demands = priority_min, demands_of(self._waiting.values(), nodes, priority_min)
        return self._demands[1]

    def nodes_changed(self) -> None:
        self._demands = None

    def _put_waiting(self, uid: str, pod: Document) -> bool:
        waiting = waiting_pod(pod, self._resource)
        if waiting is None:
            return self._drop_waiting(uid)
        if self._waiting.get(uid) == waiting:
            return False
        self._waiting[uid] = waiting
        self._demands = None
        return True

    def _drop_waiting(self, uid: str) -> bool:
        if self._waiting.pop(uid, None) is None:
            return False
        self._demands = None
        return True

    def _put_held(self, uid: str, pod: Document, own: Amounts = NONE) -> bool:
        use = foreign_pod(pod, self._resource, own)
        if use is None:
            return self._drop_held(uid)
        on_node = self._held.setdefault(use.node, {})
        if on_node.get(uid) == use.amounts:
            return False
        on_node[uid] = use.amounts
        self._node[uid] = use.node
        self._keys[uid] = use.key
        self._changed.add(use.node)
        return True

    def _drop_held(self, uid: str) -> bool:
        node = self._node.pop(uid, None)
        if node is None:
            return False
        on_node = self._held[node]
        del on_node[uid], self._keys[uid]
        if not on_node:
            del self._held[node]
        self._changed.add(node)
        return True
