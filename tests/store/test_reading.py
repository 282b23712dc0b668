"""A row that cannot be read is set aside with its key, its job and the reason in one line; the others are read."""

from typing import Any, NoReturn

import pytest

from scheduler.errors import UnreadableRow
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.node import NodeFailure
from scheduler.model.unreadable import Unreadable
from scheduler.store.codec.json_text import failures_from_text, launch_to_text
from scheduler.store.codec.json_values import BrokenText
from scheduler.store.codec.reading import SetAside, broken_columns, check_row, only, plain, reason_of
from scheduler.store.codec.row_check import BrokenColumn
from scheduler.store.sql.engine_tables import events, jobs, nodes, workers
from scheduler.store.sql.request_tables import webhooks
from scheduler.store.sql.schema import metadata
from tests.store.test_row_check import row_of

#: Columns of a job that stand before those of the tests.
PLAIN = {"runtime": "elastic", "launch": launch_to_text(JobSpec("j", ("true",)))}


def fail(row: Any) -> NoReturn:
    raise ValueError("of the whole row")


def aside_of(table: str, **values: Any) -> Unreadable:
    """The row with these values, as it is set aside."""
    aside = SetAside()
    assert list(aside.read(metadata.tables[table], [row_of(table, **values)], fail)) == []
    (found,) = aside.found
    assert aside.rows == [found.row]
    return found.row


def test_rows_beside_one_that_cannot_be_read_are_read() -> None:
    def name_of(row: Any) -> str:
        return f"{row[0]}!"

    aside = SetAside()
    rows = [row_of("nodes", name="a"), row_of("nodes", name="b", slots=-1), row_of("nodes", name="c")]
    assert list(aside.read(nodes, rows, name_of)) == ["a!", "c!"]
    assert [(found.row.key, found.key) for found in aside.found] == [("b", ("b",))]


@pytest.mark.parametrize(
    ("table", "values", "key", "job"),
    [
        ("jobs", {"id": 7}, "7", 7),
        ("workers", {"job_id": 7, "ordinal": 3}, "7/3", 7),
        ("events", {"id": 9, "job_id": 7}, "9", 7),
        ("events", {"id": 9, "job_id": None}, "9", None),
        ("events", {"id": 9, "job_id": "seven"}, "9", None),
        ("nodes", {"name": "a\nb\udc80"}, "a b\\udc80", None),
        ("nodes", {"name": "n" * 201}, "n" * 200, None),
    ],
)
def test_a_row_that_is_set_aside_is_named_by_its_key_and_its_job(
    table: str, values: dict[str, Any], key: str, job: int | None
) -> None:
    row = aside_of(table, **values)
    assert (row.table, row.key, row.job_id) == (table, key, job)


@pytest.mark.parametrize(
    ("table", "values", "reason"),
    [
        ("jobs", {**PLAIN, "labels": "[["}, "labels: not valid JSON: Expecting value: line 1 column 3 (char 2)"),
        ("jobs", {**PLAIN, "labels": "[" * 100_000}, "labels: nested too deeply"),
        ("jobs", {**PLAIN, "launch": "{}"}, "launch: has no 'command'"),
        ("jobs", {"version": -1, "labels": "[["}, "version: must be from 0 to 4.61169e+18, not -1"),
        ("workers", {"slot_ids": "[0]", "desired": "GO"}, "desired: 'GO' is not a valid Desired"),
        ("events", {"kind": "GO"}, "kind: 'GO' is not a valid EventKind"),
        ("intents", {"kind": "GO"}, "kind: 'GO' is not a valid IntentKind"),
        ("webhooks", {}, "of the whole row"),
    ],
)
def test_why_a_row_is_set_aside_names_the_column(table: str, values: dict[str, Any], reason: str) -> None:
    assert aside_of(table, **values).reason == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("two\nlines"), "two lines"),
        (ValueError(), "ValueError"),
        (ValueError("x" * 501), "x" * 500),
        (BrokenColumn("a: " + "x" * 500), "a: " + "x" * 497),
        (KeyError("step", "more"), "has no 'step'"),
        (KeyError("x" * 200), f"has no '{'x' * 99}"),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
    ],
)
def test_where_no_column_tells_the_error_does_in_one_short_line(error: Exception, reason: str) -> None:
    assert reason_of(nodes, row_of("nodes", name="a", labels="[]", failures="[]")[:2], error) == reason


def test_the_first_row_that_keeps_a_job_from_being_read_is_the_one_that_is_told() -> None:
    aside = SetAside()
    aside.blame(JobId(7), "worker 7/1")
    aside.blame(JobId(7), "worker 7/2")
    assert aside.jobs == {7: "worker 7/1"}


def test_whoever_asks_for_one_row_gets_it_or_learns_why_not() -> None:
    assert only(nodes, row_of("nodes", name="a"), lambda row: row[0]) == "a"
    told = r"^webhooks x: of the whole row \(the row cannot be read, and is left as it is: see sched db unreadable\)$"
    with pytest.raises(UnreadableRow, match=told):
        only(webhooks, row_of("webhooks"), fail)


def test_rows_are_checked_by_the_rules_of_their_table() -> None:
    assert broken_columns(workers, row_of("workers", ordinal=0)) == {"ordinal": "must be from 1 to 4.61169e+18, not 0"}
    check_row(events, row_of("events"))
    with pytest.raises(BrokenColumn, match=r"^id: must be a whole number, not 'x'$"):
        check_row(jobs, row_of("jobs", id="x"))


def test_whatever_a_value_is_it_is_shown_in_one_line() -> None:
    assert (plain("a\u2028b\tc"), plain(b"\n"), plain(None)) == ("a b c", "b'\\n'", "None")
    assert plain(10**200) == "1" + "0" * 99


def test_failures_that_were_stored_without_their_users_are_read() -> None:
    assert failures_from_text('[[1,2.0],[3,4.0,"ann"]]') == (
        NodeFailure(JobId(1), 2.0),
        NodeFailure(JobId(3), 4.0, "ann"),
    )
    with pytest.raises(BrokenText):
        failures_from_text("[[1]]")
