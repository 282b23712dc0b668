"""Lists of jobs: rows that cannot be read are told of, and so is where a list is cut."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.cli.commands import jobs
from scheduler.model.ids import JobId
from tests.cli.calls import Call
from tests.http.site import Site

Sched = Callable[..., Call]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with made.served():
        yield made
    made.close()


@pytest.fixture
def asked(site: Site, alone: Sched, monkeypatch: pytest.MonkeyPatch) -> Sched:
    """Runs a command line that finds the site."""
    monkeypatch.setenv("SCHED_URL", site.url)
    return alone


def spoil(site: Site, *ids: JobId) -> None:
    with closing(sqlite3.connect(site.directory / "world.db")) as database, database:
        database.executemany("UPDATE jobs SET labels = '[[' WHERE id = ?", [(each,) for each in ids])


def test_jobs_that_cannot_be_read_are_told_of_and_hide_none_behind_them(
    site: Site, asked: Sched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_PAGE", 2)
    old, first, second, third = (site.submit(name=name) for name in ("old", "bad", "bad2", "bad3"))
    spoil(site, first, second, third)
    listed = asked("list").ok()
    assert " old " in listed.out
    assert [line.partition(":")[0] for line in listed.err.splitlines()] == [
        f"job {each} cannot be read" for each in (first, second, third)
    ]
    document = asked("list", "-o", "json").ok().document
    assert [job["id"] for job in document["jobs"]] == [old]
    assert [row["job"] for row in document["unreadable"]] == [first, second, third]
    alone = asked("list", "--name", "bad").ok()
    assert (alone.out, len(alone.err.splitlines())) == ("", 1)


def test_the_name_of_a_job_that_cannot_be_read_means_that_job(site: Site, asked: Sched) -> None:
    bad = site.submit(name="same")
    spoil(site, bad)
    asked("show", "same").failed(7, f"jobs {bad}: ", "the row cannot be read")
    other = site.submit(name="same")
    asked("cancel", "same").failed(2, f"'same' is the name of several jobs ({bad}, {other}): use an id")


def test_a_list_that_is_cut_says_so_in_every_format(site: Site, asked: Sched) -> None:
    for name in ("one", "two", "three"):
        site.submit(name=name)
    said = "2 jobs shown, the newest: use --limit for more\n"
    assert asked("list", "--limit", "2").ok().err == said
    cut = asked("list", "--limit", "2", "-o", "json").ok()
    assert (len(cut.document["jobs"]), cut.document["more"], cut.err) == (2, True, said)
    whole = asked("list", "--limit", "3", "-o", "json").ok()
    assert (len(whole.document["jobs"]), whole.document["more"], whole.err) == (3, False, "")
