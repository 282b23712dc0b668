"""Measured profiles of applications, as AdaptDL's simulator publishes them: a directory per application.

`placements.csv` (placement, local_bsz, step_time, sync_time): one training step with some workers on each node,
`placement` having one digit per node. `scalability.csv` (num_nodes, num_replicas, local_bsz, step_time, sync_time):
the same for larger sizes. `validation-B.csv` (progress, grad_sqr, grad_var; a row per epoch): a training run with
total batch size B. Times are in seconds; progress is in steps at the smallest B. Rules after Pollux (OSDI 2021).
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from scipy.spatial import QhullError

from scheduler.errors import UserError
from scheduler.simulate.table import Row, read_csv

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Number of nodes beyond which the profiles count as flat.
_NODES_MAX = 16
_WORKERS_PER_NODE_MAX = 9
#: Epochs after which an application is done.
_EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
#: The largest batch of one worker, where memory allows less than was measured.
_LOCAL_BATCH_MAX = {"yolov3": 8}


class _StepRow(Row):
    local_bsz: int = Field(ge=1)
    step_time: float = Field(gt=0)
    sync_time: float = Field(ge=0)

    @model_validator(mode="after")
    def _sync_is_part(self) -> Self:
        if self.sync_time > self.step_time:
            raise ValueError(f"sync_time {self.sync_time:g} exceeds step_time {self.step_time:g}, which includes it")
        return self


class _PlacementRow(_StepRow):
    placement: str = Field(pattern=r"^[1-9]+$")


class _ScalabilityRow(_StepRow):
    num_nodes: int = Field(ge=1)
    num_replicas: int = Field(ge=1)


class _EpochRow(Row):
    progress: float = Field(gt=0)
    grad_sqr: float = Field(ge=0)
    grad_var: float = Field(ge=0)

    @model_validator(mode="after")
    def _gradients_are_known(self) -> Self:
        if self.grad_sqr == self.grad_var == 0:
            raise ValueError("grad_sqr and grad_var must not both be 0")
        return self


class Application:
    """What was measured of one application."""

    def __init__(self, directory: Path) -> None:
        self.name = directory.name
        placements = [row for _, row in read_csv(directory / "placements.csv", _PlacementRow)]
        scalability = [row for _, row in read_csv(directory / "scalability.csv", _ScalabilityRow)]
        runs = {batch: _read_run(path) for batch, path in sorted(_validations(directory).items())}
        self._runs = runs
        self.batch_min, self.batch_max = min(runs), max(runs)
        self.local_batch_min = min(row.local_bsz for row in placements)
        self.local_batch_max = _LOCAL_BATCH_MAX.get(self.name, max(row.local_bsz for row in placements))
        self.workers_max = max((row.num_replicas for row in scalability), default=1)
        self.workers_per_node_max = max(max(_digits(row.placement)) for row in placements)
        epochs = _EPOCHS.get(self.name, min(map(len, runs.values())))
        short = next((batch for batch, run in runs.items() if len(run) < epochs), None)
        if short is not None:
            path = directory / f"validation-{short}.csv"
            raise UserError(f"{path}: holds {len(runs[short])} epochs, and {self.name} is done after {epochs}")
        #: Progress at the end of each epoch.
        self.progress = tuple(min(run[epoch].progress for run in runs.values()) for epoch in range(epochs))
        self._steps = _StepTimes(placements, scalability)

    def step_seconds(self, members: tuple[int, ...], local_batch: int) -> tuple[float, float]:
        """Time of one step with `local_batch` samples per worker, and its part that goes into synchronisation."""
        return self._steps.seconds(members, local_batch)

    def gain(self, batch: int, epoch: int) -> float:
        """Progress of one step with this total batch size, which is inside of what was measured."""
        lower = max(size for size in self._runs if size <= batch)
        upper = min(size for size in self._runs if size >= batch)
        share = (batch - lower) / (upper - lower) if upper > lower else 0.0
        low, high = self._runs[lower][epoch], self._runs[upper][epoch]
        sqr = low.grad_sqr + share * (high.grad_sqr - low.grad_sqr)
        var = low.grad_var + share * (high.grad_var - low.grad_var)
        return (var + sqr) / (var * self.batch_min / batch + sqr)


class _StepTimes:
    """Step and synchronisation time by placement and local batch size: measured, or interpolated."""

    def __init__(self, placements: Sequence[_PlacementRow], scalability: Sequence[_ScalabilityRow]) -> None:
        self._measured: dict[str, list[tuple[int, float, float]]] = {}
        by_size: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
        for row in placements:
            self._measured.setdefault(row.placement, []).append((row.local_bsz, row.step_time, row.sync_time))
            digits = _digits(row.placement)
            by_size.setdefault((len(digits), sum(digits), row.local_bsz), []).append((row.step_time, row.sync_time))
        for points in self._measured.values():
            points.sort()
        sizes = sorted(by_size)
        means = [np.mean(by_size[size], axis=0) for size in sizes]
        sizes += [(row.num_nodes, row.num_replicas, row.local_bsz) for row in scalability]
        means += [np.array((row.step_time, row.sync_time)) for row in scalability]
        self._points, self._values = np.array(sizes, float), np.array(means)
        self._between: LinearNDInterpolator | NearestNDInterpolator | None = None
        self._known: dict[tuple[int, tuple[int, ...], int], tuple[float, float]] = {}

    def seconds(self, members: tuple[int, ...], local_batch: int) -> tuple[float, float]:
        placement = min(members[i:] + members[:i] for i in range(len(members)))
        key = (len(members), placement, local_batch)
        if key not in self._known:
            name = "".join(map(str, placement)) if max(placement) <= _WORKERS_PER_NODE_MAX else ""
            points = self._measured.get(name)
            step, sync = _along(points, local_batch) if points else self._spread(placement, local_batch)
            self._known[key] = (float(step), float(sync))
        return self._known[key]

    def _spread(self, placement: tuple[int, ...], local_batch: int) -> "NDArray[np.float64]":
        if self._between is None:
            self._between = _interpolator(self._points, self._values)
        where = (min(len(placement), _NODES_MAX), sum(placement), local_batch)
        found = self._between([where])[0]
        if np.isnan(found).any():  # outside of everything measured
            found = NearestNDInterpolator(self._points, self._values)([where])[0]
        return np.asarray(found, float)


def _interpolator(
    points: "NDArray[np.float64]", values: "NDArray[np.float64]"
) -> LinearNDInterpolator | NearestNDInterpolator:
    """Straight between points; where all lie in one plane, as with a single local batch size, the nearest counts."""
    try:
        return LinearNDInterpolator(points, values)
    except QhullError:
        return NearestNDInterpolator(points, values)


def _along(points: list[tuple[int, float, float]], local_batch: int) -> tuple[float, float]:
    sizes, steps, syncs = zip(*points, strict=True)
    return float(np.interp(local_batch, sizes, steps)), float(np.interp(local_batch, sizes, syncs))


def _digits(placement: str) -> list[int]:
    return [int(digit) for digit in placement]


def _validations(directory: Path) -> dict[int, Path]:
    found = {}
    for path in directory.glob("validation-*.csv"):
        batch = path.stem.removeprefix("validation-")
        if not (batch.isdecimal() and int(batch) > 0):
            raise UserError(f"{path}: the file name must be validation-BATCH.csv with a batch size")
        found[int(batch)] = path
    if not found:
        raise UserError(f"{directory}: contains no validation-BATCH.csv")
    return found


def _read_run(path: Path) -> list[_EpochRow]:
    rows = read_csv(path, _EpochRow)
    for (_, before), (line, row) in pairwise(rows):
        if row.progress <= before.progress:
            raise UserError(
                f"{path}:{line}: progress: {row.progress:g} must exceed {before.progress:g} of the previous epoch"
            )
    return [row for _, row in rows]
