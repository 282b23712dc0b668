"""Averages gradients over all samples of a step, on all ranks, and measures how far they are apart. Imports torch."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from scheduler.elastic.group.group import Group
from scheduler.elastic.training.noise import Shares

#: Elements per piece when squares are summed: one long sum in single precision loses a thousandth.
_PIECE = 1 << 16
#: What travels at a buffer's end: samples of this rank, its vote, and what it measured in an earlier step.
_TAIL = 5


@dataclass(frozen=True, slots=True)
class Averaged:
    """What all ranks know after an averaging."""

    #: Samples of all ranks together.
    samples: int
    #: Whether any rank wants to look for a change of membership.
    voted: bool
    #: Of an earlier step, where one was measured.
    shares: Shares | None


class GradientAverager:
    """One all_reduce per type of parameter, through a flat buffer that is kept.

    Shares of a step may be of unequal size or empty, so ranks are weighed by their samples. Where a buffer lies on
    the CPU the sample count and a few more numbers travel at its end: agreement then costs no collective of its own.

    How far shares are apart is known one step later, from numbers that travel in the same way: all ranks then hold
    the very same ones, whatever their last bits would be where each computed them, and no device is waited for.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._buckets = _buckets(self._parameters)
        self._norms = _Norms(self._buckets)
        self._tail: torch.Tensor | None = None
        for bucket in self._buckets:
            if bucket.exact_on_cpu:
                self._tail = bucket.tail
                break

    def is_of(self, parameters: Sequence[torch.nn.Parameter]) -> bool:
        """Whether it averages exactly these, in this order."""
        return len(parameters) == len(self._parameters) and all(map(operator.is_, parameters, self._parameters))

    def average(self, group: Group, samples: int, loss_is_sum: bool, vote: bool) -> Averaged:
        """Replaces each gradient by that of the mean loss over all ranks' samples; a collective.

        A parameter without a gradient counts as one of zeros. Gradients of a rank with no samples are not looked at.

        Args:
            samples: how many samples this rank's gradients are of.
            loss_is_sum: whether the loss was a sum over samples; a mean otherwise.
            vote: whether this rank wants all to look for a change of membership.
        """
        separate = torch.zeros(_TAIL, dtype=torch.float64) if self._tail is None else None
        tail = self._tail if separate is None else separate
        assert tail is not None
        measured_samples, measured = self._norms.take()
        tail.copy_(torch.tensor([samples, vote, *measured], dtype=torch.float64))
        for bucket in self._buckets:
            bucket.fill(samples, loss_is_sum)
        self._norms.begin(samples, alone=group.size == 1)
        for bucket in self._buckets:
            # A bucket's tail is part of its buffer: only the one above carries anything in it.
            group.all_reduce(bucket.buffer)
        if separate is not None:
            group.all_reduce(separate)
        total, votes, count, apart, together = tail.tolist()
        self._norms.end(total, source=group.rank == 0)
        for bucket in self._buckets:
            bucket.hand_out(total)
        # Fewer than two shares tell nothing about each other.
        shares = Shares(round(count), measured_samples, apart, together) if count > 1 else None
        return Averaged(round(total), votes > 0, shares)

    def settle(self) -> None:
        """Reads what was measured in the last step; call it where the device has done its work."""
        self._norms.read()


class _Norms:
    """Squared norms of this rank's gradients and of their average: measured in one step, told to all in a later one.

    With one rank alone the last gradient and the one before stand for two shares, as in AdaptDL: what the parameters
    moved in between counts as noise, which is little at learning rates at which training is stable.

    A step is measured only where the one before has been read.
    """

    def __init__(self, buckets: list["_Bucket"]) -> None:
        self._buckets = buckets
        #: For each share: the squared norm of its sum of gradients, by bucket, and its number of samples.
        self._apart: list[tuple[list[torch.Tensor], int]] = []
        self._together: list[torch.Tensor] = []
        #: the last gradient of a rank that is alone
        self._last: tuple[list[torch.Tensor], list[torch.Tensor], int] | None = None
        self._samples = 0
        self._outstanding = False
        self._told = (0.0, 0.0, 0.0)

    def begin(self, samples: int, alone: bool) -> None:
        """Looks at this rank's gradients, before they are reduced."""
        if self._outstanding:
            return
        self._apart, self._together = [], []
        if samples == 0:
            return
        squares = [bucket.square() for bucket in self._buckets]
        self._apart.append((squares, samples))
        if alone:
            self._pair_with_last(squares, samples)

    def end(self, total: float, source: bool) -> None:
        """Looks at the sums over all ranks; `source`: this rank's numbers stand for what all of them see."""
        if self._outstanding:
            return
        if len(self._apart) > 1:
            self._samples = sum(samples for _, samples in self._apart)
        else:
            self._samples = round(total)
            self._together = [bucket.square() for bucket in self._buckets] if source else []
        self._outstanding = True

    def read(self) -> None:
        """Brings the numbers to the host."""
        if not self._outstanding:
            return
        apart = sum(_number(squares) / samples for squares, samples in self._apart)
        together = _number(self._together) / max(self._samples, 1) ** 2
        self._told = (float(len(self._apart)), apart, together)
        self._outstanding = False

    def take(self) -> tuple[int, tuple[float, float, float]]:
        """Samples of the measured step, on all ranks together, and this rank's part of a `Shares`; nothing twice."""
        told, self._told = self._told, (0.0, 0.0, 0.0)
        return self._samples, told

    def _pair_with_last(self, squares: list[torch.Tensor], samples: int) -> None:
        bodies = [bucket.body for bucket in self._buckets]
        if self._last is None:
            self._last = [body.clone() for body in bodies], squares, samples
            return
        kept, squares_before, samples_before = self._last
        torch._foreach_add_(kept, bodies)
        self._together = [square(both) for both in kept]
        self._apart.append((squares_before, samples_before))
        torch._foreach_copy_(kept, bodies)
        self._last = kept, squares, samples


class _Bucket:
    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        first = parameters[0]
        sizes = [parameter.numel() for parameter in parameters]
        self.buffer = torch.zeros(sum(sizes) + _TAIL, dtype=first.dtype, device=first.device)
        self.tail = self.buffer[-_TAIL:]
        # Half precision cannot hold a sample count; reading from a GPU would wait for it.
        self.exact_on_cpu = first.device.type == "cpu" and first.dtype in (torch.float32, torch.float64)
        self.body = self.buffer[:-_TAIL]
        self._pieces = self.body.split(_PIECE)
        self._views = [
            view.view_as(parameter) for view, parameter in zip(self.body.split(sizes), parameters, strict=True)
        ]

    def fill(self, samples: int, loss_is_sum: bool) -> None:
        if samples == 0:
            self.body.zero_()
            return
        views, gradients = [], []
        for view, parameter in zip(self._views, self._parameters, strict=True):
            if parameter.grad is None:
                view.zero_()
            elif parameter.grad is not view:
                views.append(view)
                gradients.append(parameter.grad)
        if views:
            torch._foreach_copy_(views, gradients)
        if not loss_is_sum:
            self.body.mul_(samples)

    def square(self) -> torch.Tensor:
        """Squared norm of what is in it."""
        return _square(self._pieces)

    def hand_out(self, total: float) -> None:
        self.body.div_(max(total, 1.0))
        for view, parameter in zip(self._views, self._parameters, strict=True):
            parameter.grad = view


def _buckets(parameters: list[torch.nn.Parameter]) -> list[_Bucket]:
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return [_Bucket(members) for members in kinds.values()]


def square(flat: torch.Tensor) -> torch.Tensor:
    """Squared norm of what is in a tensor of one dimension, at least in single precision."""
    return _square(flat.split(_PIECE))


def _square(pieces: tuple[torch.Tensor, ...]) -> torch.Tensor:
    kind = pieces[0].dtype if pieces[0].dtype == torch.float64 else torch.float32
    return torch.stack(torch._foreach_norm(pieces, 2, kind)).square().sum()


def _number(squares: list[torch.Tensor]) -> float:
    return sum(square.item() for square in squares)
