"""What the accounts of a tree of queues are entitled to, of any slots and of each GPU type."""

from collections import defaultdict
from collections.abc import Mapping

from scheduler.model.queue import ANY_GPU, Queue
from scheduler.policy.queues.division import divided_among
from scheduler.policy.queues.entitlement import Entitlement
from scheduler.policy.queues.tree import Lane, Tree
from tests.policy.worlds import Cluster


def divide(
    c: Cluster,
    slots: Mapping[str, float],
    wants: Mapping[str, Mapping[str, int]],
    held: Mapping[str, int] | None = None,
    used: Mapping[str, float] | None = None,
) -> dict[tuple[str, str], Entitlement]:
    """By account and kind; jobs came in the order of `wants`, which has slots by queue and kind.

    The order in which lanes are named says nothing.
    """
    tree = tree_of(c)
    first, demand = dict[Lane, int](), defaultdict[str, list[int]](lambda: [0] * len(tree.kinds))
    for number, (path, by_kind) in enumerate(wants.items(), 1):
        accounts = tree.accounts(path, "ann")
        first[Lane(accounts, accounts)] = number
        for account in accounts:
            demand[account] = [
                so_far + by_kind.get(kind, 0) for so_far, kind in zip(demand[account], tree.kinds, strict=True)
            ]
    holds = {account: (count,) * len(tree.kinds) for account, count in (held or {}).items()}
    divisible = [slots[kind] for kind in tree.kinds]
    found = divided_among(tree, first, demand, holds, used or {}, divisible)
    assert found == divided_among(tree, dict(reversed(first.items())), demand, holds, used or {}, divisible)
    return {
        (account, kind): part for account, parts in found.items() for kind, part in zip(tree.kinds, parts, strict=True)
    }


def tree_of(c: Cluster) -> Tree:
    queues: dict[str, Queue] = {queue.path: queue for queue in c.queues}
    return Tree(queues)


def of_any(c: Cluster, slots: int, *paths: str, each: int = 9, **more: Mapping[str, float]) -> list[float]:
    """What these queues get in all of these slots where the jobs of each want this many."""
    got = divide(c, {ANY_GPU: slots}, {path: {ANY_GPU: each} for path in paths}, **more)
    return [got[path, ANY_GPU].total for path in paths]


def test_what_is_guaranteed_to_a_queue_that_wants_nothing_is_nobodys() -> None:
    c = Cluster().queue("lab").queue("lab/one", guarantee=8).queue("works")
    wants = {"lab": {ANY_GPU: 4}, "works": {ANY_GPU: 9}, "lab/one": {ANY_GPU: 0}}
    got = divide(c, {ANY_GPU: 6}, wants)
    assert got["lab", ANY_GPU] == (0, 3), "as if nobody were in the queue inside it"
    assert got["lab/one", ANY_GPU] == (0, 0)


def plain() -> Cluster:
    return Cluster().queue("left").queue("right")


def test_slots_are_lent_by_weight_and_up_to_limits() -> None:
    assert of_any(plain(), 8, "left", "right") == [4, 4]
    assert of_any(Cluster().queue("left", weight=3.0).queue("right"), 8, "left", "right") == [6, 2]
    assert of_any(Cluster().queue("left", limit=2).queue("right"), 8, "left", "right") == [2, 6]
    assert of_any(plain(), 0, "left", "right") == of_any(plain(), -1, "left", "right") == [0, 0]


def test_an_odd_slot_goes_to_who_holds_more_then_to_who_has_used_less_then_to_who_came_first() -> None:
    assert of_any(plain(), 3, "right", "left", held={"left": 1}, used={"left": 1.0}) == [1, 2]
    assert of_any(plain(), 3, "right", "left", used={"right": 0.5}) == [1, 2]
    assert of_any(plain(), 3, "right", "left") == [2, 1]


def test_a_queue_came_when_the_first_job_inside_it_did() -> None:
    c = plain().queue("left/one").queue("left/two")
    got = divide(c, {ANY_GPU: 3}, {path: {ANY_GPU: 9} for path in ("left/two", "right", "left/one")})
    assert [got[path, ANY_GPU].total for path in ("left", "right", "left/two", "left/one")] == [2, 1, 1, 1]


def test_a_queue_without_a_guarantee_is_guaranteed_what_those_inside_it_are() -> None:
    c = Cluster().queue("lab").queue("lab/one", guarantee=6).queue("works")
    got = divide(c, {ANY_GPU: 8}, {"lab/one": {ANY_GPU: 9}, "works": {ANY_GPU: 9}})
    assert got["lab", ANY_GPU] == got["lab/one", ANY_GPU] == (6, 7)
    assert got["works", ANY_GPU] == (0, 1)


def test_a_queue_whose_row_cannot_be_read_is_guaranteed_all_that_it_holds() -> None:
    c = Cluster().queue("left", readable=False).queue("right", guarantee=8)
    assert of_any(c, 8, "left", "right", each=6) == [6, 2]


def test_of_a_gpu_type_nothing_is_lent() -> None:
    c = Cluster().queue("left", guarantee={"x": 3}).queue("right")
    got = divide(c, {ANY_GPU: 8, "x": 8}, {"left": {ANY_GPU: 9, "x": 9}, "right": {ANY_GPU: 9, "x": 9}})
    assert (got["left", "x"], got["right", "x"]) == ((3, 3), (0, 0))


def test_guarantees_of_any_type_shrink_beside_those_of_types() -> None:
    c = Cluster().queue("left", guarantee={"x": 4}).queue("right", guarantee=4).queue("works", guarantee=4)
    wants = {path: {ANY_GPU: 9, "x": 9} for path in ("left", "right", "works")}
    got = divide(c, {ANY_GPU: 8, "x": 6}, wants)
    assert [got[path, ANY_GPU] for path in wants] == [(4, 4), (2, 2), (2, 2)]


def test_guarantees_of_types_are_part_of_that_of_any_as_far_as_jobs_can_use_them() -> None:
    def guaranteed(guarantee: dict[str, int], wants: dict[str, int]) -> float:
        c = Cluster().queue("left", guarantee=guarantee).queue("right", limit={"x": 99, "y": 99})
        slots = {ANY_GPU: 20.0, "x": 10.0, "y": 10.0}
        right = {ANY_GPU: 20, "x": 10, "y": 10}
        return divide(c, slots, {"left": wants, "right": right})["left", ANY_GPU].guaranteed

    wants = {ANY_GPU: 12, "x": 8, "y": 4}
    assert guaranteed({ANY_GPU: 5}, wants) == 5
    assert guaranteed({"x": 3}, wants) == 3, "none of y"
    assert guaranteed({"x": 3, "y": 3}, wants) == guaranteed({ANY_GPU: 5, "x": 3, "y": 3}, wants) == 6
    assert guaranteed({ANY_GPU: 7, "x": 3, "y": 3}, wants) == 7
    assert guaranteed({"x": 9, "y": 9}, wants) == 12
    assert guaranteed({"x": 3}, {ANY_GPU: 12}) == 0, "its jobs ask for no x"


def test_what_is_guaranteed_of_a_type_beyond_its_slots_takes_nothing_from_other_guarantees() -> None:
    c = Cluster().queue("left", guarantee=5).queue("right", guarantee={"y": 6}).queue("other", guarantee={"y": 3})
    slots, left, of_y = {ANY_GPU: 8, "y": 3}, {ANY_GPU: 5}, {ANY_GPU: 8, "y": 8}
    got = divide(c, slots, {"left": left, "right": of_y})
    assert (got["left", ANY_GPU], got["right", ANY_GPU]) == ((5, 5), (3, 3))
    got = divide(c, slots, {"left": left, "right": of_y, "other": of_y})
    assert [got[path, ANY_GPU] for path in ("left", "right", "other")] == [(5, 5), (2, 2), (1, 1)], "as of y"
    got = divide(c, {ANY_GPU: 5, "y": 0}, {"left": left, "right": of_y})
    assert (got["left", ANY_GPU], got["right", ANY_GPU]) == ((5, 5), (0, 0))


def test_what_a_queue_is_guaranteed_of_a_type_inside_another_one_is_no_more_than_that_is() -> None:
    c = Cluster().queue("lab", guarantee={ANY_GPU: 4, "y": 2}).queue("lab/one", guarantee={"y": 6})
    c.queue("lab/two", guarantee=4)
    got = divide(c, {ANY_GPU: 9, "y": 9}, {"lab/one": {ANY_GPU: 9, "y": 9}, "lab/two": {ANY_GPU: 1}})
    assert got["lab/one", ANY_GPU].guaranteed == got["lab/one", "y"].guaranteed == 2
    assert got["lab/two", ANY_GPU].guaranteed == 1


def test_within_slots_of_any_type_that_a_queue_is_guaranteed_those_inside_it_are_guaranteed_types() -> None:
    c = (
        Cluster()
        .queue("lab", guarantee=2)
        .queue("lab/one", guarantee={"x": 4})
        .queue("works", guarantee={ANY_GPU: 4, "x": 3})
    )
    wants = {ANY_GPU: 9, "x": 9}
    got = divide(c, {ANY_GPU: 9, "x": 9}, {"lab/one": wants, "works": wants})
    assert (got["lab", "x"].guaranteed, got["lab/one", "x"].guaranteed) == (2, 2)
    assert got["works", "x"].guaranteed == 3, "it names the type itself"
    c = Cluster().queue("lab", guarantee=6).queue("lab/one", guarantee={"x": 4})
    assert divide(c, {ANY_GPU: 9, "x": 9}, {"lab/one": wants})["lab", "x"].guaranteed == 4, "no more than those inside"
