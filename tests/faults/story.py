"""What happened in a run, in order: what was done to it, and what it stored."""

from collections import Counter
from dataclasses import fields
from typing import Any

from scheduler.model.event import Event
from tests.faults.kinds import Fault


def brief(value: Any) -> str:
    """A dataclass value without the fields that are as always."""
    said = (f"{f.name}={getattr(value, f.name)!r}" for f in fields(value) if getattr(value, f.name) != f.default)
    return f"{type(value).__name__}({', '.join(said)})"


class Story:
    """Counts faults by kind; keeps a line of everything where it is told to."""

    def __init__(self, start: float, *, told: bool = False) -> None:
        self._start = start
        self._told = told
        self._errors: dict[str, str | None] = {}
        self.lines: list[str] = []
        self.faults: Counter[str] = Counter()

    def fault(self, now: float, fault: Fault, target: object) -> None:
        """A fault that found its target."""
        self.faults[type(fault).__name__] += 1
        if self._told:
            self._tell(now, f"** {fault} -> {target}")

    def error(self, now: float, holder: str, error: str | None) -> None:
        """How a tick of this daemon ended; told where it differs from the tick before."""
        if self._errors.get(holder) != error:
            self._errors[holder] = error
            self.note(now, f"{holder}: {error or 'decides again'}")

    def note(self, now: float, line: str) -> None:
        if self._told:
            self._tell(now, f"-- {line}")

    def event(self, event: Event) -> None:
        """What the engine stored."""
        if not self._told:
            return
        about = " ".join(str(x) for x in (event.job_id and f"job {event.job_id}", event.worker_id, event.node) if x)
        for_job = f" for job {event.for_job}" if event.for_job else ""
        self._tell(event.at, f"   {event.kind} {about} {event.cause}{for_job} {event.detail}".rstrip())

    def _tell(self, now: float, line: str) -> None:
        self.lines.append(f"{now - self._start:9.3f} {line}")
