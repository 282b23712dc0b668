"""Decayed usage halves in a half-life, and adds up over accounts and over time."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.queue_usage import QueueUsage, accrued, decayed

USAGE = st.floats(0.0, 1e12)
SECONDS = st.floats(0.0, 1e7)
HALF_LIFE = st.floats(1.0, 1e8)
SLOTS = st.integers(0, 10_000)


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)


@given(USAGE, SECONDS, st.integers(1, 10**8))
def test_it_is_half_after_a_half_life(usage: float, at: float, half_life: int) -> None:
    assert close(decayed(usage, at, at + half_life, half_life), usage / 2)
    assert decayed(usage, at, at, half_life) == usage


@given(USAGE, USAGE, SLOTS, SLOTS, SECONDS, HALF_LIFE)
def test_the_usage_of_two_accounts_is_the_sum(
    one: float, other: float, few: int, more: int, later: float, half_life: float
) -> None:
    together = QueueUsage(one + other, 0.0, few + more).now(later, half_life)
    assert close(
        together, QueueUsage(one, 0.0, few).now(later, half_life) + QueueUsage(other, 0.0, more).now(later, half_life)
    )


@given(USAGE, SLOTS, SECONDS, SECONDS, HALF_LIFE)
def test_it_does_not_matter_how_often_it_is_looked_at(
    usage: float, slots: int, first: float, second: float, half_life: float
) -> None:
    halfway = QueueUsage(QueueUsage(usage, 0.0, slots).now(first, half_life), first, slots)
    at_once = QueueUsage(usage, 0.0, slots).now(first + second, half_life)
    assert close(halfway.now(first + second, half_life), at_once)


@given(SLOTS, st.floats(0.0, 1.0))
def test_what_was_just_held_counts_in_full(slots: int, seconds: float) -> None:
    assert math.isclose(accrued(slots, 0.0, seconds, 1e6), slots * seconds, rel_tol=1e-5, abs_tol=1e-9)


def test_without_a_half_life_nothing_counts() -> None:
    assert QueueUsage(5.0, 0.0, 7).now(1.0, 0.0) == 0.0
