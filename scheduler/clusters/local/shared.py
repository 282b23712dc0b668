"""The local cluster of several replicas on one machine: its supervisor obeys the leader."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from scheduler.clusters.local.cluster import LocalCluster
from scheduler.clusters.logs.reader import LocalLogs
from scheduler.config import LocalSettings
from scheduler.engine.ports import ActionFailure, Clock, ClusterAction
from scheduler.errors import ClusterError
from scheduler.model.observation import Observation


class SharedLocalCluster:
    """A `LocalCluster` that is opened when it is observed, which only a leader does.

    Opening takes over the supervisor, which then ignores all others: requests of a former leader are lost. A replica
    that follows keeps the cluster that was taken from it until it leads again.
    """

    def __init__(self, directory: Path, settings: LocalSettings, clock: Clock) -> None:
        """`directory`: of the workers and their supervisor, shared by all replicas."""
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self.logs = LocalLogs(directory)
        self._cluster: LocalCluster | None = None
        self._wakes: list[Callable[[], None]] = []

    def observe(self) -> Observation:
        """A complete observation; takes the cluster over if need be. Raises `ClusterError`."""
        if self._cluster is None or self._cluster.taken_over:
            self.close()
            self._cluster = LocalCluster(self._directory, self._settings, self._clock)
            for wake in self._wakes:
                self._cluster.on_change(wake)
        return self._cluster.observe()

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        """See `LocalCluster.apply`."""
        if self._cluster is None:
            raise ClusterError("the local cluster has not been observed yet")
        return self._cluster.apply(actions, until)

    def troubles(self) -> list[str]:
        """See `LocalCluster.troubles`."""
        return self._cluster.troubles() if self._cluster is not None else []

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` for changes while this replica has the cluster."""
        self._wakes.append(wake)
        if self._cluster is not None:
            self._cluster.on_change(wake)

    def close(self) -> None:
        """Disconnect; workers and their supervisor go on."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
