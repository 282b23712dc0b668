"""What takes long: `SCHED_TEST_LONG=1` asks for all of it, as often as is promised."""

import os

import pytest

_ASKED = os.environ.get("SCHED_TEST_LONG") == "1"

#: Of tests that show one thing in several ways, those that are left out of an ordinary run.
long = pytest.mark.skipif(not _ASKED, reason="left to SCHED_TEST_LONG=1")


def repeats(promised: int, ordinary: int) -> int:
    """`ordinary` times, so that the whole suite does not take too long, where nobody asks for more."""
    return promised if _ASKED else ordinary
