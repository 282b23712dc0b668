"""What people are told of the shares of queues: by the queue's view, by explain, and by the metrics."""

import re
from typing import Any

import pytest

from scheduler.model.queue_tree import QUEUES_MAX
from tests.http.queue_tree import crowd, plant
from tests.http.site import Site


@pytest.fixture
def divided(site: Site) -> Site:
    """4 slots, all held by one elastic job of the queue `left`; a job of `right`, which wants three, comes."""
    for path, fields in (("left", {}), ("right", {"guarantee": {"*": 1}})):
        assert site.client.post("/v1/queues", json={"path": path, **fields}).status_code == 201
    site.submit(min_workers=1, max_workers=4, queue="left")
    site.advance(10)
    site.submit(workers=3, queue="right")
    site.advance(1)
    return site


def view(site: Site, path: str) -> dict[str, Any]:
    answer = site.client.get(f"/v1/queues/{path}")
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def test_a_queue_says_what_it_holds_wants_and_is_entitled_to(divided: Site) -> None:
    left, right = view(divided, "left"), view(divided, "right")
    assert [left[f"slots_{name}"] for name in ("held", "wanted", "entitled", "guaranteed")] == [4, 4, 2, 0]
    assert [right[f"slots_{name}"] for name in ("held", "wanted", "entitled", "guaranteed")] == [0, 3, 2, 1]
    assert left["users"] == []


def test_explain_says_why_a_job_cannot_take_from_other_queues(divided: Site) -> None:
    job = divided.client.get("/v1/jobs").json()["jobs"][-1]["id"]
    summary = divided.client.get(f"/v1/jobs/{job}/explain").json()["summary"]
    assert "queues that hold more than they are entitled to, do not hold enough slots" in summary
    assert "Queue right holds 0 of the 2 slots that it is entitled to." in summary


def test_metrics_have_the_slots_of_each_queue(divided: Site) -> None:
    text = divided.client.get("/metrics").text
    assert 'sched_queue_slots{queue="left",state="held"} 4' in text
    assert 'sched_queue_slots{queue="right",state="entitled"} 2' in text
    for path in ("right", "left"):
        for job in divided.client.get("/v1/jobs").json()["jobs"]:
            divided.client.post(f"/v1/jobs/{job['id']}/cancel")
        divided.advance(60)
        assert divided.client.delete(f"/v1/queues/{path}").status_code == 200
        divided.advance(2)
    assert "sched_queue_slots{" not in divided.client.get("/metrics").text


def test_of_a_thousand_queues_and_their_users_metrics_have_four_series_for_each_queue(site: Site) -> None:
    crowd(site, plant(site, QUEUES_MAX, slots=4), jobs=1000, users=900)
    site.tick()
    shares = site.board.shares
    queues = {share.path for share in shares}
    assert any(share.user is not None for share in shares)
    assert QUEUES_MAX // 2 < len(queues) <= QUEUES_MAX + 1
    series = re.findall(r"^sched_queue_slots\{(.*?)\}", site.client.get("/metrics").text, re.MULTILINE)
    states = ("held", "wanted", "entitled", "guaranteed")
    assert sorted(series) == sorted(f'queue="{path}",state="{state}"' for path in queues for state in states)


def test_users_who_share_a_queue_are_told_of(site: Site) -> None:
    assert site.client.post("/v1/queues", json={"path": "lab", "share_users": True}).status_code == 201
    site.submit(min_workers=1, max_workers=4, queue="lab", user="ann")
    site.submit(min_workers=1, max_workers=4, queue="lab", user="bob")
    site.advance(10)
    assert [(user["user"], user["slots_held"], user["slots_entitled"]) for user in view(site, "lab")["users"]] == [
        ("ann", 2, 2),
        ("bob", 2, 2),
    ]


def test_explain_says_which_rule_of_a_queue_keeps_a_job(site: Site) -> None:
    limits = {"limit": {"*": 2}, "user_limit": 1, "guarantee": {"*": 1}}
    assert site.client.post("/v1/queues", json={"path": "lab", **limits}).status_code == 201
    runs = site.submit(min_workers=1, max_workers=4, queue="lab", user="ann")
    jobs = [
        site.submit(workers=3, queue="lab", user="bob"),
        site.submit(workers=2, queue="lab", user="ann"),
        site.submit(queue="lab", user="bob", preemptible=False),
        site.submit(queue="lab", user="cid", preemptible=False),
    ]
    site.advance(10)
    told = [site.client.get(f"/v1/jobs/{job}/explain").json() for job in (runs, *jobs)]
    assert "limits or guarantees of queue lab allow it no more" in told[0]["summary"]
    assert [view["reason"] for view in told[1:]] == ["QUEUE_LIMIT", "USER_LIMIT", None, "NOT_GUARANTEED"]
    assert "The limit of queue lab, or of one that contains it, does not allow it" in told[1]["summary"]
    assert "User ann has reached the limit that queue lab sets each user" in told[2]["summary"]
    assert "the guarantee of queue lab does not cover it" in told[4]["summary"]
    assert all(len(view["would_change"]) == 1 for view in (told[1], told[2], told[4]))
