"""`GET /v1/history`: used slots and sizes of jobs over the last hour, computed from the workers that lived in it.

Nothing is recorded for it, so it is complete after a restart and on replicas that follow. An answer is shared by all
clients for a while.
"""

import threading
from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from scheduler.http.errors import documented
from scheduler.http.json import JsonResponse
from scheduler.http.services import Services
from scheduler.model.ids import JobId
from scheduler.model.report import Window
from scheduler.model.worker import Worker
from scheduler.model.world import World

router = APIRouter(tags=["cluster"])

SPAN_SECONDS = 3600.0
POINTS = 120
#: How long an answer serves.
KEEP_SECONDS = 10.0
#: Newest events that are searched for ends of workers.
EVENTS_MAX = 20_000
#: Limit on the changes of a job's size; the newest are kept.
STEPS_MAX = 60


class HistoryView(TypedDict):
    #: Start of the time span, from which on the answer is complete; unix seconds.
    since: float
    #: End of the time span; unix seconds.
    until: float
    #: Average number of slots in use in equal parts of the span, oldest first.
    slots_used: list[float]
    #: Average number of slots of nodes that were up, in the same parts.
    slots_total: list[float]
    #: For jobs that have not ended: pairs of the time of a change and the new number of workers.
    jobs: dict[int, list[list[float]]]


class History:
    """The last hour, computed at most once per `KEEP_SECONDS`. Thread-safe."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._view: HistoryView | None = None

    def view(self) -> HistoryView:
        with self._lock:
            now = self._services.clock.now()
            view = self._view
            if view is None or not 0 <= now - view["until"] < KEEP_SECONDS:
                view = self._view = self._compute(now)
            ahead_seconds = self._services.ahead_seconds()
            jobs = {job: [[at + ahead_seconds, size] for at, size in steps] for job, steps in view["jobs"].items()}
            return {**view, "jobs": jobs}

    def _compute(self, now: float) -> HistoryView:
        world = self._services.board.world or World()
        since, ended = self._services.store.ended_workers(now - SPAN_SECONDS, EVENTS_MAX)
        live = [worker for job in world.active.values() for worker in job.all_workers]
        scaled = [worker for worker in (*live, *ended) if not worker.fixed and world.job(worker.job_id) is not None]
        window = Window(min(since, now - 1.0), now, POINTS)
        usage = self._services.store.usage(window, ())
        used = [sum(part) for part in zip(*usage.used.values(), strict=True)] or [0.0] * POINTS
        return {
            "since": since,
            "until": now,
            "slots_used": [round(seconds / window.step_seconds, 2) for seconds in used],
            "slots_total": [round(seconds / window.step_seconds, 2) for seconds in usage.capacity],
            "jobs": sizes(scaled, since),
        }


def sizes(workers: Sequence[Worker], since: float) -> dict[int, list[list[float]]]:
    """By job: the times of the newest changes of its number of workers, with the new number."""
    moments: dict[JobId, dict[float, int]] = {}
    for worker in workers:
        steps = moments.setdefault(worker.job_id, {})
        start = max(worker.created_at, since)
        steps[start] = steps.get(start, 0) + 1
        if worker.ended_at is not None:
            steps[worker.ended_at] = steps.get(worker.ended_at, 0) - 1
    found: dict[int, list[list[float]]] = {}
    for job_id, steps in moments.items():
        size = 0
        rows: list[list[float]] = []
        for at, change in sorted(steps.items()):
            size += change
            rows.append([at, size])
        found[job_id] = rows[-STEPS_MAX:]
    return found


@router.get("/v1/history", response_model=HistoryView, responses=documented())
def show_history(request: Request) -> Response:
    """Get used slots, all slots, and sizes of jobs over the last hour."""
    history: History = request.app.state.history
    return JsonResponse(history.view())
