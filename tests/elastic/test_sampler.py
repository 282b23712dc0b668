"""The sampler deals every sample of an epoch exactly once, whatever happens to the number of ranks."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.elastic import ElasticDistributedSampler, ScaledBatch, UsageError
from scheduler.elastic.training.sampler import share_of

sizes = st.integers(1, 60)
worlds = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def deal_step(samplers: list[ElasticDistributedSampler]) -> list[list[int]]:
    """What each rank gets in the next step."""
    shares = [next(iter(sampler)) for sampler in samplers]
    for sampler in samplers:
        sampler.advance()
    return shares


def group(world: int, samples: int, batch: int, state: dict[str, int] | None = None) -> list[ElasticDistributedSampler]:
    samplers = []
    for rank in range(world):
        sampler = ElasticDistributedSampler(samples, batch=batch, seed=3)
        sampler.set_group(rank, world)
        if state is not None:
            sampler.load_state_dict(state)
        samplers.append(sampler)
    return samplers


@given(samples=sizes, batch=st.integers(1, 20), resizes=worlds, data=st.data())
def test_every_sample_is_dealt_exactly_once_across_resizes(
    samples: int, batch: int, resizes: list[int], data: st.DataObject
) -> None:
    dealt: list[int] = []
    state = None
    for world in resizes:
        samplers = group(world, samples, batch, state)
        for _ in range(data.draw(st.integers(0, 4))):
            if len(samplers[0]):
                dealt += [index for share in deal_step(samplers) for index in share]
        state = samplers[0].state_dict()
    samplers = group(2, samples, batch, state)
    while len(samplers[0]):
        dealt += [index for share in deal_step(samplers) for index in share]
    assert sorted(dealt) == list(range(samples))


@given(samples=sizes, batch=st.integers(1, 20), world=st.integers(1, 9))
def test_all_ranks_have_the_same_number_of_steps_and_shares_differ_by_one_at_most(
    samples: int, batch: int, world: int
) -> None:
    shares = [list(sampler) for sampler in group(world, samples, batch)]
    assert {len(steps) for steps in shares} == {-(-samples // batch)}
    for step in zip(*shares, strict=True):
        assert max(map(len, step)) - min(map(len, step)) <= 1


@given(samples=sizes, batch=st.integers(1, 20), world=st.integers(1, 9))
def test_a_step_has_the_same_samples_at_every_world_size(samples: int, batch: int, world: int) -> None:
    alone = list(group(1, samples, batch)[0])
    together = zip(*(list(sampler) for sampler in group(world, samples, batch)), strict=True)
    assert [[index for share in step for index in share] for step in together] == alone


@given(samples=st.integers(0, 100), world=st.integers(1, 12))
def test_shares_are_consecutive_and_complete(samples: int, world: int) -> None:
    bounds = [share_of(samples, rank, world) for rank in range(world)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == samples
    assert all(before[1] == after[0] for before, after in itertools.pairwise(bounds))


def test_a_rolled_back_step_is_dealt_again() -> None:
    samplers = group(2, 40, 8)
    deal_step(samplers)
    committed = samplers[0].state_dict()
    lost = sorted(index for share in deal_step(samplers) for index in share)
    again = sorted(index for share in deal_step(group(3, 40, 8, committed)) for index in share)
    assert again == lost


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = ElasticDistributedSampler(50, batch=50, seed=seed)
        sampler.set_epoch(epoch)
        return next(iter(sampler))

    assert order(1, 2) == order(1, 2)
    assert len({tuple(order(seed, epoch)) for seed in range(4) for epoch in range(4)}) == 16


def test_without_shuffling_the_order_is_the_data_sets() -> None:
    sampler = ElasticDistributedSampler(5, batch=2, shuffle=False)
    assert list(sampler) == [[0, 1], [2, 3], [4]]


def test_a_rank_without_samples_gets_an_empty_share_and_no_weight() -> None:
    samplers = group(4, 2, 8)
    assert [len(share) for share in deal_step(samplers)] == [1, 1, 0, 0]
    assert [sampler.weight for sampler in samplers] == [2.0, 2.0, 0.0, 0.0]


def test_a_scaled_batch_grows_with_the_group() -> None:
    sampler = ElasticDistributedSampler(100, batch=ScaledBatch(per_worker=5))
    sampler.set_group(0, 4)
    assert sampler.global_batch == 20
    assert len(next(iter(sampler))) == 5


def test_the_position_of_another_data_set_is_refused() -> None:
    with pytest.raises(UsageError, match="for 10 samples, but the data set has 20"):
        ElasticDistributedSampler(20).load_state_dict(ElasticDistributedSampler(10).state_dict())
    with pytest.raises(UsageError, match="empty"):
        ElasticDistributedSampler([])


@pytest.mark.parametrize("batch", [64.0, "64", None, True, 0, ScaledBatch])
def test_a_batch_that_is_neither_a_number_nor_a_policy_is_refused(batch: Any) -> None:
    complaint = r"batch, unless it is a policy such as ScaledBatch\(64\), must be an integer, 1 or more, not "
    with pytest.raises(UsageError, match=complaint):
        ElasticDistributedSampler(100, batch=batch)


@pytest.mark.parametrize("samples", [100.0, None, True, -1, iter([1, 2])])
def test_a_data_set_without_a_length_is_refused(samples: Any) -> None:
    with pytest.raises(UsageError, match="samples, unless it is a data set with a length, must be an integer"):
        ElasticDistributedSampler(samples)


def test_a_sampler_that_has_dealt_already_goes_on_in_the_order_of_the_seed_it_is_given() -> None:
    given = ElasticDistributedSampler(50, batch=10, seed=2)
    other = ElasticDistributedSampler(50, batch=10, seed=1)
    assert list(other) != list(given)
    other.load_state_dict(given.state_dict())
    assert list(other) == list(given)
