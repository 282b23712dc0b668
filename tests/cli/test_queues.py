"""`sched queue`, and jobs of a queue."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.calls import Call
from tests.cli.test_completion import completed
from tests.daemon import running_daemon
from tests.eventually import becomes

Sched = Callable[..., Call]


def listed(sched: Sched, *options: str) -> tuple[list[str], list[str]]:
    """Queues of the jobs that a list shows, and of the recurring ones."""
    found = sched("list", "-o", "json", *options).ok().document
    return [each["queue"] for each in found["jobs"]], [each["queue"] for each in found["recurring"]]


def test_queues_are_set_shown_used_and_deleted(alone: Sched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_daemon(tmp_path, slots=2) as daemon:
        monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))
        assert alone("queue", "list").ok().err == "no queues: create one with sched queue create PATH\n"
        rules = (
            "--guarantee",
            "1",
            "--guarantee",
            "H100=4",
            "--limit",
            "16",
            "--weight",
            "2",
            "--max-jobs",
            "5",
            "--budget",
            "5000",
        )
        said = alone("queue", "create", "lab", *rules, "--share-users").ok()
        assert said.out == "queue lab created\n"
        assert said.err.startswith("sched: queue lab: no node has GPU type H100 now, and it counts once one has")
        alone("queue", "create", "lab/vision", "--member", "ann", "--member", "@lab").ok()
        said = alone("queue", "set", "lab", "--limit", "none", "--guarantee", "H100=none", "--user-limit", "3").ok()
        assert said.out == "queue lab set\n"
        lab = alone("queue", "show", "lab", "-o", "json").ok().document
        assert (lab["limit"], lab["guarantee"], lab["user_limit"], lab["weight"]) == ({}, {"*": 1}, 3, 2.0)
        assert (lab["share_users"], lab["max_jobs"], lab["budget"]) == (True, 5, 5000)
        assert "5,000 slot-hours" in alone("queue", "show", "lab").ok().out
        said = alone("queue", "members", "lab/vision", "--add", "bob", "--remove", "ann").ok()
        assert said.out.split() == ["@lab", "bob"]
        job = alone("submit", "--queue", "lab/vision", "-o", "json", "--", "sleep", "60").ok().document["id"]
        assert "lab/vision" in alone("show", str(job)).ok().out
        assert "QUEUE" in alone("list").ok().out
        alone("submit", "--cron", "0 3 * * *", "--queue", "lab", "--name", "nightly", "--", "true").ok()
        assert listed(alone, "--queue", "lab") == (["lab/vision"], ["lab"])
        assert listed(alone, "--queue", "lab/vision") == (["lab/vision"], [])
        alone("queue", "create", "empty").ok()
        assert listed(alone, "--queue", "empty") == ([], [])
        alone("list", "--queue", "la").failed(3, "queue 'la' does not exist: there are empty, lab")
        alone("list", "--queue", "lab/").failed(2, "--queue: each name must be 1 to 63 of")
        tree = alone("queue", "list").ok().out
        assert all(word in tree for word in ("lab", "  vision", "@lab bob"))
        alone("queue", "delete", "lab").failed(4, "queue lab contains lab/vision: delete what is inside first")
        becomes(lambda: completed("sched queue show lab/", str(daemon.state_dir)), ["lab/vision"])
        alone("queue", "set", "lab", "--max-jobs", "1").ok()
        full = alone("submit", "--queue", "lab", "--", "true").failed(7, "of at most 1: wait until some have ended")
        assert "may have been submitted" not in full.err
        alone("cancel", str(job)).ok()
        becomes(lambda: alone("queue", "delete", "lab/vision").status, 0)
        assert listed(alone, "--queue", "lab/vision", "--all") == (["lab/vision"], []), "jobs outlive their queue"
        alone("queue", "delete", "lab").failed(
            4, "queue lab is named by the recurring job r1: cancel what names it first"
        )
        alone("cancel", "r1").ok()
        assert alone("queue", "delete", "lab").ok().out == "queue lab deleted\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "Lab"), "PATH: each name must be 1 to 63 of"),
        (("create", "a", "--limit", "many"), "--limit: must be a whole number, or none, not 'many'"),
        (
            ("create", "a", "--guarantee", "H100=4,A100=2"),
            "--guarantee: must be a number of slots, or GPU=SLOTS with each",
        ),
        (("create", "a", "--guarantee", "H100==4"), "--guarantee: must be a number of slots, or GPU=SLOTS"),
        (("create", "a", "--limit", "H100 =4"), "--limit H100 : must not begin or end with a space, not 'H100 '"),
        (
            ("create", "a", "--member", "none", "--member", "ann"),
            "--member: none takes all away: it cannot be combined",
        ),
        (("create", "a", "--member", "ann,bob"), "--member: must be the name of a user, without spaces and commas"),
        (("create", "a", "--member", "a b"), "--member: must be the name of a user, without spaces and commas"),
        (("members", "a", "--add", "@"), "--add: must be the name of a user, without spaces and commas"),
        (("create", "a", "--weight", "nan"), "--weight: must be a number, or none, not 'nan'"),
        (("set", "a", "--weight", "inf"), "--weight: must be a number, or none, not 'inf'"),
        (("create", "a", "--limit", "4", "--limit", "5"), "--limit: must be a number of slots, or GPU=SLOTS"),
        (("create", "a", "--limit", "4", "--limit", "none"), "--limit: none takes all away"),
        (
            ("create", "a", "--limit", "4", "--guarantee", "5"),
            "beside the limit of 4 slots of any GPU type: guarantee at most 4, or raise the limit",
        ),
        (
            ("create", "a", "--limit", "1", "--guarantee", "H100=8"),
            "--guarantee: 8 slots of GPU type H100 cannot be guaranteed beside the limit of 1 slot of any GPU type",
        ),
        (("set", "a"), "give what to change, such as --limit 16 or --limit none"),
        (
            ("members", "a", "--add", "ann", "--remove", "ann"),
            "--remove: must not name ann, who is to be added as well",
        ),
        (("create", "a", "--guarantee", "1" + "0" * 20), "--guarantee: must be at most 10000000, not 1" + "0" * 20),
        (("set", "a", "--limit", "1"), "queue 'a' does not exist: there are no queues"),
        (("show", "a/b"), "queue 'a/b' does not exist"),
        (("show", "."), "PATH: each name must be 1 to 63 of"),
        (("set", "..", "--limit", "4"), "PATH: each name must be 1 to 63 of"),
        (("delete", "../tokens/1"), "PATH: each name must be 1 to 63 of"),
        (("delete", "a"), "queue 'a' does not exist"),
    ],
)
def test_what_cannot_be_is_one_line(sched: Sched, words: tuple[str, ...], said: str) -> None:
    call = sched("queue", *words)
    assert call.status != 0
    call.failed(call.status, said)
