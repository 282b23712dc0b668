"""What was held for a job and is gone: when that is right, and when it is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scheduler.config import PolicySettings
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.slot import ClosedSlot, SlotClosure
from scheduler.policy.planner import plan
from scheduler.policy.snapshot.order import Order
from tests.invariants.broken import Broken
from tests.invariants.reserved import Promises, reservations_fit
from tests.policy.worlds import DOWN, NOW, Cluster, enact

#: Three slots of `a` are held for job 2, which waits.
HELD = ((NodeName("a"), 3),)


def before(**settings: Any) -> Cluster:
    """Job 1 is on slot 0 of `a`, and job 2 holds the other three."""
    c = Cluster(PolicySettings(**settings)).node("a", 4).node("b", 2)
    c.running(1, {"a": 1}, priority=5, preemptible=False)
    return c.waiting(2, priority=5, workers=(3, 4), reservation=HELD)


def is_lost_rightly(then: Cluster, now: Cluster, moment: tuple[int, int] = (1, 2)) -> bool:
    """Whether the check lets pass that job 2 has nothing held any more; the first look is of the first commit."""
    promises = Promises()
    promises.after_tick(then.world(), Order(then.now, then.settings), then.settings, (1, 1))
    try:
        promises.after_tick(now.world(), Order(now.now, now.settings), now.settings, moment)
    except Broken:
        return False
    return True


def after(change: Callable[[Cluster], object], **settings: Any) -> Cluster:
    """What was before with this change, and without the reservation."""
    c = before(**settings)
    c.jobs[JobId(2)] = c.jobs[JobId(2)].unreserved()
    change(c)
    return c


def closed(c: Cluster, *slots: int) -> Cluster:
    each = tuple(ClosedSlot(slot, SlotClosure.UNREADABLE, "") for slot in slots)
    c.nodes[NodeName("a")] = replace(c.nodes[NodeName("a")], closed_slots=each)
    return c


def change_job(c: Cluster, number: int, **fields: Any) -> None:
    c.jobs[JobId(number)] = replace(c.jobs[JobId(number)], **fields)


def held(c: Cluster, held_from: JobState) -> Cluster:
    """Job 3 is held, with its worker on slot 1 of `a`."""
    return c.running(3, {"a": 1}, state=JobState.HELD, held_from=held_from).stray(3, "a", (1,))


RIGHT: dict[str, Callable[[Cluster], object]] = {
    "another minimum": lambda c: change_job(c, 2, min_workers=4),
    "left the queue and came back": lambda c: change_job(c, 2, queued_at=c.now),
    "pauses": lambda c: change_job(c, 2, not_before=c.now + 1.0),
    "its node is down": lambda c: c.node("a", 4, health=DOWN),
    "its node has a slot less": lambda c: c.node("a", 3),
    "a free slot is closed": lambda c: closed(c, 3),
    "others took a slot": lambda c: c.foreign.update({NodeName("a"): ForeignUse(slots=1)}),
    "others wait for its node": lambda c: c.demand("pod", nodes=["a"]),
    "one ahead started there": lambda c: c.running(3, {"a": 1}, priority=6),
    "one ahead holds a slot": lambda c: c.waiting(3, priority=6, reservation=((NodeName("a"), 1),)),
}
WRONG: dict[str, Callable[[Cluster], object]] = {
    "nothing happened": lambda c: None,
    "others took another node": lambda c: c.foreign.update({NodeName("b"): ForeignUse(slots=1)}),
    "others wait for another node": lambda c: c.demand("pod", nodes=["b"]),
    "an equal started there": lambda c: c.running(3, {"a": 1}, priority=5),
    "an equal holds a slot": lambda c: c.waiting(3, priority=5, reservation=((NodeName("a"), 1),)),
    "one ahead started elsewhere": lambda c: c.running(3, {"b": 1}, priority=6),
    "one ahead holds a slot elsewhere": lambda c: c.waiting(3, priority=6, reservation=((NodeName("b"), 1),)),
    "its node grew": lambda c: c.node("a", 5),
}


@pytest.mark.parametrize("change", RIGHT.values(), ids=RIGHT)
def test_what_does_not_fit_any_more_is_lost_rightly(change: Callable[[Cluster], object]) -> None:
    assert is_lost_rightly(before(), after(change))


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_would_still_fit_is_lost_to_nobody_more_important(change: Callable[[Cluster], object]) -> None:
    assert not is_lost_rightly(before(), after(change))


def test_a_slot_that_opens_under_a_worker_makes_up_for_no_free_one_that_closes() -> None:
    """As many slots are closed as before, and one less is free."""
    assert is_lost_rightly(closed(before(), 0), after(lambda c: closed(c, 3)))
    assert not is_lost_rightly(closed(before(), 0), after(lambda c: closed(c, 0)))


def test_slots_that_nobody_holds_are_free_for_an_equal_even_if_one_ahead_then_takes_what_is_held() -> None:
    """Of five slots one is free beside what is held."""

    def then() -> Cluster:
        return before().node("a", 5)

    def now(*others: tuple[int, int]) -> Cluster:
        c = after(lambda c: c.node("a", 5))
        for number, (priority, slots) in enumerate(others, start=3):
            c.running(number, {"a": slots}, priority=priority)
        return c

    equal, ahead = (5, 1), (6, 1)
    assert is_lost_rightly(then(), now(equal, ahead))
    assert not is_lost_rightly(then(), now(equal))
    assert not is_lost_rightly(then(), now(ahead)), "one took the free slot: the others are still there"
    assert not is_lost_rightly(then(), now((5, 2), ahead)), "an equal took what was held"


def test_a_worker_needs_as_many_slots_open_to_share_as_it_has() -> None:
    """Two of eight shared slots are held for it, and there are two while only one of the four slots is not crowded."""

    def c(*crowded: int, **fields: Any) -> Cluster:
        shares = Cluster().node("a", 4, oversell=3.0).waiting(2, slots_per_worker=2, oversell=True, **fields)
        for slot in crowded:
            shares.crowd("a", slot)
        return shares

    then = c(0, 1, reservation=((NodeName("a"), 1),), reservation_shared=True)
    assert is_lost_rightly(then, c(0, 1, 2))
    assert not is_lost_rightly(then, c(0, 1))


def test_a_guarantee_may_shrink_where_nodes_have_more_that_others_claim() -> None:
    """With a slot more elsewhere a job of another queue can run, whose queue claims its guarantee then."""
    for reason, right in ((WaitReason.NOT_GUARANTEED, True), (WaitReason.INSUFFICIENT_SLOTS, False)):
        then, now = before(), after(lambda c: c.node("b", 3))
        change_job(now, 2, wait_reason=reason)
        for c in (then.queue("lab"), now.queue("lab")):
            c.waiting(3, priority=4, workers=(7, 7), queue="lab")
        assert is_lost_rightly(then, now) is right


ZONES = {zone: {"labels": {"zone": zone}} for zone in ("a", "b")}


def guaranteed(**job: Any) -> Cluster:
    """Job 2 waits for what it is guaranteed on `a`, and so does job 3 of another queue on `b`."""
    c = Cluster().node("a", 4, **ZONES["a"]).node("b", 4, **ZONES["b"])
    c.queue("lab", guarantee=4).queue("lab/deep", guarantee=8).queue("right", guarantee=4)
    c.running(1, {"a": 4}, workers=4, queue="right").running(7, {"b": 4}, workers=4, queue="right", preemptible=False)
    c.waiting(2, workers=4, queue="lab", preemptible=False, selector={"zone": "a"})
    return c.waiting(3, **{"workers": 4, "queue": "lab/deep", "selector": {"zone": "b"}, **job})


def limited_by_type() -> Cluster:
    """Job 2 names no type, and waits on `a` below the limit of one."""
    c = Cluster().node("a", 4, gpu_type="H", **ZONES["a"]).node("b", 4, gpu_type="H", **ZONES["b"])
    c.queue("lab", limit={"H": 4}).queue("right").running(1, {"a": 4}, workers=4, queue="lab")
    return c.waiting(2, workers=4, queue="lab", priority=3, selector={"zone": "a"})


def closed_queue(c: Cluster, *paths: str) -> Cluster:
    c.spent = frozenset(paths)
    return c


def later(c: Cluster) -> None:
    c.now += 10.0


BY_RULES: dict[str, tuple[Cluster, Callable[[Cluster], object]]] = {
    "a pause ends": (guaranteed(not_before=NOW + 5.0), later),
    "a budget is there again": (closed_queue(guaranteed(), "lab/deep"), closed_queue),
    "another needs less": (guaranteed(workers=(5, 8)), lambda c: change_job(c, 3, min_workers=4)),
    "one ahead names the type": (
        limited_by_type(),
        lambda c: c.waiting(3, workers=4, queue="lab", priority=5, gpu_type="H", selector={"zone": "b"}),
    ),
}


@pytest.mark.parametrize(("c", "change"), BY_RULES.values(), ids=BY_RULES)
def test_rules_of_queues_may_take_away_what_was_held(c: Cluster, change: Callable[[Cluster], object]) -> None:
    promises = Promises()
    for commits in (1, 2):
        if commits == 2:
            assert c.jobs[JobId(2)].reservation
            change(c)
        enact(c, plan(c.world(), c.now, c.settings), slowly=True)
        promises.after_tick(c.world(), Order(c.now, c.settings), c.settings, (1, commits))
    assert not c.jobs[JobId(2)].reservation


def test_slots_that_a_job_was_freeing_are_not_freed_while_that_is_held() -> None:
    then = before().running(3, {"a": 3}, state=JobState.STOPPING)
    gone = after(lambda c: None)
    assert not is_lost_rightly(then, gone)
    is_held = after(lambda c: held(c, JobState.STOPPING))
    assert is_lost_rightly(then, is_held)


def test_a_victim_has_no_right_to_the_slots_that_it_frees() -> None:
    then = before().running(3, {"a": 3}, leaving=3, workers=(1, 4))
    assert not is_lost_rightly(then, after(lambda c: c.running(3, {"a": 1}, workers=(1, 4))))


def test_a_worker_that_is_replaced_on_its_slots_takes_nothing() -> None:
    """Job 1 has another worker on slot 0 now, beside which what was held would still fit."""
    renewed = after(lambda c: change_job(c, 1, workers=(replace(c.jobs[JobId(1)].workers[0], created_at=c.now),)))
    assert not is_lost_rightly(before(), renewed)


def test_where_sizes_are_fixed_another_cluster_may_mean_another_size() -> None:
    """It wants four workers: with one slot more there are as many."""
    for change, right in ((lambda c: c.node("b", 3), False), (lambda c: c.node("a", 3).node("b", 0), True)):
        assert is_lost_rightly(before(name="fifo"), after(change, name="fifo")) is right
    small = before(name="fifo").node("b", 0).node("a", 3)
    assert is_lost_rightly(small, after(lambda c: c.node("a", 3).node("b", 1), name="fifo"))


def test_only_looks_with_one_commit_between_them_are_compared() -> None:
    """Else a node may have been away, or somebody may have come and gone; or another leader decided otherwise."""
    now = after(lambda c: None)
    assert not is_lost_rightly(before(), now, (1, 2))
    assert not is_lost_rightly(before(), now, (2, 2))
    assert is_lost_rightly(before(), now, (1, 3))
    assert is_lost_rightly(before(), now, (3, 2))
    assert is_lost_rightly(before(), after(lambda c: None, share=False))


def test_nobody_sits_on_what_is_held() -> None:
    reservations_fit(before().world())
    for change in (
        lambda c: c.running(3, {"a": 1}),
        lambda c: closed(c, 3),
        lambda c: c.foreign.update({NodeName("a"): ForeignUse(slots=1)}),
        lambda c: held(c, JobState.RUNNING),
    ):
        c = before()
        change(c)
        with pytest.raises(Broken):
            reservations_fit(c.world())
