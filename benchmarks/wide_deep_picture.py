"""The picture of `benchmarks.wide_deep`: AUC over the samples seen, above the number of workers meanwhile."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.wide_deep import Course

_COLOURS = ("tab:blue", "tab:orange", "tab:green")
_MOMENTS = 200


def draw(courses: Mapping[str, Sequence["Course"]], best: float, path: Path) -> None:
    """Write it; the format follows from the name's ending."""
    figure = Figure(figsize=(9.0, 6.0), dpi=100, layout="constrained")
    upper, *lower = figure.subplots(len(courses), 1, sharex=True, height_ratios=(4, *[1] * (len(courses) - 1)))
    for colour, (name, found) in zip(_COLOURS, courses.items(), strict=False):
        _curves(upper, found, name, colour)
    upper.axhline(best, color="black", linestyle="--", linewidth=0.8, label="best possible")
    upper.set_ylabel("AUC")
    upper.legend(loc="lower right")
    for axes, colour, (name, found) in zip(lower, _COLOURS[1:], list(courses.items())[1:], strict=True):
        for course in found:
            samples, sizes = zip(*course.sizes, strict=True)
            axes.step(np.array(samples) / 1000, sizes, color=colour, linewidth=0.8, alpha=0.7)
        axes.set_title(name, fontsize="small")
        axes.set_ylabel("workers")
    lower[-1].set_xlabel("samples seen, thousands")
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "sched"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else {})


def _curves(axes: "Axes", found: Sequence["Course"], name: str, colour: str) -> None:
    """Each seed's, pale, and their mean."""
    begin = max(course.curve[0][0] for course in found)
    moments = np.linspace(begin, found[0].curve[-1][0], _MOMENTS)
    curves = []
    for course in found:
        samples, values = zip(*course.curve, strict=True)
        axes.plot(np.array(samples) / 1000, values, color=colour, linewidth=0.6, alpha=0.35)
        curves.append(np.interp(moments, samples, values))
    axes.plot(moments / 1000, np.mean(curves, axis=0), color=colour, linewidth=1.6, label=f"{name} (mean)")
