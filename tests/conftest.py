"""Which tests run beside each other, and how far Hypothesis looks: `ci` is the same each time, `dev` looks further."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: Where tests start daemons, workers and servers, or read clocks: one after the other.
ON_THE_MACHINE = ("cli", "clusters", "daemon", "docs", "e2e", "elastic", "manifests", "test_daemon.py")
#: Where tests play whole workloads, which takes five times as long while lines are counted.
NOT_COUNTED = ("benchmarks", "faults")

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


def _part(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that only compute come first, on all cores; those that need the machine follow, on one of them."""
    for item in items:
        if _part(item) in ON_THE_MACHINE:
            item.add_marker(pytest.mark.xdist_group("machine"))
    items.sort(key=lambda item: _part(item) in ON_THE_MACHINE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Some tests run untraced. (The marker `no_cover` does not reach workers of xdist, which trace twice.)"""
    tracer = sys.gettrace()
    if _part(item) in NOT_COUNTED:
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
