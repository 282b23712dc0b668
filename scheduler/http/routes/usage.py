"""Accounts: the slot-hours that queues, users and jobs held, those that others lent them, and those that were lost."""

import math
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.errors import InvalidInput
from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.services import Services, ServicesDep
from scheduler.model.account import HOUR_SECONDS, KEYS, AccountSum, folded, priced
from scheduler.store.queries.accounts import Span

router = APIRouter(tags=["report"])

#: How long a sum waits for its turn: they run one after the other, since each reads many rows.
TURN_SECONDS = 30.0
TIME_MAX = 1e11
ROWS_MAX = 10_000
#: Of sums by job, which are made of each worker.
JOB_HOURS_MAX = 24 * 31


class AccountView(TypedDict):
    #: Path of the queue; empty: jobs without a queue; null: sums are not by queue.
    queue: str | None
    #: Name of the user; null: sums are not by user.
    user: str | None
    #: Type of the GPUs; empty: nodes without GPUs; null: sums are not by type.
    gpu_type: str | None
    #: Number of the job; 0: jobs that retention has removed; null: sums are not by job.
    job: int | None
    #: Slot-seconds that workers held.
    held_slot_seconds: float
    #: Slot-seconds of them beyond the guarantees of the queue and of those around it.
    lent_slot_seconds: float
    #: Slot-seconds whose work was lost in the range.
    lost_slot_seconds: float
    #: What the held slots cost by the settings; null: there are no prices.
    cost: float | None


class AccountsView(TypedDict):
    #: Start of the range, on an hour; unix seconds.
    since: float
    #: End of the range, on an hour; unix seconds. What lies ahead is not counted.
    until: float
    #: When accounts begin; null: nothing was ever held.
    begins_at: float | None
    #: What the sums are by.
    by: list[str]
    #: Sums by these, in their order.
    rows: list[AccountView]


@router.get("/v1/usage", response_model=AccountsView, responses=documented())
def show_usage(
    services: ServicesDep,
    since: Annotated[
        float,
        Query(ge=0, le=TIME_MAX, allow_inf_nan=False, description="Start in Unix seconds; its hour counts as a whole."),
    ],
    until: Annotated[
        float | None,
        Query(
            ge=0,
            le=TIME_MAX,
            allow_inf_nan=False,
            description="End in Unix seconds; its hour does not count (default: now, with the present hour).",
        ),
    ] = None,
    by: Annotated[
        str,
        Query(max_length=100, description="Words with commas between them: queue, user, gpu_type, job; none: one sum."),
    ] = "queue",
) -> Response:
    """Get the slot-seconds that accounts held, were lent and lost in whole hours, by queue, user, GPU type or job."""
    keys = _keys(by)
    now, ahead_seconds = services.clock.now(), services.booked_ahead_seconds()
    # Both ends are rounded alike, so that no hour counts in two ranges that meet.
    last = math.ceil((now + ahead_seconds) / HOUR_SECONDS) if until is None else math.floor(until / HOUR_SECONDS)
    span = Span(math.floor(since / HOUR_SECONDS), last, now)
    if span.first >= span.last:
        raise InvalidInput("since", "must be in an earlier hour than the end of the range, and not in the future")
    if "job" in keys and span.last - span.first > JOB_HOURS_MAX:
        raise InvalidInput("since", f"by job, a range must be at most {JOB_HOURS_MAX // 24} days long")
    with services.compute_slot.turn(TURN_SECONDS):
        sums = _sums(services, span, keys)
        first_hour = services.store.first_hour()
    if len(sums) > ROWS_MAX:
        raise InvalidInput("by", f"gives {len(sums):,} sums, of at most {ROWS_MAX:,}: name fewer, or a shorter range")
    view: AccountsView = {
        "since": span.first * HOUR_SECONDS,
        "until": span.last * HOUR_SECONDS,
        "begins_at": None if first_hour is None else first_hour * HOUR_SECONDS,
        "by": [name for name in KEYS if name in keys],
        "rows": [_view(each) for each in sums],
    }
    return JsonResponse(view)


def _keys(by: str) -> frozenset[str]:
    words = [word.strip() for word in by.split(",") if word.strip()]
    for word in words:
        if word not in KEYS:
            raise InvalidInput("by", f"must be some of {', '.join(KEYS)}, not {word[:40]!r}")
    return frozenset(words)


def _sums(services: Services, span: Span, keys: frozenset[str]) -> list[AccountSum]:
    prices = services.settings.usage.prices
    if not prices:
        return services.store.accounts(span, keys)
    return folded(priced(services.store.accounts(span, keys | {"gpu_type"}), prices), keys)


def _view(each: AccountSum) -> AccountView:
    return {
        "queue": each.queue,
        "user": each.user,
        "gpu_type": each.gpu_type,
        "job": each.job,
        "held_slot_seconds": each.held,
        "lent_slot_seconds": each.lent,
        "lost_slot_seconds": each.lost,
        "cost": each.cost,
    }
