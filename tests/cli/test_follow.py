"""Following the output of a job over changes of its rank 0."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import Connection
from scheduler.cli.client.follow import JsonLines, Piece, follow_log, wait_for_end
from scheduler.model.fixed import FixedGroup
from tests.http.site import Site
from tests.http.test_logs import write


class Looking(Client):
    """A client that lets something happen before it looks at the job for the n-th time."""

    def __init__(self, url: str, happens: Mapping[int, Callable[[], object]]) -> None:
        super().__init__(Connection(url, None))
        self._happens, self._looks = happens, 0
        self.asked: list[str] = []

    def get(self, path: str, *words: Any, **options: Any) -> Any:
        self.asked.append(path)
        if path.count("/") == 3:
            self._looks += 1
            self._happens.get(self._looks, lambda: None)()
        return super().get(path, *words, **options)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_worker_that_takes_over_as_rank_0_is_followed_from_there_and_not_from_its_beginning(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.node("a", slots=2)
    job = site.job("trains", workers=(1, 2))
    site.settle()
    first, second = f"{job}-1", f"{job}-2"
    write(site, job, first, b"one\n")
    write(site, job, second, b"old\n")

    def taken_over() -> None:
        site.cluster.crash(site.get(job).workers[0].id)
        site.advance(5)
        assert next(worker.id for worker in site.get(job).workers if worker.rank == 0) == second
        write(site, job, second, b"old\nnew\n")

    def ended() -> None:
        write(site, job, second, b"old\nnew\nlast\n")
        site.ask_cancel(job)
        site.settle()

    pieces: list[Piece] = []
    with site.served(), Looking(site.url, {4: taken_over, 6: ended}) as client:
        view = follow_log(client, job, None, pieces.append)
    site.close()
    assert view["state"] == "CANCELLED"
    assert [(piece.worker, piece.data) for piece in pieces] == [
        (first, b"one\n"),
        (second, b"new\n"),
        (second, b"last\n"),
    ]
    assert capsys.readouterr().err == f"-- output of worker {second} --\n"


def test_servers_of_a_fixed_group_are_no_successors_of_rank_0(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.node("a", slots=3)
    job = site.job("trains", workers=1, fixed=FixedGroup(2, ("serve",)))
    site.settle()
    [only] = [worker.id for worker in site.get(job).workers]
    for server in site.get(job).fixed_workers:
        write(site, job, server.id, b"serving\n")
    write(site, job, only, b"training\n")

    def ended() -> None:
        site.ask_cancel(job)
        site.settle()

    pieces: list[Piece] = []
    with site.served(), Looking(site.url, {3: ended}) as client:
        follow_log(client, job, None, pieces.append)
    site.close()
    assert [(piece.worker, piece.data) for piece in pieces] == [(only, b"training\n")]
    assert capsys.readouterr().err == ""


def test_an_end_that_history_tells_of_before_a_standby_has_seen_it_is_not_waited_for_in_history(
    site: Site, tmp_path: Path
) -> None:
    standby = Site(tmp_path)
    site.engine, standby.engine = site._new_engine("leader"), standby._new_engine("standby")
    site.node("a", slots=1)
    job = site.job("ends")
    site.settle()
    assert standby.tick().following
    site.ask_cancel(job)
    site.settle()
    with standby.served(), Looking(standby.url, {3: standby.tick}) as client:
        view = wait_for_end(client, job)
    for each in (site, standby):
        each.close()
    assert view["state"] == "CANCELLED"
    assert client.asked == [f"/v1/jobs/{job}", "/v1/events", *[f"/v1/jobs/{job}"] * 2]


def test_characters_that_two_pieces_share_are_whole_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    snow, half = "\u2603".encode(), "\u00fc".encode()[:1]
    lines = JsonLines()
    for piece in (
        Piece("1-1", 3, b"a" + snow[:2]),
        Piece("1-1", 5, snow[2:] + half),
        Piece("1-2", 1, half),
    ):
        lines.write(piece)
    lines.end()
    assert [tuple(json.loads(line).values()) for line in capsys.readouterr().out.splitlines()] == [
        ("1-1", 1, "a"),
        ("1-1", 4, "\u2603"),
        ("1-1", 5, "\ufffd"),
        ("1-2", 0, ""),
        ("1-2", 1, "\ufffd"),
    ]
