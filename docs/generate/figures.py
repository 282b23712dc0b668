"""docs/figures.md: what was measured, in tables and charts, from benchmarks/figures."""

from collections.abc import Iterator, Sequence

from benchmarks.figure import Figure, is_published, load, published_machine
from docs.generate.charts import chart_name
from docs.generate.markdown import heading, table
from docs.generate.sections import MEASURED, Section
from docs.generate.simulated_sections import SIMULATED

_HEAD = """
`python -m benchmarks` measures all of it and `python -m benchmarks NAME` one part; `make apt SECTION=bench` installs
what the benchmarks compare with. A missed target is marked. Every figure below was measured on MACHINE, with all parts
on the same machine.
"""
_SIMULATED_HEAD = """
The workloads that follow were published by others and run here in virtual time, with the engine and the planner of the
daemon. `benchmarks/NAME.py` says what was assumed of each. Anyone who runs a benchmark gets the same figures, but they
leave out what only real machines take: decisions, starts of workers, and resizes where no pause was assumed. ElasticDL,
Paddle EDL and Kueue measured real clusters.
"""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    measured = [section for section in MEASURED if is_published(section.name)]
    machine = published_machine(section.name for section in measured)
    yield heading("Figures") + _HEAD.replace("MACHINE", f"a machine with {machine}")
    yield "## Measured\n"
    for section in measured:
        yield from _section(section, ("measured", "target"))
    yield "## In virtual time\n" + _SIMULATED_HEAD
    for section in (each for each in SIMULATED if is_published(each.name)):
        yield from _section(section, ("simulated", "published by others", "target"))


def _section(section: Section, columns: Sequence[str]) -> Iterator[str]:
    yield f"### {section.title}\n"
    yield f"{section.text}\n"
    for number, chart in enumerate(section.charts):
        yield f"![{chart.title}]({chart_name(section, number)})\n"
    yield f"`python -m benchmarks {section.name}`\n"
    figures = load(section.name)
    noted = any(figure.note or figure.verdict == "MISSED" for figure in figures)
    yield from table(
        ("figure", *columns, *(["note"] if noted else [])), (_row(each, columns, noted) for each in figures)
    )
    yield ""


def _row(figure: Figure, columns: Sequence[str], noted: bool) -> tuple[str, ...]:
    cells = [figure.what, figure.measured]
    if "published by others" in columns:
        cells.append(figure.published)
    cells.append(figure.target)
    if noted:
        cells.append(" ".join(filter(None, ("**missed**" if figure.verdict == "MISSED" else "", figure.note))))
    return tuple(cells)
