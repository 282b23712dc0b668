"""Batch policies: what they refuse, and gradient accumulation."""

from typing import Any

import pytest
import torch

from scheduler.elastic import ConstantBatch, ScaledBatch, UsageError, micro_batches


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


def test_an_unknown_rule_for_the_learning_rate_is_refused_with_those_there_are() -> None:
    rate: Any = "cubic"
    with pytest.raises(UsageError, match="rate is one of linear, sqrt, adascale, not 'cubic'"):
        ScaledBatch(8, rate=rate)
