"""What is held: as changes to store, and as a tick that goes on without it."""

import math
from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.attribution.failure import Failure
from scheduler.engine.attribution.set_aside import hold, set_aside, tried_without
from scheduler.engine.ports import Inbox, TickInputs
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Cause, Event, EventKind
from scheduler.model.foreign import Awaited, Demand, ForeignUse
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.node import Node, NodeIntent
from scheduler.model.observation import NodeObservation, Observation, Phase, WorkerObservation
from scheduler.model.shape import WorkerShape
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.unreadable import Unreadable
from scheduler.model.world import Changes, CrowdedSlot, World

A, B = NodeName("a"), NodeName("b")
NOW = 7.0
RAISED = Failure(Cause.TICK_RAISED, "KeyError: 3, in scheduler/policy/resize/rebalance.py:7 (share)")
HUNG = Failure(Cause.TICK_HUNG, "no end after 4 s, in scheduler/policy/resize/grow.py:9 (grow)")
UNTOLD = Failure(Cause.TICK_RAISED, "")


def inputs(world: World | None = None, inbox: Inbox | None = None, **fields: Any) -> TickInputs:
    return replace(TickInputs(NOW, world or World(), Observation({}, {}), inbox or Inbox((), ())), **fields)


def a_job(number: int, state: JobState = JobState.QUEUED, **fields: Any) -> Job:
    return replace(Job(JobId(number), JobSpec("j", ("train",)), 0, 1, 1, 0.0, 0.0, state), **fields)


def a_booking(name: str, start_at: float = 0.0) -> Booking:
    return Booking(name, start_at, start_at + 1.0, 1, WorkerShape(), 0.0, state=BookingState.PLANNED)


def job(number: int) -> Subject:
    return Subject(SubjectKind.JOB, str(number))


def node(name: str) -> Subject:
    return Subject(SubjectKind.NODE, name)


def booking(name: str) -> Subject:
    return Subject(SubjectKind.BOOKING, name)


def pod(name: str) -> Subject:
    return Subject(SubjectKind.POD, name)


def held_event(number: int, failure: Failure) -> Event:
    return Event(NOW, EventKind.JOB_HELD, JobId(number), cause=failure.cause, detail=failure.detail)


def test_a_held_job_waits_for_nothing_and_holds_no_place() -> None:
    waiting = a_job(
        1,
        wait_reason=WaitReason.BEHIND_RESERVATION,
        wait_for=JobId(9),
        reservation=((A, 1),),
        reservation_shared=True,
        fixed_reservation=((B, 1),),
        detail="before",
        retries_used=2,
    )
    assert hold(waiting, RAISED) == a_job(
        1, JobState.HELD, held_from=JobState.QUEUED, wait_reason=None, detail=RAISED.detail, retries_used=2
    )


def test_where_nothing_fails_nothing_changes() -> None:
    before = inputs(World.of([a_job(1)], []))
    assert set_aside(before, {}) == before


def test_jobs_that_are_stored_are_held_wherever_they_come_from() -> None:
    unloaded = a_job(4)
    others = [a_job(2), a_job(3, JobState.RUNNING)]
    before = inputs(World.of([a_job(1), *others, a_job(5, JobState.SUSPENDED)], []), unloaded={JobId(4): unloaded})
    after = set_aside(before, {job(1): RAISED, job(4): HUNG, job(5): HUNG})
    held = (hold(a_job(1), RAISED), hold(a_job(5, JobState.SUSPENDED), HUNG), hold(unloaded, HUNG))
    assert after.begun == Changes(held, events=(held_event(1, RAISED), held_event(4, HUNG), held_event(5, HUNG)))
    assert after.world.held == {each.id: each for each in held}
    assert list(after.world.all_jobs()) == [others[1], others[0]]
    assert after.unloaded == {}


def test_a_new_job_comes_in_as_one_that_is_held() -> None:
    submit = Intent(1, IntentKind.SUBMIT, 0.0, JobId(1))
    unreadable = (Unreadable("intents", "9", "why"),)
    inbox = Inbox((submit,), (a_job(1), a_job(2)), (), unreadable)
    after = set_aside(inputs(inbox=inbox), {job(1): RAISED})
    assert after.inbox == Inbox((submit,), (hold(a_job(1), RAISED), a_job(2)), (), unreadable)
    assert after.begun == Changes(events=(held_event(1, RAISED),))
    assert after.world.withheld == {}


def test_a_job_that_is_held_already_stays_so_and_its_request_is_refused_with_the_reason() -> None:
    """Other requests for it, and those for others, are dealt with."""
    was = a_job(1, JobState.HELD, held_from=JobState.RUNNING)
    asked = Intent(3, IntentKind.RESUME, 0.0, JobId(1))
    more = (Intent(4, IntentKind.CANCEL, 0.0, JobId(1)), Intent(5, IntentKind.RESUME, 0.0, JobId(2)))
    after = set_aside(inputs(World.of([was], []), Inbox((asked, *more), ())), {job(1): RAISED})
    refusal = Event(
        NOW,
        EventKind.REQUEST_REFUSED,
        JobId(1),
        cause=IntentKind.RESUME,
        detail=f"the scheduler fails at it: {RAISED.detail}",
    )
    assert after.begun == Changes(events=(refusal,), intents_done=(3,))
    assert (after.inbox.intents, after.world.held) == (more, {JobId(1): was})


def test_of_workers_without_a_job_and_of_pods_nothing_is_stored_but_an_event() -> None:
    worker = WorkerObservation(WorkerId("8-1"), JobId(8), A, Phase.RUNNING, cpus=math.nan)
    web = Demand("web", WorkerShape())
    world = replace(
        World.of([], []),
        demands=(Awaited(Demand("odd", WorkerShape())), Awaited(web)),
        withheld={pod("older"): "it fails"},
    )
    seen = Observation(
        {}, {worker.id: worker}, demands=(Demand("odd", WorkerShape()), web, Demand("older", WorkerShape()))
    )
    after = set_aside(inputs(world, observation=seen), {job(8): RAISED, pod("odd"): HUNG})
    assert after.begun == Changes(
        events=(
            Event(NOW, EventKind.WITHHELD, cause=RAISED.cause, detail=f"workers of job 8: {RAISED.detail}"),
            Event(NOW, EventKind.WITHHELD, cause=HUNG.cause, detail=f"pod odd: {HUNG.detail}"),
        )
    )
    assert after.world.withheld == {pod("older"): "it fails", job(8): RAISED.detail, pod("odd"): HUNG.detail}
    assert after.world.demands == (Awaited(web),)
    assert after.observation.demands == (web,)
    assert after.observation.workers[worker.id].cpus == 0.0


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_a_held_node_has_nothing_to_give(known: bool, seen: bool) -> None:
    other = Node(B, "b", 4)
    use, crowded = ForeignUse(1), {0: CrowdedSlot(0.0)}
    stored = [Node(A, "stored", 8, cpus=5e-324, version=3, oversell=2.0)] if known else []
    world = replace(World.of([], [*stored, other]), crowded={A: crowded, B: crowded}, foreign={A: use, B: use})
    shown = {A: NodeObservation(A, "seen", 8)} if seen else {}
    after = set_aside(inputs(world, observation=Observation(shown, {})), {node("a"): RAISED})
    host = "stored" if known else "seen" if seen else "a"
    held = Node(A, host, 0, closed=f"held: {RAISED.detail}", intent=NodeIntent.HELD, version=3 if known else 0)
    event = Event(
        NOW, EventKind.NODE_HELD, node=A, cause=RAISED.cause, detail=RAISED.detail, amount=8.0 if known else 0.0
    )
    assert after.begun == Changes(nodes=(held,), events=(event,))
    assert after.world.nodes == {A: held, B: other}
    assert (after.world.crowded, after.world.foreign) == ({B: crowded}, {B: use})
    bare = NodeObservation(A, host, 0, closed=f"held: {RAISED.detail}")
    assert after.observation.nodes == ({A: bare} if seen else {})


def test_a_booking_is_cancelled_with_what_is_asked_of_it() -> None:
    stored, new, other = a_booking("summer"), a_booking("autumn"), a_booking("winter")
    book = Intent(1, IntentKind.BOOK, 0.0, booking="autumn")
    unbook = Intent(2, IntentKind.UNBOOK, 0.0, booking="summer")
    rest = (Intent(3, IntentKind.BOOK, 0.0, booking="winter"),)
    world = World.of([], [], [stored, a_booking("spring")])
    inbox = Inbox((book, unbook, *rest), (), (new, other))
    after = set_aside(inputs(world, inbox), {booking("summer"): RAISED, booking("autumn"): HUNG})
    assert after.begun == Changes(
        events=(
            Event(NOW, EventKind.BOOKING_CANCELLED, cause=RAISED.cause, detail=f"summer: {RAISED.detail}"),
            Event(NOW, EventKind.BOOKING_CANCELLED, cause=HUNG.cause, detail=f"autumn: {HUNG.detail}"),
        ),
        intents_done=(1, 2),
        bookings=(replace(stored, state=BookingState.OVER), replace(new, state=BookingState.OVER)),
    )
    assert set(after.world.bookings) == {"spring"}
    assert after.inbox == Inbox(rest, (), (other,))


def test_a_booking_that_is_gone_is_no_change() -> None:
    after = set_aside(inputs(), {booking("gone"): RAISED})
    assert after.begun.bookings == ()


def test_a_try_holds_all_but_nodes_which_are_made_plain() -> None:
    odd = Node(A, "a", 8, cpus=5e-324, intent=NodeIntent.CORDONED)
    before = inputs(World.of([a_job(1), a_job(2)], [odd, Node(B, "b", 4)]))
    after = tried_without(before, [job(1), node("a")])
    # What is tried can be stored as what is held in the end: the store is asked about it, too.
    assert after.begun == Changes((hold(a_job(1), UNTOLD),), events=(held_event(1, UNTOLD),))
    assert after.world.held == {JobId(1): hold(a_job(1), UNTOLD)}
    plain = after.world.nodes[A]
    assert (plain.cpus, plain.slots, plain.intent) == (1e6, 8, NodeIntent.CORDONED)
    assert after.world.nodes[B] == Node(B, "b", 4)
    assert tried_without(before, ()) == before
    only = tried_without(before, [node("a")])
    assert only.begun == Changes()
    assert only.world.nodes[A] == plain
