"""Views of a job's data set and of its progress."""

from collections.abc import Iterable

from typing_extensions import TypedDict

from scheduler.model.data import DataSet, ShardSetAside
from scheduler.model.data_queue import DataQueue
from scheduler.model.ids import JobId, worker_id

#: Limit on the workers that a job's view names.
HOLDERS_MAX = 100


class DataView(TypedDict):
    shards: int
    epochs: int
    shuffle: bool
    seed: int
    lease_seconds: float
    max_attempts: int


class SetAsideView(TypedDict):
    #: Its epoch, from 0.
    epoch: int
    #: Its number within the epoch, from 0.
    shard: int
    #: When it was set aside; unix seconds.
    at: float
    #: Reason of its last failure.
    detail: str


class HolderView(TypedDict):
    #: Id of the worker.
    worker: str
    #: Number of shards that it holds.
    held: int
    #: When it last called about them; unix seconds.
    heard_at: float


class DataProgressView(TypedDict):
    #: Shards of all epochs.
    total: int
    #: Shards that are done.
    done: int
    #: Shards that workers hold now.
    held: int
    #: The epoch that is being given out, from 0.
    epoch: int
    #: The workers that hold them, at most 100, the longest silent first.
    holders: list[HolderView]
    #: Number of shards that failed too often.
    set_aside: int
    #: The first of them.
    first_set_aside: list[SetAsideView]


def data_view(data: DataSet) -> DataView:
    return {
        "shards": data.shards,
        "epochs": data.epochs,
        "shuffle": data.shuffle,
        "seed": data.seed,
        "lease_seconds": data.lease_seconds,
        "max_attempts": data.max_attempts,
    }


def data_progress_view(job_id: JobId, queue: DataQueue, set_aside: Iterable[ShardSetAside]) -> DataProgressView:
    progress = queue.progress()
    named = ((*queue.data.shard_at(each.position), each) for each in set_aside)
    return {
        "total": progress.total,
        "done": progress.done,
        "held": progress.held,
        "holders": [
            {"worker": worker_id(job_id, each.ordinal), "held": each.held, "heard_at": each.heard_at}
            for each in queue.holders()[:HOLDERS_MAX]
        ],
        "epoch": progress.epoch,
        "set_aside": progress.set_aside,
        "first_set_aside": [
            {"epoch": epoch, "shard": shard, "at": each.at, "detail": each.detail} for epoch, shard, each in named
        ],
    }
