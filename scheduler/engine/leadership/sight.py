"""What an engine that leads sees of the cluster. One that has seen nothing for long lets another one try."""

from scheduler.engine.ports import Cluster, EngineClock
from scheduler.errors import ClusterError
from scheduler.model.observation import Observation

#: Clusters restart what answers for them, and are back by then.
BLIND_SECONDS_MAX = 30.0
STANDS_ASIDE = (
    f"the cluster could not be reached from here for {BLIND_SECONDS_MAX:g} s: another replica may lead, and none does"
)


class Sight:
    """Used by the engine's thread."""

    def __init__(self, cluster: Cluster, clock: EngineClock) -> None:
        self._cluster = cluster
        self._clock = clock
        #: Monotonic seconds; None: the cluster answered the last time.
        self._blind_since: float | None = None

    def observe(self) -> Observation:
        """What there is. Raises `ClusterError`."""
        try:
            observation = self._cluster.observe()
        except ClusterError:
            if self._blind_since is None:
                self._blind_since = self._clock.monotonic()
            raise
        self._blind_since = None
        return observation

    def is_lost(self) -> bool:
        """Whether the cluster has not answered for too long; then it is given as much time once more."""
        since = self._blind_since
        lost = since is not None and self._clock.monotonic() - since >= BLIND_SECONDS_MAX
        if lost:
            self._blind_since = None
        return lost
