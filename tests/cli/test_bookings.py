"""`sched book`, `bookings`, `unbook` and jobs of a booking."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.calls import Call
from tests.cli.test_completion import completed
from tests.daemon import running_daemon
from tests.eventually import becomes

Sched = Callable[..., Call]


def test_capacity_is_booked_listed_used_and_given_up(
    alone: Sched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_daemon(tmp_path, slots=3) as daemon:
        monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))
        assert alone("bookings").ok().err == "no bookings\n"
        said = alone("book", "night", "--slots", "2", "--start", "in 2h", "--duration", "90m", "--user", "ann").ok()
        assert said.out.startswith("booking night: 2 slots from ")
        assert said.out.endswith(" for 1h 30m\n")
        table = alone("bookings").ok().out
        assert all(word in table for word in ("night", "0/2", "ann"))
        job = alone("submit", "--booking", "night", "--user", "ann", "-o", "json", "--", "true").ok().document["id"]
        assert "night" in alone("show", str(job)).ok().out
        alone("submit", "--booking", "night", "--user", "bob", "--", "true").failed(
            2, "--booking: booking night is reserved for user ann"
        )
        becomes(lambda: completed("sched unbook n", str(daemon.state_dir)), ["night"])
        refused = alone("unbook", "night", "day", "-o", "json")
        assert refused.document == {
            "accepted": ["night"],
            "refused": [{"name": "day", "message": "booking day not found"}],
        }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slots", "1", "--start", "soon"), "--start: 'soon' is not a valid time: use 18:00"),
        (("--slots", "9999"), "it needs 9999 slots"),
        (("--nodes", "2"), "--nodes: 2 exceeds the number of suitable nodes, 1"),
        ((), "--slots: either slots or nodes must be given"),
    ],
)
def test_what_cannot_be_booked_is_one_line(sched: Sched, words: tuple[str, ...], said: str) -> None:
    call = sched("book", "b", "--duration", "1h", *words)
    assert call.status != 0
    call.failed(call.status, said)
