"""Hours of intervals, and sums of accounts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.account import (
    HOUR_SECONDS,
    HOURS_MAX,
    AccountKey,
    AccountSum,
    Holding,
    charges_of,
    folded,
    hour_of,
    hourly,
    priced,
    summed,
)

MOMENTS = st.floats(0.0, 3e6)
AHEAD = st.floats(-1e5, 1e5)
KEY = AccountKey("lab", "ann", "H100")


@given(MOMENTS, st.floats(0.0, 1e6), AHEAD)
def test_the_seconds_of_all_hours_are_those_of_the_interval(since: float, length: float, ahead: float) -> None:
    parts = list(hourly(since, since + length, ahead))
    assert math.isclose(sum(seconds for _, seconds in parts), length, abs_tol=1e-6)
    assert all(0 < seconds <= HOUR_SECONDS + 1e-6 for _, seconds in parts)
    assert [hour for hour, _ in parts] == sorted({hour for hour, _ in parts})
    if parts:
        assert abs(parts[0][0] - hour_of(since, ahead)) <= 1
        assert abs(parts[-1][0] - hour_of(since + length, ahead)) <= 1


@given(MOMENTS, st.floats(0.0, 1e5), st.floats(0.0, 1e5), AHEAD)
def test_two_intervals_in_a_row_come_to_what_the_whole_comes_to(
    since: float, first: float, second: float, ahead: float
) -> None:
    middle, end = since + first, since + first + second
    whole = {each.hour: each for each in charges_of(Holding(KEY, since, 3, 1.5), end, ahead)}
    halves = (Holding(KEY, since, 3, 1.5), middle), (Holding(KEY, middle, 3, 1.5), end)
    parts = {each.hour: each for each in summed(c for holding, at in halves for c in charges_of(holding, at, ahead))}
    for hour in {*whole, *parts}:
        one, two = ((each[hour].held, each[hour].lent) if hour in each else (0.0, 0.0) for each in (whole, parts))
        assert math.isclose(one[0], two[0], abs_tol=1e-6)
        assert math.isclose(one[1], two[1], abs_tol=1e-6)


def test_of_an_interval_that_nobody_measured_the_beginning_counts_in_one_hour() -> None:
    parts = list(hourly(0.0, 1e9, 0.0))
    assert len(parts) <= HOURS_MAX + 1
    assert math.isclose(sum(seconds for _, seconds in parts), 1e9)


def test_sums_are_folded_by_the_wanted_keys_and_cost_what_their_types_cost() -> None:
    hours = 3600.0
    found = [
        AccountSum("lab", "ann", "H100", None, 2 * hours, hours, 0.0),
        AccountSum("lab", "bob", "L4", None, 4 * hours, 0.0, 60.0),
        AccountSum("team", "ann", "", None, 8 * hours, 0.0, 0.0),
    ]
    assert folded(found, ()) == [AccountSum(None, None, None, None, 14 * hours, hours, 60.0)]
    costly = priced(found, {"H100": 3.0, "*": 0.5})
    assert folded(costly, ("user",)) == [
        AccountSum(None, "ann", None, None, 10 * hours, hours, 0.0, 6.0 + 4.0),
        AccountSum(None, "bob", None, None, 4 * hours, 0.0, 60.0, 2.0),
    ]
    assert [each.cost for each in priced(found, {"H100": 3.0})] == [6.0, 0.0, 0.0]
