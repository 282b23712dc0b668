"""Jobs, nodes, intents and history in SQL: the only place where SQLAlchemy lives."""

from scheduler.store.records import JobFilter, Purged, Recurring, Submitted
from scheduler.store.sqlstore import SqlStore

__all__ = ["JobFilter", "Purged", "Recurring", "SqlStore", "Submitted"]
