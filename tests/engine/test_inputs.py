"""What one tick decides by, and the same without what is held, left out, or special about a node."""

import math
from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.attribution.inputs import (
    TWICE_AS_LONG,
    seconds_allowed,
    subjects_of,
    with_plain_node,
    without_held,
)
from scheduler.engine.ports import Inbox, TickInputs
from scheduler.model.booking import Booking
from scheduler.model.foreign import Awaited, Demand, ForeignUse
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.node import Node, NodeFailure, NodeHealth, NodeIntent
from scheduler.model.observation import NodeObservation, Observation, Phase, SlotLoad, WorkerObservation
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import CrowdedSlot, World

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
EMPTY = TickInputs(7.0, World(), Observation({}, {}), Inbox((), ()))
LOADS = (SlotLoad(0.5, 0.5),)


def a_job(number: int, state: JobState = JobState.RUNNING) -> Job:
    return Job(JobId(number), JobSpec("j", ("train",)), 0, 1, 1, 0.0, 0.0, state)


def jobs(*some: Job) -> dict[JobId, Job]:
    return {job.id: job for job in some}


def a_worker(job_id: int, **fields: Any) -> WorkerObservation:
    return WorkerObservation(WorkerId(f"{job_id}-1"), JobId(job_id), A, Phase.RUNNING, **fields)


def workers(*some: WorkerObservation) -> dict[WorkerId, WorkerObservation]:
    return {worker.id: worker for worker in some}


def a_booking(name: str) -> Booking:
    return Booking(name, 0.0, 1.0, 1, WorkerShape(), 0.0)


def job(number: int) -> Subject:
    return Subject(SubjectKind.JOB, str(number))


def pod(name: str) -> Subject:
    return Subject(SubjectKind.POD, name)


def test_all_that_a_tick_deals_with_may_be_left_out_jobs_first_and_the_newest_of_them_before() -> None:
    world = World(
        active=jobs(a_job(5)),
        queued=jobs(a_job(12, JobState.QUEUED)),
        suspended=jobs(a_job(4, JobState.SUSPENDED)),
        held=jobs(a_job(1, JobState.HELD), a_job(2, JobState.HELD), a_job(3, JobState.HELD)),
        nodes={B: Node(B, "b", 1), A: Node(A, "a", 1, intent=NodeIntent.HELD)},
        bookings={"summer": a_booking("summer")},
    )
    observation = Observation(
        {C: NodeObservation(C, "c", 1)},
        workers(a_worker(8), a_worker(5), a_worker(2)),
        demands=(Demand("web-2", WorkerShape()), Demand("web-1", WorkerShape())),
    )
    asked = Intent(1, IntentKind.RESUME, 0.0, JobId(3))
    inbox = Inbox((asked,), (a_job(13, JobState.QUEUED),), (a_booking("autumn"), a_booking("summer")))
    inputs = replace(EMPTY, world=world, observation=observation, inbox=inbox)
    assert subjects_of(inputs) == [
        *(job(number) for number in (13, 12, 8, 5, 4, 3)),  # 3 is held, and asked to go on; 1 and 2 are not
        *(pod(name) for name in ("web-2", "web-1")),
        *(Subject(SubjectKind.BOOKING, name) for name in ("autumn", "summer")),
        *(Subject(SubjectKind.NODE, name) for name in ("b", "c")),  # a is held
    ]


def test_ids_of_jobs_are_ordered_as_numbers() -> None:
    inputs = replace(EMPTY, world=World(active=jobs(*(a_job(number) for number in (9, 100, 20)))))
    assert subjects_of(inputs) == [job(100), job(20), job(9)]


@pytest.mark.parametrize(
    "many",
    [
        replace(EMPTY, world=World(nodes={NodeName(str(n)): Node(A, "h", 8) for n in range(TWICE_AS_LONG)})),
        replace(EMPTY, world=World(active=jobs(*(a_job(n) for n in range(TWICE_AS_LONG))))),
        replace(EMPTY, world=World(queued=jobs(*(a_job(n) for n in range(TWICE_AS_LONG))))),
        replace(EMPTY, inbox=Inbox((), [a_job(n) for n in range(TWICE_AS_LONG)])),
    ],
    ids=["nodes", "active", "queued", "inbox"],
)
def test_deciding_may_take_longer_by_the_number_of_jobs_and_nodes(many: TickInputs) -> None:
    assert seconds_allowed(EMPTY, 4.0) == 4.0
    assert seconds_allowed(many, 4.0) == 8.0


def test_where_nothing_is_held_nothing_is_left_out() -> None:
    inputs = replace(EMPTY, world=World(active=jobs(a_job(1)), nodes={A: Node(A, "a", 1)}))
    assert without_held(inputs) is inputs


def test_a_held_node_has_nothing_to_give_and_others_have_what_they_had() -> None:
    held = Node(A, "kept", 0, closed="held: it fails", intent=NodeIntent.HELD)
    unseen = Node(C, "c", 0, intent=NodeIntent.HELD)
    odd = NodeObservation(A, "odd", 8, cpus=math.nan, memory_mib=9, labels=(("k", "v"),), gpu_type="l4", oversell=2.0)
    plain = NodeObservation(B, "b", 4, cpus=2.0)
    seen = Observation({A: odd, B: plain}, {}, loads={A: LOADS, B: LOADS})
    world = World.of((), (held, Node(B, "b", 4), unseen))
    after = without_held(replace(EMPTY, world=world, observation=seen))
    assert after.observation == Observation(
        {A: NodeObservation(A, "kept", 0, closed="held: it fails"), B: plain}, {}, loads={B: LOADS}
    )
    assert (after.world, after.now, after.inbox) == (world, 7.0, EMPTY.inbox)
    gone = replace(seen, nodes={A: replace(odd, up=False)})
    assert not without_held(replace(EMPTY, world=world, observation=gone)).observation.nodes[A].up


@pytest.mark.parametrize("held", [World(held=jobs(a_job(1, JobState.HELD))), World(withheld={job(1): "it fails"})])
def test_workers_of_held_jobs_hold_what_can_be_counted(held: World) -> None:
    odd = a_worker(1, slot_ids=(-1, 0, 4095, 4096), cpus=math.inf, memory_mib=-5)
    other = a_worker(2, slot_ids=(5000,), cpus=math.nan)
    after = without_held(replace(EMPTY, world=held, observation=Observation({}, workers(odd, other))))
    assert after.observation.workers[odd.id] == replace(odd, slot_ids=(0, 4095), cpus=0.0, memory_mib=0)
    assert after.observation.workers[other.id] is other
    good = a_worker(1, slot_ids=(3,), cpus=0.5, memory_mib=100)
    after = without_held(replace(EMPTY, world=held, observation=Observation({}, workers(good))))
    assert after.observation.workers == workers(good)


def test_pods_that_are_withheld_are_not_seen_and_forgotten_when_they_are_gone() -> None:
    seen = Observation({}, workers(a_worker(3)), demands=(Demand("odd", WorkerShape()), Demand("web", WorkerShape())))
    withheld = {pod("odd"): "it fails", pod("gone"): "it failed", job(3): "it fails", job(4): "it failed"}
    after = without_held(replace(EMPTY, world=World(withheld=withheld), observation=seen))
    assert [demand.name for demand in after.observation.demands] == ["web"]
    assert after.world.withheld == {pod("odd"): "it fails", job(3): "it fails"}


def test_a_pod_of_a_jobs_number_is_no_job() -> None:
    """What is withheld goes by its kind, too."""
    seen = Observation({}, workers(a_worker(3)), demands=(Demand("4", WorkerShape()),))
    after = without_held(replace(EMPTY, world=World(withheld={pod("3"): "why", job(4): "why"}), observation=seen))
    assert [demand.name for demand in after.observation.demands] == ["4"]
    assert after.world.withheld == {}


ODD_NODE = Node(
    A,
    "host",
    8,
    cpus=5e-324,
    memory_mib=7,
    labels=(("k", "v"),),
    gpu_type="l4",
    has_gpus=True,
    oversell=1e300,
    closed="why",
    health=NodeHealth.DOWN,
    intent=NodeIntent.DRAINING,
    failures=(NodeFailure(JobId(1), 0.0),),
    closed_slots=(ClosedSlot(1, SlotClosure.FOREIGN, "why"),),
    accepted_faults=(ClosedSlot(2, SlotClosure.UNHEALTHY, "why"),),
    version=3,
)
PLENTY = {"cpus": 1e6, "memory_mib": 1 << 40, "labels": (), "gpu_type": None, "oversell": 1.0, "closed": ""}


def test_a_plain_node_keeps_its_name_and_what_is_asked_of_it_alone() -> None:
    use, crowded = ForeignUse(1), {0: CrowdedSlot(0.0)}
    awaited = (Awaited(Demand("web", WorkerShape())),)
    other = Node(B, "b", 4, cpus=1.0)
    world = World(
        nodes={A: ODD_NODE, B: other},
        crowded={A: crowded, B: crowded},
        foreign={A: use, B: use},
        demands=awaited,
    )
    odd = NodeObservation(
        A,
        "seen",
        6,
        cpus=math.nan,
        labels=(("k", "v"),),
        has_gpus=True,
        oversell=0.0,
        foreign=use,
        closed_slots=ODD_NODE.closed_slots,
    )
    beside = NodeObservation(B, "b", 4, cpus=1.0)
    seen = Observation({A: odd, B: beside}, workers(a_worker(1)), loads={A: LOADS, B: LOADS})
    after = with_plain_node(replace(EMPTY, world=world, observation=seen), A)
    assert after.world == World(
        nodes={A: replace(ODD_NODE, failures=(), closed_slots=(), accepted_faults=(), **PLENTY), B: other},
        crowded={B: crowded},
        foreign={B: use},
        demands=awaited,
    )
    assert after.observation == Observation(
        {A: NodeObservation(A, "seen", 6, **PLENTY), B: beside},  # type: ignore[arg-type]
        workers(a_worker(1)),
        loads={B: LOADS},
    )
    assert (after.now, after.inbox) == (7.0, EMPTY.inbox)


@pytest.mark.parametrize(
    ("slots", "counted"),
    [(0, 0), (5, 5), (4096, 4096), (4097, 4096), (-1, 0), (2.9, 2), (math.nan, 0), (math.inf, 0), ("8", 0), (None, 0)],
)
def test_a_plain_node_has_as_many_slots_as_can_be_counted(slots: Any, counted: int) -> None:
    world = World(nodes={A: replace(ODD_NODE, slots=slots)})
    seen = Observation({A: NodeObservation(A, "a", slots)}, {})
    after = with_plain_node(replace(EMPTY, world=world, observation=seen), A)
    assert (after.world.nodes[A].slots, after.observation.nodes[A].slots) == (counted, counted)


def test_a_node_that_is_only_seen_or_only_known_is_made_plain_and_no_other_comes_to_be() -> None:
    seen = Observation({A: NodeObservation(A, "a", 1, cpus=math.nan, up=False)}, {})
    after = with_plain_node(replace(EMPTY, observation=seen), A)
    assert (after.world, after.observation.nodes[A].cpus, after.observation.nodes[A].up) == (World(), 1e6, False)
    known = replace(EMPTY, world=World(nodes={A: ODD_NODE}))
    after = with_plain_node(known, A)
    assert (after.observation, after.world.nodes[A].cpus) == (Observation({}, {}), 1e6)
    assert with_plain_node(known, B) == known
