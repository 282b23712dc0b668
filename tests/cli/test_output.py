"""What other users, nodes and workers named reaches the terminal as it is, or written out."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cli.render.output import Column, emit_json, markup, printable, show, table

ODD = [*"\u202e\u2066\u200b\u2028\u2029\u0085\ufeff\U000e0041\x9b\x1b\n\r\t"]


@pytest.mark.parametrize("odd", ODD)
def test_no_character_breaks_a_table(capsys: pytest.CaptureFixture[str], odd: str) -> None:
    show(table((Column("NAME"), Column("WHY")), [[f"a{odd}b", (f"c{odd}d", "green")], ["e", "f"]]))
    said = capsys.readouterr().out
    assert odd == "\n" or odd not in said
    assert len(said.splitlines()) == 3


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
