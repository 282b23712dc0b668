"""How slots are divided among queues: examples that others published, and laws for any tree."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.policy.queues.entitlement import Share, divided, entitlements, filled, whole

NUMBERS = st.integers(0, 50).map(float)
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 3.0])


def tree(depth: int) -> st.SearchStrategy[Share]:
    """Queues below each other, each with a name of its own; those at the end have jobs."""
    inner = st.lists(tree(depth - 1), max_size=3) if depth else st.just([])
    return st.builds(
        lambda below, **fields: named(Share("root", inner=below, **fields), "root"),
        inner,
        weight=WEIGHTS,
        guarantee=st.none() | NUMBERS,
        limit=st.just(math.inf) | NUMBERS,
        demand=NUMBERS,
    )


def named(share: Share, name: str) -> Share:
    return replace(share, name=name, inner=[named(each, f"{name}/{k}") for k, each in enumerate(share.inner)])


def levels(root: Share) -> Iterator[Share]:
    yield root
    for inner in root.inner:
        yield from levels(inner)


def test_what_is_lent_is_divided_department_by_department() -> None:
    """Story 3 of Kueue's fair sharing: 300 slots that nobody has a guarantee for."""
    first = Share("first", inner=[Share("a", demand=90), Share("b", demand=90), Share("c", weight=3, demand=300)])
    root = Share("root", inner=[first, Share("second", demand=300)])
    got = {name: entitlement.total for name, entitlement in entitlements(root, 300).items()}
    assert (got["first"], got["second"]) == (150, 150)
    assert [got[name] for name in "abc"] == [30, 30, 90]


def test_guarantees_above_what_there_is_shrink_in_proportion() -> None:
    shares = [Share("a", guarantee=6, demand=20), Share("b", guarantee=3, demand=20), Share("c", demand=20)]
    assert divided(6, shares) == [(4, 4), (2, 2), (0, 0)]


def test_a_guarantee_that_is_kept_shrinks_beside_others_that_are_kept_alone() -> None:
    shares = [Share("a", guarantee=4, demand=20, kept=math.inf), Share("b", guarantee=4, demand=20)]
    assert divided(6, shares) == [(4, 4), (2, 2)]
    shares.append(Share("c", guarantee=8, demand=20, kept=math.inf))
    assert divided(6, shares) == [(2, 2), (0, 0), (4, 4)]


def test_a_guarantee_shrinks_in_proportion_down_to_what_is_kept_of_it() -> None:
    shares = [Share("a", guarantee=6, demand=20, kept=2), Share("b", guarantee=3, demand=20), Share("c", guarantee=3)]
    assert [part.total for part in divided(6, shares)] == [4, 2, 0]
    shares = [replace(share, kept=kept) for share, kept in zip(shares, (2, 2.5, 0), strict=True)]
    assert [part.total for part in divided(6, shares)] == [3.5, 2.5, 0]
    assert [part.total for part in divided(2.25, shares)] == [1, 1.25, 0]


def test_what_a_queue_does_not_use_goes_to_its_siblings() -> None:
    shares = [Share("a", guarantee=6, demand=1), Share("b", demand=20), Share("c", limit=2, demand=20)]
    assert [entitlement.total for entitlement in divided(8, shares)] == [1, 5, 2]
    assert [entitlement.guaranteed for entitlement in divided(8, shares)] == [1, 0, 0]


def test_without_lending_only_guarantees_are_divided() -> None:
    shares = [Share("a", guarantee=6, demand=9), Share("b", demand=20)]
    assert divided(8, shares, lends=False) == [(6, 6), (0, 0)]
    got = entitlements(Share("root", inner=shares), 8, lends=False)
    assert (got["a"], got["b"]) == ((6, 6), (0, 0)), "nor is a slot that nobody is guaranteed"


@given(tree(3), NUMBERS)
def test_no_slot_is_left_over_and_none_is_given_twice(root: Share, slots: float) -> None:
    got = entitlements(root, slots)
    assert got["root"].total == min(slots, root.wanted)
    for share in levels(root):
        total = got[share.name].total
        assert 0 <= got[share.name].guaranteed <= total + 1e-6
        assert total <= share.wanted + 1e-6
        if share.inner:
            assert sum(got[inner.name].total for inner in share.inner) == pytest.approx(total)


@given(tree(2), NUMBERS)
def test_guarantees_hold_where_they_fit(root: Share, slots: float) -> None:
    got = entitlements(root, slots, in_whole=False)
    for share in levels(root):
        claims = [min(inner.guaranteed, inner.wanted) for inner in share.inner]
        if sum(claims) <= got[share.name].total:
            assert [got[inner.name].guaranteed for inner in share.inner] == pytest.approx(claims)


@given(tree(3), NUMBERS)
def test_whole_slots_are_less_than_one_off_and_none_is_lost(root: Share, slots: float) -> None:
    got, exact = entitlements(root, slots), entitlements(root, slots, in_whole=False)
    for share in levels(root):
        total = got[share.name].total
        assert total == int(total)
        assert abs(total - exact[share.name].total) < 1
        if share.inner:
            assert sum(got[inner.name].total for inner in share.inner) == total


def test_rests_go_to_the_largest_and_among_equals_to_whom_holds_more() -> None:
    shares = [Share("a", demand=9), Share("b", demand=9, held=2), Share("c", demand=9, first=-1)]
    assert [part.total for part in whole(divided(7, shares), shares, 7)] == [2, 3, 2]
    assert [part.total for part in whole(divided(8, shares), shares, 8)] == [2, 3, 3]
    rests = [Share("a", demand=9), Share("b", weight=2, demand=9, held=0), Share("c", demand=9, held=3)]
    assert [part.total for part in whole(divided(7, rests), rests, 7)] == [2, 3, 2], "1.75, 3.5 and 1.75"


@given(tree(2), NUMBERS, st.randoms(use_true_random=False))
def test_neither_names_nor_places_nor_the_unit_of_weights_matter(root: Share, slots: float, random: object) -> None:
    def other(share: Share) -> Share:
        inner = [other(each) for each in share.inner]
        random.shuffle(inner)  # type: ignore[attr-defined]
        return replace(share, name=share.name[::-1], weight=2 * share.weight, inner=inner)

    before, after = entitlements(root, slots, in_whole=False), entitlements(other(root), slots, in_whole=False)
    assert {name[::-1]: value.total for name, value in after.items()} == pytest.approx(
        {name: value.total for name, value in before.items()}
    )


def test_what_one_cannot_take_goes_to_the_others_by_weight() -> None:
    assert filled(12, [3, 1], [8, 6]) == [8, 4]
    assert filled(12, [1, 3], [6, 8]) == [4, 8]
    assert filled(2, [1, 1], [1, 5]) == [1, 1]


@given(NUMBERS, st.lists(st.tuples(WEIGHTS, NUMBERS), max_size=6))
def test_nobody_has_less_for_its_weight_than_another_and_could_use_more(
    amount: float, queues: list[tuple[float, float]]
) -> None:
    parts = filled(amount, [weight for weight, _ in queues], [most for _, most in queues])
    levels = [part / weight for part, (weight, _) in zip(parts, queues, strict=True)]
    for part, level, (_, most) in zip(parts, levels, queues, strict=True):
        assert part == pytest.approx(most) or level >= max(levels) - 1e-9
