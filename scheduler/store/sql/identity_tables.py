"""Tables about callers of the API: the tokens of users."""

from sqlalchemy import Column, Double, Table, Text, UniqueConstraint

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
    one_of("role", Role),
    UniqueConstraint("digest"),
    # An id is never given twice.
    sqlite_autoincrement=True,
)
