"""The clocks: the machine's, and the one that tests and the simulator move."""

import time

import pytest

from scheduler.clock import SystemClock, VirtualClock


def test_the_system_clock_tells_unix_seconds() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_virtual_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(100.0)
    assert (clock.now(), clock.now(), clock.monotonic()) == (100.0, 100.0, 100.0)
    assert clock.advance(2.5) == 102.5
    assert clock.set(200.0) == 200.0
    assert clock.now() == clock.monotonic() == 200.0


def test_virtual_time_may_be_set_to_the_present() -> None:
    clock = VirtualClock(5.0)
    clock.set(5.0)
    clock.advance(0.0)
    assert clock.now() == 5.0


@pytest.mark.parametrize("wrong", [99.9, float("nan")])
def test_virtual_time_never_goes_back(wrong: float) -> None:
    clock = VirtualClock(100.0)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.set(wrong)
    assert clock.now() == 100.0
