"""Queues of a simulation: a YAML file with a list of `queues`."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from scheduler.config.numbers import SlotsOfQueue, Weight
from scheduler.errors import InvalidInput, UserError
from scheduler.model.queue import Queue
from scheduler.model.queue_tree import PATH_LENGTH_MAX, PATH_PATTERN, QUEUES_MAX
from scheduler.simulate.job_rows import Name, refuse_repeated
from scheduler.simulate.table import Row, read_text, validated
from scheduler.simulate.workload import Workload
from scheduler.simulate.yaml_items import read_items

SlotsByType = Annotated[dict[Name, SlotsOfQueue], Field(max_length=100)]


class QueueRow(Row):
    """One queue; fields have the names that requests use."""

    model_config = ConfigDict(extra="forbid")

    path: Annotated[str, StringConstraints(max_length=PATH_LENGTH_MAX, pattern=PATH_PATTERN)]
    guarantee: SlotsByType = Field(default_factory=dict)
    limit: SlotsByType = Field(default_factory=dict)
    weight: Weight = 1.0
    share_users: bool = False
    user_limit: SlotsOfQueue | None = None

    def queue(self) -> Queue:
        """Raises `InvalidInput`."""
        queue = Queue(
            self.path,
            0.0,
            tuple(sorted(self.guarantee.items())),
            tuple(sorted(self.limit.items())),
            self.weight,
            self.share_users,
            self.user_limit,
        )
        queue.check_guarantee()
        return queue


def read_queues(path: Path) -> tuple[Queue, ...]:
    """The queues of a YAML file, each after the one that contains it. Raises `UserError`."""
    rows = []
    for item in read_items(path, read_text(path), "queues"):
        row = validated(QueueRow, item.values, item.place, strict=True)
        try:
            rows.append((item.line, row.queue()))
        except InvalidInput as error:
            raise UserError(f"{item.place(error.field)}: {error.field} {error.rule}") from None
    refuse_repeated(path, [(line, queue.path) for line, queue in rows], "path")
    if len(rows) > QUEUES_MAX:
        raise UserError(f"{path}: {len(rows)} queues: there may be at most {QUEUES_MAX}")
    known = {queue.path for _, queue in rows}
    for line, queue in rows:
        if queue.parent and queue.parent not in known:
            raise UserError(
                f"{path}:{line}: path: queue {queue.parent}, which contains {queue.path}, is not in the file"
            )
    return tuple(sorted((queue for _, queue in rows), key=lambda queue: queue.path))


def check_jobs(workload: Workload) -> None:
    """Raise `UserError` for a job of a queue that the workload does not have."""
    known = {"", *(queue.path for queue in workload.queues)}
    for each in workload.submissions:
        if each.spec.queue not in known:
            raise UserError(
                f"workload {workload.name}: job {each.spec.name}: there is no queue {each.spec.queue}: "
                "name a file that has it with --queues"
            )
