"""Slots that take no new workers, as the API, explain and the metrics show them."""

from pathlib import Path

from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.http.site import Site
from tests.http.test_explain import explain
from tests.http.test_explain_room import parts, ways
from tests.http.test_idle import idle
from tests.metrics.observed import Observed, value

USED = ClosedSlot(0, SlotClosure.FOREIGN, "used by process 4242 (python)")
BROKEN = ClosedSlot(2, SlotClosure.UNHEALTHY, "Xid 79: GPU has fallen off the bus")
UNREADABLE = ClosedSlot(3, SlotClosure.UNREADABLE, "NVML: Driver Not Loaded")


def with_closed(site: Site, *slots: ClosedSlot) -> None:
    site.node("a", slots=4, has_gpus=True, closed_slots=slots)


def test_nodes_show_their_closed_slots(site: Site) -> None:
    with_closed(site, USED, BROKEN)
    site.tick()
    (node,) = site.client.get("/v1/nodes").json()["nodes"]
    assert (node["slots"], node["slots_used"], node["slots_foreign"]) == (4, 0, 1)
    assert node["closed_slots"] == [
        {"slot": 0, "closure": "FOREIGN", "detail": USED.detail},
        {"slot": 2, "closure": "UNHEALTHY", "detail": BROKEN.detail},
    ]


def test_a_job_that_waits_for_closed_slots_names_them_and_what_opens_them(site: Site) -> None:
    with_closed(site, USED, BROKEN, UNREADABLE)
    job = site.submit(workers=4)
    site.advance(5)
    view = explain(site, job)
    assert view["reason"] == "NODES_UNAVAILABLE"
    assert view["summary"] == (
        "Waits for slots. 3 slots are closed to new workers: "
        "slot 0 of a (FOREIGN: used by process 4242 (python)), "
        "slot 2 of a (UNHEALTHY: Xid 79: GPU has fallen off the bus), "
        "slot 3 of a (UNREADABLE: NVML: Driver Not Loaded)."
    )
    assert view["would_change"] == [
        "The end of processes outside this scheduler on slot 0 of a.",
        'A reset or repair of slot 2 of a, then "sched uncordon a" where it stays closed.',
        "A GPU driver that answers, for slot 3 of a.",
    ]


def test_a_job_that_lacks_free_slots_besides_is_told_of_closed_ones_where_they_would_help(site: Site) -> None:
    with_closed(site, USED)
    site.submit(workers=2, priority=5)
    site.advance(5)
    job = site.submit(workers=2)
    site.advance(5)
    assert "slot 0 of a (FOREIGN: used by process 4242 (python))" in explain(site, job)["summary"]
    assert "The end of processes outside this scheduler on slot 0 of a." in ways(site, job)
    three = site.submit(workers=3)
    site.advance(5)
    assert "processes outside" not in ways(site, three)


def test_a_job_that_could_grow_is_told_of_closed_slots(site: Site) -> None:
    with_closed(site, USED)
    job = site.job("train", workers=(1, 4))
    site.settle()
    assert "1 slot is closed to new workers: slot 0 of a" in explain(site, job)["summary"]


def test_broken_slots_are_idle_and_those_that_others_use_are_not(site: Site) -> None:
    with_closed(site, USED, BROKEN)
    site.submit(workers=1)
    site.advance(5)
    assert parts(site) == [("SLOT_CLOSED", 1, None, None), ("FREE", 1, None, None)]
    sentence = "1 slot is closed to new workers: slot 2 of a (UNHEALTHY: Xid 79: GPU has fallen off the bus)."
    assert idle(site)["idle"][0]["sentence"] == sentence


def test_a_submission_that_closed_slots_delay_is_warned(site: Site) -> None:
    with_closed(site, BROKEN)
    site.tick()
    answer = site.client.post("/v1/jobs", json={"command": ["true"], "workers": 4})
    assert answer.json()["warnings"] == ["the job waits while these slots are closed to new workers: slot 2 of a"]


def test_metrics_tell_closed_slots_by_reason_and_all_slots_add_up(tmp_path: Path) -> None:
    world = Observed(tmp_path)
    world.node("a", slots=4, has_gpus=True, closed_slots=(USED, BROKEN, UNREADABLE))
    world.node("b", slots=2)
    world.job("train", workers=2)
    world.settle()

    def slots(state: str, node: str = "a") -> float:
        return value(world.metrics, "sched_slots", node=node, state=state)

    assert sum(value(world.metrics, "sched_slots", node=node) for node in "ab") == 6
    states = ("foreign", "unhealthy", "unavailable")
    assert [slots(state) for state in states] == [1, 1, 1]
    assert [slots(state, "b") for state in states] == [0, 0, 0]
    assert value(world.metrics, "sched_closed_slots", node="a", closure="UNHEALTHY") == 1
    assert value(world.metrics, "sched_closed_slots", node="b") == 0
    assert value(world.metrics, "sched_node_changes_total", change="slots_closed") == 3
    held = world.job("holds", workers=1, selector=None)
    world.settle()
    assert world.get(held).workers[0].slot_ids == (1,)
    world.node("a", slots=4, has_gpus=True, closed_slots=(USED, ClosedSlot(1, SlotClosure.FOREIGN), BROKEN, UNREADABLE))
    world.settle()
    assert (slots("used"), slots("foreign")) == (1, 1), "what a worker holds counts as used"
    assert value(world.metrics, "sched_closed_slots", node="a", closure="FOREIGN") == 2
    world.close()
