"""Tables about callers of the API: the tokens of users, and what is recorded of requests."""

from sqlalchemy import BigInteger, Column, Double, Index, Table, Text, UniqueConstraint

from scheduler.model.identity import Role
from scheduler.store.sql.metadata import Key, metadata, one_of

tokens = Table(
    "tokens",
    metadata,
    Column("id", Key, primary_key=True),
    Column("user_name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    # SHA-256 of the secret, which is stored nowhere.
    Column("digest", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    # The token whose holder got this one; NULL: none.
    Column("made_from", BigInteger),
    # NULL: as the members of queues say.
    Column("queue", Text),
    one_of("role", Role),
    UniqueConstraint("digest"),
    # An id is never given twice.
    sqlite_autoincrement=True,
)

#: Rows are added, and removed once they are old; none is changed.
audit = Table(
    "audit",
    metadata,
    Column("id", Key, primary_key=True),
    Column("at", Double, nullable=False),
    # NULL: a caller without a name.
    Column("user_name", Text),
    Column("known_by", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("status", BigInteger, nullable=False),
    Column("times", BigInteger, nullable=False),
    Index(None, "at"),
    sqlite_autoincrement=True,
)
