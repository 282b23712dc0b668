"""Pauses between tries."""

import pytest

from scheduler.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.pause_seconds(failures) for failures in range(6)] == [0.5, 0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("failures", [-1, 10**9])
def test_any_number_of_failures_gives_a_pause_within_its_bounds(failures: int) -> None:
    assert 1.0 <= Backoff(1.0, 60.0).pause_seconds(failures) <= 60.0
