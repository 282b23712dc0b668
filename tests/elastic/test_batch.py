"""Batch policies: what they refuse, and gradient accumulation."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from scheduler.elastic import ConstantBatch, ScaledBatch, UsageError, micro_batches


def wrong(value: Any) -> Any:
    """Of another type than the one declared."""
    return value


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


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: ConstantBatch(0), "samples of a ConstantBatch must be an integer, 1 or more, not 0"),
        (lambda: ConstantBatch(wrong(64.0)), "samples of a ConstantBatch must be an integer, 1 or more, not 64.0"),
        (lambda: ConstantBatch(wrong("64")), "not '64'"),
        (lambda: ConstantBatch(wrong(True)), "not True"),
        (lambda: ScaledBatch(0), "per_worker must be an integer, 1 or more, not 0"),
        (lambda: ScaledBatch(wrong(1.5)), "per_worker must be an integer, 1 or more, not 1.5"),
        (lambda: ScaledBatch(wrong(math.nan)), "not nan"),
        (lambda: ScaledBatch(1, 0), "base_workers must be an integer, 1 or more, not 0"),
        (lambda: ScaledBatch(1, base_workers=wrong(1.5)), "base_workers must be an integer, 1 or more, not 1.5"),
        (lambda: ScaledBatch(1, warmup_steps=-1), "warmup_steps must be an integer, 0 or more, not -1"),
        (lambda: ScaledBatch(1, warmup_steps=wrong(2.5)), "warmup_steps must be an integer, 0 or more, not 2.5"),
    ],
)
def test_impossible_policies_are_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        make()


@pytest.mark.parametrize(
    ("tensors", "samples", "complaint"),
    [
        ((torch.zeros(4),), 0, "samples must be an integer, 1 or more, not 0"),
        ((torch.zeros(4),), 1.5, "samples must be an integer, 1 or more, not 1.5"),
        ((), 1, "micro_batches((inputs, targets), samples)"),
        (torch.zeros(4, 2), 1, "micro_batches((inputs, targets), samples)"),
        ((torch.tensor(4.0),), 1, "micro_batches((inputs, targets), samples)"),
        ((torch.zeros(4), [1, 2, 3, 4]), 1, "micro_batches((inputs, targets), samples)"),
        ((torch.zeros(4), torch.zeros(3)), 1, "have the same first dimension, not [3, 4]"),
    ],
)
def test_what_cannot_be_split_is_refused_at_the_call(tensors: Any, samples: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        micro_batches(tensors, samples)


def test_whole_numbers_of_other_libraries_are_whole_numbers() -> None:
    assert ScaledBatch(wrong(np.int64(8))).global_batch(2) == 16
    assert ConstantBatch(wrong(np.int32(8))).global_batch(2) == 8


def test_an_unknown_rule_for_the_learning_rate_is_refused_with_those_there_are() -> None:
    rate: Any = "cubic"
    with pytest.raises(UsageError, match="rate must be one of linear, sqrt, adascale, not 'cubic'"):
        ScaledBatch(8, rate=rate)
