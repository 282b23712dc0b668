"""How slots are divided among queues: examples that others published, and laws for any tree."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.policy.queues.entitlement import Share, divided, entitlements, filled, guaranteed, wanted

NUMBERS = st.integers(0, 50).map(float)
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 3.0])


def tree(depth: int) -> st.SearchStrategy[Share]:
    """Queues with distinct names below each other."""
    inner = st.lists(tree(depth - 1), max_size=3) if depth else st.just([])
    return st.builds(
        lambda below, **fields: Share(
            "root", inner=[replace(each, name=f"q{k}") for k, each in enumerate(below)], **fields
        ),
        inner,
        weight=WEIGHTS,
        guarantee=st.none() | NUMBERS,
        limit=st.just(math.inf) | NUMBERS,
        demand=NUMBERS,
    )


def levels(root: Share, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Share]]:
    yield path, root
    for inner in root.inner:
        yield from levels(inner, (*path, inner.name))


def test_what_is_lent_is_divided_department_by_department() -> None:
    """Story 3 of Kueue's fair sharing: 300 slots that nobody has a guarantee for."""
    first = Share("first", inner=[Share("a", demand=90), Share("b", demand=90), Share("c", weight=3, demand=300)])
    root = Share("root", inner=[first, Share("second", demand=300)])
    got = entitlements(root, 300)
    assert (got["first",], got["second",]) == (150, 150)
    assert [got["first", name] for name in "abc"] == [30, 30, 90]


def test_guarantees_above_what_there_is_shrink_in_proportion() -> None:
    shares = [Share("a", guarantee=6, demand=20), Share("b", guarantee=3, demand=20), Share("c", demand=20)]
    assert divided(6, shares) == [4, 2, 0]


def test_what_a_queue_does_not_use_goes_to_its_siblings() -> None:
    shares = [Share("a", guarantee=6, demand=1), Share("b", demand=20), Share("c", limit=2, demand=20)]
    assert divided(8, shares) == [1, 5, 2]


@given(tree(3), NUMBERS)
def test_no_slot_is_left_over_and_none_is_given_twice(root: Share, slots: float) -> None:
    got = entitlements(root, slots)
    assert got[()] == min(slots, wanted(root))
    for path, share in levels(root):
        below = sum(got[(*path, inner.name)] for inner in share.inner)
        assert below <= got[path] + 1e-6
        assert below + share.demand >= got[path] - 1e-6
        assert 0 <= got[path] <= wanted(share) + 1e-6


@given(tree(2), NUMBERS)
def test_guarantees_hold_where_they_fit(root: Share, slots: float) -> None:
    got = entitlements(root, slots)
    for path, share in levels(root):
        if sum(map(guaranteed, share.inner)) <= got[path]:
            for inner in share.inner:
                assert got[(*path, inner.name)] >= min(guaranteed(inner), wanted(inner)) - 1e-6


@given(tree(2), NUMBERS, st.randoms(use_true_random=False))
def test_neither_names_nor_places_nor_the_unit_of_weights_matter(root: Share, slots: float, random: object) -> None:
    def other(share: Share) -> Share:
        inner = [replace(other(each), name=each.name[::-1]) for each in share.inner]
        random.shuffle(inner)  # type: ignore[attr-defined]
        return replace(share, weight=2 * share.weight, inner=inner)

    before, after = entitlements(root, slots), entitlements(replace(other(root), demand=root.demand), slots)
    if all(share.demand == 0 or not share.inner for _, share in levels(root)):  # jobs beside inner queues weigh 1
        assert after == pytest.approx({tuple(name[::-1] for name in path): value for path, value in before.items()})


@given(NUMBERS, st.lists(st.tuples(WEIGHTS, NUMBERS), max_size=6))
def test_nobody_has_less_for_its_weight_than_another_and_could_use_more(
    amount: float, queues: list[tuple[float, float]]
) -> None:
    parts = filled(amount, [weight for weight, _ in queues], [most for _, most in queues])
    levels = [part / weight for part, (weight, _) in zip(parts, queues, strict=True)]
    for part, level, (_, most) in zip(parts, levels, queues, strict=True):
        assert part == pytest.approx(most) or level >= max(levels) - 1e-9
