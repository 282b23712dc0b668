"""Rows of the database that cannot be read. They stay as they are, and nothing that they tell of is decided on."""

from dataclasses import dataclass

from scheduler.model.ids import JobId

#: Tables of which rows may be set aside.
TABLES = (
    "jobs",
    "workers",
    "nodes",
    "node_types",
    "events",
    "intents",
    "bookings",
    "queues",
    "holdings",
    "usage",
    "queue_usage",
    "budgets_told",
    "recurring",
    "webhooks",
    "data_queues",
    "shard_readers",
    "shards_set_aside",
    "tokens",
    "audit",
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that is set aside, and why."""

    table: str
    #: What names the row in its table: `12`, or `12/3` where several columns do.
    key: str
    #: One line for people.
    reason: str
    #: The job that is set aside by it; None: none is.
    job_id: JobId | None = None

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.reason}"
