"""Equals that report their speed share in the engine: few resizes, sensible sizes, and short jobs get through."""

from collections import Counter

from scheduler.clusters.simulated.process import Behaviour
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.simulate.speed import Measured
from scheduler.simulate.work import CurveWork
from tests.world import World

#: Resizes that a job may have because others come, go, or report their speed.
RESIZES_MAX = 8


def trains(seconds_alone: float, *speeds: tuple[int, float]) -> Behaviour:
    """An elastic job that tells how fast it is and how far it is."""
    work = CurveWork(seconds_alone, Measured(speeds))
    return Behaviour(runtime=Runtime.ELASTIC, work=work, tells_fraction=True, heartbeat_seconds=5.0)


def resizes(w: World) -> Counter[JobId | None]:
    return Counter(event.job_id for event in w.events(EventKind.JOB_GREW, EventKind.JOB_SHRANK))


def test_workers_go_where_they_bring_most_and_stay_there(w: World) -> None:
    w.node("a", slots=12)
    curves = (
        ((1, 1.0), (2, 1.05), (12, 1.1)),
        ((1, 1.0), (4, 3.0), (12, 3.1)),
        ((1, 1.0), (12, 11.0)),
    )
    jobs: list[JobId] = []
    for k, curve in enumerate(curves):
        jobs.append(w.job(f"job-{k}", workers=(1, 12), behaviour=trains(50_000.0, *curve)))
        w.advance(120.0)
    w.advance(900.0)
    sizes = [len(w.expect(job_id, JobState.RUNNING).wanted_workers) for job_id in jobs]
    assert sum(sizes) == 12
    assert sizes[0] == 1, "a second worker brings it a twentieth"
    assert sizes[2] >= 6, "each worker brings it nearly as much as the first"
    so_far = resizes(w)
    assert max(so_far.values()) <= RESIZES_MAX
    w.advance(300.0)
    assert resizes(w) == so_far


def test_a_short_job_does_not_wait_for_a_long_one_of_its_priority(w: World) -> None:
    w.node("a", slots=8)
    curve = ((1, 1.0), (8, 6.0))
    long = w.job("long", workers=(1, 8), behaviour=trains(100_000.0, *curve))
    w.advance(300.0)
    w.expect(long, JobState.RUNNING, workers=8)
    short = [w.job(f"short-{k}", workers=(2, 8), behaviour=trains(300.0, *curve)) for k in range(2)]
    w.advance(30.0)
    for job_id in short:
        w.expect(job_id, JobState.RUNNING)
    w.advance(270.0)
    for job_id in short:
        w.expect(job_id, JobState.SUCCEEDED)
    w.advance(60.0)
    w.expect(long, JobState.RUNNING, workers=8)
    assert max(resizes(w).values()) <= RESIZES_MAX
