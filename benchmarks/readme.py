"""`python -m benchmarks.readme` writes README.md's generated parts: measured and simulated figures.

Figures come from benchmarks/results; where a benchmark has no result, the rows that stand there stay.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.__main__ import MEASURED, SIMULATED
from benchmarks.figure import RESULTS, Figure, load

README = Path(__file__).parent.parent / "README.md"


def main() -> int:
    text = README.read_text()
    figures = _part(text, *_marks("figures"))
    text = _replace(text, *_marks("figures"), "\n".join(_measured_rows(figures)))
    figures = _part(text, *_marks("simulated"))
    text = _replace(text, *_marks("simulated"), "\n".join(_simulated_rows(figures)))
    machines = {json.loads(path.read_text())["machine"] for path in RESULTS.glob("*.json")}
    if len(machines) == 1:
        text = _replace(text, *_marks("machine"), f"On {machines.pop()}.")
    README.write_text(text)
    return 0


def _marks(part: str) -> tuple[str, str]:
    return f"<!-- {part}: made by python -m benchmarks.readme -->", f"<!-- {part}: end -->"


def _measured_rows(old: str) -> Iterator[str]:
    yield "| command | figure | measured | target | |"
    yield "|---|---|---|---|---|"
    for command, figure in _figures(MEASURED, old):
        yield (
            figure
            if isinstance(figure, str)
            else (f"| {command} | {figure.what} | {figure.measured} | {figure.target} | {_missed(figure)} |")
        )


def _simulated_rows(old: str) -> Iterator[str]:
    yield "| command | figure | simulated | published by others | target | |"
    yield "|---|---|---|---|---|---|"
    for command, figure in _figures(SIMULATED, old):
        yield (
            figure
            if isinstance(figure, str)
            else (
                f"| {command} | {figure.what} | {figure.measured} | {figure.published} | {figure.target} "
                f"| {' '.join(filter(None, (_missed(figure), figure.note)))} |"
            )
        )


def _figures(names: Iterable[str], old: str) -> Iterator[tuple[str, Figure | str]]:
    """Command and figure of each result; the rows that stand there where a benchmark has none."""
    for name in names:
        command = f"`python -m benchmarks {name}`"
        figures = load(name)
        if not figures:
            yield from ((command, line) for line in old.splitlines() if line.startswith(f"| {command} "))
        yield from ((command, figure) for figure in figures)


def _missed(figure: Figure) -> str:
    return "**missed**" if figure.verdict == "MISSED" else ""


def _part(text: str, begin: str, end: str) -> str:
    return text[text.index(begin) + len(begin) : text.index(end)]


def _replace(text: str, begin: str, end: str, body: str) -> str:
    before, after = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    return f"{before}\n{body}\n{after}"


if __name__ == "__main__":
    sys.exit(main())
