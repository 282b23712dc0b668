"""Six figures beside those of other systems, as README.md shows them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.figure import Figure, load
from docs.generate.markdown import COMMAND, table

BEGIN = f"<!-- figures: made by {COMMAND} -->"
END = "<!-- figures: end -->"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure of this project (`ours`) and that of another system: another figure of the same benchmark, or what
    others published beside ours where `theirs` is empty.
    """

    what: str
    label: str
    benchmark: str
    ours: str
    other: str
    theirs: str = ""
    more_is_better: bool = False
    simulated: bool = False


COMPARISONS = (
    Comparison(
        "An important job starts on a full cluster after",
        "Important job starts: Slurm",
        "preempt",
        "victims are elastic PyTorch trainings, median",
        "Slurm 22.05.8",
        "Slurm 22.05.8, median",
    ),
    Comparison(
        "A training pauses at a resize for",
        "Pause at a resize: torchrun",
        "frameworks",
        "scheduler.elastic: pause, median",
        "torchrun (c10d)",
        "torchrun c10d: pause, median",
    ),
    Comparison(
        "Short jobs per second through 64 slots",
        "Short jobs per second: Slurm",
        "throughput",
        "1,000 × true through 64 slots",
        "Slurm 22.05.8",
        "Slurm 22.05.8, as a job array",
        more_is_better=True,
    ),
    Comparison(
        "15,000 workloads of Kueue's benchmark are done after",
        "Benchmark of Kueue: Kueue",
        "kueue",
        "queues take back what they lent: all done",
        "Kueue",
        simulated=True,
    ),
    Comparison(
        "Share of a cluster that Paddle EDL's 20 jobs use",
        "Use of a cluster: Paddle EDL",
        "paddle_edl",
        "20 jobs: use",
        "Paddle EDL",
        more_is_better=True,
        simulated=True,
    ),
    Comparison(
        "Mean completion time of Pollux's workloads",
        "Mean completion time: Pollux",
        "adaptdl",
        "ours, batch sizes tuned: mean completion time",
        "Pollux (AdaptDL)",
        simulated=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison with its figures."""

    comparison: Comparison
    ours: str
    theirs: str
    #: How many times better ours is.
    ratio: float


def compared() -> Iterator[Compared]:
    for each in COMPARISONS:
        figures = {figure.what: figure for figure in load(each.benchmark)}
        ours = figures[each.ours]
        value, text = _measured(figures[each.theirs]) if each.theirs else published(ours)
        mine, mine_text = _measured(ours)
        yield Compared(each, mine_text, text, mine / value if each.more_is_better else value / mine)


def _measured(figure: Figure) -> tuple[float, str]:
    assert figure.value is not None, f"{figure.what}: not measured"
    return figure.value, figure.measured


def published(figure: Figure) -> tuple[float, str]:
    """What others published, and how it is written there."""
    found = re.search(r"([\d,]+(?:\.\d+)?) (?:s|%)$", figure.published)
    assert found is not None, f"{figure.what}: nothing is published"
    return float(found.group(1).replace(",", "")), found.group()


def fragment() -> str:
    """What stands in README.md between the two marks: table and chart."""
    return "\n".join([BEGIN, *_lines(), END])


def _lines() -> Iterator[str]:
    rows = (
        (
            each.comparison.what + (" ¹" if each.comparison.simulated else ""),
            f"**{each.ours}**",
            _other(each),
            ratio(each),
        )
        for each in compared()
    )
    yield from table(("", "here", "elsewhere", "better by"), rows)
    yield ""
    yield "![How many times better each figure is than that of the other system](docs/comparison.svg)"
    yield ""
    yield "¹ Here in virtual time on the published workload; elsewhere as published. The chart has one bar per row. All"
    yield "figures, how they were measured, and what was assumed: [docs/figures.md](docs/figures.md)."


def _other(each: Compared) -> str:
    return f"{each.theirs}, {each.comparison.other}"


def ratio(each: Compared) -> str:
    digits = 0 if each.ratio >= 9.95 else 1 if each.ratio >= 1.95 else 2
    return f"{each.ratio:.{digits}f} ×"


def with_fragment(text: str) -> str:
    """README.md with the figures as they are now. Raises `ValueError` where the two marks are missing."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"README.md needs the lines {BEGIN!r} and {END!r} where its figures are to stand")
    return text[: text.index(BEGIN)] + fragment() + text[text.index(END) + len(END) :]
