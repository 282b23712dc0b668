"""A picture of runs over time: slots by job, jobs that wait, utilization; one column per run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from scheduler.errors import UserError
from scheduler.simulate.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

#: Inches; at 100 points per inch a run is 700 points wide.
COLUMN_INCHES = 7.0
HEIGHT_INCHES = 8.0
POINTS_PER_INCH = 100
#: More moments than that cannot be told apart in the width of a column.
_MOMENTS = 600
_COLOURS = 20


def draw(results: Mapping[str, Result], path: Path) -> None:
    """Write the picture; the format follows from the name's ending. The same results give the same bytes.

    Raises `UserError` if the file cannot be written.
    """
    figure = Figure(figsize=(COLUMN_INCHES * len(results), HEIGHT_INCHES), dpi=POINTS_PER_INCH, layout="constrained")
    axes = figure.subplots(3, len(results), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1, 1))
    most = 0.0
    for column, (label, result) in enumerate(results.items()):
        slots, waiting, utilization = axes[:, column]
        moments, hours = _moments(result)
        own, shared = _held(result, moments)
        most = max(most, result.slots, (own + shared).sum(axis=0).max())
        _draw_slots(slots, hours, own + shared, result)
        slots.set_title(label)
        waiting.step(hours, _waiting(result, moments), where="post", color="black", linewidth=0.8)
        utilization.fill_between(hours, 100.0 * own.sum(axis=0) / result.slots, step="post", color="tab:green")
        utilization.set_ylim(0, 105)
        utilization.set_xlabel("hours")
    for row, name in enumerate(("slots by job", "waiting jobs", "utilization, %")):
        axes[row, 0].set_ylabel(name)
    axes[0, 0].set_ylim(0, most * 1.05)
    with matplotlib.rc_context({"svg.hashsalt": "sched"}):
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
    try:
        figure.savefig(path, metadata=metadata)
    except OSError as error:
        raise UserError(f"--picture: {path}: {error.strerror or error}") from None


def _moments(result: Result) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    moments = np.linspace(0.0, max(result.ended_at, 1e-3), _MOMENTS)
    return moments, moments / 3600.0


def _held(result: Result, moments: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Slots held by each job that ever had any, in order of first use, at each moment: its own, and shared ones."""
    steps: dict[int, list[tuple[float, int, int]]] = {}
    for step in result.held:
        steps.setdefault(step.job, [(-1.0, 0, 0)]).append((step.at, step.slots, step.shared))
    held = np.zeros((2, max(len(steps), 1), len(moments)))
    for row, points in enumerate(steps.values()):
        times, *values = np.array(points).T
        held[:, row] = np.array(values)[:, np.searchsorted(times, moments, side="right") - 1]
    return held


def _waiting(result: Result, moments: "NDArray[np.float64]") -> "NDArray[np.float64]":
    times = np.array([step.at for step in result.queue])
    values = np.array([step.waiting for step in result.queue], float)
    return np.asarray(values[np.maximum(np.searchsorted(times, moments, side="right") - 1, 0)])


def _draw_slots(axes: "Axes", hours: "NDArray[np.float64]", held: "NDArray[np.float64]", result: Result) -> None:
    """Jobs stacked by first use, in colours that repeat; many jobs are drawn together, each colour as one layer."""
    palette = matplotlib.colormaps["tab20"]
    if len(held) > 2000:
        held = np.array([held[colour::_COLOURS].sum(axis=0) for colour in range(_COLOURS)])
    axes.stackplot(hours, held, colors=[palette(i % _COLOURS) for i in range(len(held))], linewidth=0, step="post")
    axes.axhline(result.slots, color="black", linewidth=0.8)
