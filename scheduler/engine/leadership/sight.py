"""What an engine that leads sees of the cluster. One that has seen nothing for long lets another one try."""

from scheduler.engine.ports import Cluster, EngineClock
from scheduler.errors import ClusterError
from scheduler.model.observation import Observation

#: Clusters restart what answers for them, and are back by then.
BLIND_SECONDS_MAX = 30.0


class Sight:
    """Used by the engine's thread."""

    def __init__(self, cluster: Cluster, clock: EngineClock) -> None:
        self._cluster = cluster
        self._clock = clock
        #: Monotonic seconds; None: the cluster answered the last time, or this engine has not led since.
        self._blind_since: float | None = None
        #: Why the cluster did not answer the last time; None: it did.
        self.trouble: str | None = None

    def observe(self) -> Observation:
        """What there is. Raises `ClusterError`."""
        try:
            observation = self._cluster.observe()
        except ClusterError as error:
            self.trouble = str(error)
            if self._blind_since is None:
                self._blind_since = self._clock.monotonic()
            raise
        self._blind_since = self.trouble = None
        return observation

    def look_away(self) -> None:
        """Count anew from the next look on: another engine leads, or none."""
        self._blind_since = None

    def is_lost(self) -> bool:
        """Whether the cluster has not answered for too long."""
        since = self._blind_since
        return since is not None and self._clock.monotonic() - since >= BLIND_SECONDS_MAX
