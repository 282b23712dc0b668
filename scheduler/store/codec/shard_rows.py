"""Queues of shards as rows, and back."""

from typing import Any

from sqlalchemy import Row

from scheduler.model.data import DataSet, ShardSetAside
from scheduler.model.data_queue import DataQueue, Reader
from scheduler.model.ids import JobId
from scheduler.model.ranges import NOTHING, Ranges
from scheduler.model.shard_calls import ReaderKey
from scheduler.store.codec.job_rows import Values
from scheduler.store.codec.json_text import (
    data_from_text,
    levels_from_text,
    levels_to_text,
    ranges_from_text,
    ranges_to_text,
)
from scheduler.store.codec.row_check import BrokenColumn, raw_columns
from scheduler.store.sql.request_tables import shard_readers

#: A row of the table as it is stored.
READER_COLUMNS = raw_columns(shard_readers)


def queue_values(job_id: JobId, queue: DataQueue, mark: str) -> Values:
    return {
        "job_id": job_id,
        "cursor": queue.cursor,
        "done": queue.done,
        "set_aside": queue.set_aside,
        "total": queue.data.total,
        "returned": ranges_to_text(queue.returned),
        "tried": ranges_to_text(queue.tried),
        "failures": levels_to_text(queue.failures),
        "mark": mark,
        "forgiven_at": queue.forgiven_at,
    }


def data_queue_from_row(row: Row[Any]) -> DataQueue:
    """Without its readers. The row has the job's `data`, too."""
    if not isinstance(row.data, str):
        raise BrokenColumn("the job has no data")
    data = data_from_text(row.data)
    if row.total != data.total:
        raise BrokenColumn(f"total: must be {data.total}, as the job's data says, not {row.total}")
    if not row.done + row.set_aside <= row.cursor <= row.total:
        raise BrokenColumn(f"cursor: must be from {row.done + row.set_aside} to {row.total}, not {row.cursor}")
    return DataQueue(
        data=data,
        cursor=row.cursor,
        done=row.done,
        set_aside=row.set_aside,
        returned=ranges_from_text(row.returned),
        tried=ranges_from_text(row.tried),
        failures=levels_from_text(row.failures),
        forgiven_at=row.forgiven_at or 0,
    )


def reader_values(job_id: JobId, key: ReaderKey, reader: Reader) -> Values:
    return {
        "job_id": job_id,
        "ordinal": key.ordinal,
        "name": key.name,
        "held": ranges_to_text(reader.held),
        "alone": reader.alone,
        "deadline": reader.deadline,
        "sequence": reader.sequence,
        "refused": ranges_to_text(reader.refused),
        "failed": ranges_to_text(reader.failed),
    }


def reader_from_row(row: Row[Any]) -> tuple[ReaderKey, Reader]:
    held, refused = ranges_from_text(row.held), ranges_from_text(row.refused)
    failed = ranges_from_text(row.failed) if row.failed is not None else NOTHING
    return ReaderKey(row.ordinal, row.name), Reader(held, bool(row.alone), row.deadline, row.sequence, refused, failed)


def set_aside_values(job_id: JobId, positions: Ranges, at: float, detail: str) -> list[Values]:
    return [{"job_id": job_id, "position": position, "at": at, "detail": detail} for position in positions]


def set_aside_from_row(row: Row[Any]) -> ShardSetAside:
    return ShardSetAside(row.position, row.at, row.detail)


def new_queue_values(job_id: JobId, data: DataSet) -> Values:
    """The row of a job that was submitted just now."""
    return queue_values(job_id, DataQueue(data), "")
