"""What other users, nodes and workers named reaches the terminal as it is, or written out."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cli.render.output import Column, emit_json, markup, printable, show, table
from scheduler.cli.render.tables import job_table, recurring_fields

ODD = [*"\u202e\u2066\u200b\u2028\u2029\u0085\ufeff\U000e0041\x9b\x1b\n\r\t"]


@pytest.mark.parametrize("odd", ODD)
def test_no_character_breaks_a_table(capsys: pytest.CaptureFixture[str], odd: str) -> None:
    show(table((Column("NAME"), Column("WHY")), [[f"a{odd}b", (f"c{odd}d", "green")], ["e", "f"]]))
    said = capsys.readouterr().out
    assert odd == "\n" or odd not in said
    assert len(said.splitlines()) == 3


def test_a_recurring_job_that_is_not_submitted_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    view = {
        **dict.fromkeys(("last_run_at", "next_run_at", "queue", "export")),
        "id": "r1",
        "name": "nightly",
        "user": "ann",
        "priority": 5,
        "min_workers": 1,
        "max_workers": 1,
        "cron": "0 3 * * *",
        "timezone": "UTC",
        "command": ["true"],
        "created_at": 0.0,
        "refusal": "priority: must be at most 3",
    }
    show(job_table([], [view], 0.0))
    assert "not submitted: priority: must be at most 3" in " ".join(capsys.readouterr().out.split())
    show(recurring_fields(view, 0.0))
    assert "priority: must be at most 3" in capsys.readouterr().out


@given(text=st.text())
def test_whatever_is_shown_is_one_line_of_printable_characters(text: str) -> None:
    assert printable(text).isprintable()
    assert markup(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd not in "\n\r\t\x1b"])
def test_json_writes_the_same_text_in_characters_that_are_seen(capsys: pytest.CaptureFixture[str], odd: str) -> None:
    emit_json({f"k{odd}": f"ü{odd}"})
    said = capsys.readouterr().out
    assert odd not in said
    assert "ü" in said
    assert json.loads(said) == {f"k{odd}": f"ü{odd}"}
    assert not sys.stdout.isatty()
