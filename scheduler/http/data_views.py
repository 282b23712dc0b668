"""What clients see of a job's data set and of how far it is."""

from collections.abc import Iterable

from typing_extensions import TypedDict

from scheduler.model.data import DataProgress, DataSet, ShardSetAside


class DataView(TypedDict):
    shards: int
    epochs: int
    shuffle: bool
    seed: int
    lease_seconds: float
    max_attempts: int


class SetAsideView(TypedDict):
    epoch: int
    shard: int
    at: float
    detail: str


class DataProgressView(TypedDict):
    #: Shards of all epochs.
    total: int
    done: int
    #: Workers have them now.
    held: int
    #: The epoch that is being given out, from 0.
    epoch: int
    #: Failed too often.
    set_aside: int
    #: The first of those.
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


def data_progress_view(data: DataSet, progress: DataProgress, set_aside: Iterable[ShardSetAside]) -> DataProgressView:
    named = ((*data.shard_at(each.position), each) for each in set_aside)
    return {
        "total": progress.total,
        "done": progress.done,
        "held": progress.held,
        "epoch": progress.epoch,
        "set_aside": progress.set_aside,
        "first_set_aside": [
            {"epoch": epoch, "shard": shard, "at": each.at, "detail": each.detail} for epoch, shard, each in named
        ],
    }
