"""What is published, and what is known of jobs without a posting."""

import json

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.board import Board, Known
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World


def test_a_running_job_is_posted_as_text_and_as_json_in_rank_order(w: World) -> None:
    w.node("a", slots=2)
    w.node("b", slots=1)
    job_id = w.job("j", workers=3)
    w.settle()
    posting = w.board.posting(job_id)
    assert posting is not None
    assert posting.text == b"host-a:2\nhost-b:1\n"
    body = json.loads(posting.body)
    assert [(m["rank"], m["host"]) for m in body["workers"]] == [(0, "host-a"), (1, "host-a"), (2, "host-b")]
    assert (body["generation"], body["min"], body["max"]) == (1, 3, 3)
    assert body["rendezvous"] == body["workers"][0]["endpoint"]
    assert posting.etag == f'"{job_id}-1"'


def test_a_leaving_worker_is_named_with_its_deadline(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("low", workers=(1, 2), grace_seconds=20.0)
    w.settle()
    w.job("high", priority=1)
    w.tick()
    posting = w.board.posting(job_id)
    assert posting is not None
    (leaving,) = json.loads(posting.body)["leaving"]
    assert leaving["until"] == w.clock.now() + 20.0
    assert posting.leaving == {leaving["id"]}


def test_what_is_known_of_jobs_that_are_not_posted(w: World) -> None:
    assert w.board.known(JobId(1)) is Known.NOT_LOADED
    w.node("a", slots=1)
    running, waiting = w.job("running"), w.job("waiting")
    w.tick()
    assert w.board.known(waiting) is Known.WAITING
    later = JobId(waiting + 1)
    assert w.board.known(later) is Known.UNKNOWN
    w.board.expect(later)
    assert w.board.known(later) is Known.WAITING
    w.ask_cancel(running)
    w.settle()
    w.expect(running, JobState.CANCELLED)
    assert w.board.known(running) is Known.ENDED


def test_subscribers_hear_of_changed_postings_only(w: World) -> None:
    heard: list[frozenset[JobId]] = []
    w.board.subscribe(heard.append)
    w.node("a", slots=1)
    job_id = w.job("j")
    w.settle()
    assert heard
    assert set().union(*heard) == {job_id}
    heard.clear()
    w.tick()
    assert not heard


def test_a_cleared_board_withdraws_everything(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j")
    w.settle()
    w.board.clear()
    assert w.board.posting(job_id) is None
    assert w.board.known(job_id) is Known.NOT_LOADED
    assert Board().world is None


def test_a_newcomer_that_is_lost_before_it_is_ready_is_no_longer_posted(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", workers=(1, 2), behaviour=Behaviour(runtime=Runtime.ELASTIC, ready_seconds=30.0))
    w.settle()
    w.node("b", slots=1)
    for _ in range(5):
        w.tick()
    before = w.get(job_id)
    first, newcomer = before.workers
    w.cluster.crash(newcomer.id)
    w.tick()
    after, posting = w.get(job_id), w.board.posting(job_id)
    assert (before.state, before.generation) == (after.state, after.generation) == (JobState.RESIZING, 1)
    assert posting is not None
    assert newcomer.id not in posting.live
    assert posting.live == {worker.id for worker in after.all_workers} >= {first.id}
