"""What the scheduler or the library does not take from readers of shards is one clear error, and no endless wait."""

import json
import os
import threading
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from scheduler import elastic
from scheduler.elastic.data.shard_prefetcher import Holder
from scheduler.elastic.data.shard_source import Answer, Call, Scheduler
from scheduler.elastic.data.shards import AHEAD_MAX
from scheduler.elastic.environment import Environment
from scheduler.elastic.errors import Refused
from tests.elastic.becoming import become_worker, running
from tests.http.site import Site


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ahead": 0}, "ahead must be an integer, 1 to 10,000, not 0"),
        ({"ahead": 2_000_000}, "ahead must be an integer, 1 to 10,000, not 2000000"),
        ({"ahead": 2.0}, "ahead must be an integer, 1 to 10,000, not 2.0"),
        ({"shards": 0}, "shards must be an integer, 1 or more, not 0"),
        ({"shards": "5"}, "shards must be an integer, 1 or more, not '5'"),
        ({"shards": 5, "epochs": 0}, "epochs must be an integer, 1 or more, not 0"),
        ({"shards": 5, "epochs": True}, "epochs must be an integer, 1 or more, not True"),
    ],
)
def test_numbers_that_cannot_be_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], complaint: str
) -> None:
    monkeypatch.delenv("SCHED_URL", raising=False)
    with pytest.raises(elastic.UsageError, match=complaint):
        elastic.ShardQueue(**given)


def test_the_most_shards_ahead_are_as_many_as_the_scheduler_gives(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site, shards=3)
    become_worker(monkeypatch, site, job_id)
    with elastic.ShardQueue(ahead=AHEAD_MAX) as shards:
        assert [shard.number for shard in shards] == [0, 1, 2]


def test_a_call_that_is_refused_is_not_made_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    worker = Environment.read(os.environ)
    assert worker is not None
    refusal = "the report of this shard reader: 422: want: must be at most"
    with closing(Scheduler(worker)) as scheduler, pytest.raises(Refused, match=refusal):
        scheduler.exchange(Call(want=2_000_000), lambda: True)


class Proxy(BaseHTTPRequestHandler):
    """Answers in the scheduler's place."""

    body = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


RIGHT = {"shards": 1, "given": [], "held": [], "refused": [], "end": True, "leave": False, "lease_seconds": 9}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        "ok",
        {**RIGHT, "given": [[1]]},
        {**RIGHT, "given": [["a", 0, 0]]},
        {**RIGHT, "held": 1},
        {**RIGHT, "lease_seconds": None},
        {**RIGHT, "shards": float("inf")},
    ],
)
def test_an_answer_that_is_not_the_schedulers_is_none(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(Proxy, "body", json.dumps(answer).encode())
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        worker = Environment.read(
            {
                "SCHED_URL": f"http://127.0.0.1:{proxy.server_port}",
                "SCHED_JOB_ID": "1",
                "SCHED_WORKER_ID": "1-1",
                "SCHED_TOKEN": "t",
            }
        )
        assert worker is not None
        with closing(Scheduler(worker)) as scheduler:
            assert scheduler.exchange(Call(want=1), lambda: False) is None
            monkeypatch.setattr(Proxy, "body", json.dumps(RIGHT).encode())
            assert scheduler.exchange(Call(want=1), lambda: False) == Answer(end=True, lease_seconds=9.0)
        proxy.shutdown()


class Broken:
    """A source with a fault that nobody has thought of."""

    def exchange(self, call: Call, goes_on: Callable[[], bool]) -> Answer | None:
        raise LookupError("no such thing")

    def close(self) -> None:
        """Nothing is used."""


def test_a_fault_of_the_thread_that_gets_shards_is_the_readers_error() -> None:
    holder = Holder(Broken(), 2, 1.0)
    with pytest.raises(elastic.ElasticError, match="no more shards can be had: LookupError"):
        holder.take(lambda: False, in_parts=False)
    holder.close()


def test_a_loop_of_a_worker_whose_token_is_refused_ends_with_the_schedulers_words(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    monkeypatch.setenv("SCHED_TOKEN", "another")
    refusal = "the report of this shard reader: 401: missing or invalid token: the worker token of this job is required"
    with elastic.ShardQueue() as shards:
        for look in (lambda: next(iter(shards)), shards.commit, shards.over):
            with pytest.raises(elastic.ElasticError, match=refusal):
                look()


@pytest.mark.parametrize("processes", [0, 2])
def test_a_loader_ends_with_the_schedulers_words(site: Site, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    job_id = running(site)
    become_worker(monkeypatch, site, job_id)
    monkeypatch.setenv("SCHED_TOKEN", "another")
    data = elastic.ShardedDataset(lambda shard: torch.zeros(shard.number))
    loader = DataLoader(data, batch_size=7, num_workers=processes, collate_fn=data.collate)
    with elastic.ShardQueue() as shards, pytest.raises(elastic.ElasticError, match="401"):
        list(data.batches(shards, loader))
