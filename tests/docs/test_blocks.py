"""Blocks of the pages that are not run: their commands parse, their job files are valid, their Python compiles."""

import ast
import importlib.util
import itertools
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from scheduler.cli.root import root
from scheduler.config import load_settings
from scheduler.http.schemas.requests import JobRequest
from tests.docs.blocks import ROOT, Block, blocks, commands, shows

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [
    pytest.param(page, block.line, command, id=f"{page.name}:{block.line}:{number}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "sh"
    for number, command in enumerate(commands(block))
]
ELISION = re.compile(r"\.\.\.|…")


def of_language(*languages: str) -> list[object]:
    return [
        pytest.param(block, id=f"{page.name}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.language in languages
    ]


@pytest.mark.parametrize(("page", "line", "command"), COMMANDS)
def test_a_command_exists_with_its_options_and_files(page: Path, line: int, command: str) -> None:
    words = shlex.split(command.removeprefix("export SCHED_TOKEN="), comments=True)
    program = Path(words[0]).name
    if program == "sched":
        parse(words[1:])
    elif program in ("kubectl", "docker", "kind"):
        for option, name in itertools.pairwise(words):
            assert option not in ("-f", "-k") or (ROOT / name).exists(), f"{name} is not there"
    elif program == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def parse(words: list[str]) -> None:
    """Has typer understand the command line, without running it.

    Raises:
        click.UsageError: where it does not.
    """
    command = typer.main.get_command(root)
    while hasattr(command, "commands"):
        command = command.commands[words[0]]
        words = words[1:]
    if "--" not in words and any((ROOT / word).is_file() for word in words):
        assert (ROOT / words[-1]).is_file(), "options stand before the job file"
    command.make_context("sched", list(words))


@pytest.mark.parametrize("block", of_language("yaml"))
def test_a_job_file_is_valid(block: Block) -> None:
    for document in yaml.safe_load_all(block.text):
        if "kind" in document:
            continue  # an object of Kubernetes, which its own test checks against the CRD
        JobRequest.model_validate({"name": "job", **document})


@pytest.mark.parametrize("block", of_language("toml"))
def test_settings_are_valid(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SCHED_")]:
        monkeypatch.delenv(name)
    assert tomllib.loads(block.text)
    file = tmp_path / "sched.toml"
    file.write_text(block.text)
    load_settings(file)


@pytest.mark.parametrize("block", of_language("python"))
def test_python_compiles_and_imports_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) or _is_module(node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "elastic":
            assert hasattr(importlib.import_module("scheduler.elastic"), node.attr), f"elastic.{node.attr}"


def _is_module(package: str, name: str) -> bool:
    return importlib.util.find_spec(f"{package}.{name}") is not None


def test_an_output_is_compared_but_for_what_differs_from_run_to_run() -> None:
    page = "ID  NAME\n 1  digits  4 of 1-4  14s ago\n…\nsince  2026-11-23 06:13:20 (4s ago)\n"
    assert shows(page, "ID NAME\n1 digits 4 of 1-4  1m 2s ago\nmore\nmore\nsince 2027-01-01 00:00:00 (3h ago)\n")
    assert not shows(page, "ID NAME\n1 digits 3 of 1-4  2s ago\nsince 2027-01-01 00:00:00 (3h ago)\n")
    assert not shows(page, "ID NAME\n1 digits 4 of 1-4  2s ago\nsince 2027-01-01 00:00:00 (3h ago)\nand more\n")
