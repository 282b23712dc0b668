"""Overselling in the engine: sharers fill what is left beside the owners, and are the first to leave."""

from pathlib import Path

import pytest

from scheduler.clusters.simulated.cluster import Fault
from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import PolicySettings, Settings
from scheduler.engine.tick import Step
from scheduler.model.event import EventKind
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.observation import SlotLoad
from tests.poison import HARMS, POINTS, poisoned
from tests.world import World

ELASTIC = Runtime.ELASTIC


def load(memory: float, **behaviour: float) -> Behaviour:
    """An elastic worker that uses so much of a GPU's memory."""
    return Behaviour(runtime=ELASTIC, load=SlotLoad(memory=memory), **behaviour)  # type: ignore[arg-type]


def owners(w: World, slots: int = 2, factor: float = 2.0, memory: float = 0.5) -> JobId:
    """One oversold node, all slots of which a job has for itself."""
    w.node("a", slots=slots, oversell=factor)
    owner = w.job("owner", workers=slots, priority=5, behaviour=load(memory))
    w.settle()
    return owner


def slots_of(job: Job) -> list[tuple[int, ...]]:
    assert all(worker.shared for worker in job.workers)
    return [worker.slot_ids for worker in job.workers]


def test_sharers_start_when_all_slots_are_taken_one_on_each(w: World) -> None:
    owner = owners(w)
    sharer = w.job("sharer", workers=(1, 9), oversell=True)
    stranger = w.job("stranger")
    w.settle()
    w.expect(owner, JobState.RUNNING, workers=2)
    assert slots_of(w.expect(sharer, JobState.RUNNING, workers=2)) == [(0,), (1,)]
    w.expect(stranger, JobState.QUEUED)
    assert sorted(start.slot_ids for _, start in w.cluster.alive() if start.shared) == [(0,), (1,)]


def test_owners_start_at_once_beside_sharers(w: World) -> None:
    owner = owners(w)
    sharer = w.job("sharer", workers=2, oversell=True, priority=9)
    w.settle()
    w.ask_cancel(owner)
    w.advance(5)
    newcomer = w.job("newcomer", workers=2)
    w.tick()
    assert w.get(newcomer).state is JobState.STARTING
    w.settle()
    w.expect(newcomer, JobState.RUNNING, workers=2)
    w.expect(sharer, JobState.RUNNING, workers=2)
    assert not w.events(EventKind.JOB_SHRANK, EventKind.JOB_REQUEUED)


def test_a_suspended_job_holds_no_shared_capacity_any_more(w: World) -> None:
    owners(w, slots=1)
    stubborn = Behaviour(runtime=ELASTIC, load=SlotLoad(memory=0.1), leave_seconds=None)
    w.job("low", oversell=True, behaviour=stubborn)
    w.settle()
    high = w.job("high", oversell=True, priority=4)
    w.tick()
    assert w.get(high).reservation_shared
    w.ask(IntentKind.SUSPEND, high)
    w.tick()
    job = w.expect(high, JobState.SUSPENDED)
    assert (job.reservation, job.reservation_shared) == ((), False)


def test_sharers_leave_a_gpu_whose_memory_runs_full_and_lose_no_retry(w: World) -> None:
    owner = owners(w, slots=1, memory=0.7)
    sharer = w.job("sharer", oversell=True, behaviour=load(0.3))
    w.advance(20)
    job = w.expect(sharer, JobState.QUEUED)
    assert (job.stop_reason, job.retries_used, job.attempt) == (StopReason.OVERSOLD, 0, 1)
    w.settle()
    w.expect(owner, JobState.RUNNING, workers=1)
    w.expect(sharer, JobState.QUEUED)
    w.advance(w.settings.policy.oversell_reopen_seconds)
    assert w.get(sharer).attempt == 2, "it may try again after a while"


def test_only_as_many_leave_as_relieve_the_gpu_the_youngest_first(w: World) -> None:
    owners(w, slots=1, factor=4.0)
    sharer = w.job("sharer", workers=(1, 3), oversell=True, behaviour=load(0.15))
    w.settle(120)
    assert len(w.events(EventKind.WORKER_STARTED)) == 4, "with three sharers, 0.95 of the memory was used"
    job = w.expect(sharer, JobState.RUNNING, workers=2)
    assert [worker.ordinal for worker in job.workers] == [1, 2]
    (shrink,) = w.events(EventKind.JOB_SHRANK)
    assert shrink.cause == "OVERSOLD"


def test_the_next_is_asked_only_when_it_is_known_that_the_first_was_not_enough(w: World) -> None:
    owners(w, slots=1, factor=4.0, memory=0.7)
    sharer = w.job("sharer", workers=(1, 3), oversell=True, behaviour=load(0.1))
    w.settle(120)
    w.expect(sharer, JobState.RUNNING, workers=2)
    grace = w.job("stubborn", oversell=True, behaviour=load(0.1, leave_seconds=15.0))
    w.settle(60)
    w.expect(grace, JobState.QUEUED)
    ended = [event.at for event in w.events(EventKind.WORKER_ENDED)]
    asked = [event.at for event in w.events(EventKind.JOB_SHRANK)]
    gaps = [later - earlier for earlier, later in zip(ended, asked[1:], strict=False)]
    assert all(gap >= w.settings.policy.oversell_cooldown_seconds for gap in gaps)


def test_others_leave_a_gpu_that_runs_full_beside_a_worker_of_a_held_job(tmp_path: Path) -> None:
    w = World(tmp_path, careful=True)
    owners(w, slots=1, factor=3.0)
    bad = w.job("bad", oversell=True, behaviour=load(0.1))
    w.settle()
    with poisoned(lambda job_id: job_id == bad, POINTS[5], HARMS["raise"]):
        w.kill_engine()  # the next one looks at every job
        w.advance(10.0)
        w.expect(bad, JobState.HELD)
        sharer = w.job("sharer", oversell=True, behaviour=load(0.4))
        w.advance(30.0)
        assert w.expect(sharer, JobState.QUEUED).stop_reason is StopReason.OVERSOLD
        assert bad in {start.job_id for _, start in w.cluster.alive()}
    w.close()


def test_utilization_is_watched_where_a_limit_is_set(tmp_path: Path) -> None:
    policy = PolicySettings(oversell_memory_max=None, oversell_utilization_max=0.8)
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, policy=policy))
    owners(w, slots=1, memory=1.0)
    busy = Behaviour(runtime=ELASTIC, load=SlotLoad(utilization=0.9))
    sharer = w.job("sharer", oversell=True, behaviour=busy)
    w.advance(20)
    assert w.expect(sharer, JobState.QUEUED).stop_reason is StopReason.OVERSOLD
    w.close()


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_sharers_leave_when_the_factor_is_lowered(w: World, factor: float) -> None:
    owner = owners(w)
    sharer = w.job("sharer", workers=(1, 2), oversell=True)
    w.settle()
    w.node("a", slots=2, oversell=factor)
    w.settle()
    w.expect(owner, JobState.RUNNING, workers=2)
    if factor == 1.0:
        assert w.expect(sharer, JobState.QUEUED).stop_reason is StopReason.OVERSOLD
    else:
        w.expect(sharer, JobState.RUNNING, workers=1)


def test_sharers_of_a_lost_node_come_back_with_it_and_their_old_processes_are_fenced(w: World) -> None:
    owner = owners(w)
    sharer = w.job("sharer", workers=2, oversell=True)
    w.settle()
    w.cluster.lose_node(w.node_name("a"))
    w.advance(10)
    w.expect(sharer, JobState.QUEUED)
    w.cluster.return_node(w.node_name("a"), rebooted=False)
    w.settle()
    w.expect(owner, JobState.RUNNING, workers=2)
    job = w.expect(sharer, JobState.RUNNING, workers=2)
    assert (slots_of(job), job.retries_used) == ([(0,), (1,)], 0)


def test_a_failed_sharer_is_replaced_where_it_was(w: World) -> None:
    owners(w)
    sharer = w.job("sharer", workers=(1, 2), oversell=True)
    w.settle()
    w.cluster.crash(w.get(sharer).workers[0].id)
    w.settle()
    assert sorted(slots_of(w.expect(sharer, JobState.RUNNING, workers=2))) == [(0,), (1,)]


@pytest.mark.parametrize("step", [Step.ABSORBED, Step.PLANNED, Step.COMMITTED, Step.POSTED])
def test_an_engine_that_dies_amid_a_relief_asks_nobody_twice(w: World, step: Step) -> None:
    owners(w, slots=1, factor=4.0)
    sharer = w.job("sharer", workers=(1, 3), oversell=True, behaviour=load(0.15, leave_seconds=20.0))
    w.advance(4)
    while not w.cluster.observe().loads[w.node_name("a")][0].memory > 0.9:  # type: ignore[operator]
        w.clock.advance(0.2)
        w.tick()
    w.tick_until(step)
    w.settle(120)
    w.expect(sharer, JobState.RUNNING, workers=2)
    assert len(w.events(EventKind.JOB_SHRANK)) == 1


def test_a_start_that_seems_to_fail_shares_no_slot_twice(w: World) -> None:
    owners(w)
    w.cluster.action_faults = [Fault.DONE_BUT_REPORTED_FAILED, Fault.NOT_DONE]
    sharer = w.job("sharer", workers=2, oversell=True)
    w.settle()
    assert slots_of(w.expect(sharer, JobState.RUNNING, workers=2)) == [(0,), (1,)]


def test_who_shares_may_be_slower(w: World) -> None:
    owners(w, slots=1)
    slow = Behaviour(runtime=ELASTIC, work_seconds=30.0, shared_speed=0.5)
    sharer = w.job("sharer", oversell=True, behaviour=slow)
    w.settle(50)
    w.expect(sharer, JobState.RUNNING)
    w.advance(15)
    w.expect(sharer, JobState.SUCCEEDED)
