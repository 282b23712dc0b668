"""What is recorded of requests: rows are added, and removed once they are old."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from scheduler.model.audit import AuditRecord
from scheduler.store.codec.reading import SetAside
from scheduler.store.codec.rows import audit_from_row
from scheduler.store.records import AuditPage
from scheduler.store.sql.bulk_statements import Statements
from scheduler.store.sql.identity_tables import audit


def add(connection: Connection, statements: Statements, records: Sequence[AuditRecord]) -> None:
    rows = [
        {
            "at": record.at,
            "user_name": record.user,
            "known_by": record.known_by,
            "address": record.address,
            "method": record.method,
            "route": record.route,
            "object": record.object,
            "status": record.status,
            "times": record.times,
        }
        for record in records
    ]
    statements.insert_audit.run(connection, rows)


def page(
    connection: Connection, since: float, user: str | None, before: int | None, limit: int, aside: SetAside
) -> AuditPage:
    """The newest records from `since` on, of this user (None: of all), with ids below `before`; oldest first."""
    query = select(audit).where(audit.c.at >= since).order_by(audit.c.id.desc()).limit(limit)
    if user is not None:
        query = query.where(audit.c.user_name == user)
    if before is not None:
        query = query.where(audit.c.id < before)
    rows = connection.execute(query).all()
    found = tuple(aside.read(audit, rows[::-1], lambda row: (row.id, audit_from_row(row))))
    return AuditPage(found, tuple(aside.rows), rows[-1].id if len(rows) == limit else None)


def purge(connection: Connection, before: float, limit: int) -> int:
    """Remove at most `limit` records that are older; how many."""
    old = select(audit.c.id).where(audit.c.at < before).order_by(audit.c.at).limit(limit)
    return connection.execute(audit.delete().where(audit.c.id.in_(old))).rowcount
