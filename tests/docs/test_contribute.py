"""docs/contribute.md: every file and every name that it sends a reader to exists, and recipes are short."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "contribute.md"
TEXT = PAGE.read_text()
LOOK, *RECIPES = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
QUESTIONS = re.findall(r"^- \*\*(.+?\?)\*\*(.*?)(?=^- |\Z)", LOOK, re.MULTILINE | re.DOTALL)
WANTED = ("policy", "cluster", "route", "metric", "field of a job", "setting", "webhook")


def names_in(path: Path) -> set[str]:
    """Functions, classes, methods and variables of a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_ten_questions_are_answered() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(("question", "answer"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_each_answer_is_two_files_and_a_name_in_each(question: str, answer: str) -> None:
    places = re.findall(r"\[`([\w/.]+)`\]\(\.\./([\w/.]+)\):\s+`(\w+)`", answer)
    assert len(places) == 2
    for shown, path, name in places:
        assert shown == path
        assert name in names_in(ROOT / path), f"{path} has no {name}"


def test_each_wanted_recipe_is_there_and_has_at_most_ten_lines() -> None:
    titles = [recipe.partition("\n")[0] for recipe in RECIPES]
    assert all(any(title == f"Add a {wanted}" for title in titles) for wanted in WANTED)
    for recipe in RECIPES:
        title, _, body = recipe.partition("\n")
        assert 1 <= len(body.strip().splitlines()) <= 10, title


#: Words in code that are no names of this project's modules.
WORDS = re.compile(r"`([A-Z]?\w*[a-z_]\w*|[A-Z_]{4,})`")


@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe.partition("\n")[0] for recipe in RECIPES])
def test_each_name_of_a_recipe_exists_in_the_files_that_it_names(recipe: str) -> None:
    files = [ROOT / path for path in re.findall(r"\]\(\.\./([\w/.]+\.py)\)", recipe)]
    files += [path.parent for path in files]
    text = re.sub(r"\[`[^`]*`\]\([^)]*\)", "", recipe)
    known = {name for path in files if path.is_file() for name in names_in(path)}
    for name in WORDS.findall(text):
        assert name in known or (name in GIVEN and is_there(name)), f"{name}: in none of the files of its recipe"


#: Names that stand for something else than a name in one of these files, and where they are.
GIVEN = {
    "description": "scheduler/config/settings.py",
    "secret": "scheduler/config/settings.py",
    "events": "scheduler/config/settings.py",
    "url": "scheduler/config/settings.py",
    "nav": "mkdocs.yml",
    "PolicySettings": "scheduler/config/settings.py",
    "EngineSettings": "scheduler/config/settings.py",
    "TypedDict": "scheduler/http/routes/webhooks.py",
    "_seconds": "scheduler/config/settings.py",
    "_bytes_max": "scheduler/config/http_settings.py",
    "parse_json": "scheduler/http/json.py",
    "Request": "scheduler/http/schemas/fields.py",
}


def is_there(name: str) -> bool:
    return name in (ROOT / GIVEN[name]).read_text()


def test_paths_and_commands_in_code_exist() -> None:
    targets = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)", TEXT):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target
    for path in re.findall(r"`((?:scheduler|tests|docs|grafana|examples|manifests)(?:/[\w.]+)+)`", TEXT):
        assert (ROOT / path).exists() or "NAME" in path, path
    for module in re.findall(r"python -m ([\w.]+)", TEXT):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
