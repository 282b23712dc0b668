"""What the user sees while the demo runs: a live picture on a terminal, plain lines elsewhere."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from demo_record import Record, Row
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

_STYLES = {"low": "white on blue", "high": "white on red"}
_STORY_LINES = 12
_PROGRESS = ("epoch", "step", "samples_per_second")
#: Events that tell something by themselves.
_TOLD = {
    "JOB_SHRANK": "{name} shrinks: {detail}",
    "JOB_GREW": "{name} grows: {detail}",
    "WORKER_REPLACED": "{name}: {detail}",
    "JOB_REQUEUED": "{name} goes back to the queue: {detail}",
}


class View(Protocol):
    """Where the story is told."""

    def update(self, record: Record, fresh: Iterable[Row]) -> None:
        """Show the present state, and what is new."""

    def say(self, record: Record, line: str) -> None:
        """One turn of the story."""


@contextmanager
def show_view(slots: int) -> Iterator[View]:
    """The view that suits stdout."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield PlainView()
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield LiveView(live, slots)


class PlainView:
    """Lines with the seconds since the beginning."""

    def update(self, record: Record, fresh: Iterable[Row]) -> None:
        for line in _lines(record, fresh):
            self.say(record, line)

    def say(self, record: Record, line: str) -> None:
        print(_stamped(record, line), flush=True)


class LiveView:
    """Slots, jobs and the last lines of the story."""

    def __init__(self, live: Live, slots: int) -> None:
        self._live = live
        self._slots = slots
        self._story: list[str] = []

    def update(self, record: Record, fresh: Iterable[Row]) -> None:
        self._story += [_stamped(record, line) for line in _lines(record, fresh)]
        self._draw(record)

    def say(self, record: Record, line: str) -> None:
        self._story.append(_stamped(record, line))
        self._draw(record)

    def _draw(self, record: Record) -> None:
        story = Text("\n".join(self._story[-_STORY_LINES:]), style="dim")
        self._live.update(Group(_slot_table(record, self._slots), Text(), _job_table(record), Text(), story))


def _slot_table(record: Record, slots: int) -> Table:
    holders: dict[int, tuple[str, Row]] = {}
    for name, job in record.jobs.items():
        for worker in job["live_workers"]:
            holders.update(dict.fromkeys(worker["slot_ids"], (name, worker)))
    table = Table(box=None, padding=(0, 1, 0, 0))
    for slot in range(slots):
        table.add_column(f"slot {slot}", min_width=16)
    cells = []
    for slot in range(slots):
        if slot not in holders:
            cells.append(Text(" free".ljust(16), style="on grey23"))
            continue
        name, worker = holders[slot]
        doing = f"rank {worker['rank']}" if worker["rank"] is not None else _standby(worker)
        style = _STYLES[name] if worker["rank"] is not None else f"{_STYLES[name]} dim"
        cells.append(Text(f" {name} {doing}".ljust(16), style=style))
    table.add_row(*cells)
    return table


def _standby(worker: Row) -> str:
    if worker["desired"] == "STOP":
        return "leaving"
    return "standby" if worker["state"] == "READY" else "starting"


def _job_table(record: Record) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("job", "priority", "state", "workers", "generation", "epoch", "step", "samples/s"):
        table.add_column(title, justify="left" if title in ("job", "state") else "right")
    for name, job in record.jobs.items():
        progress = job["progress"]
        table.add_row(
            name,
            str(job["priority"]),
            job["state"],
            f"{job['workers']} of {job['min_workers']}-{job['max_workers']}",
            str(job["generation"]),
            *(
                "-" if progress[key] is None else f"{progress[key]:.0f}"
                for key in ("epoch", "step", "samples_per_second")
            ),
        )
    return table


def _lines(record: Record, fresh: Iterable[Row]) -> Iterator[str]:
    names = {job_id: name for name, job_id in record.ids.items()}
    for event in fresh:
        if event["kind"] in _TOLD and event["job_id"] in names:
            whom = f" (for {names[event['for_job']]})" if event["for_job"] in names else ""
            yield _TOLD[event["kind"]].format(name=names[event["job_id"]], detail=event["detail"]) + whom


def _stamped(record: Record, line: str) -> str:
    seconds = max(record.now - record.began_at, 0.0)
    return f"{seconds:5.1f} s  {line}"
