"""docs/questions.md: every command that it names exists, and every panel."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from scheduler.cli.root import root
from tests.docs.said import said, said_by_the_page

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "questions.md").read_text()
QUESTIONS = re.findall(r"^## (\d+)\. (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
PLACEHOLDERS = {"JOB": "1", "N": "5", "FILE": "job.yaml"}


def panels() -> set[tuple[str, str]]:
    """Each panel as dashboard and title."""
    found = set()
    for path in (ROOT / "grafana" / "dashboards").glob("*.json"):
        board = json.loads(path.read_text())
        rows = board["panels"]
        inner = [panel for row in rows for panel in row.get("panels") or ()]
        found |= {(board["title"], panel["title"]) for panel in (*rows, *inner) if panel["type"] != "row"}
    return found


def test_there_are_ten_questions_in_order() -> None:
    assert [int(number) for number, _, _ in QUESTIONS] == list(range(1, 11))


@pytest.mark.parametrize(("title", "body"), [(title, body) for _, title, body in QUESTIONS])
def test_each_is_answered_by_a_command_that_exists_and_shown_by_a_panel_that_exists(title: str, body: str) -> None:
    (line,) = re.findall(r"^- Command: (.+)$", body, re.MULTILINE)
    for words in re.findall(r"`sched ([^`]+)`", line):
        assert parsed(words), f"{title} sched {words}"
    for dashboard, panel in re.findall(r"^- Panel: (.+?) / (.+)$", body, re.MULTILINE):
        assert (dashboard, panel) in panels()
    assert re.search(r"^- (Page|Panel): ", body, re.MULTILINE)
    assert re.search(r"^ {6}\S", body, re.MULTILINE), "an example of an answer"


@pytest.mark.parametrize(("title", "body"), [(title, body) for _, title, body in QUESTIONS])
def test_the_names_of_what_an_example_shows_are_those_that_commands_print(title: str, body: str) -> None:
    names = re.findall(r"^ {6}([a-z][a-z -]*[a-z])  +\S", body, re.MULTILINE)
    assert [name for name in names if name not in said().splitlines()] == [], title


@pytest.mark.parametrize("page", ["questions", "submit", "page"])
def test_buttons_that_a_page_quotes_are_those_of_the_live_page(page: str) -> None:
    lines = (ROOT / "docs" / f"{page}.md").read_text().splitlines()
    quoted = [
        text for line in lines if "the job's page" in line.lower() for text in re.findall(r'"([A-Z][^"]*)"', line)
    ]
    assert [text for text in quoted if text not in said_by_the_page()] == []


def parsed(words: str) -> bool:
    """Whether the command line is understood, without being run."""
    name, *rest = [PLACEHOLDERS.get(word, word) for word in shlex.split(words)]
    command = typer.main.get_command(root).commands[name]  # type: ignore[attr-defined]
    return bool(command.make_context(name, list(rest)))
