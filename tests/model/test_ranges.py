"""Sets as spans do what sets do."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.ranges import Ranges

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6)


def numbers(ranges: Ranges) -> set[int]:
    assert all(first < end for first, end in ranges.spans)
    assert all(end < later for (_, end), (later, _) in itertools.pairwise(ranges.spans))
    assert ranges.count == len(list(ranges))
    return set(ranges)


@given(spans, spans, st.integers(-1, 50))
def test_spans_are_a_set(one: list[tuple[int, int]], other: list[tuple[int, int]], count: int) -> None:
    a, b = Ranges.of(one), Ranges.of(other)
    assert numbers(a) == {number for first, end in one for number in range(first, end)}
    assert numbers(a.plus(b)) == numbers(a) | numbers(b)
    assert numbers(a.minus(b)) == numbers(a) - numbers(b)
    assert numbers(a.both(b)) == numbers(a) & numbers(b)
    assert sorted(numbers(a.first(count))) == sorted(numbers(a))[: max(count, 0)]
    assert bool(a) == bool(numbers(a))
