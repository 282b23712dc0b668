"""What the architecture promises about the source itself: layers, time as a parameter, seeded randomness, names."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "scheduler").rglob("*.py"))

#: The only files that may read a clock: the port's real side, and the library that runs inside workers.
CLOCK_READERS = ("scheduler/clock.py", "scheduler/elastic/")
CLOCK_READS = frozenset(
    {
        *(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")),
        *(f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")),
        *(f"time.{name}" for name in ("clock_gettime", "clock_gettime_ns", "gmtime", "localtime", "ctime")),
        *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
        "datetime.date.today",
        *(f"sqlalchemy.func.{name}" for name in ("now", "current_timestamp", "current_date", "current_time")),
    }
)
SEEDED_RANDOM = frozenset({"random.Random", "random.SystemRandom"})
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"})
#: Modules of the policy in the longest chain of imports.
LEVELS_MAX = 10


def clock_reads(tree: ast.AST) -> list[str]:
    """Names in `tree` that read a clock, each with its line."""
    return [f"{line}: {name}" for line, name in qualified_names(tree) if name in CLOCK_READS]


def unseeded_random(tree: ast.AST) -> list[str]:
    """Names in `tree` that draw from the generator that all of the process shares, each with its line."""
    return [
        f"{line}: {name}"
        for line, name in qualified_names(tree)
        if name.startswith("random.") and name not in SEEDED_RANDOM
    ]


def qualified_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of every import and of every use of an imported name, whatever it is called locally."""
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                origin[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                origin[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            head, *rest = ast.unparse(node).split(".")
            if head in origin and all(part.isidentifier() for part in rest):
                yield node.lineno, ".".join([origin[head], *rest])


def test_imports_keep_to_the_layers() -> None:
    """As a process: within this one it would silence the loggers that other tests read."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("layer", "allowed"), [("scheduler.model", set()), ("scheduler.policy", {"numpy"})])
def test_the_pure_layers_import_little_beyond_the_standard_library(layer: str, allowed: set[str]) -> None:
    graph = grimp.build_graph("scheduler", include_external_packages=True, cache_dir=None)
    modules = {layer, *graph.find_descendants(layer)}
    outside = {
        (module, imported)
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
        if imported.partition(".")[0] not in {"scheduler", *sys.stdlib_module_names, *allowed}
    }
    assert not outside


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_time_is_a_parameter_and_randomness_has_a_seed(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not unseeded_random(tree)
    if not str(path.relative_to(ROOT)).startswith(CLOCK_READERS):
        assert not clock_reads(tree)


@pytest.mark.parametrize(
    "source",
    [
        "import time\nstart = time.monotonic()",
        "import time as t\nread = t.time_ns",
        "from time import perf_counter as tick",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "from datetime import datetime as dt\nfield(default_factory=dt.now)",
        "import sqlalchemy as sa\nsa.func.now()",
        "from sqlalchemy import func\nfunc.current_timestamp()",
    ],
)
def test_a_clock_read_is_seen_under_any_name(source: str) -> None:
    assert clock_reads(ast.parse(source))


@pytest.mark.parametrize("source", ["import random\nrandom.choice([1])", "from random import shuffle"])
def test_unseeded_randomness_is_seen(source: str) -> None:
    assert unseeded_random(ast.parse(source))


def test_waiting_and_seeded_randomness_are_allowed() -> None:
    tree = ast.parse("import time, random\nfrom random import Random\ntime.sleep(1)\nrandom.Random(7).random()")
    assert not clock_reads(tree)
    assert not unseeded_random(tree)


def test_no_sql_text_asks_the_database_for_the_time() -> None:
    migrations = sorted((ROOT / "migrations").rglob("*.py"))
    store = sorted((ROOT / "scheduler" / "store").rglob("*.py"))
    asking = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in [*store, *migrations]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if any(word in node.value.lower() for word in ("current_timestamp", "datetime('now'", "select now()"))
    ]
    assert not asking


def test_modules_are_named_for_what_they_hold() -> None:
    folders = ("scheduler", "tests", "examples", "benchmarks")
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    vague = [str(path.relative_to(ROOT)) for path in modules if VAGUE_NAMES & {path.stem, path.parent.name}]
    assert not vague


def test_no_chain_of_imports_in_the_policy_is_long() -> None:
    graph = grimp.build_graph("scheduler", cache_dir=None)
    policy = {"scheduler.policy", *graph.find_descendants("scheduler.policy")}

    @cache
    def chain(module: str) -> tuple[str, ...]:
        below = (chain(other) for other in graph.find_modules_directly_imported_by(module) & policy)
        return (module, *max(below, key=len, default=()))

    longest = max(map(chain, policy), key=len)
    assert len(longest) <= LEVELS_MAX, "\n".join(longest)
