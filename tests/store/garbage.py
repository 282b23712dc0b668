"""Garbage in single columns of a database that is otherwise whole: what a disk, a person or another program left."""

import math
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Double, Integer, LargeBinary, Table

from scheduler.model.ids import JobId
from scheduler.store.sql.schema import metadata

#: Rows of these say who leads and which ids are free: without them nothing can be decided, and that is said.
FOUNDATIONS = frozenset({"lease", "counters", "secrets", "replaced_rows"})
CORRUPTED = [table for table in metadata.sorted_tables if table.name not in FOUNDATIONS]


def texts(randomness: random.Random) -> list[str]:
    depth = randomness.randint(300, 5000)
    return [
        "[[",
        "{}",
        "null",
        "[" * depth + "]" * depth,
        '{"a":' * depth + "1" + "}" * depth,
        "x" * 10_000_000,
        "NaN",
        "[[1, NaN]]",
        '[["a", Infinity]]',
        f"[{2**70}]",
        "\U0001f4a5 " + "".join(chr(randomness.randint(32, 0xD7FF)) for _ in range(10)),
        "\u2028\u202e",
        str(randomness.random()),
        '{"step": "x"}',
        "-1",
        "",
    ]


def values(column: Column[Any], randomness: random.Random, *, sqlite: bool) -> list[Any]:
    """What may come to stand in the column."""
    moments = [5e-324, -1.0, 1e308, math.inf, -math.inf, 1e11, randomness.uniform(-1e18, 1e18)]
    whole = [-1, 0, 2**62, -(2**63), 2**63 - 1, randomness.randint(-(2**63), 2**63 - 1)]
    whole += [1, 2, 3]
    moments += [0.0, 1.0, 1e9]
    if sqlite:
        strange: list[Any] = [None, b"\xff\xfe\x00", "a\0b", "\x01", 0.5, 2.0**70]
        return [*members(column), *texts(randomness), *moments, *whole, *strange]
    match column.type:
        case Boolean():
            return [None, True, False]
        case Double():
            return [None, math.nan, *moments]
        case BigInteger() | Integer():
            return [None, *whole]
        case LargeBinary():
            return [None, b"\xff"]
        case _:
            return [None, *members(column), *texts(randomness)]


def members(column: Column[Any]) -> list[str]:
    """What the column may hold where its table lists that: each is right by itself, and wrong beside other columns."""
    name = f"ck_{column.table.name}_{column.name}"
    listed = [str(c.sqltext) for c in column.table.constraints if isinstance(c, CheckConstraint) and c.name == name]
    return [text for sql in listed for text in re.findall(r"'(\w+)'", sql)]


@contextmanager
def unreadable_job(url: str, job_id: JobId) -> Iterator[None]:
    """The job's row in SQLite cannot be read as long as the context lasts; then somebody has mended it."""
    with connected(url) as session:
        (labels,) = session.execute("SELECT labels FROM jobs WHERE id = ?", (job_id,)).fetchone()
        session.execute("UPDATE jobs SET labels = '[[' WHERE id = ?", (job_id,))
    yield
    with connected(url) as session:
        session.execute("UPDATE jobs SET labels = ? WHERE id = ?", (labels, job_id))


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A connection that no constraint keeps from writing anything."""
    if url.startswith("sqlite:///"):
        with _unconstrained_sqlite(url.removeprefix("sqlite:///")) as session:
            yield session
        return
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET session_replication_role = replica")  # no foreign keys
        yield session


def corrupt(session: Any, table: Table, column: Column[Any], value: Any) -> bool:
    """Put the value into one row of the table, whatever its constraints; False where the database cannot hold it."""
    mark = "?" if isinstance(session, sqlite3.Connection) else "%s"
    order = ", ".join(f'"{key.name}"' for key in table.primary_key.columns)
    first = ", ".join(f'"{key.name}"' for key in table.primary_key.columns)
    statement = (
        f'UPDATE "{table.name}" SET "{column.name}" = {mark} '
        f'WHERE ({first}) = (SELECT {first} FROM "{table.name}" ORDER BY {order} LIMIT 1)'
    )
    try:
        session.execute(statement, (value,))
    except (sqlite3.Error, psycopg.Error, OverflowError, UnicodeError):
        return False
    return True


def put_undecodable(session: sqlite3.Connection, table: Table, column: Column[Any]) -> bool:
    """A text that is not UTF-8, in all rows."""
    try:
        session.execute(f'UPDATE "{table.name}" SET "{column.name}" = CAST(x\'ff41fe\' AS TEXT)')
    except sqlite3.Error:
        return False
    return True


def free_of_constraints(session: psycopg.Connection[Any]) -> None:
    """As a database is that somebody restored by hand: columns take what their type takes."""
    found = session.execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype IN ('c', 'f') AND connamespace = "
        "'public'::regnamespace"
    ).fetchall()
    for table, name in found:
        session.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    for table in metadata.sorted_tables:
        for column in table.columns:
            if not column.primary_key and not column.nullable:
                session.execute(f'ALTER TABLE "{table.name}" ALTER COLUMN "{column.name}" DROP NOT NULL')


@contextmanager
def _unconstrained_sqlite(path: str) -> Iterator[sqlite3.Connection]:
    session = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        session.execute("PRAGMA ignore_check_constraints = ON")
        session.execute("PRAGMA foreign_keys = OFF")
        yield session
    finally:
        session.close()


def without_not_null(path: str) -> None:
    """Rewrite the schema of a SQLite file so that any column may be NULL."""
    session = sqlite3.connect(path, isolation_level=None, timeout=30)
    session.execute("PRAGMA writable_schema = ON")
    conditions = "replace(sql, ' IS NOT NULL', ' IS_NOT_NULL')"
    columns = f"replace(replace({conditions}, ' NOT NULL', ''), ' IS_NOT_NULL', ' IS NOT NULL')"
    session.execute(f"UPDATE sqlite_master SET sql = {columns} WHERE type = 'table'")
    session.execute("PRAGMA writable_schema = OFF")
    version = session.execute("PRAGMA schema_version").fetchone()[0]
    session.execute(f"PRAGMA schema_version = {version + 1}")
    session.close()
