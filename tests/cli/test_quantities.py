"""Durations, times, sizes, pairs and ranges as people write them."""

from datetime import UTC, datetime

import pytest

from scheduler.cli.input.quantities import duration_seconds, memory_mib, moment, pairs, past_moment, workers_range
from scheduler.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("45m", 2700),
        ("1h30m", 5400),
        ("2d", 172800),
        ("1d2h3m4s", 93784),
        ("1:30", 5400),
        ("0:00:30", 30),
        (" 10S ", 10),
    ],
)
def test_durations_are_read_in_all_their_forms(text: str, seconds: float) -> None:
    assert duration_seconds(text, "--grace") == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-5", "nan", "inf", "1e400", "1:99", "5x", "1m1h", "ten", f"{10**400}d", f"{10**400}:00"]
)
def test_what_is_no_duration_names_the_option_and_the_form(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--grace: .* is not a valid duration: use seconds"):
        duration_seconds(text, "--grace")


#: Saturday before the clocks go forward, 17:30 in Berlin.
NOW = datetime(2026, 3, 28, 16, 30, tzinfo=UTC)


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("in 30m", datetime(2026, 3, 28, 17, tzinfo=UTC)),
        ("18:00", datetime(2026, 3, 28, 17, tzinfo=UTC)),
        ("17:30", NOW),
        ("9:15:30", datetime(2026, 3, 29, 7, 15, 30, tzinfo=UTC)),
        ("2026-03-29T18:00", datetime(2026, 3, 29, 16, tzinfo=UTC)),
        ("2026-12-24", datetime(2026, 12, 23, 23, tzinfo=UTC)),
        ("2026-03-29 18:00Z", datetime(2026, 3, 29, 18, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_the_local_zone(text: str, expected: datetime) -> None:
    assert moment(text, "--start", NOW.timestamp()) == expected.timestamp()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        # 29 March 2026: 02:00 to 03:00 is skipped
        (datetime(2026, 3, 29, 0, 45, tzinfo=UTC), "02:30", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 0, 0, tzinfo=UTC), "02:30", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        # 25 October 2026: 02:00 to 03:00 comes twice
        (datetime(2026, 10, 25, 0, 20, tzinfo=UTC), "02:30", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        (datetime(2026, 10, 25, 0, 50, tzinfo=UTC), "02:30", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        (datetime(2026, 10, 25, 1, 50, tzinfo=UTC), "02:30", datetime(2026, 10, 26, 1, 30, tzinfo=UTC)),
    ],
)
def test_a_time_of_day_is_the_next_one_when_the_clocks_change(now: datetime, text: str, expected: datetime) -> None:
    assert moment(text, "--start", now.timestamp()) == expected.timestamp()


@pytest.mark.parametrize("text", ["", "soon", "25:00", "18", "in ten minutes", "2026-02-30", "tomorrow 18:00"])
def test_what_is_no_time_names_the_option_and_the_form(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--start: .* is not a valid (time: use 18:00|duration: use seconds)"):
        moment(text, "--start", NOW.timestamp())


@pytest.mark.parametrize(
    ("text", "mib"), [("512", 512), ("512MiB", 512), ("4g", 4096), ("1.5GiB", 1536), ("1 TiB", 1048576), ("0.1M", 1)]
)
def test_sizes_are_read_in_all_their_forms(text: str, mib: int) -> None:
    assert memory_mib(text, "--memory") == mib


@pytest.mark.parametrize("text", ["", "-1", "4 bytes", "4KiB", "GiB", "nan", f"{10**400}T"])
def test_what_is_no_size_names_the_option_and_the_form(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--memory: .* is not a valid size: use a number of MiB"):
        memory_mib(text, "--memory")


def test_pairs_keep_further_equal_signs_and_the_last_of_a_key() -> None:
    assert pairs(["a=1", "b=x=y", "a=2", "c="], "--label") == {"a": "2", "b": "x=y", "c": ""}


@pytest.mark.parametrize("item", ["a", "=1", ""])
def test_a_pair_without_key_or_value_is_refused(item: str) -> None:
    with pytest.raises(InvalidInput, match=r"--label: .* must have the form KEY=VALUE"):
        pairs([item], "--label")


def test_workers_are_a_number_or_a_range() -> None:
    assert workers_range("4", "--workers") == (4, 4)
    assert workers_range("1-4", "--workers") == (1, 4)
    assert workers_range("1..4", "--workers") == (1, 4)
    with pytest.raises(InvalidInput, match="use 4, or 1-4 for an elastic job"):
        workers_range("-4", "--workers")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", 1e9),
        ("1h", 1e9 - 3600),
        ("99999d", 0.0),
        ("1969-07-20", 0.0),
        ("2001-09-09T00:00+00:00", 999_993_600.0),
    ],
)
def test_a_moment_of_the_past_is_an_age_or_a_date_and_not_before_clocks_began(text: str, at: float) -> None:
    assert past_moment(text, "--since", 1e9) == at


@pytest.mark.parametrize("text", ["20300501", "18:00", " 0:30:00 "])
def test_what_may_be_an_age_or_a_time_of_the_past_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--since: .* may be an age or a time: use an age such as 7d"):
        past_moment(text, "--since", 1e9)
