"""Two users of one machine in queues of their own: each has half when both want all, and nobody is stopped for it."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon import ROOT, running_daemon
from tests.eventually import becomes, eventually

ADMIN = {"Authorization": "Bearer 0123456789abcdef"}
SLOTS, SHARDS = 8, 6000
END_SECONDS_MAX = 300.0


class User:
    """Somebody with a token, who is a member of one queue."""

    def __init__(self, url: str, name: str, queue: str) -> None:
        with httpx.Client(base_url=url, headers=ADMIN, timeout=60) as admin:
            assert admin.post("/v1/queues", json={"path": queue, "members": [name]}).status_code == 201
            made = admin.post("/v1/tokens", json={"user": name, "role": "user"}).json()
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {made['token']}"}, timeout=60)

    def close(self) -> None:
        self.client.close()

    def submit(self, notes: Path, shards: int) -> int:
        """An elastic job that could use all slots, in the user's own queue."""
        request = {
            "command": [sys.executable, "-m", "tests.e2e.shard_reader", str(notes)],
            "workdir": str(ROOT),
            "env": {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            "min_workers": 1,
            "max_workers": SLOTS,
            "data": {"shards": shards, "shuffle": True},
        }
        answer = self.client.post("/v1/jobs", json=request)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def view(self, job: int) -> dict[str, Any]:
        document: dict[str, Any] = self.client.get(f"/v1/jobs/{job}").json()
        return document

    def size(self, job: int) -> int:
        return int(self.view(job)["workers"])


@pytest.mark.slow
@pytest.mark.torch
def test_two_users_have_half_each_and_the_one_who_stays_has_all_again(tmp_path: Path) -> None:
    notes = {name: tmp_path / name for name in ("ann", "bob")}
    with running_daemon(tmp_path, slots=SLOTS, http={"token": "0123456789abcdef"}) as daemon:
        ann, bob = User(daemon.url, "ann", "left"), User(daemon.url, "bob", "right")
        of_ann = ann.submit(notes["ann"], SHARDS)
        becomes(lambda: ann.size(of_ann), SLOTS, END_SECONDS_MAX)
        assert ann.view(of_ann)["queue"] == "left"
        of_bob = bob.submit(notes["bob"], SHARDS)

        def sizes() -> tuple[int, int]:
            return ann.size(of_ann), bob.size(of_bob)

        becomes(sizes, (SLOTS // 2, SLOTS // 2), END_SECONDS_MAX)
        refused = bob.client.post(f"/v1/jobs/{of_ann}/cancel")
        assert refused.status_code == 403, refused.text
        assert bob.client.post(f"/v1/jobs/{of_bob}/cancel").status_code < 300
        becomes(lambda: ann.size(of_ann), SLOTS, END_SECONDS_MAX)
        events = ann.client.get("/v1/events", params={"limit": 1000}).json()["events"]
        eventually(lambda: ann.view(of_ann)["state"] == "SUCCEEDED", daemon.log, END_SECONDS_MAX)
        ann.close()
        bob.close()
    kinds = Counter(event["kind"] for event in events if event["job_id"] == of_ann)
    assert not {kind for kind in kinds if "STOP" in kind or "FAIL" in kind}, kinds
    lines = [line.split() for line in notes["ann"].read_text().splitlines()]
    committed = Counter(int(number) for what, number in lines if what == "committed")
    assert set(committed) == set(range(SHARDS))
    assert set(committed.values()) == {1}, "a shard counted twice"
