"""The forecast of a start: rules on worlds written down line by line, and what then really happens."""

from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import Settings
from scheduler.engine.whatif.forecast import Certainty, CutOff, Forecast, Loss, forecast, forecast_spec
from scheduler.engine.whatif.job_ends import Ending
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec, Runtime
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.shape import WorkerShape
from scheduler.model.world import Changes
from scheduler.policy.estimate.work_left import EndBasis
from tests.poison import HARMS, POINTS, poisoned
from tests.policy.worlds import LONG_AGO, NOW, QUARANTINED, Cluster
from tests.store import garbage
from tests.world import World

#: How long a job of `Cluster.running` has run, in seconds.
RAN = NOW - LONG_AGO
GRACE = 30.0


def always() -> bool:
    return True


def ask(c: Cluster, workers: tuple[int, int] = (1, 1), *, slots: int = 1, **spec: Any) -> Forecast:
    """When such a job would start."""
    low, high = workers
    wanted = JobSpec("asked", ("true",), min_workers=low, max_workers=high, shape=WorkerShape(slots=slots), **spec)
    return forecast_spec(c.world(), wanted, c.now, Settings(), always)


def ends(endings: tuple[Ending, ...]) -> list[tuple[int, float, EndBasis]]:
    return [(ending.job_id, ending.at, ending.basis) for ending in endings]


# Starts that hang on no end


def test_a_job_that_fits_starts_at_once_at_the_size_it_can_have() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 1})
    found = ask(c, (1, 8))
    assert (found.certainty, found.start_at, found.job.state) == (Certainty.CERTAIN, NOW, JobState.RUNNING)
    assert (found.workers, found.placement) == (3, (("a", 3),))
    assert found.losses == found.rests_on == ()


def test_it_starts_once_its_victims_have_used_up_their_grace() -> None:
    c = Cluster().node("a", 4).node("b", 4)
    c.running(1, {"a": 4}, workers=(1, 4), priority=1).running(2, {"b": 4}, workers=(2, 4), priority=0)
    found = ask(c, (5, 5), priority=5)
    assert (found.certainty, found.start_at) == (Certainty.CERTAIN, NOW + GRACE)
    assert found.job.wait_reason is WaitReason.WAITING_FOR_VICTIMS
    assert found.losses == (Loss(JobId(1), "job-1", 4, 1), Loss(JobId(2), "job-2", 4, 2))
    assert found.placement == (("a", 3), ("b", 2))


def test_a_victim_that_cannot_shrink_enough_is_stopped() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(4, 4))
    found = ask(c, priority=1)
    assert found.losses == (Loss(JobId(1), "job-1", 4, 0, slot_seconds=4 * RAN),)
    assert found.start_at == NOW + GRACE


def test_who_is_leaving_for_it_already_counts_as_a_victim() -> None:
    c = Cluster().node("a", 4).running(1, {"a": 4}, workers=(1, 4), leaving=2, leave_for=JobId(2))
    c.waiting(2, workers=(2, 2), priority=3, reservation=(("a", 2),), wait_reason=WaitReason.WAITING_FOR_VICTIMS)
    found = forecast(c.world(), c.jobs[JobId(2)], NOW, Settings(), always)
    assert found.losses == (Loss(JobId(1), "job-1", 4, 2),)
    assert (found.start_at, found.certainty) == (NOW + GRACE, Certainty.CERTAIN)


def test_the_end_of_a_victim_does_not_make_a_certain_start_uncertain() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(1, 2), expected_seconds=RAN + 5)
    found = ask(c, priority=3)
    assert (found.start_at, found.certainty, found.rests_on) == (NOW + GRACE, Certainty.CERTAIN, ())


def test_a_pause_after_a_failure_is_waited_for() -> None:
    c = Cluster().node("a", 4).waiting(1, not_before=NOW + 77.0)
    found = forecast(c.world(), c.jobs[JobId(1)], NOW, Settings(), always)
    assert (found.certainty, found.start_at) == (Certainty.CERTAIN, NOW + 77.0)
    assert found.job.wait_reason is WaitReason.BACKOFF


def test_the_end_of_a_quarantine_is_known() -> None:
    c = Cluster().node("a", 4, intent=QUARANTINED, quarantined_until=NOW + 60.0)
    assert (ask(c).start_at, ask(c).certainty) == (NOW + 60.0, Certainty.CERTAIN)


def test_the_end_of_a_booking_is_known() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(2, 2), preemptible=False, booking="b")
    booking = Booking("b", NOW - 10, NOW + 200, 2, WorkerShape(), NOW - 20, state=BookingState.OPEN)
    world = c.world().evolve(Changes(bookings=(booking,)))
    found = forecast_spec(world, JobSpec("asked", ("true",), priority=1), NOW, Settings(), always)
    assert (found.start_at, found.certainty) == (NOW + 200 + GRACE, Certainty.CERTAIN)


def test_a_stray_is_gone_soon() -> None:
    c = Cluster().node("a", 1).stray(9, "a", [0])
    assert (ask(c).start_at, ask(c).certainty) == (NOW, Certainty.CERTAIN)


def test_the_size_it_settles_at_counts_what_comes_free_without_any_end() -> None:
    c = Cluster().node("a", 4).node("b", 1).running(1, {"a": 4}, workers=(1, 4), leaving=3)
    found = ask(c, (1, 4), priority=2)
    assert (found.start_at, found.workers, found.settled_workers) == (NOW, 1, 4)


def test_without_time_it_is_not_looked_where_it_settles() -> None:
    c = Cluster().node("a", 4).node("b", 1).running(1, {"a": 4}, workers=(1, 4), leaving=3)
    wanted = JobSpec("asked", ("true",), max_workers=4, priority=2)
    found = forecast_spec(c.world(), wanted, NOW, Settings(), lambda: False)
    assert (found.start_at, found.workers, found.settled_workers) == (NOW, 1, 1)


# Starts that hang on ends


def test_a_time_limit_is_an_upper_bound() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(2, 2), time_limit_seconds=RAN + 500)
    found = ask(c)
    assert (found.certainty, found.start_at) == (Certainty.UPPER_BOUND, NOW + 500 + GRACE)
    assert ends(found.rests_on) == [(1, NOW + 500, EndBasis.TIME_LIMIT)]
    assert found.job.wait_reason is WaitReason.INSUFFICIENT_SLOTS


def test_a_declared_duration_counts_what_the_job_has_done() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 2}, workers=(2, 2), expected_seconds=RAN + 300)
    found = ask(c)
    assert (found.certainty, found.start_at) == (Certainty.ESTIMATE, NOW + 300)
    assert ends(found.rests_on) == [(1, NOW + 300, EndBasis.DECLARED)]


def test_reported_progress_counts_more_than_the_declared_duration() -> None:
    c = (
        Cluster()
        .node("a", 1)
        .running(1, {"a": 1}, expected_seconds=RAN + 300, fraction=0.25, whole_slot_seconds=4 * RAN)
    )
    found = ask(c)
    assert (found.certainty, found.start_at) == (Certainty.ESTIMATE, NOW + 3 * RAN)
    assert ends(found.rests_on) == [(1, NOW + 3 * RAN, EndBasis.REPORTED)]


def test_ends_are_chained_through_the_queue() -> None:
    c = Cluster().node("a", 1).running(1, {"a": 1}, expected_seconds=RAN + 100, priority=1)
    c.waiting(2, expected_seconds=50.0).waiting(3, expected_seconds=25.0, priority=1)
    found = ask(c)
    assert found.start_at == NOW + 175
    assert ends(found.rests_on) == [
        (1, NOW + 100, EndBasis.DECLARED),
        (3, NOW + 125, EndBasis.DECLARED),
        (2, NOW + 175, EndBasis.DECLARED),
    ]


def test_ends_on_other_nodes_are_not_what_it_rests_on() -> None:
    c = Cluster().node("a", 1).node("b", 4)
    c.running(1, {"a": 1}, expected_seconds=RAN + 50).running(2, {"b": 4}, workers=(4, 4), time_limit_seconds=RAN + 90)
    found = ask(c, slots=4)
    assert ends(found.rests_on) == [(2, NOW + 90, EndBasis.TIME_LIMIT)]
    assert found.certainty is Certainty.UPPER_BOUND


def test_an_elastic_job_ends_sooner_once_it_has_grown() -> None:
    c = Cluster().node("a", 3)
    c.running(1, {"a": 2}, workers=(2, 2), priority=1, expected_seconds=RAN + 100)
    told = {"preferred_workers": 1, "expected_seconds": RAN + 400, "speedup": ((1, 1.0), (3, 3.0))}
    c.running(2, {"a": 1}, workers=(1, 3), priority=1, **told)
    # alone for the last 300 of its 400 seconds, with three workers
    assert ask(c, (3, 3)).start_at == NOW + 100 + 300 / 3


def test_a_job_grows_no_faster_than_it_declares() -> None:
    c = Cluster().node("a", 3).running(1, {"a": 2}, workers=(2, 2), priority=1, expected_seconds=RAN + 100)
    declared = {"preferred_workers": 1, "expected_seconds": RAN + 400, "speedup": ((1, 1.0), (3, 1.5))}
    c.running(2, {"a": 1}, workers=(1, 3), priority=1, **declared)
    assert ask(c, (3, 3)).start_at == NOW + 100 + 300 / 1.5


# No start


def test_what_the_cluster_cannot_hold_is_impossible() -> None:
    found = ask(Cluster().node("a", 4), (5, 5))
    assert (found.certainty, found.cut_off, found.start_at) == (Certainty.UNKNOWN, CutOff.IMPOSSIBLE, None)
    assert found.job.wait_reason is WaitReason.EXCEEDS_CLUSTER
    odd = ask(Cluster().node("a", 4), priority=1, slots=9)
    assert odd.cut_off is CutOff.IMPOSSIBLE


def test_nothing_is_known_behind_a_job_that_says_nothing() -> None:
    c = Cluster().node("a", 4).running(7, {"a": 4}, workers=(4, 4))
    found = ask(c)
    assert (found.certainty, found.cut_off) == (Certainty.UNKNOWN, CutOff.NOTHING_KNOWN)
    assert [job.id for job in found.silent] == [7]


def test_a_job_that_outran_its_declared_duration_says_nothing() -> None:
    c = Cluster().node("a", 1).running(7, {"a": 1}, expected_seconds=RAN / 2)
    assert [job.id for job in ask(c).silent] == [7]


def test_nodes_that_are_away_hide_nobody_in_the_way() -> None:
    c = Cluster().node("a", 4, intent=QUARANTINED).node("b", 1).running(7, {"b": 1})
    found = ask(c, (2, 2))
    assert (found.cut_off, found.silent) == (CutOff.NOTHING_KNOWN, ())
    assert found.job.wait_reason is WaitReason.NODES_UNAVAILABLE


def test_it_looks_no_farther_than_its_horizon_and_its_time() -> None:
    c = Cluster().node("a", 1).running(1, {"a": 1}, time_limit_seconds=1e8)
    assert ask(c).cut_off is CutOff.HORIZON
    c = Cluster().node("a", 1).running(1, {"a": 1}, time_limit_seconds=RAN + 50, grace_seconds=100.0)
    looks = iter((True, False))
    found = forecast_spec(c.world(), JobSpec("asked", ("true",)), NOW, Settings(), lambda: next(looks))
    assert (found.cut_off, found.looked_until) == (CutOff.TIME, NOW + 50)


# What then really happens


def _behaviour(work_seconds: float | None) -> Behaviour:
    """Ready at once, gone at the end of the grace: as a forecast has it."""
    return Behaviour(
        Runtime.ELASTIC, 0.001, 0.001, 0.001, heartbeat_seconds=None, leave_seconds=None, work_seconds=work_seconds
    )


def _random_job(dice: Random) -> dict[str, Any]:
    low = dice.randint(1, 3)
    seconds = dice.randint(300, 9000) / 10.0
    limited = dice.random() < 0.5
    return {
        "workers": (low, low + dice.choice((0, 0, 1, 3))),
        "priority": dice.randint(0, 3),
        "preemptible": dice.random() < 0.7,
        "grace_seconds": dice.choice((1.0, GRACE_MAX)),
        "time_limit_seconds": seconds if limited else None,
        "preferred_workers": None if limited else low,
        "expected_seconds": None if limited else seconds,
        "speedup": () if limited else ((1, 1.0), (6, 6.0)),
    }


def submit(w: World, number: int, fields: dict[str, Any]) -> JobId:
    expected, low = fields["expected_seconds"], fields["workers"][0]
    work = None if expected is None else expected * low
    return w.job(f"job-{number}", behaviour=_behaviour(work), heartbeat_seconds=0.0, **fields)


def wait_for_start(w: World, job_id: JobId, until: float) -> Event | None:
    """The job's real start; None: not before `until`."""
    while w.clock.now() < until:
        w.advance(20.0)
        if w.get(job_id).attempt:
            return next(event for event in w.events(EventKind.JOB_STARTED) if event.job_id == job_id)
    return None


#: Starting up and meeting take some ticks each time, which a forecast leaves out.
SLACK_SECONDS = 2.0
#: Whoever is asked to leave does not work on meanwhile, and may end by itself before it has used up its grace.
GRACE_MAX = 5.0


@pytest.mark.parametrize("seed", range(15))
def test_the_start_comes_as_forecast(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    w = World(tmp_path)
    for name in "abc"[: dice.randint(1, 3)]:
        w.node(name, dice.randint(1, 4))
    for number in range(dice.randint(1, 6)):
        submit(w, number, _random_job(dice))
        w.advance(1)
    w.advance(dice.randint(0, 60))
    world = w.board.world
    assert world is not None
    job_id = submit(w, 99, _random_job(dice))
    found = forecast_spec(world, w.get(job_id).spec, w.clock.now(), w.settings, always)
    if found.start_at is None:
        assert found.cut_off in (CutOff.IMPOSSIBLE, CutOff.NOTHING_KNOWN)
    else:
        _compare(w, job_id, found, found.start_at)
    w.close()


def _compare(w: World, job_id: JobId, found: Forecast, start_at: float) -> None:
    """The start that comes, and who loses workers for it, are those of the forecast."""
    started = wait_for_start(w, job_id, start_at + 100.0)
    assert started is not None, found
    stops = [event for event in w.events(EventKind.JOB_STOPPING, EventKind.JOB_SHRANK) if event.at <= started.at]
    assert abs(started.at - start_at) <= SLACK_SECONDS + GRACE_MAX * len(stops), (started, found)
    assert started.detail == ", ".join(f"{count} on {node}" for node, count in found.placement)
    lost = {
        event.job_id
        for event in w.events(EventKind.JOB_SHRANK, EventKind.JOB_STOPPING)
        if event.for_job == job_id and event.cause == "PREEMPTED"
    }
    assert lost == {loss.job_id for loss in found.losses}


@pytest.mark.parametrize("trouble", ["held", "unreadable"])
def test_no_slots_are_promised_that_the_newest_job_keeps_although_no_decision_looks_at_it(
    tmp_path: Path, trouble: str
) -> None:
    w = World(tmp_path, careful=True)
    w.node("a", 4)
    newest = w.job("newest", workers=4)
    w.advance(10)
    with ExitStack() as until_the_end:
        if trouble == "held":
            until_the_end.enter_context(poisoned(lambda job_id: job_id == newest, POINTS[5], HARMS["raise"]))
            w.kill_engine()
            w.advance(10)
        else:
            until_the_end.enter_context(garbage.unreadable_job(f"sqlite:///{w.store.file}", newest))
            w.engine.forget()
            w.engine.tick()
        world = w.board.world
        assert world is not None
        assert newest in {*world.held, *(row.job_id for row in world.unreadable)}
        found = forecast_spec(world, JobSpec("asked", ("true",)), w.clock.now(), w.settings, always)
    assert (found.certainty, found.start_at) == (Certainty.UNKNOWN, None)
    w.close()


def test_asking_changes_nothing(tmp_path: Path) -> None:
    w = World(tmp_path)
    w.node("a", 4)
    low = w.job("low", workers=(1, 4))
    w.settle()
    world, stored, events = w.board.world, w.store.load_world(), w.events()
    assert world is not None
    found = forecast_spec(world, JobSpec("asked", ("true",), priority=9), w.clock.now(), w.settings, always)
    assert [loss.job_id for loss in found.losses] == [low]
    assert w.board.world is world
    assert (w.store.load_world(), w.events()) == (stored, events)
    w.settle()
    w.expect(low, JobState.RUNNING, workers=4)
    w.close()
