"""How often tests repeat what takes long: `SCHED_TEST_LONG=1` asks for as often as is promised."""

import os


def repeats(promised: int, ordinary: int) -> int:
    """`ordinary` times, so that the whole suite does not take too long, where nobody asks for more."""
    return promised if os.environ.get("SCHED_TEST_LONG") == "1" else ordinary
