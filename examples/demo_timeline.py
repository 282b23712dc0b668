"""Who held which slot when: bars from the workers' history, and the same as text."""

from collections.abc import Iterator
from dataclasses import dataclass

from demo_record import Record

#: A job's letter in the text: training, and starting up.
LETTERS = {"low": ("L", "l"), "high": ("H", "h")}
COLUMNS_MAX = 90


@dataclass(frozen=True, slots=True)
class Bar:
    """One worker on one slot; times in seconds since the demo began."""

    job: str
    slot: int
    begin: float
    #: When it was ready to train; `end` where it never was.
    ready: float
    end: float
    killed: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment worth a line in the picture."""

    at: float
    text: str


def bars(record: Record) -> Iterator[Bar]:
    for name, workers in record.workers.items():
        for worker in workers:
            if worker["started_at"] is None:
                continue
            end = (worker["ended_at"] or record.now) - record.began_at
            ready = worker["ready_at"] - record.began_at if worker["ready_at"] else end
            killed = record.killed is not None and worker["id"] == record.killed[0]
            for slot in worker["slot_ids"]:
                yield Bar(name, slot, worker["started_at"] - record.began_at, min(ready, end), end, killed)


def marks(record: Record) -> list[Mark]:
    """The story's turns, in order."""
    turns = [
        (record.at("high", "JOB_SUBMITTED"), "high submitted"),
        (record.killed[1] if record.killed else None, "worker killed"),
        (record.at("high", "JOB_SUCCEEDED"), "high ends"),
        (record.at("low", "JOB_SUCCEEDED"), "low ends"),
    ]
    return [Mark(at - record.began_at, text) for at, text in turns if at is not None]


def timeline(record: Record, slots: int) -> str:
    """A line per slot, a column per second (or more, so that it fits)."""
    total = max((bar.end for bar in bars(record)), default=1.0)
    step = max(1.0, total / COLUMNS_MAX)
    columns = int(total / step) + 1
    rows = [["."] * columns for _ in range(slots)]
    for bar in sorted(bars(record), key=lambda bar: bar.begin):
        training, starting = LETTERS[bar.job]
        for column in range(int(bar.begin / step), int(bar.end / step) + 1):
            if column < columns and bar.slot < slots:
                rows[bar.slot][column] = training if (column + 0.5) * step >= bar.ready else starting
        if bar.killed and bar.slot < slots:
            rows[bar.slot][min(int(bar.end / step), columns - 1)] = "X"
    lines = [f"slot {slot}  {''.join(row)}" for slot, row in enumerate(rows)]
    ruler = [" "] * columns
    for column in range(0, columns, 10):
        ruler[column : column + 3] = list(f"{column * step:<3.0f}")
    lines.append("seconds " + "".join(ruler).rstrip())
    lines += [f"        {mark.at:5.1f}  {mark.text}" for mark in marks(record)]
    lines.append("        L low, H high (small letters: starting up), X killed, . free")
    return "\n".join(lines) + "\n"
