"""The known state of nodes and pods, put together as an observation. Reflectors write it, the engine reads it."""

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.foreign_pods import ForeignPods
from scheduler.clusters.kubernetes.known_worker import KnownWorker
from scheduler.clusters.kubernetes.nodes import NAME_LABEL, NodeFacts, node_facts
from scheduler.clusters.kubernetes.pod_status import PodState, gone_state, pod_state, vanished, worker_container
from scheduler.clusters.kubernetes.pods import PodKey, WorkerPod, WorkerPods
from scheduler.clusters.kubernetes.resources import own_amounts
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import StartWorker
from scheduler.model.foreign import Demand
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import EndCause, NodeObservation, Observation, Phase, WorkerObservation

K = TypeVar("K")


class ClusterCache:
    """Nodes, workers, and the use of nodes by others."""

    def __init__(self, settings: KubernetesSettings, pods: WorkerPods, now: Callable[[], float]) -> None:
        self._settings = settings
        self._pods = pods
        self._now = now
        self._lock = threading.Lock()
        self._facts: dict[NodeName, NodeFacts] = {}
        self._nodes: Mapping[NodeName, NodeObservation] = {}
        self._stale_nodes: set[NodeName] = set()
        #: Nodes whose slots may be shared; None: all. Nodes with sharers stay shared, so that these need not leave.
        self._oversold: Set[NodeName] | None = frozenset() if settings.has_gpus else None
        self._sharers: dict[NodeName, set[WorkerId]] = {}
        self._foreign_pods = ForeignPods(settings.resource)
        #: Pod priority of the workers.
        self._priority = 0
        self._workers: dict[WorkerId, KnownWorker] = {}
        #: Workers by the uid of their pod.
        self._of_pod: dict[str, WorkerId] = {}
        self._listed: dict[WorkerId, WorkerObservation] = {}
        #: A copy of `_listed` for the engine; None: it is out of date.
        self._seen: Mapping[WorkerId, WorkerObservation] | None = None
        #: Workers that may run, by job.
        self._alive: dict[JobId, set[WorkerId]] = {}
        #: Workers that do not run yet.
        self._launching: set[WorkerId] = set()
        #: When the events of a pod that has not started were asked for, by uid.
        self._asked: dict[str, float] = {}
        #: Pods that the cluster's scheduler displaces, by uid.
        self._displaced: set[str] = set()
        #: Pods that are being deleted and need not be reported.
        self._forgotten: set[str] = set()
        #: While pods are listed, those from answers to requests: the list may not have them. None: there is no list.
        self._answered: set[str] | None = None

    def observe(self) -> Observation:
        with self._lock:
            self._refresh_nodes()
            for worker_id in self._launching:
                if self._workers[worker_id].state.blocked:
                    self._list(self._workers[worker_id])  # time alone makes it stuck
            if self._seen is None:
                self._seen = MappingProxyType(dict(self._listed))
            return Observation(self._nodes, self._seen, demands=self._demands())

    def worker(self, worker_id: WorkerId) -> KnownWorker | None:
        with self._lock:
            return self._workers.get(worker_id)

    def has_node(self, name: NodeName) -> bool:
        with self._lock:
            return name in self._facts

    def offers_slots(self) -> bool:
        """Whether any node has slots, ready or not."""
        with self._lock:
            return any(facts.allocatable.whole_slots for facts in self._facts.values())

    def nodes(self) -> Mapping[NodeName, NodeObservation]:
        with self._lock:
            self._refresh_nodes()
            return self._nodes

    def live_workers(self) -> list[KnownWorker]:
        """Workers that may run."""
        with self._lock:
            return [known for known in self._workers.values() if known.state.alive]

    def others_on(self, node: NodeName) -> frozenset[PodKey]:
        """Pods of others that hold slots of the node."""
        with self._lock:
            return self._foreign_pods.with_slots_on(node)

    def oversell(self, nodes: Set[NodeName]) -> bool:
        """Set the nodes whose slots may be shared; return whether that changed."""
        with self._lock:
            changed = nodes ^ (self._oversold or frozenset())
            self._stale_nodes |= changed
            self._oversold = frozenset(nodes)
            return bool(changed)

    # what the nodes' reflector tells

    def put_node(self, node: Document) -> bool:
        """Store the facts of a node; return whether they are news."""
        facts = node_facts(node, self._settings)
        with self._lock:
            if self._facts.get(facts.name) == facts:
                return False
            self._facts[facts.name] = facts
            self._stale_nodes.add(facts.name)
            return True

    def remove_node(self, node: Document) -> bool:
        with self._lock:
            return self._drop_node(NodeName(node["metadata"]["name"]))

    def keep_nodes(self, names: Set[str]) -> bool:
        """Drop all nodes but these: a complete list had no others. Returns whether any was dropped."""
        with self._lock:
            gone = [name for name in self._facts if name not in names]
            for name in gone:
                self._drop_node(name)
            return bool(gone)

    # what the pods' reflector, and answers to requests, tell

    def begin_pods(self) -> None:
        """Begin a list of pods."""
        with self._lock:
            self._answered = set()

    def put_pod(self, pod: Document, *, answered: bool = False) -> bool:
        """Store a version of a pod; return whether it is news. `answered`: from a request, not from list or watch."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            who = self._who(pod)
            if answered and self._answered is not None:
                self._answered.add(uid)
            if who is None:
                return self._foreign_pods.put(uid, pod)
            return uid not in self._forgotten and self._put_worker(who, pod)

    def is_ours(self, pod: Document) -> bool:
        """Whether the pod is a worker's."""
        with self._lock:
            return self._who(pod) is not None

    def remove_pod(self, pod: Document) -> bool:
        """Take in the deletion of a pod, given its last version; return whether that is news."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            who = self._who(pod)
            self._forgotten.discard(uid)
            freed = self._foreign_pods.drop(uid)
            known = self._workers.get(who.worker_id) if who is not None else None
            if known is not None and known.uid == uid:
                state = gone_state(known.state, pod, self._is_up(known.who.node))
                freed = self._bury(known, self._told(uid, state)) or freed
            self._displaced.discard(uid)
            return freed

    def keep_pods(self, uids: Set[str]) -> bool:
        """Drop all pods but these and those answered since the list began, which may be newer than it."""
        with self._lock:
            there = uids | (self._answered or set())
            self._answered = None
            self._forgotten &= there
            self._displaced &= there
            ours = [each for each in self._workers.values() if not each.gone and each.uid not in there]
            for known in ours:
                self._bury(known, vanished(known.state))
            return self._foreign_pods.keep_only(there) or bool(ours)

    # what requests bring about

    def refuse(self, start: StartWorker, namespace: str, detail: str, cause: EndCause | None = None) -> None:
        """Record that the API refused the worker's pod: the worker ends before it began."""
        who = WorkerPod(
            start.worker_id,
            start.job_id,
            namespace,
            start.node,
            start.slot_ids,
            start.cpus,
            start.memory_mib,
            nonce=start.nonce,
            shared=start.shared,
        )
        state = PodState(Phase.LAUNCH_FAILED, None, detail, cause)
        with self._lock:
            self._set(KnownWorker(who, state, self._now(), gone=True, over=True))

    def forget(self, worker_id: WorkerId) -> None:
        """Drop a worker whose end is stored."""
        with self._lock:
            known = self._drop(worker_id)
            if known is not None and known.uid and not known.gone:
                self._forgotten.add(known.uid)

    def has_live_workers(self, job_id: JobId) -> bool:
        """Whether the job has a pod that may run."""
        with self._lock:
            return job_id in self._alive

    def silent(self, seconds: float) -> list[KnownWorker]:
        """Workers that have not started for `seconds` without a known reason; each is returned once in that time."""
        found: list[KnownWorker] = []
        with self._lock:
            now = self._now()
            for worker_id in self._launching:
                known = self._workers[worker_id]
                if known.state.blocked or known.gone or now < max(known.since, self._asked.get(known.uid, 0)) + seconds:
                    continue
                self._asked[known.uid] = now
                found.append(known)
            if len(self._asked) > 2 * len(self._launching) + 100:
                kept = {self._workers[worker_id].uid for worker_id in self._launching}
                self._asked = {uid: at for uid, at in self._asked.items() if uid in kept}
        return found

    def displace(self, uid: str) -> bool:
        """Record that the cluster's scheduler displaces this pod; return whether its worker's state changes."""
        with self._lock:
            if uid not in self._of_pod:
                return False
            known = self._workers[self._of_pod[uid]]
            self._displaced.add(uid)
            state = self._told(uid, known.state)
            if known.gone:
                self._displaced.discard(uid)  # nothing more will be heard of it
            self._set(replace(known, state=state))
            return state != known.state

    def explain(self, worker_id: WorkerId, state: PodState) -> bool:
        """Replace the state of a worker unless its phase has changed meanwhile; return whether anything changed."""
        with self._lock:
            known = self._workers.get(worker_id)
            if known is None or known.state.phase is not state.phase or known.state == state:
                return False
            self._set(replace(known, state=state))
            return True

    # within the lock

    def _who(self, pod: Document) -> WorkerPod | None:
        """The worker of the pod, also where somebody took its labels or annotations away; None: it is another's."""
        worker_id = self._of_pod.get(pod["metadata"]["uid"])
        return self._pods.worker(pod) if worker_id is None else self._workers[worker_id].who

    def _refresh_nodes(self) -> None:
        self._stale_nodes |= self._foreign_pods.take_changed()
        if not self._stale_nodes:
            return
        self._foreign_pods.nodes_changed()
        nodes = dict(self._nodes)
        for name in self._stale_nodes:
            facts = self._facts.get(name)
            if facts is None:
                nodes.pop(name, None)
            else:
                oversold = self._oversold is None or name in self._oversold or name in self._sharers
                nodes[name] = facts.beside(self._foreign_pods.held_on(name), self._settings, oversold=oversold)
        self._stale_nodes.clear()
        self._nodes = MappingProxyType(nodes)

    def _demands(self) -> tuple[Demand, ...]:
        least = self._settings.yield_to_priority
        return self._foreign_pods.demands(self._facts.values(), self._priority + 1 if least is None else least)

    def _drop_node(self, name: NodeName) -> bool:
        self._stale_nodes.add(name)
        return self._facts.pop(name, None) is not None

    def _drop(self, worker_id: WorkerId) -> KnownWorker | None:
        known = self._workers.pop(worker_id, None)
        self._launching.discard(worker_id)
        if known is not None:
            self._of_pod.pop(known.uid, None)
            self._count(known, alive=False)
            del self._listed[worker_id]
            self._seen = None
        return known

    def _is_up(self, name: NodeName) -> bool:
        facts = self._facts.get(name)
        return facts is not None and facts.ready

    def _labels(self, name: NodeName) -> Mapping[str, str]:
        facts = self._facts.get(name)
        return {NAME_LABEL: name} if facts is None else facts.known_by

    def _put_worker(self, who: WorkerPod, pod: Document) -> bool:
        known = self._workers.get(who.worker_id)
        new = self._known(who, pod)
        if known is not None:
            if known.uid == new.uid and (known.gone or new.version <= known.version):
                return False
            same = known.uid == new.uid
            if same and not known.state.alive:
                new = replace(new, state=known.state)  # an end that was seen stays what it was
            new = replace(new, since=known.since if same else new.since)
        self._set(new)
        rest = self._foreign_pods.put_rest(new.uid, pod, own_amounts(new.who, self._settings))
        return rest or known is None or known.state != new.state

    def _known(self, who: WorkerPod, pod: Document) -> KnownWorker:
        metadata = pod["metadata"]
        return KnownWorker(
            who=who,
            state=self._told(metadata["uid"], pod_state(pod, self._labels(who.node))),
            since=self._now(),
            name=metadata["name"],
            uid=metadata["uid"],
            version=int(metadata["resourceVersion"]),
            container=worker_container(pod),
            over=pod.get("status", {}).get("phase") in ("Succeeded", "Failed"),
        )

    def _told(self, uid: str, state: PodState) -> PodState:
        """The state, with displacement as its cause where the cluster's scheduler deletes the pod."""
        if state.cause is not EndCause.REMOVED or uid not in self._displaced:
            return state
        detail = "preempted by the scheduler of the cluster for a more important pod"
        return replace(state, cause=EndCause.DISPLACED, detail=detail)

    def _bury(self, known: KnownWorker, state: PodState) -> bool:
        kept = known.state if not known.state.alive else state
        self._set(replace(known, state=kept, gone=True, over=True))
        return kept != known.state

    def _set(self, known: KnownWorker) -> None:
        worker_id = known.who.worker_id
        if worker_id in self._workers:
            self._of_pod.pop(self._workers[worker_id].uid, None)
        self._workers[worker_id] = known
        self._count(known, alive=known.state.alive)
        if known.uid:
            self._of_pod[known.uid] = worker_id
            self._priority = known.who.priority
        self._list(known)
        if known.state.phase is Phase.LAUNCHING:
            self._launching.add(worker_id)
        else:
            self._launching.discard(worker_id)

    def _count(self, known: KnownWorker, *, alive: bool) -> None:
        _count(self._alive, known.who.job_id, known.who.worker_id, alive=alive)
        if known.who.shared:
            _count(self._sharers, known.who.node, known.who.worker_id, alive=alive)
            self._stale_nodes.add(known.who.node)

    def _list(self, known: KnownWorker) -> None:
        worker_id = known.who.worker_id
        seen = known.observed(stuck_since=self._now() - self._settings.launch_limit_seconds)
        if self._listed.get(worker_id) != seen:
            self._listed[worker_id] = seen
            self._seen = None


def _count(groups: dict[K, set[WorkerId]], key: K, worker_id: WorkerId, *, alive: bool) -> None:
    """Add a worker to its group, or remove it; an empty group is deleted."""
    group = groups.setdefault(key, set())
    (group.add if alive else group.discard)(worker_id)
    if not group:
        del groups[key]
