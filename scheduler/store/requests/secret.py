"""Secrets that live as long as the database, such as the key that signs workers' tokens."""

from collections.abc import Callable

from sqlalchemy import select

from scheduler.store.sql.database import Database
from scheduler.store.sql.request_tables import secrets
from scheduler.store.sql.sequences import take_ids

SECRET_BYTES = 32


def get_or_create(database: Database, name: str, random_bytes: Callable[[int], bytes]) -> bytes:
    """The secret of this name; whoever asks first creates it."""
    query = select(secrets.c.value).where(secrets.c.name == name)
    with database.read() as connection:
        known = connection.execute(query).scalar_one_or_none()
    if known is not None:
        return bytes(known)
    with database.write() as connection:
        take_ids(connection)  # for its lock: of two that create it, one waits and then finds it
        known = connection.execute(query).scalar_one_or_none()
        if known is None:
            known = random_bytes(SECRET_BYTES)
            connection.execute(secrets.insert().values(name=name, value=known))
        return bytes(known)
