"""Averages gradients over all samples of a step, on all ranks. Imports torch."""

from collections.abc import Iterable

import torch

from scheduler.elastic.group import Group


class GradientAverager:
    """One all_reduce per type of parameter, through a flat buffer that is kept.

    Shares of a step may be of unequal size or empty, so ranks are weighed by their samples. Where a buffer lies on
    the CPU the sample count and one more number travel at its end: agreement then costs no collective of its own.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._buckets = _buckets([parameter for parameter in parameters if parameter.requires_grad])
        self._tail: torch.Tensor | None = None
        for bucket in self._buckets:
            if bucket.exact_on_cpu:
                self._tail = bucket.tail
                break

    def average(self, group: Group, samples: int, loss_is_sum: bool, vote: bool) -> tuple[int, bool]:
        """Replaces each gradient by that of the mean loss over all ranks' samples; a collective.

        A parameter without a gradient counts as one of zeros. Gradients of a rank with no samples are not looked at.

        Args:
            samples: how many samples this rank's gradients are of.
            loss_is_sum: whether the loss was a sum over samples; a mean otherwise.
            vote: whether this rank wants all to look for a change of membership.
        Returns:
            how many samples all ranks had together, and whether any voted.
        """
        separate = torch.zeros(2, dtype=torch.float64) if self._tail is None else None
        tail = self._tail if separate is None else separate
        assert tail is not None
        tail[0], tail[1] = samples, vote
        for bucket in self._buckets:
            bucket.fill(samples, loss_is_sum)
            # A bucket's tail is part of its buffer: only the one above carries anything in it.
            group.all_reduce(bucket.buffer)
        if separate is not None:
            group.all_reduce(separate)
        total, votes = tail.tolist()
        for bucket in self._buckets:
            bucket.hand_out(total)
        return round(total), votes > 0


class _Bucket:
    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        first = parameters[0]
        sizes = [parameter.numel() for parameter in parameters]
        self.buffer = torch.zeros(sum(sizes) + 2, dtype=first.dtype, device=first.device)
        self.tail = self.buffer[-2:]
        # Half precision cannot hold a sample count; reading from a GPU would wait for it.
        self.exact_on_cpu = first.device.type == "cpu" and first.dtype in (torch.float32, torch.float64)
        self._body = self.buffer[:-2]
        self._views = [
            view.view_as(parameter) for view, parameter in zip(self._body.split(sizes), parameters, strict=True)
        ]

    def fill(self, samples: int, loss_is_sum: bool) -> None:
        if samples == 0:
            self._body.zero_()
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
            self._body.mul_(samples)

    def hand_out(self, total: float) -> None:
        self._body.div_(max(total, 1.0))
        for view, parameter in zip(self._views, self._parameters, strict=True):
            parameter.grad = view


def _buckets(parameters: list[torch.nn.Parameter]) -> list[_Bucket]:
    kinds: dict[tuple[torch.dtype, torch.device], list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return [_Bucket(members) for members in kinds.values()]
