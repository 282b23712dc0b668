"""Times and durations as tables show them."""

import pytest

from scheduler.cli.render.times import ago, lost_work, span, zone


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (4.24, "4.2s"), (9.97, "10s"), (59.6, "1m"), (65, "1m 5s"), (11520, "3h 12m"), (187200, "2d 4h")],
)
def test_a_span_has_at_most_two_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("slot_seconds", "text"),
    [
        (None, ""),
        (0.0, ""),
        (2.04, ", losing 2.0 slot-seconds"),
        (119.0, ", losing 119.0 slot-seconds"),
        (150.0, ", losing 2.5 slot-minutes"),
        (36e6, ", losing 10,000.0 slot-hours"),
    ],
)
def test_lost_work_is_told_in_a_unit_that_fits_and_not_where_there_is_none(
    slot_seconds: float | None, text: str
) -> None:
    assert lost_work(slot_seconds) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [(None, "-"), (1000, "0s ago"), (820, "3m ago"), (-85400, "1d ago"), (8200, "in 2h"), (1000.5, "0s ago")],
)
def test_a_time_is_told_from_now(at: float | None, text: str) -> None:
    assert ago(at, 1000.0) == text


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(("at", "text"), [(0.0, "UTC+01:00"), (1_751_328_000.0, "UTC+02:00")])
def test_a_zone_is_told_by_its_offset(at: float, text: str) -> None:
    assert zone(at) == text
