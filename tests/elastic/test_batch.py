"""Batch policies: what a resize does to batch and learning rate, and gradient accumulation."""

import pytest
import torch

from scheduler.elastic import ConstantBatch, ScaledBatch, UsageError, micro_batches
from scheduler.elastic.batch import BatchPolicy, RateScaler


def scaled(policy: BatchPolicy) -> tuple[RateScaler, torch.optim.SGD, torch.nn.Parameter]:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    return RateScaler(policy, optimizer), optimizer, parameter


def step_size(optimizer: torch.optim.SGD, parameter: torch.nn.Parameter) -> float:
    before = parameter.item()
    parameter.grad = torch.ones(1)
    optimizer.step()
    return round(before - parameter.item(), 5)


def test_a_constant_batch_leaves_the_learning_rate_alone() -> None:
    scaler, optimizer, parameter = scaled(ConstantBatch(64))
    for world in (1, 4, 2):
        scaler.set_group(world)
        assert step_size(optimizer, parameter) == 0.5


def test_a_scaled_rate_warms_up_to_its_new_value_after_a_resize() -> None:
    scaler, optimizer, parameter = scaled(ScaledBatch(per_worker=8, base_workers=2, warmup_steps=4))
    scaler.set_group(2)
    assert step_size(optimizer, parameter) == 0.5
    scaler.set_group(4)
    assert [step_size(optimizer, parameter) for _ in range(5)] == [0.625, 0.75, 0.875, 1.0, 1.0]
    scaler.set_group(2)
    assert [step_size(optimizer, parameter) for _ in range(5)] == [0.875, 0.75, 0.625, 0.5, 0.5]


def test_a_resize_during_warm_up_goes_on_from_where_it_stands() -> None:
    scaler, optimizer, parameter = scaled(ScaledBatch(per_worker=8, warmup_steps=2))
    scaler.set_group(1)
    scaler.set_group(3)
    assert step_size(optimizer, parameter) == 1.0
    scaler.set_group(1)
    assert [step_size(optimizer, parameter) for _ in range(2)] == [1.0, 0.5]


def test_schedules_never_see_the_factor() -> None:
    scaler, optimizer, parameter = scaled(ScaledBatch(per_worker=8, warmup_steps=0))
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    scaler.set_group(4)
    assert step_size(optimizer, parameter) == 2.0
    rates.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert step_size(optimizer, parameter) == 1.0


def test_the_warm_up_is_rolled_back_with_the_state() -> None:
    scaler, optimizer, parameter = scaled(ScaledBatch(per_worker=8, warmup_steps=4))
    scaler.set_group(1)
    scaler.set_group(3)
    step_size(optimizer, parameter)
    kept = scaler.state_dict()
    first = step_size(optimizer, parameter)
    scaler.load_state_dict(kept)
    assert step_size(optimizer, parameter) == first


def test_accumulated_micro_batches_give_the_gradient_of_the_whole() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    inputs, targets = torch.randn(10, 4), torch.randint(2, (10,))
    torch.nn.functional.cross_entropy(model(inputs), targets, reduction="sum").backward()
    assert model.weight.grad is not None
    whole = model.weight.grad.clone()
    model.zero_grad()
    pieces = list(micro_batches((inputs, targets), 4))
    assert [len(piece[0]) for piece in pieces] == [4, 4, 2]
    for some, wanted in pieces:
        torch.nn.functional.cross_entropy(model(some), wanted, reduction="sum").backward()
    torch.testing.assert_close(model.weight.grad, whole)
    assert list(micro_batches((inputs[:0], targets[:0]), 4)) == []


@pytest.mark.parametrize("make", [lambda: ConstantBatch(0), lambda: ScaledBatch(0), lambda: ScaledBatch(1, 0)])
def test_impossible_policies_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(UsageError):
        make()
