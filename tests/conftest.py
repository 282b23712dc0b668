"""Which tests run beside each other, and how far Hypothesis looks: `ci` is the same each time, `dev` looks further."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

#: Where tests start daemons, workers and servers, or read clocks: one after the other, and before what only computes.
ON_THE_MACHINE = ("cli", "clusters", "docs", "e2e", "elastic", "manifests", "page", "test_daemon.py", "test_logs.py")
#: Files of those that only compute all the same.
ONLY_COMPUTING = (
    "test_batch.py",
    "test_jobfile.py",
    "test_kubernetes_manifest.py",
    "test_quantities.py",
    "test_quorum.py",
    "test_rates.py",
    "test_request.py",
    "test_sampler.py",
    "test_shards.py",
    "test_state.py",
)
#: What tests of these files make is made once for all of them.
TOGETHER = ("test_published.py",)
#: Tests of the parts that coverage is reported for; others run twice as fast when lines are not counted.
COUNTED = ("engine", "model", "policy", "store")

#: So many examples of one property are traced: each takes twice as long, and further ones seldom reach another line.
TRACED_EXAMPLES = 25

#: The niceness that takes what nobody else wants.
LEAST = 19

# How long an example takes says more about the machine than about the code.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


# Where this runs in the background of a shell, what it starts would not hear Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _only_computes(nodeid: str) -> bool:
    path = Path(nodeid.partition("::")[0])
    return path.parts[1] not in ON_THE_MACHINE or path.name in ONLY_COMPUTING


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the machine come first."""
    items.sort(key=lambda item: _only_computes(item.nodeid))


class InTurn(LoadScopeScheduling):
    """Tests that need the machine run in one process, and in another those that mostly wait for a Kubernetes cluster.

    Those that only compute run beside them wherever there is a process left.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        if _only_computes(nodeid):
            return str(path) if path.name in TOGETHER else nodeid
        return "kubernetes" if "kubernetes" in nodeid else "machine"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> InTurn:
    """xdist's own groups are named in ids of tests, where newer releases of pytest do not let it."""
    return InTurn(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A process that only computes gives way to those that need the machine."""
    if _only_computes(item.nodeid):
        os.nice(LEAST - os.nice(0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Some tests run untraced. (The marker `no_cover` does not reach workers of xdist, which trace twice.)"""
    tracer = sys.gettrace()
    if item.path.relative_to(Path(__file__).parent).parts[0] not in COUNTED:
        sys.settrace(None)
    try:
        with _first_examples_traced(getattr(item, "obj", None)):
            return (yield)
    finally:
        sys.settrace(tracer)


@contextmanager
def _first_examples_traced(function: Any) -> Iterator[None]:
    """A property's later examples run untraced."""
    handle = getattr(function, "hypothesis", None)
    if handle is None:
        yield
        return
    inner, examples = handle.inner_test, count(1)

    @wraps(inner)
    def example(*args: Any, **kwargs: Any) -> Any:
        if next(examples) > TRACED_EXAMPLES:
            sys.settrace(None)
        return inner(*args, **kwargs)

    handle.inner_test = example
    try:
        yield
    finally:
        handle.inner_test = inner
