"""Shards as a torch data set: batches across shards, read by the loader's worker processes. Imports torch."""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Full
from typing import Any

import torch.multiprocessing
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info

from scheduler.elastic.data.shard_source import Shard
from scheduler.elastic.data.shards import ShardQueue
from scheduler.elastic.errors import ElasticError, UsageError

_PUT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Sample:
    #: None or one value: a shard may have no samples.
    values: tuple[Any, ...]
    #: The shard that ends with it.
    ends: Shard | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    value: Any
    #: Whether there is anything in it.
    filled: bool
    ends: tuple[Shard, ...]


class _Dealing:
    """Deals the shards of one loop over batches."""

    def __init__(self, shards: ShardQueue) -> None:
        self.shards = shards
        self._positions: set[int] = set()

    def take(self, stopped: Callable[[], bool] = lambda: False) -> Shard | None:
        shard = self.shards.take(stopped, in_parts=True)
        if shard is not None:
            self._positions.add(shard.position)
        return shard

    def done(self, shard: Shard) -> None:
        self.shards.done(shard)
        self._positions.discard(shard.position)

    def leave(self) -> None:
        self.shards.leave(self._positions)


class ShardedDataset(IterableDataset[Any]):
    """The samples of the shards that are dealt to this worker.

        data = elastic.ShardedDataset(read)                 # read(shard) gives the samples of a shard
        loader = DataLoader(data, batch_size=64, num_workers=2, collate_fn=data.collate)
        with elastic.ShardQueue() as shards:
            for inputs, targets in data.batches(shards, loader): ...

    A shard is done when the batch with its last sample was used, that is when the next one is asked for. Shards are
    dealt in the main process; with `num_workers` each is read by one of the loader's processes. A loop that is left
    and begun again goes on with the shards of which it has not used all, from their beginning.

    Args:
        read: the samples of a shard, in any number. With `num_workers` it runs in other processes.
        collate_fn: makes a batch of samples, as the loader's.
    """

    def __init__(
        self, read: Callable[[Shard], Iterable[Any]], collate_fn: Callable[[list[Any]], Any] = default_collate
    ) -> None:
        self._read = read
        self._collate = collate_fn
        #: Gives the next shard, or None at the end of a round: in this process, and in those of a loader.
        self._next_here: Callable[[], Shard | None] | None = None
        self._handed: Any = None
        #: Loaders whose processes go on with what they have read for a loop that was left.
        self._stale: weakref.WeakSet[DataLoader[Any]] = weakref.WeakSet()

    def __getstate__(self) -> dict[str, Any]:
        """For the loader's processes, which do not deal shards."""
        return {**self.__dict__, "_next_here": None, "_stale": None}

    def __iter__(self) -> Iterator[_Sample]:
        take = self._handed.get if get_worker_info() is not None and self._handed is not None else self._next_here
        if take is None:
            raise UsageError("shards come from a queue: iterate with ShardedDataset.batches(shards, loader)")
        while (shard := take()) is not None:
            yield from _samples(shard, self._read(shard))

    def collate(self, samples: list[_Sample]) -> _Batch:
        """The loader's `collate_fn`."""
        values = [value for sample in samples for value in sample.values]
        ends = tuple(sample.ends for sample in samples if sample.ends is not None)
        return _Batch(self._collate(values) if values else None, bool(values), ends)

    def batches(self, shards: ShardQueue, loader: DataLoader[Any]) -> Iterator[Any]:
        """What the loader makes of the shards, until all of the data is done.

        Where nothing more is to be had at the moment, a batch may be smaller: others may be waiting for its shards.
        """
        if loader.dataset is not self or loader.collate_fn != self.collate:
            raise UsageError("the loader must be DataLoader(data, ..., collate_fn=data.collate)")
        if loader.drop_last:
            raise UsageError("drop_last is not supported: it would leave shards undone")
        if loader in self._stale:
            raise UsageError(
                "a loop over this loader was left: its persistent processes cannot begin again; "
                "make another DataLoader, or this one with persistent_workers=False"
            )
        if loader.num_workers and self._handed is None:
            context = loader.multiprocessing_context or torch.multiprocessing.get_context()
            self._handed = context.Queue(loader.num_workers)
        shards.take_up()
        dealing = _Dealing(shards)
        self._next_here = dealing.take
        try:
            yield from self._rounds(dealing, loader)
        except BaseException:
            dealing.leave()
            self._handed = None  # what is in there is dealt again
            if loader.persistent_workers:
                self._stale.add(loader)
            raise
        finally:
            if self._next_here == dealing.take:
                self._next_here = None

    def _rounds(self, dealing: _Dealing, loader: DataLoader[Any]) -> Iterator[Any]:
        while True:
            with self._handing_out(dealing, loader.num_workers):
                for batch in loader:
                    if batch.filled:
                        yield batch.value
                    for shard in batch.ends:
                        dealing.done(shard)
            if dealing.shards.over():
                return

    @contextmanager
    def _handing_out(self, dealing: _Dealing, processes: int) -> Iterator[None]:
        """Meanwhile, a thread gives shards to the loader's processes."""
        if not processes:
            yield
            return
        stopped = threading.Event()
        thread = threading.Thread(
            target=self._hand_out, args=(dealing, processes, stopped), name="hand-out", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            dealing.shards.wake()
            thread.join()

    def _hand_out(self, dealing: _Dealing, processes: int, stopped: threading.Event) -> None:
        try:
            while not stopped.is_set() and (shard := dealing.take(stopped.is_set)) is not None:
                self._put(shard, stopped)
        except ElasticError:
            return  # it is raised in the main thread, too, once the loader has come to its end
        finally:
            for _ in range(processes):
                self._put(None, stopped)

    def _put(self, shard: Shard | None, stopped: threading.Event) -> None:
        while not stopped.is_set():
            try:
                self._handed.put(shard, timeout=_PUT_SECONDS)
            except Full:
                continue
            return


def _samples(shard: Shard, values: Iterable[Any]) -> Iterator[_Sample]:
    """Each value, the last one with the shard that ends there."""
    before: tuple[Any, ...] = ()
    for value in values:
        if before:
            yield _Sample(before)
        before = (value,)
    yield _Sample(before, shard)
