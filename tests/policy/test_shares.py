"""What accounts hold in a draft, against what they are entitled and limited to."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.model.job_state import WaitReason
from scheduler.model.plan import QueueShare
from scheduler.policy.queues.entitlement import Entitlement
from scheduler.policy.queues.shares import Counts, Quota, Shares, Standing, kind_of
from scheduler.policy.queues.tree import TOP, Lane, Tree
from tests.policy.worlds import Cluster

#: Guaranteed and total slots of any type, then of x where a queue names it.
Parts = tuple[tuple[float, float], ...]


def shares(c: Cluster, entitled: Mapping[str, Parts] | None = None, **fields: Any) -> Shares:
    """`fields`: those of a standing; the first node is one of x where a queue names that."""
    tree = Tree({queue.path: queue for queue in c.queues})
    parts = {account: tuple(Entitlement(*part) for part in each) for account, each in (entitled or {}).items()}
    return Shares(Standing(tree, (len(tree.kinds) - 1, 0), parts, **fields))


def lane(of: Shares, path: str, user: str = "ann") -> Lane:
    c = Cluster().waiting(1, queue=path, user=user)
    return of.tree.lane_of(next(iter(c.jobs.values())))


def slots(count: int, node: int = 0) -> tuple[tuple[int, tuple[int, int, int]], ...]:
    return ((node, (count, 0, 0)),)


def lab(**fields: Any) -> Shares:
    """`lab` has 2 slots guaranteed and 4 in all; `lab/one`, inside it, may have 2."""
    c = Cluster().queue("lab", guarantee=2).queue("lab/one").queue("works")
    return shares(c, {"lab": ((2, 4),), "lab/one": ((0, 2),), "works": ((0, 4),)}, **fields)


def typed(**held: Counts) -> Shares:
    """`left` is guaranteed 4 slots of x, and `right` none."""
    c = Cluster().queue("left", guarantee={"x": 4}).queue("right")
    return shares(c, {"left": ((4, 6), (4, 4)), "right": ((0, 2), (0, 0))}, held=held)


def test_slots_count_for_their_kind_on_the_physical_nodes() -> None:
    standing = typed().standing
    assert standing.counts((*slots(2, 0), *slots(3, 1), *slots(1, 0), *slots(5, 2))) == (6, 3)
    assert standing.typed("x", 3) == (3, 3)
    assert standing.typed("y", 3) == standing.typed(None, 3) == (3, 0)
    assert [kind_of(counts) for counts in ((0, 0, 0), (4, 0, 0), (4, 0, 4), (4, 4, 0))] == [0, 0, 2, 1]


def test_what_is_told_of_queues_and_of_users_that_share_one() -> None:
    entitled = {name: ((k, k + 4.0),) for k, name in enumerate(("/.", "lab", "lab/.", "lab@ann", "works"))}
    wanted = {name: (9 + k,) for k, name in enumerate(("works", "lab@ann", "lab/.", "lab", "/."))}
    of = shares(Cluster().queue("lab"), entitled, wanted=wanted, held={"lab": (3,)})
    assert of.standing.shares == (
        QueueShare("", None, 0, 4, 13, 0),
        QueueShare("lab", None, 1, 5, 12, 3),
        QueueShare("lab", "ann", 3, 7, 10, 0),
        QueueShare("works", None, 4, 8, 9, 0),
    )


def test_a_job_counts_in_all_its_accounts_until_it_has_left() -> None:
    c = Cluster().queue("lab", limit=4).queue("lab/one", guarantee=4)
    of = shares(c, {"lab": ((4, 4),), "lab/one": ((4, 4),)})
    one = lane(of, "lab/one")
    of.put(one, slots(3), 1, pinned=True)
    assert (of.held("lab"), of.held("lab/one")) == ((3,), (3,))
    assert [of.room(one, (count,)) for count in (1, 2)] == [True, False]
    assert [of.pins(one, (count,)) for count in (1, 2)] == [True, False]
    of.leave(one, slots(2))
    assert (of.held("lab"), of.held("lab/one")) == ((1,), (1,))
    assert [of.room(one, (count,)) for count in (1, 2)] == [True, False], "what is leaving is in use"
    assert of.lacking(one, (3,)) == []
    assert of.lacking(one, (4,)) == [Quota("lab", 0, 1)]


def test_what_nobody_may_take_counts_until_somebody_may() -> None:
    of = shares(Cluster().queue("lab", guarantee=4), {"lab": ((4, 4),)})
    one = lane(of, "lab")
    of.put(one, slots(3), 1, pinned=True)
    of.put(one, slots(1), -1, pinned=False)
    of.pin(one, slots(1), -1)
    assert (of.held("lab"), [of.pins(one, (count,)) for count in (2, 3)]) == ((2,), [True, False])
    of.leave(one, slots(2))
    of.pin(one, slots(1), 1)
    assert (of.held("lab"), [of.pins(one, (count,)) for count in (1, 2)]) == ((0,), [True, False])
    of.put(one, slots(2), 1, pinned=True)
    of.put(one, slots(1), -1, pinned=True)
    assert (of.held("lab"), of.pins(one, (1,))) == ((1,), False), "3 and one more"
    of.put(one, slots(1), -1, pinned=True)
    assert (of.held("lab"), of.pins(one, (1,))) == ((0,), True)


def test_the_queue_that_holds_the_least_part_is_first_and_one_that_lacks_a_guarantee_is_before_all() -> None:
    c = Cluster().queue("a", guarantee=8).queue("b").queue("c").queue("d")
    entitled = {"a": ((4, 6),), "b": ((0, 4),), "c": ((0, 8),), "d": ((0, 0),)}
    of = shares(c, entitled, held={"a": (3,), "b": (0,), "c": (4,)}, used={"c": 5.0})
    assert [of.part(account) for account in "abcd"] == [0.5, 0, 0.5, float("inf")]
    assert sorted("abcd", key=lambda account: of.place(account, (1,))) == ["a", "b", "c", "d"]
    assert of.place("a", (1,))[0] < 0, "one slot is lacking"
    assert of.place("a", (2,)) == (0.5, 0), "two slots are more than it is guaranteed"
    assert [of.place(account, (1,)) for account in ("b", "c", "gone")] == [(0, 0), (0.5, 5.0), (float("inf"), 0)]
    of.put(lane(of, "a"), slots(1), 1, pinned=False)
    assert of.place("a", (1,)) == (4 / 6, 0), "it has all that it is guaranteed"


def test_among_queues_that_lack_guarantees_the_one_with_the_least_part_of_one_is_first() -> None:
    c = Cluster().queue("a", guarantee={"x": 8}).queue("b", guarantee=8)
    of = shares(c, {"a": ((4, 6), (4, 4)), "b": ((4, 6), (0, 0))}, held={"a": (2, 1), "b": (2, 2)})
    assert of.place("a", (1, 1)) < of.place("b", (1, 1)), "a quarter of what it is guaranteed of x"
    assert of.place("a", (1, 0)) == of.place("b", (1, 0)), "its job cannot be of x"


def test_of_the_oldest_jobs_of_queues_one_is_known() -> None:
    of = lab(oldest={"works": 7})
    assert (of.oldest("works"), of.oldest("lab")) == (7, 0)


def test_a_lane_takes_from_others_within_what_its_accounts_below_them_are_entitled_to() -> None:
    of = lab(held={"lab": (2,), "lab/one": (1,)})
    one = lane(of, "lab/one")
    assert of.depths_within(one, 1) == {0, 1}
    assert of.depths_within(one, 2) == set(), "lab/one would have 3 of 2"
    assert of.depths_within(one, 1, guaranteed=True) == set(), "lab has its guarantee, and lab/one has none"
    assert lab(held={"lab": (4,), "lab/one": (1,)}).depths_within(one, 1) == {1}, "from lab/two alone"
    assert lab(held={"lab": (1,)}).depths_within(one, 1, guaranteed=True) == {0}
    assert lab(held={"lab": (1,), "lab/one": (2,)}).depths_within(one, 1, guaranteed=True) == set()
    assert of.depths_within(Lane(("gone",), ()), 1) == of.depths_within(TOP, 1) == set()
    assert of.depths_within(Lane(("gone",), ()), 1, guaranteed=True) == set()
    assert [of.covers(one, count) for count in (2, 3)] == [True, False]
    assert (of.beyond("lab", 0), of.beyond("gone", 0)) == pytest.approx((-2, 0), abs=1e-5)
    assert math.floor(lab(held={"lab": (6,)}).beyond("lab", 0)) == 2


def test_a_queue_that_is_guaranteed_types_alone_takes_slots_of_those_types_for_it() -> None:
    of = typed(left=(3, 3))
    left = lane(of, "left")
    assert of.depths_within(left, 1, guaranteed=True) == set()
    assert of.depths_within(left, 1, kind=1, guaranteed=True) == {0}
    assert of.depths_within(left, 2, kind=1, guaranteed=True) == set()
    both = Cluster().queue("left", guarantee={"*": 4, "x": 4})
    assert shares(both, {"left": ((4, 6), (4, 4))}, held={"left": (3, 3)}).depths_within(left, 1, guaranteed=True) == {
        0
    }


def test_a_lane_lacks_what_it_is_entitled_to_or_what_is_guaranteed_of_a_type() -> None:
    def lacks(*held: int, path: str = "left") -> bool:
        of = typed(**{path: held})
        return of.lacks(lane(of, path))

    assert lacks(5, 4)
    assert not lacks(6, 4)
    assert lacks(6, 3), "of x"
    assert not lacks(2, 0, path="right")
    full = lab(held={"lab": (4,), "lab/one": (1,)})
    assert full.lacks(lane(full, "lab/one")), "lab/two holds what is lacking"
    two = Cluster().queue("left", guarantee={"x": 4, "y": 4})
    entitled: dict[str, Parts] = {"left": ((4, 6), (4, 4), (4, 4))}
    for held, found in (((6, 4, 3), True), ((6, 3, 4), True), ((6, 4, 4), False)):
        of = shares(two, entitled, held={"left": held})
        assert of.lacks(lane(of, "left")) == found


def test_what_others_lack_of_a_type_is_kept_for_them_as_they_get_and_lose_slots() -> None:
    of = typed(left=(3, 3))
    left, right = lane(of, "left"), lane(of, "right")
    assert typed(left=(3, 3)).promised_to_others(right) == {"x"}
    of.put(left, slots(1), 1, pinned=False)
    assert of.promised_to_others(right) == set()
    of.put(left, slots(2), -1, pinned=False)
    assert (of.promised_to_others(left), of.promised_to_others(right)) == (set(), {"x"})
    of.put(left, slots(1), 1, pinned=False)
    assert of.promised_to_others(right) == {"x"}, "one is lacking"
    of.put(left, slots(1), 1, pinned=False)
    assert of.promised_to_others(right) == set()
    of.put(right, slots(1), 1, pinned=False)
    of.put(left, slots(1), -1, pinned=False)
    assert of.promised_to_others(right) == {"x"}
    of.put(lane(of, "gone"), slots(1), 1, pinned=False)
    assert of.promised_to_others(right) == {"x"}, "nobody divides what jobs of no queue hold here"


def test_limits_bound_what_asks_for_slots() -> None:
    c = Cluster().queue("lab", limit={"*": 4, "x": 2}, user_limit=3)
    of = shares(c, held={"lab": (5, 3), "lab@ann": (4, 1)})
    ann = lane(of, "lab")
    assert of.lacking(ann, (0, 0)) == [], "above a lowered limit, it takes nothing"
    assert of.lacking(ann, (1, 0)) == [Quota("lab", 0, 2), Quota("lab@ann", 0, 2)]
    assert of.lacking(ann, (1, 1)) == [Quota("lab", 0, 2), Quota("lab", 1, 2), Quota("lab@ann", 0, 2)]
    assert of.room(ann, (0, 0))
    assert not of.room(ann, (1, 0))
    assert shares(c, held={"lab": (3, 1), "lab@ann": (2, 1)}).lacking(ann, (1, 1)) == []


@pytest.mark.parametrize(("held", "elsewhere", "found"), [(2, 1, None), (1, 3, WaitReason.QUEUE_LIMIT)])
def test_jobs_on_nodes_that_take_no_new_ones_give_up_nothing_of_a_limit(
    held: int, elsewhere: int, found: WaitReason | None
) -> None:
    of = shares(Cluster().queue("lab", limit=4), held={"lab": (held,)}, elsewhere={"lab": (elsewhere,)})
    assert of.why_never(lane(of, "lab"), (2,), preemptible=True) is found


def test_why_a_job_gets_nothing_whatever_others_give_up() -> None:
    c = Cluster().queue("lab", guarantee=4, limit=9, user_limit=6).queue("works").queue("bad", readable=False)
    entitled = {"lab": ((4, 6),), "works": ((0, 2),)}
    of = shares(c, entitled, closed=frozenset({"works", "bad"}), pinned={"lab": (2,)})
    ann = lane(of, "lab")

    def why(path: str, count: int, *, preemptible: bool = True) -> WaitReason | None:
        return of.why_never(lane(of, path), (count,), preemptible=preemptible)

    assert why("lab", 6) is why("lab", 2, preemptible=False) is None
    assert why("lab", 7) is WaitReason.USER_LIMIT
    assert why("lab", 10) is WaitReason.QUEUE_LIMIT
    assert why("lab", 3, preemptible=False) is WaitReason.NOT_GUARANTEED
    assert (why("works", 1), why("bad", 1)) == (WaitReason.BUDGET_SPENT, WaitReason.QUEUE_UNREADABLE)
    assert (of.room(ann, (1,)), of.room(lane(of, "works"), (1,))) == (True, False)


def test_guarantees_of_all_queues_around_a_job_cover_it_and_there_has_to_be_one() -> None:
    c = Cluster().queue("lab", guarantee=4, share_users=True).queue("works").queue("works/one", guarantee=9)
    entitled = {"lab": ((4, 4),), "lab@ann": ((0, 2),), "works": ((0, 3),), "works/one": ((9, 9),)}
    of = shares(c, entitled)
    ann, one = lane(of, "lab"), lane(of, "works/one")
    assert [of.pins(ann, (count,)) for count in (2, 3)] == [True, False], "ann may have 2"
    assert [of.pins(one, (count,)) for count in (3, 4)] == [True, False], "works may have 3"
    assert (of.pins(lane(of, "works"), (1,)), of.pins(TOP, (99,))) == (False, True)
    of.put(ann, slots(1), 1, pinned=True)
    assert [of.pins(ann, (count,)) for count in (1, 2)] == [True, False]


def test_a_guarantee_of_a_type_covers_what_is_of_that_type() -> None:
    of = typed()
    left = lane(of, "left")
    assert [of.pins(left, counts) for counts in ((4, 4), (5, 5), (4, 0))] == [True, False, False]
