"""What others could give up at most: nothing that could be taken is overlooked for it."""

from unittest.mock import patch

import pytest
from hypothesis import given

from scheduler.config import PolicySettings
from scheduler.model.fixed import FixedGroup
from scheduler.model.ids import JobId
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import LeaveReason
from scheduler.policy.draft import Draft
from scheduler.policy.preempt.lanes import LaneTable
from scheduler.policy.preempt.losses import Bound, Losses
from scheduler.policy.preempt.victims import Victims
from scheduler.policy.queues.shares import Counts
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.snapshot import Snapshot
from tests.policy.drawn_queues import queued_clusters
from tests.policy.test_turns import decisions
from tests.policy.worlds import Cluster


@given(queued_clusters())
def test_plans_are_those_made_by_looking_for_victims_everywhere(c: Cluster) -> None:
    world, made = c.world(), c.plan()
    with patch.object(Bound, "enough", lambda *_: True):
        assert decisions(c.plan()) == decisions(made), world


@given(queued_clusters())
def test_bounds_follow_what_a_draft_changes(c: Cluster) -> None:
    bound, enough = Losses.bound, Bound.enough
    made: dict[int, tuple[Bound, Losses, Lane]] = {}

    def noted(losses: Losses, lane: Lane) -> Bound:
        found = bound(losses, lane)
        made[id(found)] = found, losses, lane
        return found

    def followed(self: Bound, counts: Counts, importance: float, workers: int) -> bool:
        _, losses, lane = made[id(self)]
        found, draft, shares = enough(self, counts, importance, workers), losses._draft, losses._shares
        now = bound(Losses(draft, shares, LaneTable(draft.victim_table, draft.usages, shares)), lane)
        assert found or not enough(now, counts, importance, workers), "what has changed leaves more than thought"
        return found

    with patch.object(Losses, "bound", noted), patch.object(Bound, "enough", followed):
        c.plan()


#: More slots than any world here has.
MOST = 99


def drafted(c: Cluster) -> tuple[Draft, Losses]:
    draft = Draft(Snapshot(c.world(), c.now, c.settings))
    by_lane, shares = Victims(draft).by_lane, draft.shares
    assert by_lane is not None
    assert shares is not None
    return draft, Losses(draft, shares, by_lane)


def most_for(c: Cluster, number: int, *, typed: bool = False) -> int:
    """The most slots that there might be for this waiting job; `typed`: of the only GPU type that queues name."""
    return most_in(*drafted(c), number, typed=typed)


def most_in(draft: Draft, losses: Losses, number: int, *, typed: bool = False) -> int:
    job = draft.world.queued[JobId(number)]
    counts = ((slots,) * (1 + typed) for slots in range(1, MOST + 1))
    return max((each[0] for each in counts if losses.bound(draft.lane(job)).enough(each, job.priority, 0)), default=0)


def borrowed(settings: PolicySettings | None = None, workers: int | tuple[int, int] = (2, 8)) -> Cluster:
    """A queue holds all slots but one, of which half is the other one's."""
    c = Cluster(settings).node("a", 8).queue("left").queue("right").waiting(2, workers=(1, 8), queue="right")
    return c.running(1, on={"a": 7}, workers=workers, queue="left")


def test_another_queue_gives_up_what_it_has_borrowed_besides_what_is_free() -> None:
    assert most_for(borrowed(), 2) == 4


def test_a_job_that_cannot_shrink_gives_up_nothing() -> None:
    assert most_for(borrowed(workers=7), 2) == 1


def test_a_job_that_may_be_stopped_after_a_time_gives_up_what_it_has_borrowed() -> None:
    assert most_for(borrowed(PolicySettings(fair_stop_seconds=60.0), workers=7), 2) == 4


def test_less_important_jobs_of_its_own_queue_give_up_all() -> None:
    c = Cluster().node("a", 8).queue("left").running(1, on={"a": 7}, workers=7, queue="left", priority=10)
    c.waiting(2, queue="left", priority=11).waiting(3, queue="left", priority=9)
    assert [most_for(c, 2), most_for(c, 3)] == [8, 1]


def test_a_queue_within_its_guarantee_always_looks_for_victims() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right", guarantee=3).waiting(2, workers=3, queue="right")
    c.running(1, on={"a": 8}, workers=8, queue="left")
    assert most_for(c, 2) == 3


def test_another_queue_gives_up_the_reservation_that_it_borrows() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right").waiting(2, workers=(1, 8), queue="right")
    c.waiting(1, workers=7, reservation=(("a", 7),), queue="left")
    assert most_for(c, 2) == 4


def test_queues_inside_another_one_give_up_what_that_one_has_borrowed() -> None:
    c = Cluster().node("a", 8).queue("left").queue("left/in").queue("left/in/most").queue("right")
    c.waiting(2, workers=(1, 8), queue="right").running(1, on={"a": 7}, workers=(2, 8), queue="left/in/most")
    assert most_for(c, 2) == 4


def test_slots_of_a_type_are_given_up_for_jobs_of_that_type() -> None:
    c = Cluster().node("a", 4, gpu_type="H100").node("b", 4, gpu_type="L4")
    c.queue("left", limit={"H100": 9}).queue("right").waiting(2, gpu_type="H100", queue="right")
    c.running(1, on={"a": 1}, workers=(1, 1), gpu_type="H100", queue="left")
    c.running(3, on={"b": 4}, workers=(1, 4), gpu_type="L4", queue="left")
    assert most_for(c, 2, typed=True) == 3, "what is free; the job that could shrink has slots of another type"


@pytest.mark.parametrize(("priority", "most"), [(-1, 1), (0, 0)])
def test_reservations_of_less_important_jobs_of_its_queue_may_be_taken_over(priority: int, most: int) -> None:
    held = borrowed(workers=7).waiting(3, priority=priority, reservation=(("a", 1),), queue="right")
    assert most_for(held, 2) == most


def test_each_worker_for_which_there_is_no_room_takes_a_slot_of_somebody() -> None:
    draft, losses = drafted(borrowed())
    job = draft.world.queued[JobId(2)]
    assert [losses.bound(draft.lane(job)).enough((2,), 0, workers) for workers in (0, 3, 4)] == [True, True, False]


def test_where_bounds_are_not_known_victims_are_looked_for() -> None:
    shared = borrowed(workers=7).node("b", 1, oversell=2.0)
    assert most_for(shared, 2) == MOST, "on shared slots"


def test_workers_of_several_slots_and_a_fixed_group_count_with_all_their_slots() -> None:
    c = Cluster().node("a", 12).queue("left").queue("right").waiting(2, workers=(1, 12), queue="right")
    c.running(1, on={"a": 4}, workers=(1, 8), slots_per_worker=2, queue="left")
    assert most_for(c, 2) == 6, "4 are free, and 2 of its 8 slots are borrowed"
    beside = FixedGroup(2, ("serve",), shape=WorkerShape(2))
    own = Cluster().node("a", 12).queue("left").waiting(2, queue="left", priority=9)
    own.running(1, on={"a": 2}, workers=2, slots_per_worker=2, fixed=beside, fixed_on={"a": 2}, queue="left")
    assert most_for(own, 2) == 12


def test_where_jobs_age_all_of_its_queue_might_give_way() -> None:
    c = Cluster(PolicySettings(aging_per_hour=1.0)).node("a", 8).queue("left")
    c.running(1, on={"a": 7}, workers=7, queue="left", priority=10).waiting(3, queue="left", priority=9)
    assert most_for(c, 3) == 8


def test_queues_on_several_levels_give_up_what_each_level_lets_them() -> None:
    c = Cluster().node("a", 12).queue("left").queue("left/in").queue("left/on").queue("right")
    c.waiting(2, workers=(1, 12), queue="left/on").running(1, on={"a": 4}, workers=(1, 12), queue="left/in")
    c.running(3, on={"a": 8}, workers=(1, 12), queue="right")
    assert most_for(c, 2) == 2, "left may have 2 more, of which right has borrowed 2 and left/in 1"
    c.jobs.pop(JobId(3))
    c.running(3, on={"a": 8}, workers=(7, 12), queue="right")
    assert most_for(c, 2) == 2, "1 of each"


def test_what_a_draft_has_taken_for_one_job_is_not_there_for_another() -> None:
    c = borrowed().queue("third").waiting(3, workers=(1, 8), queue="third")
    draft, losses = drafted(c)
    assert most_in(draft, losses, 3) == 2
    left = draft.world.active[JobId(1)]
    draft.shrink(left, left.workers[:5], LeaveReason.RECLAIMED, JobId(2))
    draft.hold(draft.world.queued[JobId(2)], ((("a", 5),),))
    assert most_in(draft, losses, 3) == 1, "what is free"


def test_what_several_jobs_and_queues_could_give_up_adds_up() -> None:
    c = Cluster().node("a", 24).queue("left").queue("left/in").queue("left/on").queue("right")
    c.running(1, on={"a": 6}, workers=(5, 12), queue="left/in").running(
        3, on={"a": 6}, workers=(5, 12), queue="left/in"
    )
    c.running(4, on={"a": 12}, workers=(1, 24), queue="left/on").waiting(2, workers=(1, 24), queue="right")
    assert most_for(c, 2) == 8, "1 of each job of left/in, and the 6 that left/on holds beyond its part"


def test_of_its_own_queue_only_jobs_up_to_its_priority_count() -> None:
    c = Cluster().node("a", 8).queue("left").waiting(2, queue="left", priority=5)
    c.running(1, on={"a": 5}, workers=5, queue="left", priority=10).running(3, on={"a": 3}, workers=3, queue="left")
    assert most_for(c, 2) == 3


def test_jobs_of_a_type_give_up_slots_for_jobs_of_any_type_and_of_theirs() -> None:
    def typed(**limit: int) -> Cluster:
        c = Cluster().node("a", 4, gpu_type="H100").node("b", 4, gpu_type="L4")
        return c.queue("left", limit=limit).queue("right")

    c = typed(H100=9).waiting(2, gpu_type="H100", workers=(1, 4), queue="right")
    c.running(1, on={"a": 3}, workers=(1, 4), gpu_type="H100", queue="left")
    c.running(3, on={"b": 4}, workers=4, gpu_type="L4", queue="left")
    assert most_for(c, 2, typed=True) == 3, "1 that is free, and 2 beyond a minimum"
    own = typed(H100=9).waiting(2, workers=(1, 4), queue="left", priority=9)
    own.running(1, on={"a": 4}, workers=4, gpu_type="H100", queue="left")
    own.running(3, on={"b": 4}, workers=4, gpu_type="L4", queue="right")
    draft, losses = drafted(own)
    lane = draft.lane(draft.world.queued[JobId(2)])
    assert [losses.bound(lane).enough((slots, 0), 9, 0) for slots in (4, 5)] == [True, False]


def test_a_queue_within_its_guarantee_of_a_type_always_looks_for_victims() -> None:
    c = Cluster().node("a", 4, gpu_type="H100").queue("left").queue("right", guarantee={"H100": 2})
    c.waiting(2, workers=2, gpu_type="H100", queue="right")
    c.running(1, on={"a": 4}, workers=4, gpu_type="H100", queue="left")
    assert most_for(c, 2, typed=True) == 2
