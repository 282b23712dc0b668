"""Jobs, nodes, intents and history in SQL: the only place where SQLAlchemy lives."""

from scheduler.store.sqlstore import SqlStore
from scheduler.store.values import JobFilter, Purged, Recurring, Submitted

__all__ = ["JobFilter", "Purged", "Recurring", "SqlStore", "Submitted"]
