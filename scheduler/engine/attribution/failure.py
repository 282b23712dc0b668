"""How a tick failed, where, and which job, node or other input it was handling then, as its stack tells."""

import math
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import FrameType, TracebackType

from scheduler.model.booking import Booking
from scheduler.model.event import Cause
from scheduler.model.foreign import Awaited, Demand
from scheduler.model.intent import Intent
from scheduler.model.job import Job
from scheduler.model.node import Node
from scheduler.model.observation import NodeObservation, WorkerObservation, WorkerReport
from scheduler.model.stray import Stray
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.worker import Worker

_PACKAGE = Path(__file__).parents[2]
#: Longest message, which may hold anything that a job brought with it.
_MESSAGE_MAX = 200
_ODD_BELOW, _ODD_ABOVE = 1e-100, 1e14


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed try of a tick."""

    cause: Cause
    #: How and where, in one line.
    detail: str
    #: What it was handling, from the innermost frames outward.
    suspects: tuple[Subject, ...] = ()


def failure_of(error: BaseException, cause: Cause = Cause.TICK_RAISED) -> Failure:
    """The failure that this error is."""
    message = " ".join(str(error).split())[:_MESSAGE_MAX]
    said = f"{type(error).__name__}: {message}" if message else type(error).__name__
    where = _place(error.__traceback__)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return Failure(cause, f"{said}, in {where}" if where else said, tuple(suspects_in(reversed(frames))))


def suspects_in(frames: Iterable[FrameType]) -> list[Subject]:
    """Subjects that the variables of these frames name, each once; those with odd numbers first."""
    found: dict[Subject, bool] = {}
    for frame in frames:
        for value in list(frame.f_locals.values()):
            subject = subject_of(value)
            if subject is not None:
                found[subject] = found.get(subject, False) or is_odd(value)
    return sorted(found, key=lambda subject: not found[subject])


def is_odd(value: object) -> bool:
    """Whether the value holds a number that cannot be meant: not finite, or next to zero or the end of all floats."""
    if isinstance(value, float):
        return not math.isfinite(value) or (value != 0 and not _ODD_BELOW < abs(value) < _ODD_ABOVE)
    if isinstance(value, tuple):
        return any(map(is_odd, value))
    return is_dataclass(value) and any(is_odd(getattr(value, each.name)) for each in fields(value))


def subject_of(value: object) -> Subject | None:
    """The subject of the value; None: nothing that could be left out."""
    match value:
        case Job():
            return Subject(SubjectKind.JOB, str(value.id))
        case Worker() | WorkerObservation() | WorkerReport() | Stray():
            return Subject(SubjectKind.JOB, str(value.job_id))
        case Node() | NodeObservation():
            return Subject(SubjectKind.NODE, value.name)
        case Booking():
            return Subject(SubjectKind.BOOKING, value.name)
        case Demand():
            return Subject(SubjectKind.POD, value.name)
        case Awaited():
            return subject_of(value.demand)
        case Intent():
            return _asked(value)
        case _:
            return subject_of(getattr(value, "job", None)) if is_dataclass(value) else None


def _asked(intent: Intent) -> Subject | None:
    if intent.job_id is not None:
        return Subject(SubjectKind.JOB, str(intent.job_id))
    if intent.node is not None:
        return Subject(SubjectKind.NODE, intent.node)
    return Subject(SubjectKind.BOOKING, intent.booking) if intent.booking is not None else None


def _place(trace: TracebackType | None) -> str:
    """The innermost line of this package, else the innermost of all."""
    places = [(Path(frame.f_code.co_filename), line, frame.f_code.co_name) for frame, line in traceback.walk_tb(trace)]
    own = [place for place in places if place[0].is_relative_to(_PACKAGE)]
    if not places:
        return ""
    path, line, function = (own or places)[-1]
    shown = path.relative_to(_PACKAGE.parent) if own else path.name
    return f"{shown}:{line} ({function})"
