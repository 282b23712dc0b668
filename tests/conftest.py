"""Where and in which order tests run, which of them are traced for coverage, and what Hypothesis draws."""

import gc
import os
import re
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["tests.nvml.fixtures", "tests.shared_servers"]

ROOT = Path(__file__).parent.parent
#: The order in which tests begin: those that take longest first.
LONGEST_FIRST = ("kubernetes", "slow", "torch", "browser", "postgres")
#: Tests that share a server or a cluster with other files: each group runs in one process. The first that fits counts.
GROUPS = {
    "default port": re.compile("tests/docs/test_as_written"),
    "control plane": re.compile(
        r"test_kubernetes_(api|addresses|client|oversell|trouble)|tests/(trainingjobs|manifests)/"
        r"|tls/test_pods|security/test_templates_allowed"
    ),
    "cluster": re.compile("kubernetes"),
    "browser": re.compile("tests/page/"),
}
#: How much of a failure is said at once; the summary at the end has all of it.
MESSAGE_CHARS_MAX = 3_000
#: Coverage is reported for these; tests of other parts run twice as fast when lines are not counted.
COUNTED = ("engine", "model", "policy", "store")
#: How many are traced of tests that differ by their parameters alone; the others would hardly add a line.
VARIANTS_TRACED = 2
_TRACED = pytest.StashKey[bool]()

# How long an example takes says more about the machine than about the code, and how many fit more about their seed.
settings.register_profile(
    "fresh",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
# Of a mutant it is enough to know that some test fails: the example is not made smaller.
settings.register_profile(
    "mutant",
    settings.get_profile("fresh"),
    max_examples=30,
    database=None,
    print_blob=False,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("mutant" if "MUTANT_UNDER_TEST" in os.environ else "fresh")

# Where this runs in the background of a shell, what it starts would not hear Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Every run draws other examples, from a seed that can be given again."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))
    if config.getoption("numprocesses", None):
        config.pluginmanager.register(FailuresAtOnce(config))


class FailuresAtOnce:
    """Says what fails when it fails: of a long run that somebody stops, nothing would be known otherwise."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            said = report.longreprtext[-MESSAGE_CHARS_MAX:]
            terminal.write_line(f"\nFAILED {report.nodeid}, at its {report.when}\n{said}")


def pytest_report_header(config: pytest.Config) -> str:
    return f"examples drawn with --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from the many objects that live as long as the process: modules and tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what is traced; where several processes share the tests, those that take longest come first."""
    variants: Counter[tuple[Path, str]] = Counter()
    for item in items:
        variant = (item.path, getattr(item, "originalname", item.name))
        variants[variant] += 1
        item.stash[_TRACED] = variants[variant] <= VARIANTS_TRACED and _counts(item)
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _counts(item: pytest.Item) -> bool:
    """Whether coverage is reported for what it tests.

    What only drawn examples reach counts as not covered: a test by hand shows it better, and they run twice as fast.
    """
    room = item.path.relative_to(ROOT / "tests").parts[0]
    return room in COUNTED and not is_hypothesis_test(getattr(item, "obj", None))


def _rank(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    return next((rank for rank, name in enumerate(LONGEST_FIRST) if name in marks), len(LONGEST_FIRST))


class ByFixtures(LoadScopeScheduling):
    """Each test runs wherever there is a process left, but those that share a fixture run in the same one.

    (`--dist loadgroup` of xdist 3.8 has no effect with pytest 9.)
    """

    def _split_scope(self, nodeid: str) -> str:
        if group := next((name for name, tests in GROUPS.items() if tests.search(nodeid)), None):
            return group
        path = nodeid.partition("::")[0]
        return path if _has_module_fixture(path) else nodeid


@cache
def _has_module_fixture(path: str) -> bool:
    return 'scope="module"' in (ROOT / path).read_text()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFixtures:
    """Tests begin in the order in which they were sorted."""
    config.option.loadscopereorder = False
    return ByFixtures(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Only some tests are traced. (The marker `no_cover` does not reach workers of xdist.)"""
    tracer = sys.gettrace()
    if not item.stash[_TRACED]:
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
