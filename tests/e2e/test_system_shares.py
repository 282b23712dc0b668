"""Two logins of one machine in one queue that is shared among its users: each has half while both want all of it."""

from collections import Counter
from pathlib import Path

import pytest

from tests.daemon import ROOT
from tests.e2e.system_site import SystemSite, system_site
from tests.eventually import becomes
from tests.logins import Login, needs_logins

pytestmark = [needs_logins, pytest.mark.slow, pytest.mark.torch]

SLOTS, SHARDS = 8, 4000
GRACE_SECONDS = 30
END_SECONDS_MAX = 300.0


def submit(site: SystemSite, login: Login) -> tuple[int, Path]:
    """An elastic job that could use all slots, and where its workers note the samples that they count.

    It does not hurry until there is a file `hurry` beside that.
    """
    notes = login.home / "notes"
    words = ("--workdir", str(ROOT), "--env", "OMP_NUM_THREADS=1", "--workers", f"1-{SLOTS}", "--queue", "lab")
    shards = ("--grace", f"{GRACE_SECONDS}s", "--data", f"shards={SHARDS}", "--data", "shuffle=true")
    reader = (site.python, "-m", "tests.e2e.shard_reader", str(notes), str(notes.with_name("hurry")))
    return site.submit(login, *words, *shards, "--", *reader), notes


def test_each_of_two_logins_has_half_and_who_stays_has_all_again() -> None:
    with system_site(slots=SLOTS) as site:
        made = site.root.post("/v1/queues", json={"path": "lab", "share_users": True})
        assert made.status_code == 201, made.text

        def sizes(*jobs: int) -> tuple[int, ...]:
            return tuple(int(site.job(job)["workers"]) for job in jobs)

        of_ann, notes = submit(site, site.ann)
        becomes(lambda: sizes(of_ann), (SLOTS,), END_SECONDS_MAX)
        of_bob, _ = submit(site, site.bob)
        becomes(lambda: sizes(of_ann, of_bob), (SLOTS // 2, SLOTS // 2), END_SECONDS_MAX)
        assert notes.stat().st_uid == site.ann.uid
        assert site.sched(site.ann, "cancel", str(of_bob)).returncode != 0
        assert site.sched(site.bob, "cancel", str(of_bob)).returncode == 0
        becomes(lambda: sizes(of_ann), (SLOTS,), END_SECONDS_MAX)
        notes.with_name("hurry").touch()
        happened = []
        for event in site.daemon.events(job=of_ann):
            happened.append(event)
            if event["kind"] in ("JOB_SUCCEEDED", "JOB_FAILED"):
                break
        lines = [line.split() for line in notes.read_text().splitlines()]
    kinds = Counter(event["kind"] for event in happened)
    assert kinds["JOB_SUCCEEDED"] == 1
    assert not {kind for kind in kinds if "STOP" in kind or "PREEMPT" in kind}, kinds
    killed = [event for event in happened if event["kind"] == "WORKER_ENDED" and "SIGKILL" in (event["detail"] or "")]
    assert not killed, "those that gave their slots left within the grace"
    committed = Counter(int(number) for what, number in lines if what == "committed")
    assert set(committed) == set(range(SHARDS))
    assert set(committed.values()) == {1}, "a sample counted twice"
