"""Readers take shards and report over HTTP, to whichever replica; users see how far it is."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from scheduler.model.ids import JobId
from tests.http.site import Site


def exchange(site: Site, job_id: JobId, worker: int, sequence: int, **body: Any) -> httpx.Response:
    return site.client.post(
        f"/v1/jobs/{job_id}/workers/{job_id}-{worker}/shards",
        json={"reader": "r", "sequence": sequence, **body},
        headers=site.worker_header(job_id),
    )


def running(site: Site, workers: int = 2, **data: Any) -> JobId:
    job_id = site.submit(workers=workers, data={"shards": 10, **data})
    site.advance(1)
    return job_id


def test_a_reader_takes_shards_and_reports_them(site: Site) -> None:
    job_id = running(site, epochs=2, lease_seconds=30)
    first = exchange(site, job_id, 1, 1, want=2)
    assert first.json() == {
        "given": [[0, 0, 0], [1, 0, 1]],
        "held": [[0, 2]],
        "refused": [],
        "end": False,
        "leave": False,
        "lease_seconds": 30.0,
        "shards": 10,
        "epochs": 2,
    }
    assert exchange(site, job_id, 1, 1, want=2).json() == first.json(), "a repeat changes nothing"
    second = exchange(site, job_id, 1, 2, done=[[0, 1], [17, 18]], want=2).json()
    assert (second["given"], second["refused"]) == ([[2, 0, 2]], [[17, 18]])
    exchange(site, job_id, 2, 1, want=100)
    last = exchange(site, job_id, 1, 3, returned=[[1, 3]]).json()
    assert (last["held"], last["end"]) == ([], False)


def test_calls_that_a_group_had_no_time_for_are_made_in_the_next_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.http.runtime.shard_batcher.GROUP_SECONDS_MAX", 0.0)
    job_id = running(site)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: exchange(site, job_id, 1 + n % 2, 1, reader=f"r{n}", want=1), range(8)))
    assert sorted(answer.json()["given"][0][0] for answer in answers) == list(range(8))


def test_shards_are_counted_by_what_became_of_them_and_once(site: Site) -> None:
    job_id = running(site)
    for _ in range(3):
        exchange(site, job_id, 1, 1, want=4)
    for _ in range(3):
        exchange(site, job_id, 1, 2, done=[[0, 1]], failed=[[1, 2]], returned=[[2, 3], [7, 9]])
    assert site.services.shards.shards == {"given": 4, "done": 1, "failed": 1, "returned": 1}
    assert site.services.shards.answered == 6


@pytest.mark.parametrize("field", ["done", "failed", "returned"])
@pytest.mark.parametrize(
    ("span", "which"),
    [
        ([9, 11], "position 10 does"),
        ([8, 13], "positions 10 to 12 do"),
        ([10**12, 10**12 + 1], f"position {10**12} does"),
    ],
)
def test_a_position_that_the_job_does_not_have_is_an_error(site: Site, field: str, span: list[int], which: str) -> None:
    job_id = running(site)
    exchange(site, job_id, 1, 1, want=10)
    answer = exchange(site, job_id, 1, 2, **{field: [[0, 1], span]})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert answer.json()["error"]["message"].endswith(f"{which} not exist: the data of the job has positions 0 to 9")
    assert exchange(site, job_id, 1, 2).json()["held"] == [[0, 10]], "nothing of it was taken"


def test_a_reader_is_told_to_call_within_its_workers_heartbeat(site: Site) -> None:
    job_id = site.submit(data={"shards": 10}, heartbeat_seconds=7)
    site.advance(1)
    assert exchange(site, job_id, 1, 1, want=1).json()["lease_seconds"] == 7.0


def test_a_shuffled_order_is_told_by_the_scheduler(site: Site) -> None:
    job_id = running(site, shuffle=True, seed=4, epochs=2)
    given = exchange(site, job_id, 1, 1, want=20).json()["given"]
    assert [position for position, _, _ in given] == list(range(20))
    epochs = [[shard for _, epoch, shard in given if epoch == number] for number in (0, 1)]
    assert all(sorted(shards) == list(range(10)) for shards in epochs)
    assert epochs[0] != epochs[1]


def test_the_job_shows_how_far_its_data_is(site: Site) -> None:
    job_id = running(site, max_attempts=1)
    assert site.client.get(f"/v1/jobs/{job_id}").json()["data_progress"]["done"] == 0
    exchange(site, job_id, 1, 1, want=5)
    exchange(site, job_id, 1, 2, done=[[0, 2]], failed=[[3, 4]], detail="no such file")
    view = site.client.get(f"/v1/jobs/{job_id}").json()
    assert view["data"] == {
        "shards": 10,
        "epochs": 1,
        "shuffle": False,
        "seed": 0,
        "lease_seconds": 60.0,
        "max_attempts": 1,
    }
    [aside] = view["data_progress"].pop("first_set_aside")
    [holder] = view["data_progress"].pop("holders")
    assert holder == {"worker": f"{job_id}-1", "held": 2, "heard_at": site.clock.now()}
    assert view["data_progress"] == {"total": 10, "done": 2, "held": 2, "epoch": 0, "set_aside": 1}
    assert (aside["epoch"], aside["shard"], aside["detail"]) == (0, 3, "no such file")
    told = site.client.get("/v1/events", params={"job": job_id, "limit": 100}).json()["events"]
    assert [event["detail"] for event in told if event["kind"] == "SHARDS_SET_ASIDE"] == [
        "shard 3 of epoch 0: no such file"
    ]


def test_what_a_silent_reader_has_lost_is_held_by_nobody(site: Site) -> None:
    job_id = running(site, lease_seconds=10)
    exchange(site, job_id, 1, 1, want=3)
    site.advance(6)
    exchange(site, job_id, 2, 1, want=1)
    site.advance(6)
    progress = site.client.get(f"/v1/jobs/{job_id}").json()["data_progress"]
    assert progress["held"] == 1
    assert [(holder["worker"], holder["held"]) for holder in progress["holders"]] == [(f"{job_id}-2", 1)]


def test_a_job_without_data_shows_none(site: Site) -> None:
    job_id = site.submit()
    site.advance(1)
    view = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (view["data"], view["data_progress"]) == (None, None)
    refused = exchange(site, job_id, 1, 1, want=1)
    assert (refused.status_code, refused.json()["error"]["message"]) == (404, f"job {job_id} has not declared data")


def test_who_is_not_of_the_job_now_gets_a_clear_answer(site: Site) -> None:
    job_id = running(site)
    fenced = exchange(site, job_id, 7, 1, want=1)
    assert fenced.status_code == 409
    assert fenced.json()["error"]["message"] == (
        f"worker {job_id}-7 is fenced: it does not belong to job {job_id} (any more)"
    )
    exchange(site, job_id, 1, 5)
    assert exchange(site, job_id, 1, 4).json()["error"]["message"] == "call 4 of the reader is older than call 5"
    path = f"/v1/jobs/{job_id}/workers/{job_id}-1/shards"
    assert site.client.post(path, json={"reader": "r", "sequence": 9}).status_code == 401
    other = f"/v1/jobs/{job_id}/workers/999-1/shards"
    assert site.client.post(other, json={}, headers=site.worker_header(job_id)).json()["error"]["field"] == "worker_id"


def test_a_worker_that_is_asked_to_leave_keeps_its_word_and_gets_nothing_new(site: Site) -> None:
    job_id = site.submit(min_workers=1, max_workers=2, data={"shards": 10})
    site.advance(1)
    exchange(site, job_id, 2, 1, want=2)
    site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 1})
    site.tick()
    answer = exchange(site, job_id, 2, 2, done=[[0, 1]], returned=[[1, 2]], want=5).json()
    assert (answer["leave"], answer["given"], answer["refused"]) == (True, [], [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reader": ""}, "reader"),
        ({"reader": "a b"}, "reader"),
        ({"sequence": 0}, "sequence"),
        ({"want": -1}, "want"),
        ({"done": [[1]]}, "done.0"),
        ({"returned": [[2 * n, 2 * n + 1] for n in range(1001)]}, "returned"),
        ({"done": [[-1, 3]]}, "done.0.0"),
        ({"done": [["1", 3]]}, "done.0.0"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_call_is_checked_like_any_other_input(still_site: Site, body: dict[str, Any], field: str) -> None:
    answer = still_site.client.post(
        "/v1/jobs/1/workers/1-1/shards",
        json={"reader": "r", "sequence": 1, **body},
        headers=still_site.worker_header(JobId(1)),
    )
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "data.shards"),
        ({"shards": 0}, "data.shards"),
        ({"shards": "many"}, "data.shards"),
        ({"shards": 1, "epochs": 0}, "data.epochs"),
        ({"shards": 1, "max_attempts": 0}, "data.max_attempts"),
        ({"shards": 1, "lease_seconds": 0.5}, "data.lease_seconds"),
        ({"shards": 1, "files": ["a"]}, "data.files"),
        (5, "data"),
    ],
)
def test_a_data_set_is_checked_when_it_is_submitted(still_site: Site, data: Any, field: str) -> None:
    answer = still_site.client.post("/v1/jobs", json={"command": "true", "data": data})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert "Request" not in answer.json()["error"]["message"]


def test_what_was_lost_while_the_store_was_away_is_no_silence_of_readers(site: Site) -> None:
    job_id = running(site, lease_seconds=10)
    exchange(site, job_id, 1, 1, want=3)
    site.stand_still(100)
    site.tick()
    answer = exchange(site, job_id, 2, 1, want=1).json()
    assert answer["given"] == [[3, 0, 3]], "the daemon stood still, and heard nobody meanwhile"
    site.clock.advance(9)
    assert exchange(site, job_id, 1, 2, done=[[0, 3]]).json()["refused"] == []
