"""The order of an epoch: each shard once, repeatable, and no two alike."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.data import DataSet
from scheduler.model.shuffle import shuffled


@given(st.integers(1, 3000), st.integers(0, 2**62), st.integers(0, 10**6))
def test_each_item_has_one_place(size: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(place, size, seed, epoch) for place in range(size)) == list(range(size))


def test_orders_of_seeds_and_epochs_have_little_in_common() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return [shuffled(place, 10_000, seed, epoch) for place in range(10_000)]

    first = order(7, 0)
    assert first == order(7, 0)
    for other in (order(7, 1), order(8, 0), list(range(10_000))):
        assert sum(a == b for a, b in zip(first, other, strict=True)) < 10
    neighbours = sum(abs(a - b) == 1 for a, b in itertools.pairwise(first))
    assert neighbours < 10


def test_a_position_is_a_shard_of_an_epoch() -> None:
    plain = DataSet(shards=3, epochs=2)
    assert [plain.shard_at(position) for position in range(plain.total)] == [
        (epoch, shard) for epoch in (0, 1) for shard in (0, 1, 2)
    ]
    mixed = DataSet(shards=50, epochs=2, shuffle=True, seed=3)
    dealt = [mixed.shard_at(position) for position in range(mixed.total)]
    assert sorted(dealt) == [(epoch, shard) for epoch in (0, 1) for shard in range(50)]
    assert [shard for _, shard in dealt[:50]] != [shard for _, shard in dealt[50:]]
