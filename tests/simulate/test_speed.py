"""Speed-up curves and noise, against points that are known."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import InvalidInput
from scheduler.simulate.speed import Amdahl, Linear, Measured, parse_speedup
from scheduler.simulate.work import CurveWork, NoisyWork, packed, seconds_alone


def test_amdahl_is_between_one_and_the_inverse_of_the_serial_share() -> None:
    curve = Amdahl(0.1)
    assert curve(1) == pytest.approx(1.0)
    assert curve(9) == pytest.approx(5.0)
    assert curve(10_000) < 10.0


def test_a_measured_curve_goes_through_its_points_and_straight_between_them() -> None:
    curve = Measured(((2, 3.0), (4, 5.0)))
    assert [curve(workers) for workers in (1, 2, 3, 4, 9)] == [1.5, 3.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("text", "curve"),
    [
        ("linear", Linear()),
        ("Amdahl 0.05", Amdahl(0.05)),
        ("1=1 2=1.9 4=3.4", Measured(((1, 1.0), (2, 1.9), (4, 3.4)))),
    ],
)
def test_a_curve_is_named_in_words(text: str, curve: object) -> None:
    assert parse_speedup(text) == curve


@given(st.text(max_size=30) | st.text("0123456789=. -einfa", max_size=12).map("1=1 {}".format))
def test_whatever_is_written_is_a_curve_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert parse_speedup(text)(1) > 0


@pytest.mark.parametrize("text", ["", "fast", "amdahl", "amdahl 2", "amdahl nan", "1=0", "2=1 1=1", "1=1 1=2", "1.5=2"])
def test_what_is_no_curve_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="must"):
        parse_speedup(text)


def test_noise_follows_from_its_seed_and_is_the_same_for_the_same_placement() -> None:
    work = CurveWork(100.0, Linear())
    first, again, other = (NoisyWork(work, 0.2, seed) for seed in ("a", "a", "b"))
    assert first.pace((2, 1), 0.0) == first.pace((2, 1), 50.0) == again.pace((2, 1), 0.0)
    assert first.pace((2, 1), 0.0) != other.pace((2, 1), 0.0)
    assert first.pace((2, 1), 0.0).per_second != pytest.approx(3.0)
    assert NoisyWork(work, 0.0, "a").pace((2, 1), 0.0).per_second == 3.0


def test_work_alone_takes_its_amount_over_the_speed() -> None:
    assert seconds_alone(CurveWork(100.0, Amdahl(0.5)), (2, 2)) == pytest.approx(100.0 * (0.5 + 0.5 / 4))


def test_packed_workers_fill_nodes_one_after_the_other() -> None:
    assert packed(10, 1, 4) == (4, 4, 2)
    assert packed(3, 2, 4) == (2, 1)
    assert packed(2, 8, 4) == (1, 1)
