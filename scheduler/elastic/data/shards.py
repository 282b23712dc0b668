"""Data in shards from the scheduler's queue: what makes asynchronous workers elastic. Standard library only."""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

from scheduler.elastic.data.shard_prefetcher import Holder
from scheduler.elastic.data.shard_source import Own, Scheduler, Shard
from scheduler.elastic.environment import Environment
from scheduler.elastic.errors import UsageError
from scheduler.elastic.training.arguments import whole

#: The scheduler gives a reader no more.
AHEAD_MAX = 10_000
_GRACE_SECONDS_ALONE = 30.0

#: By process and worker: a process that was forked from this one has its own, though it sees this.
_HOLDERS: dict[tuple[int, str], Holder] = {}
_OPENING = threading.Lock()


class ShardQueue:
    """This process's share of the job's data, as it goes.

        with elastic.ShardQueue() as shards:
            for shard in shards:                        # done, once the next one is asked for
                for record in shard.part_of(len(data)): ...

    Each shard is dealt to one worker at a time. One whose worker dies or falls silent is dealt again, so that all are
    done at least once; the done report of a worker that has lost a shard is refused. Where it has to be known whether a
    shard counts, ask `commit` before letting its effect last.

    A loop that is left and begun again goes on with the shard at which it was left, from its beginning.

    A worker that is asked to leave does not come out of the loop: after the shard in hand it gives the others back and
    exits with status 64. So make shards shorter than the grace period.

    A process of a worker has one at a time, which its threads may share. One that nothing refers to any more is closed.

    Do not use it inside of `elastic.run`, whose ranks step together: that is what `ElasticDistributedSampler` is for.

    Args:
        shards, epochs: of the data set where no scheduler started this process; with one, the job's `data` says.
        ahead: how many shards to have at hand besides those in use, at most 10,000. More of them make up for short
            shards.
    """

    def __init__(self, *, shards: int | None = None, epochs: int = 1, ahead: int = 2) -> None:
        ahead = whole("ahead", ahead, 1, AHEAD_MAX)
        environment = Environment.read(os.environ)
        if environment is None:
            self._holder = Holder(Own.read(shards, epochs, os.environ), ahead, _GRACE_SECONDS_ALONE)
        else:
            self._holder = _open(environment, ahead)
        # A loop may be left without `close`, and the holder's thread would renew for ever what nobody reads.
        weakref.finalize(self, self._holder.let_go).atexit = False

    def __enter__(self) -> "ShardQueue":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception):
            self._holder.failed_with(error)
        self.close()

    def __iter__(self) -> Iterator[Shard]:
        """Shards until all of the data is done, also those that others give back. Blocks where others hold the rest."""
        self.take_up()
        while True:
            shard = self.take()
            while shard is None and not self.over():
                shard = self.take()
            if shard is None:
                return
            try:
                yield shard
            except GeneratorExit:
                self.leave([shard.position])
                raise
            self.done(shard)

    def take(self, stopped: Callable[[], bool] = lambda: False, *, in_parts: bool = False) -> Shard | None:
        """The next shard, which is in hand until it is `done`; None where nothing is to be had at the moment.

        Args:
            stopped: whether to give up waiting.
            in_parts: others are read along with it, so that `commit` does not report it unless it is `done`.
        """
        return self._holder.take(stopped, in_parts=in_parts)

    def leave(self, positions: Iterable[int]) -> None:
        """Nobody works on these any more, of what is in hand: `take_up` has them begun again."""
        self._holder.leave(positions)

    def take_up(self) -> None:
        """Have `take` give again, and first, what a loop was left with."""
        self._holder.take_up()

    def done(self, shard: Shard) -> None:
        """It is reported soon; `commit` reports at once."""
        self._holder.done(shard)

    def failed(self, shard: Shard, detail: str) -> None:
        """It cannot be done: others try it later, and after `max_attempts` failures it is set aside."""
        self._holder.failed(shard, detail)

    def commit(self) -> list[int]:
        """Report what is done, now, and wait until that is stored, however long the scheduler is away.

        Done is also what this thread took and has in hand: the shard of its loop. Of `ShardedDataset.batches` it is
        only what all samples were used of, that is without the present batch.

        Returns:
            positions among these that this worker had lost meanwhile: another one does them, so throw away what came
            of them here. All others count as done by this worker, and by no other.
        """
        return self._holder.commit()

    def close(self) -> None:
        """Report what is done, give back what was not begun. What is in hand stays this worker's until it ends."""
        self._holder.close()

    def over(self) -> bool:
        """Whether all of the data is done. Else it waits a moment for what others give back: `take` again.

        Exits with status 64, with all reported and given back, if this worker was asked to leave.
        """
        return self._holder.over()

    def wake(self) -> None:
        """Let whoever waits in `take` look at `stopped` again."""
        self._holder.wake()


def _open(environment: Environment, ahead: int) -> Holder:
    """Two of one process would wait for each other: nobody comes to the end while another holds shards."""
    place = (os.getpid(), environment.worker)
    with _OPENING:
        other = _HOLDERS.get(place)
        if other is not None and other.deals:
            raise UsageError("this worker already reads from a ShardQueue: share that one, or close it first")
        _HOLDERS[place] = Holder(Scheduler(environment), ahead, environment.grace_seconds)
        return _HOLDERS[place]
