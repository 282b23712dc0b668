"""docs/events.md: every kind of event, and every reason that the scheduler gives, from the enumerations."""

from collections.abc import Iterator
from enum import StrEnum

from docs.generate.comments import member_comments
from docs.generate.markdown import heading, table
from scheduler.engine.whatif.forecast import Certainty, CutOff
from scheduler.model.booking import BookingState
from scheduler.model.event import Cause, EventKind
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import STOP_TARGETS, JobState, StopReason, WaitReason
from scheduler.model.node import NodeHealth, NodeIntent
from scheduler.model.worker import ExitReason, LeaveReason, WorkerState
from scheduler.policy.estimate.work_left import EndBasis
from scheduler.policy.explain.growth_limits import Limit
from scheduler.policy.explain.shortage import Lack

_HEAD = """
The history of a cluster is a list of events, which `sched events`, `GET /v1/events`, the live page and webhooks show.
An event is stored in the same transaction as the change that it reports. It has a `kind`, the time `at`, its subject
(`job_id`, `worker_id`, `node`), a typed `cause`, `for_job` (the job in whose favour it was done), a `detail` for
people, and for some kinds an `amount`.
"""
_CAUSES = """
The `cause` of an event is a wait, stop, leave or exit reason, or a request of a user, all of them listed below, or one
of these.
"""
#: Title, what stands below it, and the enumeration.
_REASONS: tuple[tuple[str, str, type[StrEnum]], ...] = (
    ("Causes", _CAUSES, Cause),
    ("Wait reasons", "Why a queued job does not run; `sched explain` and `JOB_WAITS`.", WaitReason),
    (
        "Stop reasons",
        "Why a job is stopped, and its state afterwards; `JOB_STOPPING` and the event of its end.",
        StopReason,
    ),
    ("Leave reasons", "Why a worker was asked to leave; `JOB_SHRANK` and `sched show`.", LeaveReason),
    ("Exit reasons", "What the end of a worker means; `WORKER_ENDED`.", ExitReason),
    ("Requests", "What a user asked for; the cause of what follows from it.", IntentKind),
)
_STATES: tuple[tuple[str, str, type[StrEnum]], ...] = (
    ("States of jobs", "", JobState),
    ("States of workers", "", WorkerState),
    ("Health of nodes", "", NodeHealth),
    ("Intent of nodes", "", NodeIntent),
    ("States of bookings", "", BookingState),
)
_ANSWERS: tuple[tuple[str, str, type[StrEnum]], ...] = (
    ("Certainty of an estimated start", "`sched explain` and `sched whatif`.", Certainty),
    ("What an estimated start rests on", "`sched explain` and `sched whatif`.", EndBasis),
    ("Why no start was found", "`sched explain` and `sched whatif`.", CutOff),
    ("What is missing for a waiting job", "`sched explain`.", Lack),
    ("Why a running job does not grow", "`sched explain`; the first that holds, in this order.", Limit),
)


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield heading("Events and reasons") + _HEAD
    yield "## Kinds of events\n"
    yield from _table("kind", EventKind)
    for title, text, kind in (*_REASONS, *_STATES, *_ANSWERS):
        yield f"\n## {title}\n"
        if text:
            yield f"{text.strip()}\n"
        yield from _table("state" if kind in {each for _, _, each in _STATES} else "value", kind)


def _table(title: str, kind: type[StrEnum]) -> Iterator[str]:
    comments = member_comments(kind)
    if kind is StopReason:
        rows = ((f"`{each.value}`", f"`{STOP_TARGETS[each]}`", comments[each.name]) for each in StopReason)
        yield from table((title, "the job becomes", "meaning"), rows)
        return
    yield from table((title, "meaning"), ((f"`{each.value}`", comments[each.name]) for each in kind))
