"""Slots that take no new workers: used by others, unhealthy, or unreadable."""

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.world import World

FOREIGN, UNHEALTHY, UNREADABLE = SlotClosure.FOREIGN, SlotClosure.UNHEALTHY, SlotClosure.UNREADABLE
TOLD = (EventKind.NODE_SLOTS_CLOSED, EventKind.NODE_SLOTS_OPENED)


def closed(*slots: int, by: SlotClosure = FOREIGN, detail: str = "why") -> tuple[ClosedSlot, ...]:
    return tuple(ClosedSlot(slot, by, detail) for slot in slots)


def node(w: World, *groups: tuple[ClosedSlot, ...], slots: int = 4, name: str = "a", **facts: object) -> None:
    """The node with these closed slots."""
    every = sorted((each for group in groups for each in group), key=lambda each: each.slot)
    w.node(name, slots=slots, closed_slots=tuple(every), **facts)


def held(w: World, job: JobId) -> set[int]:
    """Slots that its workers have."""
    return {slot for worker in w.get(job).all_workers for slot in worker.slot_ids}


def told(w: World) -> list[tuple[EventKind, str, str]]:
    return [(event.kind, event.cause, event.detail) for event in w.events(*TOLD)]


def ends(w: World, job: JobId) -> list[Event]:
    return [event for event in w.events(EventKind.WORKER_ENDED) if event.job_id == job]


@pytest.mark.parametrize("why", list(SlotClosure))
def test_closed_slots_are_given_to_nobody_until_they_open(why: SlotClosure, w: World) -> None:
    node(w, closed(0, 2, by=why))
    job = w.job("train", workers=(1, 4))
    w.settle()
    assert held(w, job) == {1, 3}
    node(w)
    w.settle()
    assert held(w, job) == {0, 1, 2, 3}


def test_a_gang_waits_for_closed_slots(w: World) -> None:
    node(w, closed(3))
    job = w.job("train", workers=4)
    w.settle()
    w.expect(job, JobState.QUEUED)
    node(w)
    w.settle()
    w.expect(job, JobState.RUNNING, workers=4)


@pytest.mark.parametrize("why", [FOREIGN, UNREADABLE])
def test_workers_stay_on_slots_that_others_come_to_use_or_that_cannot_be_read(why: SlotClosure, w: World) -> None:
    node(w)
    job = w.job("train", workers=(1, 4))
    w.settle()
    node(w, closed(0, 1, 2, 3, by=why))
    w.settle()
    w.expect(job, JobState.RUNNING, workers=4)


def test_a_closed_slot_is_not_given_out_again_when_its_worker_ends(w: World) -> None:
    node(w)
    first = w.job("first", workers=2)
    w.settle()
    assert held(w, first) == {0, 1}
    node(w, closed(0))
    w.ask_cancel(first)
    late = w.job("late", workers=(1, 4))
    w.settle()
    assert held(w, late) == {1, 2, 3}


def test_workers_move_off_unhealthy_slots_of_the_same_node(w: World) -> None:
    node(w)
    job = w.job("train", workers=(2, 3))
    w.settle()
    assert held(w, job) == {0, 1, 2}
    node(w, closed(1, by=UNHEALTHY))
    w.settle()
    assert held(w, job) == {0, 2, 3}
    w.expect(job, JobState.RUNNING, workers=3)
    assert [event.cause for event in w.events(EventKind.JOB_SHRANK)] == ["DRAINED"]
    assert w.get(job).retries_used == 0


def test_a_rigid_job_on_an_unhealthy_slot_starts_again_elsewhere(w: World) -> None:
    node(w)
    job = w.job("train", workers=2, runtime=Runtime.COMMAND)
    w.settle()
    node(w, closed(0, by=UNHEALTHY))
    w.settle()
    assert held(w, job) == {1, 2}
    found = w.get(job)
    assert (found.attempt, found.retries_used) == (2, 0)


def test_a_worker_that_fails_on_an_unhealthy_slot_uses_no_retry_and_is_replaced_elsewhere(w: World) -> None:
    node(w)
    job = w.job("train", workers=1, max_retries=0)
    w.settle()
    assert held(w, job) == {0}
    node(w, closed(0, by=UNREADABLE, detail="NVML: Driver Not Loaded"))
    w.settle()
    w.cluster.crash(WorkerId("1-1"), 1)
    w.settle()
    (end,) = ends(w, job)
    assert (end.cause, end.detail) == ("LOST", "slot 0: NVML: Driver Not Loaded")
    assert held(w, job) == {1}
    assert w.get(job).retries_used == 0


def test_each_change_is_one_event(w: World) -> None:
    node(w, closed(1, 2, by=UNREADABLE, detail="NVML: Unknown Error"), closed(3, detail="used by process 7 (python)"))
    w.settle()
    node(w, closed(1, by=UNHEALTHY, detail="Xid 79"), closed(3, detail="used by process 8 (python)"))
    w.settle()
    node(w)
    w.settle()
    closes, opens = TOLD
    assert told(w) == [
        (closes, "FOREIGN", "slot 3: used by process 7 (python)"),
        (closes, "UNREADABLE", "slots 1, 2: NVML: Unknown Error; workers there go on"),
        (closes, "UNHEALTHY", "slot 1: Xid 79; workers there are moved off"),
        (opens, "UNREADABLE", "slot 2"),
        (opens, "OBSERVED", "slots 1, 3"),
    ]


def test_a_node_that_gets_more_slots_says_so_once(w: World) -> None:
    node(w, slots=2)
    w.settle()
    node(w, slots=3)
    w.settle()
    (event,) = w.events(EventKind.NODE_RESIZED)
    assert (event.node, event.detail, event.amount) == ("a", "2 -> 3 slots", 1.0)


def test_closed_slots_outlive_the_engine_and_are_not_told_twice(w: World) -> None:
    node(w, closed(0, by=UNHEALTHY))
    w.settle()
    w.kill_engine()
    w.settle()
    assert len(told(w)) == 1


def test_a_user_lets_a_fault_pass_until_there_is_another(w: World) -> None:
    fault = closed(0, by=UNHEALTHY, detail="2 uncorrectable ECC errors")
    node(w, fault, closed(1))
    job = w.job("train", workers=(1, 4))
    w.settle()
    assert held(w, job) == {2, 3}
    w.ask(IntentKind.UNCORDON, node=NodeName("a"))
    w.settle()
    assert held(w, job) == {0, 2, 3}, "what others use is not the user's to give"
    w.kill_engine()
    w.settle()
    assert held(w, job) == {0, 2, 3}
    node(w, closed(0, by=UNHEALTHY, detail="3 uncorrectable ECC errors"), closed(1))
    w.settle()
    assert held(w, job) == {2, 3}
    w.ask(IntentKind.UNCORDON, node=NodeName("a"))
    w.settle()
    node(w, closed(1))
    w.settle()
    node(w, fault, closed(1))
    w.settle()
    assert held(w, job) == {2, 3}, "a fault that was gone counts again"


def test_nobody_shares_a_closed_slot(w: World) -> None:
    node(w, closed(0, 1), slots=4, oversell=1.5)
    owner = w.job("owner", workers=2)
    sharer = w.job("sharer", workers=(1, 4), oversell=True)
    w.settle()
    assert held(w, owner) == {2, 3}
    assert held(w, sharer) <= {2, 3}
    w.expect(sharer, JobState.RUNNING, workers=1)


def test_who_shares_an_unhealthy_slot_leaves_it(w: World) -> None:
    node(w, slots=2, oversell=2.0)
    w.job("owner", workers=2)
    sharer = w.job("sharer", workers=(1, 2), oversell=True)
    w.settle()
    assert held(w, sharer) == {0, 1}
    node(w, closed(0, by=UNHEALTHY), slots=2, oversell=2.0)
    w.settle()
    assert held(w, sharer) == {1}


def test_slots_that_are_reserved_and_close_are_reserved_no_more(w: World) -> None:
    node(w)
    low = w.job("low", workers=4, priority=0, grace_seconds=30.0)
    w.settle()
    w.cluster.behave(low, Behaviour(leave_seconds=20.0))
    high = w.job("high", workers=4, priority=9)
    w.advance(2.0)
    node(w, closed(0, by=UNHEALTHY))
    w.settle()
    w.expect(high, JobState.QUEUED, workers=0)
    node(w)
    w.settle()
    w.expect(high, JobState.RUNNING, workers=4)


def test_a_booking_is_not_promised_slots_that_are_closed_while_it_is_open(w: World) -> None:
    node(w)
    w.book("class", slots=3, start=60.0, duration=600.0)
    other = w.job("other", workers=(1, 4))
    w.advance(30.0)
    node(w, closed(3))
    w.advance(60.0)
    inside = w.job("inside", workers=3, booking="class")
    w.advance(60.0)
    w.expect(inside, JobState.RUNNING, workers=3)
    assert held(w, inside) == {0, 1, 2}
    w.expect(other, JobState.QUEUED)


def test_closed_slots_of_a_node_that_was_seen_first_with_them(w: World) -> None:
    node(w, closed(0, 1, 2, 3, by=UNREADABLE, detail="NVML: Driver Not Loaded"))
    w.tick()
    world = w.engine.world
    assert world is not None
    assert world.nodes[NodeName("a")].closed_mask == 0b1111
    assert len(told(w)) == 1


def test_a_job_that_needs_closed_slots_keeps_nobody_from_starting(w: World) -> None:
    node(w, closed(0, by=UNHEALTHY))
    large = w.job("large", workers=4, priority=9)
    rigid = w.job("rigid", workers=3, runtime=Runtime.COMMAND)
    w.settle()
    assert w.expect(large, JobState.QUEUED).wait_reason is WaitReason.NODES_UNAVAILABLE
    assert held(w, rigid) == {1, 2, 3}
