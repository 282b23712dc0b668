"""Reports on a span of time, and slots over time, as computed by the store."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import InvalidInput
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.services import Services, ServicesDep
from scheduler.metrics import DEFAULT_CLASSES, LOWEST_CLASS
from scheduler.model.event import EventKind
from scheduler.model.job_state import StopReason
from scheduler.model.report import Happened, Report, Usage, Waits, Window

router = APIRouter(tags=["report"])

#: How long a report waits for its turn: they run one after the other, since each reads many rows.
TURN_SECONDS = 30.0
PARTS_MAX = 200
USERS_MAX = 1000
TIME_MAX = 1e11
_TAKEN = (StopReason.PREEMPTED.value, StopReason.REBALANCED.value, StopReason.RECLAIMED.value)
#: A span that ends this close to now counts as current: the client's clock may be behind.
_NOW_SECONDS = 60.0


class KeptView(TypedDict):
    #: Jobs that ended before are removed, with what they held and waited; null: none is.
    jobs_since: float | None
    #: Events before are removed: preemptions, lost work, waits, nodes that came and went; null: none is.
    events_since: float | None
    #: Sentences about what is missing from the span; they name the fields above instead of times.
    missing: list[str]


class CourseView(TypedDict):
    #: Length of each part of the span.
    step_seconds: float
    #: Slots of nodes that are up, on average in each part of the span.
    slots: list[float]
    #: Of them held by workers, by priority class: the lower bound of its priorities.
    used: dict[str, list[float]]


class UsageView(TypedDict):
    #: Start of the span; unix seconds.
    since: float
    #: End of the span; unix seconds.
    until: float
    #: What retention has removed of the span.
    kept: KeptView
    #: Since when there were slots; null: there were none.
    slots_since: float | None
    #: Slots of nodes that were up, times seconds.
    slot_seconds: float
    #: Slot-seconds that workers held.
    used_slot_seconds: float
    #: Slot-seconds beyond the physical slots, held by jobs that accept to share.
    shared_slot_seconds: float
    #: Used share of all slot-seconds; null: there were no slots.
    utilization: float | None
    #: Slots over the parts of the span.
    course: CourseView


class WaitView(TypedDict):
    #: Lower bound of its priorities; below: less than the first bound; removed: jobs that are no longer stored.
    priority_class: str
    #: Starts, repeated ones too.
    starts: int
    #: Mean of the waits before these starts.
    seconds_mean: float
    #: Median wait before a start.
    seconds_p50: float
    #: 90th percentile of the waits.
    seconds_p90: float
    #: 99th percentile of the waits.
    seconds_p99: float
    #: The longest of these waits.
    seconds_max: float
    #: Jobs that wait now; null: the span ends before now.
    waiting_now: int | None
    #: Wait so far of the job that waits longest now; null: none waits, or the span ends before now.
    longest_now_seconds: float | None


class PreemptionsView(TypedDict):
    #: Number of times that a job lost workers to another one, and went on with fewer.
    shrinks: int
    #: Number of times that a job was stopped for another one.
    stops: int
    #: Shrinks in each part of the span.
    shrinks_course: list[int]
    #: Stops in each part of the span.
    stops_course: list[int]


class LostView(TypedDict):
    #: Work since the last commit or checkpoint that was lost, in slot-seconds.
    slot_seconds: float
    #: Lost slot-seconds by cause.
    by_cause: dict[str, float]
    #: Lost slot-seconds in each part of the span.
    course: list[float]


class UserView(TypedDict):
    #: Name of the user.
    user: str
    #: Jobs that held slots in the span.
    jobs: int
    #: Slot-seconds that they held.
    slot_seconds: float
    #: Slot-seconds beyond the physical slots.
    shared_slot_seconds: float
    #: Share of all used slot-seconds.
    share: float


class ReportView(UsageView):
    #: Waits by priority class.
    waits: list[WaitView]
    #: Preemptions of jobs for others.
    preemptions: PreemptionsView
    #: Work that was lost since the last commits or checkpoints.
    lost_work: LostView
    #: Events by kind.
    events: dict[str, int]
    #: Shrinks of jobs by cause, also those that are no preemptions.
    shrinks_by_cause: dict[str, int]
    #: Stops of jobs by cause.
    stops_by_cause: dict[str, int]
    #: Ends of workers by reason.
    workers_ended: dict[str, int]
    #: The users that held the most slot-seconds.
    users: list[UserView]


Since = Annotated[
    float, Query(ge=0, le=TIME_MAX, allow_inf_nan=False, description="Start of the range in Unix seconds.")
]
Until = Annotated[
    float | None,
    Query(ge=0, le=TIME_MAX, allow_inf_nan=False, description="End of the range (default and maximum: now)."),
]
Parts = Annotated[int, Query(ge=1, le=PARTS_MAX, description="Number of equal parts of the range in time series.")]


@router.get("/v1/utilization", response_model=UsageView, responses=documented())
def show_utilization(services: ServicesDep, since: Since, until: Until = None, parts: Parts = 60) -> Response:
    """Get total and used slots over time."""
    window = _window(services, since, until, parts)
    classes = _classes(services)
    with services.compute_slot.turn(TURN_SECONDS):
        usage = services.store.usage(window, classes)
    return JsonResponse(_usage_view(usage, classes))


@router.get("/v1/report", response_model=ReportView, responses=documented())
def show_report(
    services: ServicesDep,
    since: Since,
    until: Until = None,
    parts: Parts = 84,
    users: Annotated[
        int, Query(ge=1, le=USERS_MAX, description="Number of users to list, those with the highest usage first.")
    ] = 10,
) -> Response:
    """Get utilization, waits by priority class, preemptions, lost work and top users of a time range."""
    window = _window(services, since, until, parts)
    classes = _classes(services)
    with services.compute_slot.turn(TURN_SECONDS):
        report = services.store.report(window, classes, users)
    now = services.clock.now()
    return JsonResponse(_report_view(report, classes, now if _reaches_to_now(window, now) else None))


def _classes(services: Services) -> tuple[int, ...]:
    return tuple(sorted(services.settings.policy.aging_ceilings)) or DEFAULT_CLASSES


def _window(services: Services, since: float, until: float | None, parts: int) -> Window:
    now, ahead_seconds = services.clock.now(), services.ahead_seconds()
    since = since - ahead_seconds
    end = now if until is None else min(until - ahead_seconds, now)
    if end - since < 1.0:
        raise InvalidInput("since", "must be at least one second before the end of the range, and not in the future")
    return Window(since, end, parts)


def _reaches_to_now(window: Window, now: float) -> bool:
    return window.until > now - _NOW_SECONDS


def _usage_view(usage: Usage, classes: tuple[int, ...]) -> UsageView:
    window = usage.window
    total, used = sum(usage.capacity), sum(map(sum, usage.used.values()))
    step = window.step_seconds
    return {
        "since": window.since,
        "until": window.until,
        "kept": _kept_view(usage),
        "slots_since": usage.slots_since,
        "slot_seconds": total,
        "used_slot_seconds": used,
        "shared_slot_seconds": usage.shared_slot_seconds,
        "utilization": used / total if total else None,
        "course": {
            "step_seconds": step,
            "slots": [seconds / step for seconds in usage.capacity],
            "used": {_name(index, classes): [held / step for held in course] for index, course in usage.used.items()},
        },
    }


def _kept_view(usage: Usage) -> KeptView:
    kept, since = usage.kept, usage.window.since
    missing = []
    if kept.jobs_since is not None and kept.jobs_since > since:
        missing.append("jobs that ended before jobs_since have been removed: their usage and waits are missing")
    if kept.events_since is not None and kept.events_since > since:
        missing.append(
            "events before events_since have been removed: "
            "their preemptions, lost work, waits and node downtimes are missing"
        )
    return {"jobs_since": kept.jobs_since, "events_since": kept.events_since, "missing": missing}


def _report_view(report: Report, classes: tuple[int, ...], now: float | None) -> ReportView:
    """Waits by priority class. `now`: None if the span ends before it."""
    usage = _usage_view(report.usage, classes)
    happened, parts = report.happened, report.usage.window.parts
    shrinks = [each for each in happened if each.kind == EventKind.JOB_SHRANK.value]
    stops = [each for each in happened if each.kind == EventKind.JOB_STOPPING.value]
    ends = [each for each in happened if each.kind == EventKind.WORKER_ENDED.value]
    shrinks_course, stops_course = _taken(parts, shrinks), _taken(parts, stops)
    used = usage["used_slot_seconds"] + usage["shared_slot_seconds"]
    return {
        **usage,
        "waits": [_wait_view(each, classes, now) for each in report.waits if each.starts or now is not None],
        "preemptions": {
            "shrinks": sum(shrinks_course),
            "stops": sum(stops_course),
            "shrinks_course": shrinks_course,
            "stops_course": stops_course,
        },
        "lost_work": _lost_view(parts, [*stops, *ends]),
        "events": _counts(happened, _kind),
        "shrinks_by_cause": _counts(shrinks, _cause),
        "stops_by_cause": _counts(stops, _cause),
        "workers_ended": _counts(ends, _cause),
        "users": [
            {
                "user": each.user,
                "jobs": each.jobs,
                "slot_seconds": each.slot_seconds,
                "shared_slot_seconds": each.shared_slot_seconds,
                "share": (each.slot_seconds + each.shared_slot_seconds) / used if used else 0.0,
            }
            for each in report.users
        ],
    }


def _counts(events: Iterable[Happened], key: Callable[[Happened], str]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for each in events:
        sums[key(each)] += each.times
    return dict(sorted(sums.items()))


def _cause(each: Happened) -> str:
    return each.cause


def _kind(each: Happened) -> str:
    return each.kind


def _taken(parts: int, events: Iterable[Happened]) -> list[int]:
    """Preemptions in each part."""
    course = [0] * parts
    for each in events:
        course[each.part] += each.times if each.cause in _TAKEN else 0
    return course


def _lost_view(parts: int, events: list[Happened]) -> LostView:
    by_cause: dict[str, float] = defaultdict(float)
    course = [0.0] * parts
    for each in events:
        if each.amount:
            by_cause[each.cause] += each.amount
            course[each.part] += each.amount
    return {"slot_seconds": sum(course), "by_cause": dict(sorted(by_cause.items())), "course": course}


def _wait_view(waits: Waits, classes: tuple[int, ...], now: float | None) -> WaitView:
    since = waits.queued_at_min
    return {
        "priority_class": "removed" if waits.priority_class is None else _name(waits.priority_class, classes),
        "starts": waits.starts,
        "seconds_mean": waits.seconds_mean,
        "seconds_p50": waits.seconds_p50,
        "seconds_p90": waits.seconds_p90,
        "seconds_p99": waits.seconds_p99,
        "seconds_max": waits.seconds_max,
        "waiting_now": None if now is None else waits.waiting_now,
        "longest_now_seconds": None if now is None or since is None else max(0.0, now - since),
    }


def _name(index: int, classes: tuple[int, ...]) -> str:
    return LOWEST_CLASS if index < 0 else str(classes[index])
