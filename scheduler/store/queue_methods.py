"""What users ask of the store about queues."""

from scheduler.model.queue import Queue
from scheduler.store.database_access import DatabaseAccess
from scheduler.store.requests import queues
from scheduler.store.requests.queues import Make
from scheduler.store.sql.notify import Word, announce


class QueueMethods(DatabaseAccess):
    """Creates, changes, deletes and reads queues."""

    def list_queues(self) -> tuple[Queue, ...]:
        """All queues by path, as users have set them."""
        with self._reading() as (connection, aside):
            return queues.present(connection, aside)

    def get_queue(self, path: str) -> Queue | None:
        """The queue as users have set it. Raises `UnreadableRow`."""
        with self._database.read() as connection:
            return queues.get(connection, path)

    def set_queue(self, path: str, make: Make, now: float, *, anew: bool = False) -> Queue:
        """Store what `make` makes of the queue, and return it; `make` gets None where there is none.

        `anew`: nothing of the stored queue is kept. Raises what `make` raises, `InvalidInput` for a path that no queue
        may have, or whose parent does not exist, and `Conflict` where there are too many.
        """
        with self._database.write() as connection:
            queue = queues.write(connection, self._statements, path, make, now, anew=anew)
            announce(connection, Word.ASKED, self._name)
            return queue

    def delete_queue(self, path: str, now: float, wall: float) -> None:
        """Remove the queue. `wall`: the present moment of the machine's clock, by which tokens expire.

        Raises `NotFound`, or `Conflict` while it contains queues or jobs that have not ended, or while recurring jobs
        or valid tokens name it.
        """
        with self._database.write() as connection:
            queues.delete(connection, self._statements, path, now, wall)
            announce(connection, Word.ASKED, self._name)
