"""Actions that were sent to the cluster, as far as it is not known what became of them."""

from collections.abc import Collection, Iterable

from scheduler.engine.ports import ActionFailure, ClusterAction, StopWorker
from scheduler.model.ids import WorkerId


class SentActions:
    """Of one engine in one term."""

    def __init__(self) -> None:
        #: Workers that were asked to stop.
        self.stop_sent: set[WorkerId] = set()
        #: Workers whose last start or stop failed on the way, and why.
        self.uncertain: dict[WorkerId, ActionFailure] = {}

    def record(
        self, actions: Iterable[ClusterAction], failures: Iterable[ActionFailure], strays: Collection[WorkerId]
    ) -> None:
        """Record the actions of a tick, and those of them that failed."""
        self.uncertain = {failure.action.worker_id: failure for failure in failures}
        # A worker of a job may come to have the id of a stray: the stop of the stray does not count for it.
        self.stop_sent.update(a.worker_id for a in actions if isinstance(a, StopWorker) and a.worker_id not in strays)
        self.stop_sent.difference_update(self.uncertain)

    def forget(self, ended: Iterable[WorkerId]) -> None:
        """Drop workers that have ended."""
        self.stop_sent.difference_update(ended)

    def clear(self) -> None:
        """Drop everything."""
        self.stop_sent.clear()
        self.uncertain = {}
