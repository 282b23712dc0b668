"""What queues borrow: the slots that no guarantee on the way to them covers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.queue import ANY_GPU, Queue, ancestry
from scheduler.policy.queues.borrowed import lent_parts

PATHS = ("", "lab", "lab/vision", "lab/text", "team", "gone")
TYPES = ("", "H100", "L4")
GUARANTEES = st.dictionaries(st.sampled_from((ANY_GPU, "H100")), st.integers(0, 12), max_size=2)
HELD = st.dictionaries(st.tuples(st.sampled_from(PATHS), st.sampled_from(TYPES)), st.integers(0, 10))


def queues(**guarantees: dict[str, int]) -> dict[str, Queue]:
    """By path, with `_` for the slash."""
    paths = ((name.replace("_", "/"), given) for name, given in guarantees.items())
    return {path: Queue(path, 0.0, guarantee=tuple(sorted(given.items()))) for path, given in paths}


def lent(tree: dict[str, Queue], held: dict[tuple[str, str], int]) -> dict[tuple[str, str], float]:
    """Slots, rounded."""
    return {cell: round(part * held[cell], 6) for cell, part in lent_parts(tree, held).items()}


def test_without_queues_nothing_is_lent_and_with_them_jobs_of_none_borrow_all() -> None:
    held = {("", "H100"): 3}
    assert lent({}, held) == {("", "H100"): 0}
    assert lent(queues(lab={ANY_GPU: 4}), held) == {("", "H100"): 3}


def test_what_a_queue_holds_beyond_its_guarantee_is_lent_by_type_in_proportion() -> None:
    tree = queues(lab={ANY_GPU: 4})
    assert lent(tree, {("lab", "H100"): 3}) == {("lab", "H100"): 0}
    assert lent(tree, {("lab", "H100"): 6, ("lab", "L4"): 2}) == {("lab", "H100"): 3, ("lab", "L4"): 1}


def test_a_guarantee_of_a_type_covers_that_type_and_is_a_part_of_the_one_of_any() -> None:
    typed = queues(lab={"H100": 2})
    assert lent(typed, {("lab", "H100"): 3, ("lab", "L4"): 1}) == {("lab", "H100"): 1, ("lab", "L4"): 1}
    both = queues(lab={ANY_GPU: 4, "H100": 2})
    assert lent(both, {("lab", "H100"): 2, ("lab", "L4"): 3}) == {("lab", "H100"): 0, ("lab", "L4"): 1}


def test_a_guarantee_of_any_type_is_used_up_by_that_of_a_type_inside_it() -> None:
    held = {("lab/vision", "H100"): 2, ("lab/vision", "L4"): 4}
    inner = queues(lab={ANY_GPU: 3, "H100": 2}, lab_vision={ANY_GPU: 9})
    assert lent(inner, held) == {("lab/vision", "H100"): 0, ("lab/vision", "L4"): 3}
    typed = queues(lab={ANY_GPU: 1, "H100": 2}, lab_vision={ANY_GPU: 9})
    assert lent(typed, held) == {("lab/vision", "H100"): 0, ("lab/vision", "L4"): 4}


def test_who_holds_nothing_or_is_in_a_queue_that_is_gone_uses_no_guarantee() -> None:
    tree = queues(lab={ANY_GPU: 4})
    assert lent_parts(tree, {("lab", "H100"): 0}) == {("lab", "H100"): 0.0}
    assert lent(tree, {("gone", "H100"): 3, ("lab", "H100"): 4}) == {("gone", "H100"): 3, ("lab", "H100"): 0}


def test_inner_queues_use_the_guarantee_of_the_outer_one_and_are_promised_no_more_than_it() -> None:
    tree = queues(lab={ANY_GPU: 8}, lab_vision={ANY_GPU: 2}, lab_text={})
    assert lent(tree, {("lab/text", ""): 8}) == {("lab/text", ""): 0}
    assert lent(tree, {("lab/vision", ""): 2, ("lab/text", ""): 8}) == {("lab/vision", ""): 0, ("lab/text", ""): 2}
    unused = queues(lab={ANY_GPU: 4}, lab_vision={ANY_GPU: 9}, lab_text={})
    assert lent(unused, {("lab/vision", ""): 2, ("lab/text", ""): 4}) == {("lab/vision", ""): 0, ("lab/text", ""): 2}
    less = queues(lab={ANY_GPU: 2}, lab_vision={ANY_GPU: 8})
    assert lent(less, {("lab/vision", ""): 8}) == {("lab/vision", ""): 6}
    own = queues(lab={}, lab_vision={ANY_GPU: 8})
    assert lent(own, {("lab/vision", ""): 9}) == {("lab/vision", ""): 1}
    more = queues(lab={ANY_GPU: 8}, lab_vision={ANY_GPU: 2}, lab_text={})
    assert lent(more, {("lab/vision", ""): 4, ("lab/text", ""): 8}) == {("lab/vision", ""): 0.8, ("lab/text", ""): 3.2}


@given(GUARANTEES, GUARANTEES, GUARANTEES, HELD)
def test_parts_are_parts_and_a_first_level_borrows_what_exceeds_its_own_guarantee(
    lab: dict[str, int], vision: dict[str, int], team: dict[str, int], held: dict[tuple[str, str], int]
) -> None:
    tree = queues(lab=lab, lab_vision=vision, lab_text={}, team=team)
    parts = lent_parts(tree, held)
    assert all(-1e-9 <= part <= 1 + 1e-9 for part in parts.values())
    inside = {cell: slots for cell, slots in held.items() if "lab" in ancestry(cell[0])}
    assert parts == lent_parts(tree, inside) | lent_parts(tree, {c: s for c, s in held.items() if c not in inside})
    for path, guarantee in (("lab", lab), ("team", team)):
        mine = {cell: slots for cell, slots in held.items() if path in ancestry(cell[0])}
        if ANY_GPU in guarantee or path == "team":  # else vision has a guarantee of its own inside lab
            covered = {cell: slots * (1 - parts[cell]) for cell, slots in mine.items()}
            typed = min(sum(slots for cell, slots in mine.items() if cell[1] == "H100"), guarantee.get("H100", 0))
            assert sum(slots for cell, slots in covered.items() if cell[1] == "H100") >= typed - 1e-9
            most = min(sum(mine.values()), guarantee.get(ANY_GPU, 0))
            assert sum(covered.values()) == pytest.approx(max(typed, most))
