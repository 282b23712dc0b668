"""Batch policies: what they refuse; gradient accumulation and empty shares."""

import math
import re
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from scheduler.elastic import ConstantBatch, ScaledBatch, UsageError, collate_empty, micro_batches


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


class Pair(NamedTuple):
    """As a data set may give its samples."""

    image: torch.Tensor
    label: int


@dataclass(frozen=True)
class Columns:
    """As a collate function may give a batch."""

    image: torch.Tensor
    names: list[str]


def stacked(items: list[Any]) -> torch.Tensor:
    return torch.stack([item[0] for item in items])


def padded_time_first(items: list[Any]) -> torch.Tensor:
    return stacked(items).transpose(0, 1)


@pytest.mark.parametrize(
    ("collate", "wanted"),
    [
        (default_collate, [(0, 3), ()]),
        (lambda items: tuple(zip(*items, strict=True)), ((), ())),
        (lambda items: {"image": stacked(items), "largest": torch.tensor(7)}, {"image": (0, 3), "largest": ()}),
        (lambda items: UserDict(image=stacked(items)), UserDict(image=(0, 3))),
        (lambda items: MappingProxyType({"image": stacked(items)}), {"image": (0, 3)}),
        (lambda items: Columns(stacked(items), [item[1] for item in items]), Columns((0, 3), [])),  # type: ignore[arg-type]
        (lambda items: stacked(items).numpy(), (0, 3)),
        (padded_time_first, (3, 0)),
        (lambda items: (stacked(items), len(items[0]), "train"), ((0, 3), 2, "train")),
    ],
)
def test_an_empty_share_has_no_sample_in_whatever_a_batch_is_made_of(collate: Any, wanted: Any) -> None:
    emptied = collate_empty([(torch.ones(3), "a.png")], collate)([])
    assert shapes_in(emptied) == wanted


def shapes_in(batch: Any) -> Any:
    """The batch with shapes in the place of tensors and arrays."""
    if hasattr(batch, "shape"):
        return tuple(batch.shape)
    if isinstance(batch, Columns):
        return Columns(shapes_in(batch.image), shapes_in(batch.names))
    if isinstance(batch, dict | UserDict):
        return type(batch)({key: shapes_in(value) for key, value in batch.items()})
    return type(batch)(map(shapes_in, batch)) if isinstance(batch, list | tuple) else batch


def test_an_empty_share_of_named_tuples_is_one_of_the_same_names() -> None:
    emptied = collate_empty([Pair(torch.ones(3), 1)])([])
    assert isinstance(emptied, Pair)
    assert (emptied.image.shape, wrong(emptied.label).shape) == ((0, 3), (0,))


@pytest.mark.parametrize("collate", [lambda items: object(), lambda items: torch.tensor(1.0)])
def test_a_batch_in_which_nothing_counts_samples_is_refused_where_a_share_is_empty(collate: Any) -> None:
    with pytest.raises(UsageError, match="finds nothing that counts samples in"):
        collate_empty([(torch.ones(3), "a.png")], collate)([])
