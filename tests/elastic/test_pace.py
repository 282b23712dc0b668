"""The speed that a worker reports is that of training, measured for long enough."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.elastic.training.throughput import Pace


@given(rate=st.floats(1.0, 1000.0), at=st.floats(0.0, 1e6))
def test_the_first_step_at_a_size_is_not_counted(rate: float, at: float) -> None:
    seconds = 30 * 64 / rate
    assume(abs(seconds - 2.0) > 1e-3)
    pace = Pace()
    pace.add(64, at)  # it compiles, for however long
    for number in range(1, 31):
        pace.add(64, at + number * 64 / rate)
    assert pace.samples_per_second() == (pytest.approx(rate, rel=1e-6) if seconds > 2.0 else None)


def test_what_was_measured_for_a_moment_is_not_told() -> None:
    pace = Pace()
    told = []
    for number in range(30):
        pace.add(10, 100.0 + number / 10)
        told.append(pace.samples_per_second())
    assert told[:20] == [None] * 20
    assert told[20:] == pytest.approx([100.0] * 10)


def test_a_resize_begins_anew() -> None:
    pace = Pace()
    for number in range(5):
        pace.add(10, float(number))
    assert pace.samples_per_second() == pytest.approx(10.0)
    pace.reset()
    assert pace.samples_per_second() is None
    pace.add(10, 50.0)
    pace.add(40, 52.0)
    assert pace.samples_per_second() == pytest.approx(20.0)


def test_it_follows_what_changes() -> None:
    pace = Pace()
    for second in range(30):
        pace.add(100, float(second))
    for second in range(30, 45):
        pace.add(10, float(second))
    assert pace.samples_per_second() == pytest.approx(10.0)
