"""A measured figure beside its target, as a table and as JSON."""

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

#: What was measured here; not part of the project.
RESULTS = Path(__file__).parent / "results"
#: What the documentation quotes.
PUBLISHED = Path(__file__).parent / "figures"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `at_most` and `at_least` are targets; without any it is there for comparison."""

    what: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""
    #: What others published for the same, with its unit.
    published: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.at_most is not None:
            return "reached" if self.value <= self.at_most else "MISSED"
        if self.at_least is not None:
            return "reached" if self.value >= self.at_least else "MISSED"
        return ""

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {number(self.at_most)} {self.unit}"
        return f"≥ {number(self.at_least)} {self.unit}" if self.at_least is not None else ""

    @property
    def measured(self) -> str:
        return "-" if self.value is None else f"{number(self.value)} {self.unit}"


def number(value: float) -> str:
    """Three significant digits, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "measured", "published", "target", "", "note")]
    rows += [(f.what, f.measured, f.published, f.target, f.verdict, f.note) for f in figures]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    rows = list(zip(*columns, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def save(name: str, figures: Sequence[Figure]) -> Path:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "name": name,
        "command": f"python -m benchmarks {name}",
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "figures": [{**asdict(f), "verdict": f.verdict} for f in figures],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def is_published(name: str) -> bool:
    """Whether the documentation quotes figures of this benchmark."""
    return (PUBLISHED / f"{name}.json").exists()


def load(name: str) -> list[Figure]:
    """The published figures of a benchmark."""
    return [Figure(**row) for row in json.loads((PUBLISHED / f"{name}.json").read_text())["figures"]]


def published_machine(names: Iterable[str]) -> str:
    """The machine on which these were measured; several, each named once."""
    documents = (json.loads((PUBLISHED / f"{name}.json").read_text()) for name in names)
    return "; ".join(dict.fromkeys(document["machine"] for document in documents))


def machine() -> str:
    """The machine in general words: cores and system."""
    try:
        system = platform.freedesktop_os_release()
        name = f"{system['NAME'].replace(' GNU/Linux', '')} {system.get('VERSION_ID', '')}".strip()
    except (OSError, KeyError):
        name = platform.system()
    return f"{len(os.sched_getaffinity(0))} cores, {name}, Python {platform.python_version()}"


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that this share of all values does not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
