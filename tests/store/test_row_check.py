"""What columns may hold: which rows are refused, and in which words."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Boolean, Column, Double, Integer, MetaData, Table, Text, create_engine, select

from scheduler import bounds
from scheduler.store.codec.row_check import (
    LINE_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    BrokenColumn,
    RowCheck,
    broken_text,
    raw_columns,
)
from scheduler.store.sql.schema import metadata

TABLES = metadata.sorted_tables
#: Each is right in some column.
STRANGE = [
    *(None, True, False, b"x", "x", "", "é", "a\0b", "a\udc80b", "x" * (LINE_LENGTH_MAX + 1)),
    *(-(2**63), -(2**31) - 1, -(2**31), -1, 0, 1, 2, 65536, 10**9, 2**31 + 1, 2**62, 2**63 - 1),
    *(-math.inf, -1e41, -1e40, -1e12, -1.0, 0.0, 5e-324, 1.0, 1e12, 1e13, 1e40, 1e41, math.inf, math.nan),
]


def good(column: Column[Any]) -> Any:
    """What every column of its type may hold."""
    match column.type:
        case Boolean():
            return True
        case Double():
            return 1.0
        case Integer():
            return 1
        case Text():
            return "x"
        case _:
            return b"x"


GOOD = {table.name: {column.name: good(column) for column in table.columns} for table in TABLES}


def check_of(table: str) -> RowCheck:
    return RowCheck(metadata.tables[table].columns)


def row_of(table: str, **values: Any) -> tuple[Any, ...]:
    """A row with these values in some columns, and what every column may hold in the others."""
    assert values.keys() <= GOOD[table].keys()
    return tuple({**GOOD[table], **values}.values())


def refusal(table: str, **values: Any) -> str | None:
    """Why the row is refused; None: it is not."""
    try:
        check_of(table)(row_of(table, **values))
    except BrokenColumn as error:
        return str(error)
    return None


@pytest.mark.parametrize("table", GOOD)
def test_a_row_of_ordinary_values_is_read(table: str) -> None:
    assert refusal(table) is None


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("jobs", "priority", (-(2**31), 0, 2**31)),
        ("jobs", "exit_code", (-(2**31), None)),
        ("jobs", "min_workers", (1, bounds.WORKERS.high)),
        ("jobs", "preferred_workers", (1, None)),
        ("jobs", "next_ordinal", (1, 2**62)),
        ("jobs", "generation", (0, 2**62)),
        ("jobs", "served_slot_seconds", (-1e40, 1e40)),
        ("jobs", "submitted_at", (0.0, 1e12)),
        ("jobs", "cpus_per_worker", (0.0, bounds.CPUS_HELD.high)),
        ("jobs", "memory_mib_per_worker", (0, bounds.MEMORY_HELD_MIB.high)),
        ("jobs", "preemptible", (True, False, 1, 0)),
        ("jobs", "oversell", (None, True)),
        ("jobs", "name", ("", "é", "x" * LINE_LENGTH_MAX, "é" * LINE_LENGTH_MAX)),
        ("jobs", "labels", ("x" * (LINE_LENGTH_MAX + 1),)),
        ("nodes", "slots", (0, bounds.SLOTS.high)),
        ("lease", "anchor_now", (-1e12, 1e12)),
        ("secrets", "value", (b"", b"\xff\0")),
    ],
)
def test_a_column_holds_whatever_is_within_its_bounds(table: str, column: str, values: tuple[Any, ...]) -> None:
    assert {value: refusal(table, **{column: value}) for value in values} == dict.fromkeys(values)


@pytest.mark.parametrize(
    ("table", "column", "value", "told"),
    [
        ("jobs", "priority", 2**31 + 1, "must be from -2.14748e+09 to 2.14748e+09, not 2147483649"),
        ("jobs", "priority", -(2**31) - 1, "must be from -2.14748e+09 to 2.14748e+09, not -2147483649"),
        ("jobs", "min_workers", 0, f"must be from 1 to {bounds.WORKERS.high:g}, not 0"),
        ("jobs", "generation", -1, "must be from 0 to 4.61169e+18, not -1"),
        ("jobs", "submitted_at", -1.0, "must be from 0 to 1e+12, not -1.0"),
        ("jobs", "submitted_at", math.nan, "must be from 0 to 1e+12, not nan"),
        ("jobs", "running_at", math.inf, "must be from 0 to 1e+12, not inf"),
        ("jobs", "served_slot_seconds", math.nextafter(1e40, math.inf), "must be from -1e+40 to 1e+40, not 1"),
        ("jobs", "preemptible", 2, "must be from 0 to 1, not 2"),
        ("jobs", "preemptible", "yes", "must be true or false, not 'yes'"),
        ("jobs", "submitted_at", 1, "must be a number, not 1"),
        ("jobs", "version", 1.0, "must be a whole number, not 1.0"),
        ("jobs", "version", True, "must be a whole number, not True"),
        ("jobs", "version", None, "must not be NULL"),
        ("jobs", "name", b"x", "must be a text, not b'x'"),
        ("jobs", "name", None, "must not be NULL"),
        ("jobs", "name", "a\0b", "must not contain NUL"),
        ("jobs", "name", "a\udc80b", "is not UTF-8"),
        ("jobs", "name", "x" * (LINE_LENGTH_MAX + 1), "has 65,537 characters, more than 65,536"),
        ("jobs", "labels", "x" * (TEXT_LENGTH_MAX + 1), "has 67,108,865 characters, more than 67,108,864"),
        ("jobs", "labels", "[\0]", "must not contain NUL"),
        ("nodes", "slots", "x" * 58, f"must be a whole number, not '{'x' * 58}'"),
        ("nodes", "slots", "x" * 59, f"must be a whole number, not '{'x' * 59}…"),
        ("secrets", "value", "x", "must be bytes, not 'x'"),
        # The only number, and the only text, of their tables.
        ("replaced_rows", "at", -1.0, "must be from 0 to 1e+12, not -1.0"),
        ("secrets", "name", "a\udc80b", "is not UTF-8"),
    ],
)
def test_a_row_is_refused_for_what_a_column_must_not_hold(table: str, column: str, value: Any, told: str) -> None:
    assert (refusal(table, **{column: value}) or "").startswith(f"{column}: {told}")
    assert set(check_of(table).broken(row_of(table, **{column: value}))) == {column}


def test_all_wrong_columns_are_told_and_the_first_of_them_refuses_the_row() -> None:
    row = row_of("jobs", version=None, name="a\0b", priority=1.5)
    broken = check_of("jobs").broken(row)
    assert broken == {
        "name": "must not contain NUL",
        "priority": "must be a whole number, not 1.5",
        "version": "must not be NULL",
    }
    assert refusal("jobs", version=None, name="a\0b", priority=1.5) == "name: must not contain NUL"
    assert refusal("secrets", name=b"x", value="x") == "name: must be a text, not b'x'"


@given(data=st.data())
def test_a_look_at_a_whole_row_finds_all_that_a_look_at_each_of_its_columns_finds(data: st.DataObject) -> None:
    """Most rows are looked at as a whole only, so nothing may get past that."""
    table = data.draw(st.sampled_from(TABLES))
    drawn = data.draw(st.lists(st.sampled_from(list(table.columns)), min_size=1, max_size=4, unique=True))
    values = {column.name: data.draw(st.sampled_from(STRANGE)) for column in drawn}
    broken = check_of(table.name).broken(row_of(table.name, **values))
    first = next((f"{name}: {why}" for name, why in broken.items()), None)
    assert refusal(table.name, **values) == first
    assert broken.keys() <= values.keys()


@given(data=st.data())
def test_rows_are_fit_together_where_each_of_them_is(data: st.DataObject) -> None:
    """Rows of jobs are mostly looked at together only."""
    table = data.draw(st.sampled_from(TABLES))
    column = data.draw(st.sampled_from(list(table.columns)))
    values = data.draw(st.lists(st.sampled_from(STRANGE), min_size=1, max_size=4))
    rows = [row_of(table.name, **{column.name: value}) for value in values]
    check = check_of(table.name)
    assert check.all_fit(rows) == (not any(check.broken(row) for row in rows))


def test_what_stands_behind_the_columns_of_a_table_is_not_its_own() -> None:
    check_of("nodes")((*row_of("nodes"), None, "a\0b", math.nan))
    assert check_of("nodes").broken((*row_of("nodes"), None)) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", None),
        ("é\u2028", None),
        ("x" * LINE_LENGTH_MAX, None),
        ("x" * (LINE_LENGTH_MAX + 1), "has 65,537 characters, more than 65,536"),
        ("\0", "must not contain NUL"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_a_text_that_cannot_be_shown_is_told_by_what_is_wrong_with_it(text: str, told: str | None) -> None:
    assert broken_text(text) == told


def test_columns_are_read_under_their_names_and_as_they_are_stored() -> None:
    table = Table("t", MetaData(), Column("id", Integer), Column("flag", Boolean), Column("at", Double))
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        table.create(connection)
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 7, 0.5), (2, 'yes', NULL)")
        result = connection.execute(select(*raw_columns(table)).order_by(table.c.id))
        assert list(result.keys()) == ["id", "flag", "at"]
        assert [tuple(row) for row in result] == [(1, 7, 0.5), (2, "yes", None)]
    engine.dispose()
