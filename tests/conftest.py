"""Which tests run beside each other, and how far Hypothesis looks: `ci` is the same each time, `dev` looks further."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: Where tests start daemons, workers and servers, or read clocks: one after the other.
ON_THE_MACHINE = ("cli", "clusters", "daemon", "docs", "e2e", "elastic", "manifests", "test_daemon.py")

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that only compute come first, on all cores; those that need the machine follow, on one of them."""
    root = Path(__file__).parent
    needs_machine = {item: item.path.relative_to(root).parts[0] in ON_THE_MACHINE for item in items}
    for item, needs in needs_machine.items():
        if needs:
            item.add_marker(pytest.mark.xdist_group("machine"))
    items.sort(key=needs_machine.__getitem__)
