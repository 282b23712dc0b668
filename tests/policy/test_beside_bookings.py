"""Who stays too long for a booking has room that no booking needs, wherever that is."""

from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.model.booking import Booking
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.plan import Grow, Reserve, Start
from scheduler.model.shape import WorkerShape
from scheduler.policy.capacity.resources import Amount, add, amount_of
from scheduler.policy.overlay.booking_feasible import refusal, room_of, slots_kept
from scheduler.policy.snapshot.order import Order
from tests.policy.worlds import NOW, Cluster, enact

HOUR = 3600.0


def zones(**slots: int) -> Cluster:
    """Nodes that stand each in the zone of their first letter."""
    c = Cluster()
    for name, count in slots.items():
        c.node(name, count, labels={"zone": name[0]})
    return c


def in_zone(zone: str, slots: int = 1) -> WorkerShape:
    return WorkerShape(slots, node_selector=(("zone", zone),))


def where(c: Cluster, number: int) -> dict[str, int]:
    """Workers of the job by node."""
    spots: dict[str, int] = {}
    for worker in c.jobs[JobId(number)].workers:
        spots[worker.node] = spots.get(worker.node, 0) + 1
    return spots


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_a_job_without_a_time_limit_starts_on_a_node_that_the_booking_cannot_use(slots: int) -> None:
    c = zones(a=4, z=4).booked("b", 4, 5 * HOUR, 6 * HOUR, in_zone("a"))
    c.waiting(1, slots_per_worker=slots).step()
    assert where(c, 1) == {"z": 1}


def test_all_that_find_room_beside_it_start_and_the_others_wait_for_the_booking() -> None:
    c = zones(a=4, y=2, z=1).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    for number in range(1, 6):
        c.waiting(number)
    c.step()
    assert [where(c, number) for number in (1, 2, 3)].count({"y": 1}) == 2
    assert [c.reason(number) for number in range(1, 6)] == [None] * 3 + [WaitReason.BEHIND_BOOKING] * 2


@example([1, 8], 3, 21, [(2, 0, True), (1, 0, False), (1, 0, False), (1, 1, False)])
@example([6], 5, 25, [(3, 2, True), (2, 2, True)])
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=4),
)
def test_however_many_jobs_wait_they_use_all_that_a_booking_leaves(
    nodes: list[int], booked: int, number_of_jobs: int, kinds: list[tuple[int, int, bool]]
) -> None:
    """Each kind: its workers, its priority, and whether it is elastic."""
    jobs = list(islice(cycle(kinds), number_of_jobs))
    c = Cluster()
    for k, slots in enumerate(nodes):
        c.node(f"n{k}", slots)
    c.booked("b", min(booked, sum(nodes)), HOUR, 2 * HOUR, WorkerShape())
    for number, (workers, priority, elastic) in enumerate(jobs, 1):
        c.waiting(number, workers=(1, workers) if elastic else 1, priority=priority, preemptible=False)
    for _ in range(2):
        c.step(60)
    wanted = sum(workers if elastic else 1 for workers, _, elastic in jobs)
    used = sum(len(job.workers) for job in c.jobs.values())
    assert used == min(wanted, sum(nodes) - min(booked, sum(nodes)))


def test_what_one_booking_leaves_of_like_nodes_is_used_with_what_none_needs() -> None:
    c = zones(a1=4, a2=4, z=4).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.waiting(1, workers=(8, 8)).step()
    assert where(c, 1) == {"a2": 4, "z": 4}


def test_of_like_nodes_the_booking_leaves_the_idle_ones() -> None:
    c = zones(a1=4, a2=4, a3=4, z1=2, z2=2).booked("b", 8, HOUR, 2 * HOUR, in_zone("a"))
    c.running(1, {"a3": 4}, workers=(1, 4)).waiting(2, workers=(8, 8)).step()
    assert where(c, 2) == {"a2": 4, "z1": 2, "z2": 2}


def test_nodes_too_small_for_what_is_booked_are_no_part_of_it() -> None:
    c = Cluster().node("a", 8).node("y", 4).node("z", 4).booked("b", 1, HOUR, 2 * HOUR, WorkerShape(slots=8))
    c.waiting(1, workers=(8, 8)).step()
    assert where(c, 1) == {"y": 4, "z": 4}


def test_a_gpu_type_of_which_there_is_not_enough_for_the_booking_is_used() -> None:
    c = Cluster().node("a1", 4, gpu_type="x").node("a2", 4, gpu_type="x").node("z", 4, gpu_type="y")
    c.booked("b", 8, HOUR, 2 * HOUR).waiting(1, workers=(4, 4)).step()
    assert where(c, 1) == {"z": 4}


def test_cpus_that_are_booked_bar_a_job_from_a_node_that_has_slots() -> None:
    c = Cluster().node("a", 8, cpus=8.0, labels={"zone": "a"}).node("z", 8, cpus=8.0)
    c.booked("b", 4, HOUR, 2 * HOUR, WorkerShape(1, cpus=2.0, node_selector=(("zone", "a"),)))
    c.waiting(1, slots_per_worker=2, cpus=1.0).waiting(2).step()
    assert where(c, 1) == {"z": 1}
    assert c.size(2) == 1


def test_a_job_passes_by_one_booking_after_the_other() -> None:
    c = zones(a=4, b=4, c=4, z=4)
    for hour, zone in enumerate("abc", 1):
        c.booked(zone, 4, hour * HOUR, (hour + 1) * HOUR, in_zone(zone))
    c.waiting(1, workers=(4, 4)).waiting(2, workers=(4, 4), time_limit_seconds=2.5 * HOUR).step()
    assert (where(c, 1), where(c, 2)) == ({"z": 4}, {"c": 4})


def test_a_job_that_stays_grows_on_nodes_that_the_booking_cannot_use() -> None:
    c = zones(a=4, y=2, z=4).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.running(1, {"y": 2}, workers=(1, 6), preemptible=False).settle()
    assert where(c, 1) == {"y": 2, "z": 4}


def test_a_job_stays_as_large_as_it_could_be_where_the_booking_is() -> None:
    c = zones(a=8, z=2).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.waiting(1, workers=(1, 6), preemptible=False).step()
    assert where(c, 1) == {"a": 4}


@pytest.mark.parametrize("selector", [None, {"zone": "a"}])
def test_a_running_job_that_lost_a_worker_is_topped_up_also_where_only_booked_slots_are_left(
    selector: dict[str, str] | None,
) -> None:
    c = zones(a=4, z=1).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.running(1, {"a": 3}, workers=(4, 6), preemptible=False, selector=selector)
    c.running(2, {"z": 1}, workers=(1, 1), preemptible=False)
    assert list(c.plan(outside_bounds=True).actions) == [Grow(JobId(1), (("a", 1),))]


@pytest.mark.parametrize("waiting", [12, 60, 120])
def test_a_queue_of_any_length_has_what_the_booking_leaves(waiting: int) -> None:
    c = zones(**{f"a{k}": 4 for k in range(10)}).booked("b", 24, HOUR, 2 * HOUR)
    for number in range(1, waiting + 1):
        c.waiting(number, workers=(4, 4))
    c.step()
    sizes = [c.size(number) for number in range(1, waiting + 1)]
    assert sizes == [4] * 4 + [0] * (waiting - 4)
    assert {c.reason(number) for number in range(5, waiting + 1)} == {WaitReason.BEHIND_BOOKING}


def test_it_takes_from_the_less_important_where_nothing_is_booked() -> None:
    c = zones(a=4, z=4).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.running(1, {"z": 4}, workers=(2, 4)).waiting(2, workers=(2, 2), priority=5)
    made = c.step()
    assert [each for each in made.actions if isinstance(each, Reserve)] == [Reserve(JobId(2), (("z", 2),))]
    c.settle()
    assert (where(c, 2), where(c, 1)) == ({"z": 2}, {"z": 2, "a": 2})


@pytest.mark.parametrize("start", [-10.0, -HOUR, HOUR])  # what is booked is held, lent, or free until then
@pytest.mark.parametrize("workers", [1, 2])
def test_it_takes_the_place_of_a_less_important_one_that_stays_as_long(workers: int, start: float) -> None:
    c = zones(a=5).booked("b", 3, start, 2 * HOUR).running(1, {"a": 2}, workers=(2, 2))
    c.waiting(2, workers=(workers, workers), priority=5).settle(seconds=1.0)
    assert (where(c, 2), where(c, 1)) == ({"a": workers}, {})
    assert c.reason(1) in (WaitReason.INSUFFICIENT_SLOTS, WaitReason.BEHIND_BOOKING)


@pytest.mark.parametrize("preemptible", [True, False])
@pytest.mark.parametrize(("slots", "workers"), [(2, 2), (5, 3)])
def test_it_takes_no_place_that_a_booking_needs_once_it_is_free(slots: int, workers: int, preemptible: bool) -> None:
    c = zones(a=slots).booked("b", slots, 24 * HOUR, 25 * HOUR).running(1, {"a": workers}, workers=(workers, workers))
    c.waiting(2, workers=(workers, workers), priority=5, preemptible=preemptible)
    assert c.settle(seconds=1.0) <= 1
    assert (where(c, 1), c.reason(2)) == ({"a": workers}, WaitReason.BEHIND_BOOKING)


def test_room_beside_a_booking_that_is_held_for_a_job_is_given_to_no_other() -> None:
    c = zones(a=5).booked("b", 2, HOUR, 2 * HOUR)
    c.running(1, {"a": 3}, workers=(3, 3), leaving=3, leave_for=2, state=JobState.STOPPING)
    held: dict[str, Any] = {"reservation": (("a", 3),), "wait_reason": WaitReason.WAITING_FOR_VICTIMS}
    c.waiting(2, workers=(3, 3), priority=5, **held).waiting(3, workers=(2, 2)).step()
    assert c.reason(3) is WaitReason.BEHIND_BOOKING
    c.step(1.0)
    assert where(c, 2) == {"a": 3}


def test_room_beside_a_booking_is_held_while_the_fixed_group_of_who_leaves_it_is_still_there() -> None:
    c = zones(a=5).booked("b", 3, HOUR, 2 * HOUR)
    fixed: dict[str, Any] = {"fixed": FixedGroup(1, ("ps",), shape=WorkerShape(slots=1)), "fixed_on": {"a": 1}}
    c.running(1, {"a": 1}, workers=(1, 1), leaving=1, leave_for=2, state=JobState.STOPPING, **fixed)
    held: dict[str, Any] = {"reservation": (("a", 2),), "wait_reason": WaitReason.WAITING_FOR_VICTIMS}
    c.waiting(2, workers=(2, 2), priority=5, slots_per_worker=1, **held).running(3, {"a": 3}, workers=(1, 3))
    assert c.plan().actions == ()


def test_what_a_job_gives_up_for_nobody_is_held_for_nobody_where_it_is_booked() -> None:
    c = zones(a=4).booked("b", 2, HOUR, 2 * HOUR).running(1, {"a": 4}, workers=(2, 2), preemptible=False)
    c.waiting(2, workers=(2, 2))
    assert not any(isinstance(action, Reserve) for action in c.plan(outside_bounds=True).actions)


@pytest.mark.parametrize(
    ("fields", "latest"),  # how long before the booking it has to start
    [
        ({"workers": (2, 2), "time_limit_seconds": HOUR}, HOUR),
        ({"workers": (2, 2), "time_limit_seconds": HOUR, "preemptible": False}, HOUR),
        ({"workers": (1, 2), "time_limit_seconds": HOUR, "preemptible": False}, HOUR),
        ({"workers": (1, 2), "grace_seconds": 200.0}, 210.0),
    ],
)
@pytest.mark.parametrize("spare", [0.0, 64.0, 66.0])
def test_it_takes_a_place_only_if_it_is_out_in_time_once_others_have_left_it(
    spare: float, fields: dict[str, Any], latest: float
) -> None:
    """They have a minute, and the lead of bookings."""
    c = zones(a=2).booked("b", 2, latest + spare, latest + HOUR)
    c.running(1, {"a": 2}, workers=(2, 2), time_limit_seconds=2 * HOUR, grace_seconds=60.0)
    c.waiting(2, priority=5, **fields)
    enact(c, c.plan(), slowly=True)
    if spare < 65.0:
        assert (where(c, 1), c.reason(2)) == ({"a": 2}, WaitReason.BEHIND_BOOKING)
        return
    c.step(60.0)
    c.step(1.0)
    assert where(c, 2) == {"a": 2}


@pytest.mark.parametrize(("booked", "grown", "left"), [(4, 4, 4), (3, 5, 3), (2, 6, 2)])
@pytest.mark.parametrize("slots_per_worker", [1, 2])
def test_a_job_that_its_queue_lets_grow_takes_no_more_than_the_booking_leaves_it(
    slots_per_worker: int, booked: int, grown: int, left: int
) -> None:
    c = Cluster().node("a", 8 * slots_per_worker).booked("b", booked * slots_per_worker, HOUR, 2 * HOUR)
    c.queue("mine", guarantee=8 * slots_per_worker).queue("other")
    alike: dict[str, Any] = {"workers": (1, 8), "slots_per_worker": slots_per_worker}
    c.running(1, {"a": 4}, preemptible=False, queue="mine", **alike).running(2, {"a": 4}, queue="other", **alike)
    c.settle()
    assert (c.size(1), c.size(2)) == (grown, left)


def test_jobs_that_can_leave_in_time_stay_where_one_that_cannot_takes_a_place() -> None:
    c = zones(a=5).booked("b", 3, HOUR, 2 * HOUR).running(1, {"a": 2}, workers=(2, 2))
    c.running(3, {"a": 3}, workers=(1, 3)).waiting(2, workers=(2, 2), priority=5).settle(seconds=1.0)
    assert (where(c, 1), where(c, 2), where(c, 3)) == ({}, {"a": 2}, {"a": 3})


@pytest.mark.parametrize(("priority", "preemptible"), [(0, True), (5, False)])
def test_it_takes_no_place_of_an_equal_or_of_one_that_nobody_preempts(priority: int, preemptible: bool) -> None:
    c = zones(a=5).booked("b", 3, HOUR, 2 * HOUR)
    c.running(1, {"a": 2}, workers=(2, 2), preemptible=preemptible).waiting(2, priority=priority).settle(seconds=1.0)
    assert (where(c, 1), where(c, 2)) == ({"a": 2}, {})
    assert c.reason(2) is WaitReason.BEHIND_BOOKING


def test_a_fixed_group_stands_beside_it_as_well() -> None:
    c = zones(a=4, z=4).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.waiting(1, workers=(2, 2), fixed=FixedGroup(2, ("ps",), shape=WorkerShape(slots=1))).step()
    job = c.jobs[JobId(1)]
    assert {w.node for w in (*job.workers, *job.fixed_workers)} == {"z"}


@pytest.mark.parametrize("beside", [0, 1])
def test_a_fixed_group_stands_beside_it_also_where_its_workers_share_slots(beside: int) -> None:
    c = Cluster().node("a", 4, oversell=2.0).node("z", beside).booked("b", 4, HOUR, 2 * HOUR)
    c.running(1, {"a": 2}, workers=(1, 2))
    c.waiting(2, workers=(2, 2), oversell=True, fixed=FixedGroup(1, ("ps",), shape=WorkerShape(slots=1))).step()
    assert [w.node for w in c.jobs[JobId(2)].fixed_workers] == ["z"] * beside
    assert c.reason(2) is (None if beside else WaitReason.BEHIND_BOOKING)


def test_what_it_could_not_have_anyway_is_not_said_to_be_behind_a_booking() -> None:
    c = zones(a=4, z=4).booked("b", 4, HOUR, 2 * HOUR, in_zone("a"))
    c.running(1, {"z": 4}, workers=(4, 4)).waiting(2, workers=(5, 5)).step()
    assert c.reason(2) is WaitReason.INSUFFICIENT_SLOTS


@st.composite
def booked_clusters(draw: st.DrawFn) -> Cluster:
    """Nodes of two zones and GPU types, bookings that they could hold empty, running jobs and a queue."""
    c = Cluster()
    for name in "abcde"[: draw(st.integers(2, 5))]:
        labels = {"zone": draw(st.sampled_from("xy"))}
        c.node(name, draw(st.integers(1, 6)), labels=labels, gpu_type=draw(st.sampled_from("AAB")), cpus=6.0)
    for name in "pqr"[: draw(st.integers(1, 3))]:
        start = draw(st.sampled_from((10.0, HOUR, 2 * HOUR, 5 * HOUR)))
        booking = Booking(name, NOW + start, NOW + start + 2 * HOUR, draw(st.integers(1, 5)), draw(_shapes), NOW)
        if refusal(booking, c.bookings, c.world().nodes, NOW) is None:
            c.booked(name, booking.workers, start, start + 2 * HOUR, booking.shape)
    for number in range(1, draw(st.integers(1, 8))):
        fields = draw(_jobs)
        placed = {node.name: fit for node in c.nodes.values() if (fit := _fit(c, node.name, fields)) > 0}
        low, high = fields["workers"]
        name = draw(st.sampled_from([None, None, *sorted(placed)]))
        if name is not None and low <= placed[name]:
            c.running(number, {name: draw(st.integers(low, min(placed[name], high)))}, **fields)
        else:
            c.waiting(number, **fields)
    return c


_selectors = st.sampled_from((None, None, {"zone": "x"}, {"zone": "y"}))
_shapes = st.builds(
    lambda slots, selector, gpu_type, cpus: WorkerShape(slots, cpus, 0, tuple((selector or {}).items()), gpu_type),
    st.sampled_from((1, 1, 2, 3)),
    _selectors,
    st.sampled_from((None, None, "A", "B")),
    st.sampled_from((0.0, 0.0, 2.0)),
)
_jobs = st.fixed_dictionaries(
    {
        "workers": st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair))),
        "slots_per_worker": st.sampled_from((1, 1, 2, 3)),
        "selector": _selectors,
        "gpu_type": st.sampled_from((None, None, "A", "B")),
        "cpus": st.sampled_from((0.0, 0.0, 1.0, 2.0)),
        "priority": st.integers(0, 2),
        "preemptible": st.booleans(),
        "time_limit_seconds": st.sampled_from((None, None, None, 1800.0 + 1000, 3 * HOUR)),
    }
)


def _fit(c: Cluster, name: NodeName, fields: dict[str, Any]) -> int:
    """How many workers described so the node still takes."""
    shape = WorkerShape(
        fields["slots_per_worker"],
        fields["cpus"],
        node_selector=tuple((fields["selector"] or {}).items()),
        gpu_type=fields["gpu_type"],
    )
    node, used = c.nodes[name], c.world().used(name)
    if not node.suits(shape):
        return 0
    by_cpus = int((node.cpus - used.cpus) / shape.cpus) if shape.cpus else node.slots
    return min((node.slots - used.slots) // shape.slots, by_cpus)


@given(booked_clusters())
def test_nobody_waits_behind_a_booking_while_nodes_that_none_can_use_have_room_for_it(c: Cluster) -> None:
    for _ in range(4):
        takes = any(isinstance(action, Start | Grow) for action in c.step(1.0).actions)
        waiting = Order(c.now, c.settings).queue(job for job in c.jobs.values() if job.state is JobState.QUEUED)
        if takes or not waiting or waiting[0].wait_reason is not WaitReason.BEHIND_BOOKING:
            continue  # a job that starts larger elsewhere leaves nodes to the next plan
        job = waiting[0]
        unbooked = [
            node for node in c.nodes.values() if not any(node.fits_empty(booking.shape) for booking in c.bookings)
        ]
        held = {name for other in c.jobs.values() for name, _ in other.reservation}
        fields = {
            "slots_per_worker": job.shape.slots,
            "cpus": job.shape.cpus,
            "selector": dict(job.shape.node_selector),
            "gpu_type": job.shape.gpu_type,
        }
        for kind in {node.gpu_type for node in unbooked}:
            fits = (_fit(c, node.name, fields) for node in unbooked if node.gpu_type == kind and node.name not in held)
            assert sum(fits) < job.min_workers, f"{c!r} {c.bookings}"


@given(booked_clusters())
def test_what_those_who_stay_leave_to_the_bookings_is_not_made_less(c: Cluster) -> None:
    for _ in range(3):
        before = [_left_to(c, booking) for booking in c.bookings]
        c.step(1.0)
        assert all(now >= then for now, then in zip([_left_to(c, b) for b in c.bookings], before, strict=True))


def _left_to(c: Cluster, booking: Booking) -> int:
    """Slots that are left for those who book at its start, where jobs are that stay as they are."""
    together = [each for each in c.bookings if each.start_at <= booking.start_at < each.end_at]
    room: dict[NodeName, Amount] = room_of(c.nodes.values())
    for job in c.jobs.values():
        for worker in job.workers if _outstays(job, booking) else ():
            room[worker.node] = add(room[worker.node], amount_of(worker, c.nodes[worker.node]), -1)
    return slots_kept(together, c.nodes, room)


def _outstays(job: Job, booking: Booking) -> bool:
    limit = job.spec.time_limit_seconds
    if limit is not None and (job.started_at or 0.0) + limit <= booking.start_at:
        return False
    return not (job.elastic and job.spec.preemptible)
