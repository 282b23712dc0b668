"""What `sched show` says of a job's data."""

from typing import Any

from scheduler.cli.render.datafields import data_rows


def told(epochs: int = 1, **progress: Any) -> dict[str, str]:
    known = {"total": 10, "done": 0, "held": 0, "holders": [], "epoch": 0, "set_aside": 0, "first_set_aside": []}
    return dict(data_rows({"data": {"epochs": epochs}, "data_progress": known | progress}, 1000.0))


def test_who_holds_shards_is_told_with_when_it_was_heard() -> None:
    holders = [{"worker": f"7-{n}", "held": n, "heard_at": 990.0 + n} for n in range(1, 7)]
    assert told(held=21, holders=holders[:2]) == {
        "data": "0 of 10 shards done (0%), 21 held",
        "held by": "7-1: 1 (last heard 9s ago), 7-2: 2 (last heard 8s ago)",
        "set aside": "",
    }
    assert told(holders=holders)["held by"].endswith("7-5: 5 (last heard 5s ago), and others")


def test_a_job_without_data_says_nothing_of_it() -> None:
    assert data_rows({"data": None, "data_progress": None}, 1000.0) == []


def test_the_percentage_is_of_what_is_done() -> None:
    assert told(done=9, set_aside=1)["data"] == "9 of 10 shards done (90%), 1 set aside"
    assert told(done=59_999, total=60_000, held=1)["data"] == "59,999 of 60,000 shards done (99%), 1 held"
    assert told(done=10)["data"] == "10 of 10 shards done (100%)"


def test_the_last_of_epochs_that_count_from_0_does_not_read_as_if_one_were_left() -> None:
    assert told(epochs=3, epoch=2)["data"] == "0 of 10 shards done (0%), epoch 2, 3 in all"
