"""The charts of the page of figures and of README.md, from benchmarks/figures."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from benchmarks.figure import is_published, load
from docs.generate.bars import Bar, digest, draw
from docs.generate.comparison import compared, published, ratio
from docs.generate.sections import MEASURED, Chart, Section
from docs.generate.simulated_sections import SIMULATED

_PUBLISHED = "published:"
README_CHART = "comparison.svg"
_README_TITLE = "How many times better than the other system"
_README_NOTE = "logarithmic, from 1 ×; longer is better"


def chart_name(section: Section, number: int) -> str:
    """The file of a chart below docs/."""
    return f"figures-{section.name.replace('_', '-')}{f'-{number + 1}' if number else ''}.svg"


def charts() -> Mapping[str, Callable[[], str]]:
    """File below docs/ and what draws it."""
    found: dict[str, Callable[[], str]] = {README_CHART: _readme_chart}
    for section, number, chart in _every():
        found[chart_name(section, number)] = partial(_chart, section, chart)
    return found


def digests() -> Mapping[str, str]:
    """File below docs/ and the digest of what it has to show."""
    found = {README_CHART: digest(_README_TITLE, _readme_bars(), log=True, note=_README_NOTE)}
    for section, number, chart in _every():
        found[chart_name(section, number)] = digest(
            chart.title, list(_bars(section, chart)), log=False, note=chart.better
        )
    return found


def _every() -> Iterator[tuple[Section, int, Chart]]:
    for section in (each for each in (*MEASURED, *SIMULATED) if is_published(each.name)):
        for number, chart in enumerate(section.charts):
            yield section, number, chart


def _chart(section: Section, chart: Chart) -> str:
    return draw(chart.title, list(_bars(section, chart)), log=False, note=chart.better)


def _bars(section: Section, chart: Chart) -> Iterator[Bar]:
    figures = {figure.what: figure for figure in load(section.name)}
    for label, what in chart.bars:
        ours = not chart.ours or label in chart.ours
        if what.startswith(_PUBLISHED):
            value, text = published(figures[what.removeprefix(_PUBLISHED)])
        else:
            figure = figures[what]
            assert figure.value is not None, f"{what}: not measured"
            value, text = figure.value, figure.measured
        yield Bar(label, value, text, ours)


def _readme_bars() -> list[Bar]:
    return [Bar(each.comparison.label, each.ratio, ratio(each), True) for each in compared()]


def _readme_chart() -> str:
    return draw(_README_TITLE, _readme_bars(), log=True, note=_README_NOTE)
