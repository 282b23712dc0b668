"""What queues promise where several rules meet: guarantees around other queues, GPU types, users, rests of slots."""

import pytest

from scheduler.model.fixed import FixedGroup
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job_state import StopReason, WaitReason
from scheduler.model.plan import Grow, Reserve, Shrink, Start, StopJob
from scheduler.model.shape import WorkerShape
from scheduler.model.slot import ClosedSlot, SlotClosure
from tests.policy.test_queues import running
from tests.policy.worlds import Cluster


def test_a_limit_of_a_gpu_type_holds_for_jobs_that_ask_for_no_type() -> None:
    c = Cluster().node("h", 8, gpu_type="H100").queue("left", limit={"H100": 4}).waiting(1, workers=6, queue="left")
    c.settle()
    assert running(c) == {}


@pytest.mark.parametrize("inner", ["lab/one", "lab"])
def test_jobs_inside_a_queue_with_a_guarantee_stop_borrowers_for_it(inner: str) -> None:
    c = Cluster().node("a", 8).queue("lab", guarantee=4).queue("lab/one").queue("works")
    c.running(1, on={"a": 4}, workers=4, queue="works").running(2, on={"a": 4}, workers=4, queue="works")
    c.waiting(3, workers=4, queue=inner)
    assert [action.reason for action in c.plan().actions if isinstance(action, StopJob)] == [StopReason.RECLAIMED]


def test_users_that_share_a_queue_stop_borrowers_for_its_guarantee() -> None:
    c = Cluster().node("a", 8).queue("lab", guarantee=4, share_users=True).queue("works")
    c.running(1, on={"a": 4}, workers=4, queue="works").running(2, on={"a": 4}, workers=4, queue="works")
    c.waiting(3, workers=4, queue="lab", user="ann")
    assert [action.reason for action in c.plan().actions if isinstance(action, StopJob)] == [StopReason.RECLAIMED]


def test_one_job_stops_a_borrower_for_the_guarantee_and_another_has_its_share_by_a_shrink() -> None:
    c = Cluster().node("x", 4, gpu_type="x").node("y", 6, gpu_type="y").node("o", 2)
    c.queue("works", weight=0.5).queue("lab", guarantee=1, limit={"y": 1}, weight=0.5)
    c.running(1, on={"x": 3}, workers=(1, 4), queue="works", gpu_type="x")
    c.running(2, on={"y": 2}, workers=2, queue="works", gpu_type="y")
    c.running(3, on={"y": 2}, workers=2, queue="works", gpu_type="y", slots_per_worker=2)
    c.waiting(4, queue="lab", gpu_type="y").waiting(5, queue="lab", gpu_type="x")
    c.waiting(6, workers=(1, 9), gpu_type="x").waiting(7, queue="works", gpu_type="x")
    taken = [action for action in c.plan().actions if isinstance(action, Shrink | StopJob)]
    assert {StopJob: 4, Shrink: 5}.items() <= {type(action): action.for_job for action in taken[:2]}.items()


@pytest.mark.parametrize("path", ["lab", "lab/one"])
def test_jobs_that_are_not_preemptible_start_inside_the_guarantee_of_a_queue_around_theirs(path: str) -> None:
    c = Cluster().node("a", 8).queue("lab", guarantee=4, share_users=path == "lab")
    if path != "lab":
        c.queue(path)
    c.waiting(1, workers=4, queue=path, user="ann", preemptible=False)
    c.settle()
    assert running(c) == {1: 4}


def test_a_guarantee_of_a_gpu_type_covers_jobs_that_are_not_preemptible() -> None:
    c = Cluster().node("h", 8, gpu_type="H100").queue("left", guarantee={"H100": 4})
    c.waiting(1, workers=4, queue="left", gpu_type="H100", preemptible=False)
    c.settle()
    assert running(c) == {1: 4}


def test_what_a_limit_for_each_user_keeps_a_queue_from_using_goes_to_others() -> None:
    c = Cluster().node("a", 9).queue("small", user_limit=1).queue("left").queue("right")
    c.running(1, on={"a": 1}, workers=(1, 9), queue="small", user="ann")
    c.running(2, on={"a": 8}, workers=(1, 9), queue="left").waiting(3, workers=(1, 9), queue="right")
    c.settle()
    assert running(c) == {1: 1, 2: 4, 3: 4}


def test_rests_of_slots_keep_no_queue_far_above_its_share() -> None:
    """1.6 slots each: none of four queues may take a second one, for it would come above its own."""
    c = Cluster().node("a", 8).queue("q0").running(1, on={"a": 4}, workers=(1, 8), queue="q0")
    for number in range(2, 6):
        c.queue(f"q{number}").running(number, on={"a": 1}, workers=(1, 8), queue=f"q{number}")
    c.settle()
    assert running(c)[1] == 2


def test_a_blocked_job_keeps_no_slots_that_another_queue_is_entitled_to_and_those_that_it_would_borrow() -> None:
    c = Cluster().node("a", 4).node("b", 4).queue("left").queue("right")
    c.running(1, on={"a": 1, "b": 1}, workers=2, queue="left", preemptible=False)
    c.running(2, on={"a": 1, "b": 1}, workers=2, queue="right", preemptible=False)
    c.waiting(3, slots_per_worker=4, queue="left").waiting(4, workers=(1, 8), queue="right")
    c.settle()
    assert running(c)[4] == 2, "right is entitled to four"


def test_a_large_job_is_not_overtaken_for_ever_by_small_ones_of_its_own_queue() -> None:
    c = Cluster().node("a", 8).queue("left").queue("right").running(1, on={"a": 4}, workers=4, queue="right")
    c.running(2, on={"a": 1}, queue="left", preemptible=False).waiting(3, workers=4, queue="left")
    for number in range(4, 9):
        c.waiting(number, queue="left")
    c.step()
    assert sorted(running(c)) == [1, 2]


def test_jobs_of_any_type_keep_off_a_type_that_is_guaranteed_to_others() -> None:
    c = Cluster().node("a", 2, gpu_type="A100").node("h", 2, gpu_type="H100")
    c.queue("left", guarantee={"*": 8, "H100": 5}).queue("right", guarantee={"*": 5, "A100": 8})
    c.waiting(2, queue="left").running(1, on={"a": 1}, workers=(1, 4), queue="right", gpu_type="A100")
    c.settle()
    assert running(c) == {1: 2, 2: 1}


def test_a_guarantee_of_a_gpu_type_is_part_of_that_of_any_type() -> None:
    c = Cluster().node("a", 5, gpu_type="A100").queue("left", guarantee={"A100": 6}).queue("right", guarantee=1)
    c.waiting(1, workers=(1, 9), queue="left", gpu_type="A100")
    c.waiting(2, workers=2, slots_per_worker=2, queue="right", gpu_type="A100")
    c.settle()
    assert running(c)[1] in (1, 4, 5), "and nobody is stopped and started again"


def test_a_claim_of_one_gpu_type_passes_by_reservations_on_nodes_of_others() -> None:
    c = Cluster().node("h", 4, gpu_type="H100").node("v", 4, gpu_type="V100")
    c.queue("left", guarantee={"H100": 4}).queue("right")
    c.running(1, on={"h": 4}, workers=(1, 4), queue="right", gpu_type="H100")
    c.running(2, on={"v": 4}, workers=(1, 4), queue="right", gpu_type="V100")
    c.waiting(3, workers=2, queue="right", gpu_type="V100", reservation=(("v", 2),), priority=5)
    c.waiting(4, workers=3, queue="left", gpu_type="H100")
    c.settle()
    assert running(c)[4] == 3


def test_a_guarantee_of_one_type_covers_no_job_on_another() -> None:
    c = Cluster().node("h", 4, gpu_type="H100").node("a", 4, gpu_type="A100")
    c.queue("left", guarantee={"H100": 4}).queue("right", guarantee={"A100": 4})
    c.running(1, on={"h": 4}, workers=4, queue="left", gpu_type="H100")
    c.waiting(2, workers=4, queue="left", gpu_type="A100", preemptible=False)
    c.step()
    assert c.reason(2) is WaitReason.NOT_GUARANTEED


@pytest.mark.parametrize("more", [1, 2, 3])
def test_jobs_that_wait_for_a_type_beyond_its_slots_keep_no_other_queue_from_its_guarantee(more: int) -> None:
    c = Cluster().node("a", 5, gpu_type="A100").node("h", 2, gpu_type="H100")
    c.queue("left", guarantee=5).queue("right", guarantee={"H100": 6})
    c.running(9, on={"a": 5}, workers=5, gpu_type="A100").waiting(1, workers=5, queue="left", gpu_type="A100")
    for number in range(2, 2 + more):
        c.waiting(number, workers=2, queue="right", gpu_type="H100")
    c.settle()
    assert running(c) == {1: 5, 2: 2}


def test_what_is_guaranteed_of_a_type_covers_no_job_that_names_none() -> None:
    c = Cluster().node("h", 8, gpu_type="H100").node("a", 8, gpu_type="A100")
    c.queue("left", guarantee={"*": 1, "H100": 4})
    c.running(1, on={"h": 4}, workers=4, queue="left", gpu_type="H100")
    c.waiting(2, workers=2, queue="left", preemptible=False, priority=5)
    c.waiting(3, workers=1, queue="left", preemptible=False)
    c.settle()
    assert c.reason(2) is WaitReason.NOT_GUARANTEED, "job 1 may end, and with it the guarantee"
    assert running(c) == {1: 4, 3: 1}


@pytest.mark.parametrize("one_by_one", [True, False])
def test_what_is_guaranteed_of_a_type_covers_nothing_beyond_what_is_guaranteed_in_all(one_by_one: bool) -> None:
    c = Cluster().node("h", 8, gpu_type="H100").node("a", 8, gpu_type="A100")
    c.queue("lab", guarantee=4).queue("lab/night", guarantee={"*": 4, "H100": 8})
    c.waiting(1, workers=4, queue="lab/night", gpu_type="A100", preemptible=False)
    if one_by_one:
        c.settle()
    c.waiting(2, workers=3, queue="lab", gpu_type="H100", preemptible=False)
    c.waiting(3, workers=3, queue="lab/night", gpu_type="H100", preemptible=False)
    c.settle()
    assert sum(running(c).values()) in (3, 4)
    assert WaitReason.NOT_GUARANTEED in (c.reason(2), c.reason(3))


def test_what_is_guaranteed_of_a_type_covers_no_fixed_group_of_any_type() -> None:
    c = Cluster().node("h", 4, gpu_type="H100").node("a", 4, gpu_type="A100").queue("left", guarantee={"H100": 2})
    fixed = FixedGroup(1, ("serve",), shape=WorkerShape(2))
    c.waiting(1, workers=1, slots_per_worker=2, gpu_type="H100", fixed=fixed, queue="left", preemptible=False)
    c.waiting(2, workers=1, slots_per_worker=2, gpu_type="H100", queue="left", preemptible=False)
    c.settle()
    assert c.reason(1) is WaitReason.NOT_GUARANTEED
    assert running(c) == {2: 1}


def test_a_blocked_job_starts_on_slots_that_come_free_after_its_turn() -> None:
    c = Cluster().node("a", 3).queue("lab", guarantee=4).queue("lab/deep", guarantee=8)
    fixed, one = FixedGroup(1, ("serve",), shape=WorkerShape(2)), (("a", 1),)
    c.waiting(1, queue="lab", preemptible=False, fixed=fixed, reservation=one, fixed_reservation=one)
    c.waiting(2, queue="lab/deep", workers=(1, 6), slots_per_worker=2)
    c.step()
    assert c.reason(1) is WaitReason.NOT_GUARANTEED, "job 2 wants what is guaranteed to its queue inside"
    assert running(c) == {2: 1}


def test_equals_of_two_queues_do_not_share_with_each_other() -> None:
    c = Cluster().node("a", 8).queue("left", guarantee=6).queue("right")
    c.running(1, on={"a": 6}, workers=(1, 8), queue="left").running(2, on={"a": 2}, workers=2, queue="right")
    c.waiting(3, workers=(1, 8), queue="right", reservation=(("a", 1),))
    for _ in range(4):
        c.step(60)
    assert running(c)[1] == 6


def test_a_limit_of_a_type_holds_for_a_fixed_group_that_names_none() -> None:
    c = Cluster().node("h", 4, gpu_type="H100").node("a", 4, gpu_type="A100").queue("left", limit={"A100": 0})
    c.waiting(1, workers=1, queue="left", gpu_type="H100", fixed=FixedGroup(2, ("serve",), shape=WorkerShape()))
    made = c.step()
    assert all(name == "h" for action in made.actions if isinstance(action, Start) for name, _ in action.fixed)


def test_a_job_that_a_limit_by_type_never_lets_start_keeps_no_room_from_others() -> None:
    beside = FixedGroup(3, ("serve",), shape=WorkerShape(1))
    c = Cluster().node("h", 5, gpu_type="H100").queue("lab").queue("lab/one", guarantee={"*": 8, "H100": 8})
    c.queue("lab/one/deep", limit={"*": 4, "H100": 2}).queue("lab/two")
    c.waiting(1, fixed=beside, preemptible=False, queue="lab/one/deep")
    c.waiting(2, workers=3, gpu_type="H100", queue="lab/two")
    assert c.actions() == [Start(JobId(2), (("h", 3),))]


def test_a_node_of_which_others_hold_more_than_it_has_takes_nothing_from_other_nodes() -> None:
    c = Cluster().node("a", 4).node("b", 1).queue("lab", guarantee=4)
    c.foreign[NodeName("b")] = ForeignUse(slots=3)
    c.waiting(1, workers=4, queue="lab", preemptible=False).step()
    assert running(c) == {1: 4}


def test_a_node_of_which_jobs_and_others_hold_more_than_it_has_takes_nothing_from_other_nodes() -> None:
    c = Cluster().node("a", 4).node("b", 2).queue("lab", guarantee=6)
    c.running(2, on={"b": 1}, workers=1, queue="lab").foreign[NodeName("b")] = ForeignUse(slots=3)
    c.waiting(1, workers=4, queue="lab", preemptible=False).step()
    assert c.reason(1) is None


def test_what_a_job_frees_below_a_limit_goes_to_no_other_while_shared_slots_are_held_for_that_job() -> None:
    c = Cluster().node("a", 2).node("b", 2, oversell=2.0, labels={"zone": "b"}).queue("lab", limit=2).queue("lab/two")
    c.running(1, on={"a": 2}, workers=2, priority=1, queue="lab/two")
    c.running(2, on={"b": 2}, workers=2, priority=9, preemptible=False)
    c.waiting(3, slots_per_worker=2, priority=8, queue="lab/two", oversell=True, selector={"zone": "b"})
    c.waiting(4, workers=2, priority=5, queue="lab")
    first = c.step()
    assert [action.for_job for action in first.actions if isinstance(action, StopJob)] == [3]
    assert [action.job_id for action in first.actions if isinstance(action, Reserve)] == [3]
    c.settle()
    assert 3 in running(c)


@pytest.mark.parametrize("shrinks", [True, False])
def test_a_job_of_any_type_takes_of_its_queue_what_a_limit_of_a_type_leaves_to_nobody_else(shrinks: bool) -> None:
    c = Cluster().node("a", 8, gpu_type="H100").queue("lab", limit={"H100": 4})
    c.running(1, on={"a": 4}, workers=(1 if shrinks else 4, 4), priority=6, queue="lab")
    c.waiting(2, workers=3, priority=8, queue="lab")
    c.settle()
    assert running(c) == ({1: 1, 2: 3} if shrinks else {2: 3})


def test_a_job_keeps_no_room_from_others_where_its_queue_may_not_have_it() -> None:
    """Job 1 may have two slots of h100, and waits for the closed slots of the other node."""
    closed = tuple(ClosedSlot(slot, SlotClosure.UNREADABLE, "") for slot in range(4))
    c = Cluster().node("h", 6, gpu_type="h100").node("a", 4, closed_slots=closed).queue("works", 8, {"h100": 2})
    c.waiting(1, workers=4, priority=6, queue="works").waiting(2, workers=4, priority=2)
    assert [(action.job_id, action.placement) for action in c.plan().actions] == [(2, (("h", 4),))]


def test_a_queue_goes_first_for_its_guarantee_only_with_a_job_that_fits_into_it() -> None:
    """Otherwise what job 2 starts with would be taken for job 1, and job 2 started again, and so on."""
    c = Cluster().node("a", 4).queue("left", guarantee=2).queue("right", guarantee=1)
    c.waiting(1, workers=(1, 2), queue="left").waiting(2, workers=3, queue="right")
    assert [c.step(60).actions for _ in range(3)] == [(Start(JobId(1), (("a", 2),)),), (), ()]


def test_a_queue_goes_first_for_a_guarantee_of_a_type_only_with_a_job_that_may_use_it() -> None:
    c = Cluster().node("x", 8, gpu_type="X").node("y", 4, gpu_type="Y")
    c.queue("left").queue("right", guarantee={"Y": 1})
    c.running(6, {"y": 4}, workers=4, preemptible=False).waiting(5, gpu_type="Y", priority=-1, queue="right")
    c.running(3, {"x": 2}, workers=2, queue="left").running(4, {"x": 4}, workers=4, queue="right")
    c.waiting(1, workers=2, gpu_type="X", queue="right").waiting(2, workers=2, gpu_type="X", queue="left")
    assert c.actions() == [Start(JobId(2), (("x", 2),))]


def test_nothing_is_taken_for_a_job_that_has_just_grown_and_cools_down() -> None:
    """Job 3 would start with what is freed, and have it taken."""
    c = Cluster().node("a", 8).queue("lab", guarantee=4)
    c.running(1, {"a": 6}, workers=(1, 7), queue="").running(2, {"a": 1}, workers=(1, 8), queue="lab")
    grown = c.waiting(3, workers=(1, 8), priority=1, queue="").actions()
    assert Grow(JobId(2), (("a", 1),)) in grown
    assert not [action for action in grown if isinstance(action, Shrink) and action.for_job == 2]


def test_what_a_queue_lacks_of_a_guarantee_of_a_type_is_not_given_to_a_guarantee_of_any_type() -> None:
    """Otherwise the free slot would go to job 2, which holds less of its guarantee, and be taken back for job 1."""
    c = Cluster().node("n", 8, gpu_type="y").queue("left", guarantee={"y": 5}).queue("right", guarantee=6)
    c.running(1, {"n": 4}, workers=(4, 5), queue="left", gpu_type="y")
    c.running(2, {"n": 3}, workers=(3, 11), queue="right", gpu_type="y")
    assert [c.step(60).actions for _ in range(2)] == [(Grow(JobId(1), (("n", 1),)),), ()]


def test_growth_inside_a_guarantee_of_a_type_comes_before_a_start_also_behind_growth_beyond_it() -> None:
    """Job 3 grows first in its queue, which holds much; what job 1 would start with is taken for job 2 at once."""
    c = Cluster().node("n", 2, gpu_type="x").node("m", 5, gpu_type="y").queue("lab", guarantee={"x": 2})
    c.running(1, {"n": 1}, queue="").waiting(2, workers=(1, 2), queue="lab", gpu_type="x")
    c.running(3, {"m": 2}, workers=(2, 6), queue="lab", gpu_type="y").settle()
    assert running(c) == {1: 1, 2: 2, 3: 4}


def test_growth_inside_a_guarantee_of_a_type_comes_before_that_of_others_also_behind_growth_beyond_it() -> None:
    """Job 3 grows first in its queue, which holds much; what job 1 would grow by is taken for job 2 at once."""
    c = Cluster().node("n", 7, gpu_type="x").node("m", 8, gpu_type="y").queue("lab", guarantee={"x": 4}, limit={"y": 3})
    c.running(1, {"n": 3}, workers=(2, 4)).running(2, {"n": 3}, workers=(3, 4), priority=2, queue="lab", gpu_type="x")
    c.running(3, {"m": 3}, workers=(3, 4), priority=3, queue="lab", gpu_type="y").settle()
    assert running(c) == {1: 3, 2: 4, 3: 3}


def test_a_guarantee_of_a_type_and_one_of_any_that_together_exceed_the_slots_take_nothing_from_each_other() -> None:
    """What is guaranteed of a type is kept; that of any type is what the rest has."""
    c = Cluster().node("n", 6, gpu_type="x").queue("left", guarantee={"x": 4}).queue("right", guarantee=4)
    c.running(1, {"n": 3}, workers=(1, 6), queue="left", slots_per_worker=2)
    c.waiting(2, workers=(3, 4), priority=2, queue="left", gpu_type="x").waiting(3, workers=(2, 4), queue="right")
    c.settle()
    shares = c.plan().shares
    assert [(share.path, share.guaranteed, share.held) for share in shares] == [("left", 4, 4), ("right", 2, 2)]


@pytest.mark.parametrize(("workers", "then"), [(3, {1: 2, 3: 3}), (4, {1: 1, 2: 4})])
def test_for_a_guarantee_of_any_type_a_job_is_stopped_only_if_others_keep_one_of_a_type(
    workers: int, then: dict[int, int]
) -> None:
    """Otherwise job 3 would stop job 2, and job 1 grow for its guarantee and leave too little for job 3."""
    c = Cluster().node("n", 1, gpu_type="x").node("m", 5, gpu_type="y")
    c.queue("left", guarantee={"y": 2}).queue("right", guarantee=6)
    c.running(1, {"m": 1}, workers=(1, 4), queue="left").running(2, {"m": 4}, workers=4, queue="left", gpu_type="y")
    c.waiting(3, workers=workers, queue="right", gpu_type="y").settle()
    assert running(c) == then
