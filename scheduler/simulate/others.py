"""Pods of others in a simulated run: they come and go at their times, and get room where a node has it."""

import math
from collections.abc import Sequence

from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.model.foreign import Demand
from scheduler.simulate.result import ForeignResult
from scheduler.simulate.workload import ForeignPod


class Others:
    """Follows them; `start` is the moment of the clock at which the workload begins."""

    def __init__(self, pods: Sequence[ForeignPod], cluster: SimulatedCluster, start: float) -> None:
        self._cluster = cluster
        self._start = start
        #: What is still to come, the last first. Who goes at a moment makes room for those that come then.
        self._changes = sorted(
            [(each.at, 1, each) for each in pods] + [(each.until, 0, each) for each in pods],
            key=lambda change: change[:2],
            reverse=True,
        )
        self._waiting: set[str] = set()
        self._came: dict[str, ForeignPod] = {}
        self._ran_at: dict[str, float] = {}
        self._went_at: dict[str, float] = {}

    @property
    def next_at(self) -> float:
        """When the next one comes or goes; infinite where none does."""
        return self._start + self._changes[-1][0] if self._changes else math.inf

    def play(self, now: float) -> bool:
        """Let come, go and run who can by now; whether anything of that happened."""
        happened = False
        while self.next_at <= now:
            at, comes, pod = self._changes.pop()
            happened = True
            if comes:
                self._came[pod.name] = pod
                self._waiting.add(pod.name)
                self._cluster.foreign.come(Demand(pod.name, pod.shape))
            else:
                self._waiting.discard(pod.name)
                self._went_at[pod.name] = at
                self._cluster.foreign.go(pod.name)
        return self._run(now) or happened

    def results(self) -> tuple[ForeignResult, ...]:
        """What became of those that have come, in their order."""
        return tuple(
            ForeignResult(name, pod.shape.slots, pod.at, self._ran_at.get(name), self._went_at.get(name))
            for name, pod in self._came.items()
        )

    def _run(self, now: float) -> bool:
        if not self._waiting:
            return False
        self._cluster.let_foreign_run()
        begun = {name for name in self._waiting if self._cluster.foreign.node_of(name) is not None}
        self._waiting -= begun
        self._ran_at.update(dict.fromkeys(begun, now - self._start))
        return bool(begun)
