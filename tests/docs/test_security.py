"""SECURITY.md: every test that it names exists, every line of its tables names one, and no attack is left out."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "SECURITY.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ATTACKS = sorted((ROOT / "tests" / "security").glob("*.py"))


def collected_in(path: Path) -> set[str]:
    """Functions that pytest collects."""
    body = ast.parse(path.read_text()).body if path.is_file() else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def missing(text: str) -> list[str]:
    """Tests that are named and do not exist."""
    return [f"{path}::{name}" for path, name in NAMED.findall(text) if name not in collected_in(ROOT / path)]


def threats(text: str) -> list[str]:
    """The lines of the tables, without their heads."""
    tables = text.partition("\n## Threats\n")[2]
    return [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| Threat |")]


def is_whole(threat: str) -> bool:
    """Whether it names a threat, what stops it, and a test."""
    cells = [cell.strip() for cell in threat.strip("|").split("|")]
    return len(cells) == 3 and all(cells) and NAMED.fullmatch(cells[2]) is not None


def test_every_test_that_is_named_exists() -> None:
    assert missing(TEXT) == []


def test_every_threat_names_what_stops_it_and_a_test_and_no_two_the_same() -> None:
    assert [threat for threat in threats(TEXT) if not is_whole(threat)] == []
    named = NAMED.findall(TEXT)
    assert len(named) == len(threats(TEXT)) == len(set(named)) > 50


@pytest.mark.parametrize("path", [path for path in ATTACKS if path.stem != "__init__"], ids=lambda path: path.stem)
def test_every_attack_is_named(path: Path) -> None:
    assert re.search(rf"`{path.relative_to(ROOT)}(::\w+)?`", TEXT)


def test_what_is_missing_is_noticed() -> None:
    head = "x\n## Threats\n\n| Threat | What stops it | Test |\n|---|---|---|\n"
    gone = "| a | b | `tests/docs/test_security.py::test_gone` |"
    assert missing(head + gone) == ["tests/docs/test_security.py::test_gone"]
    assert missing("`tests/gone.py::test_x`") == ["tests/gone.py::test_x"]
    assert missing("`tests/docs/test_security.py::is_whole`") == ["tests/docs/test_security.py::is_whole"]
    assert threats(head + gone) == [gone]
    assert is_whole(gone)
    assert not any(
        map(is_whole, ("| a | b | none |", "| a |  | `tests/x.py::test_y` |", "| a | `tests/x.py::test_y` |"))
    )
