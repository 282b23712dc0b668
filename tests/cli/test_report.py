"""report, and the views that are drawn again and again."""

import os
import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scheduler.cli.command import Session
from scheduler.cli.commands.jobs import _Found, watch_jobs
from scheduler.cli.commands.report import missing
from scheduler.cli.render.reportpage import page
from scheduler.cli.render.sparkline import Recent, sparkline
from scheduler.cli.render.times import stamp
from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until
from tests.daemon import Daemon

Sched = Callable[..., Call]


def test_a_report_tells_what_a_span_came_to(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "reported", "--priority", "15", command="true")
    until(daemon, job, "SUCCEEDED")
    document = sched("report", "--since", "1h", "-o", "json").ok().document
    assert document["kept"] == {"jobs_since": None, "events_since": None, "missing": []}
    assert 0 < document["used_slot_seconds"] <= document["slot_seconds"] <= 4 * 3600 + 1
    assert document["events"]["JOB_SUCCEEDED"] >= 1
    waits = {each["priority_class"]: each for each in document["waits"]}
    assert waits["10"]["starts"] >= 1
    assert document["users"][0]["share"] > 0
    text = sched("report", "--since", "1h").ok().out
    for words in ("of slots used", "slot-hours", "preemptions", "lost work", "PRIORITY", "USER"):
        assert words in text


def test_a_span_before_the_cluster_had_slots_and_nobody_waits_now(sched: Sched, daemon: Daemon) -> None:
    document = sched("report", "--since", "3d", "--until", "1d", "-o", "json").ok().document
    assert (document["slots_since"], document["slot_seconds"], document["utilization"]) == (None, 0.0, None)
    assert "no slots" in sched("report", "--since", "3d", "--until", "1d").ok().out
    assert "none before" in sched("report", "--since", "3d").ok().out


def test_who_waits_now_is_told_of_a_span_that_reaches_to_now(sched: Sched, daemon: Daemon) -> None:
    waiting = submitted(sched, "too many", "--workers", "1000", command="true")
    document = sched("report", "--since", "1h", "-o", "json").ok().document
    assert sum(each["waiting_now"] for each in document["waits"]) >= 1
    document = sched("report", "--since", "3d", "--until", "1d", "-o", "json").ok().document
    assert document["waits"] == []
    sched("cancel", str(waiting)).ok()


def test_a_span_that_is_none_is_refused_in_one_line(sched: Sched) -> None:
    sched("report", "--since", "yesterday").failed(2, "--since")
    sched("report", "--since", "1h", "--until", "2h").failed(2, "since")


class _Page(HTMLParser):
    """Every tag with its attributes, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "rect", "line", "polygon", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def test_the_page_has_plots_and_needs_nothing_else(sched: Sched, daemon: Daemon, tmp_path: Path) -> None:
    job = submitted(sched, "<b>bold</b>", command="true")
    until(daemon, job, "SUCCEEDED")
    target = tmp_path / "report.html"
    assert sched("report", "--since", "1h", "--html", str(target)).ok().out == ""
    text = target.read_text()
    parsed = _Page(text)
    assert parsed.open == []
    assert [tag for tag, _ in parsed.found].count("svg") == 5
    assert "prefers-color-scheme: dark" in text
    assert re.search(r"\(UTC([+-]\d\d:\d\d)?\)</p>", text), "times have a zone"
    assert not [tag for tag, _ in parsed.found if tag in ("script", "link", "img", "iframe")]
    assert not [
        value for _, attributes in parsed.found for name, value in attributes.items() if name in ("src", "href")
    ]
    assert not re.search(r"https?:|url\(|@import", text)
    sched("report", "--html", str(tmp_path / "no" / "where.html")).failed(2, "--html")
    sched("report", "--html", str(tmp_path)).failed(2, "is a directory")
    sched("report", "--html", ".").failed(2, "is a directory")


def test_a_page_is_written_to_what_the_file_is(sched: Sched, tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "report.html", tmp_path / "newest.html", tmp_path / "pipe"
    link.symlink_to(target)
    for _ in range(2):
        sched("report", "--since", "1h", "--html", str(link)).ok()
        assert link.is_symlink()
        assert target.read_text().startswith("<!doctype html>")
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        sched("report", "--since", "1h", "--html", str(pipe)).ok()
        said, _ = reader.communicate(timeout=60)
    assert pipe.is_fifo()
    assert said.startswith("<!doctype html>")
    assert sorted(each.name for each in tmp_path.glob("*.html*")) == ["newest.html", "report.html"]


VIEW = {
    "since": 0.0,
    "until": 100.0,
    "kept": {
        "jobs_since": 50.0,
        "events_since": None,
        "missing": ["jobs that ended before jobs_since have been removed: their usage and waits are missing"],
    },
    "slots_since": None,
    "slot_seconds": 0.0,
    "used_slot_seconds": 0.0,
    "shared_slot_seconds": 0.0,
    "utilization": None,
    "course": {"step_seconds": 50.0, "slots": [0.0, 0.0], "used": {}},
    "waits": [],
    "preemptions": {"shrinks": 0, "stops": 0, "shrinks_course": [0, 0], "stops_course": [0, 0]},
    "lost_work": {"slot_seconds": 0.0, "by_cause": {}, "course": [0.0, 0.0]},
    "events": {},
    "shrinks_by_cause": {},
    "stops_by_cause": {},
    "workers_ended": {},
    "users": [{"user": "<script>", "jobs": 1, "slot_seconds": 0.0, "shared_slot_seconds": 0.0, "share": 0.0}],
}


def test_what_is_missing_is_told_with_the_time_before_which_it_is() -> None:
    (told,) = missing(VIEW)
    assert told == f"jobs that ended before {stamp(50.0)} have been removed: their usage and waits are missing"


def test_a_page_of_nothing_is_whole_and_says_what_is_missing() -> None:
    text = page(VIEW, ["jobs that ended before then are removed"])
    assert "Incomplete report: jobs that ended before then are removed." in text
    assert "<script>" not in text
    assert _Page(text).open == []


#: In Berlin, at 1:00 UTC, clocks were set back from 3:00 to 2:00.
SET_BACK = 1792890000.0


@pytest.mark.usefixtures("berlin")
def test_a_page_over_a_change_of_clocks_says_of_each_time_in_which_zone_it_is() -> None:
    text = page({**VIEW, "since": SET_BACK - 9000.0, "until": SET_BACK + 9000.0}, [])
    assert "<p>2026-10-25 00:30:00 (UTC+02:00) to 2026-10-25 04:30:00 (UTC+01:00)</p>" in text
    assert re.findall(r">(\d\d:\d\d[^<]*)<", text)[:6] == [
        "00:30 +02:00",
        "01:30 +02:00",
        "02:30 +02:00",
        "02:30 +01:00",
        "03:30 +01:00",
        "04:30 +01:00",
    ]
    same = page({**VIEW, "since": SET_BACK - 36000.0, "until": SET_BACK - 18000.0}, [])
    assert "<p>2026-10-24 17:00:00 to 2026-10-24 22:00:00 (UTC+02:00)</p>" in same
    assert ">17:00<" in same


def test_a_line_of_blocks_has_one_for_each_share() -> None:
    assert sparkline([0.0, 0.5, 1.0, None, 0.13]) == "▁▅█ ▂"


def test_minutes_that_pass_become_blocks() -> None:
    recent = Recent([0.0] * 59, 600.0)
    recent.see({"slots_used": 4, "slots_total": 4}, 601.0)
    assert recent.line().startswith("▁" * 59 + "█")
    recent.see({"slots_used": 0, "slots_total": 4}, 661.0)
    assert recent.line().startswith("▁" * 58 + "█▁")
    assert "2% of slots used on average" in recent.line()


def test_minutes_in_which_nobody_looked_are_blank() -> None:
    recent = Recent([0.0] * 59, 600.0)
    recent.see({"slots_used": 4, "slots_total": 4}, 601.0)
    recent.see({"slots_used": 0, "slots_total": 4}, 661.0 + 3 * 60)
    assert recent.line().startswith("▁" * 55 + "█" + " " * 3 + "▁  2% ")
    recent.see({"slots_used": 4, "slots_total": 4}, 600.0)  # somebody sets the clock back
    assert recent.line().startswith("▁" * 54 + "█" + " " * 3 + "▁█  4% ")
    recent.see({"slots_used": 2, "slots_total": 4}, 601.0 + 7 * 86400)
    assert recent.line() == " " * 59 + "▅  50% of slots used on average in the last hour"


def test_top_shows_the_last_hour(sched: Sched) -> None:
    assert "of slots used on average in the last hour" in sched("top", "--once").ok().out


def test_watched_jobs_are_drawn_under_the_utilization(
    alone: Sched, daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([True, True, False])
    session = Session(url=daemon.url)
    watch_jobs(session, lambda: _Found([], [], [], False), interval_seconds=0.0, go_on=lambda: next(looks))
    session.close()
    assert "in the last hour" in capsys.readouterr().out


def test_watching_into_a_pipe_lists_once(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "piped", command="true")
    until(daemon, job, "SUCCEEDED")
    assert "piped" in sched("list", "--all", "--watch").ok().out
