"""Workers that cannot be started, and jobs whose program does not exist."""

from pathlib import Path

import pytest

from scheduler.clusters.simulated.cluster import Fault
from scheduler.clusters.simulated.process import NO_PROGRAM_DETAIL, Behaviour
from scheduler.config import EngineSettings, Settings
from scheduler.model.event import EventKind
from scheduler.model.fixed import FixedGroup
from scheduler.model.intent import IntentKind
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState, StopReason
from tests.world import World

ELASTIC = Runtime.ELASTIC


def test_a_worker_that_cannot_be_launched_says_so(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", workers=1, max_retries=0, runtime=Runtime.COMMAND)
    w.cluster.behave(job_id, Behaviour(crash_after_seconds=0.0, crash_code=127))
    w.settle()
    assert w.expect(job_id, JobState.FAILED).exit_code == 127


def test_a_worker_whose_process_cannot_be_made_is_a_failure(w: World) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", workers=1, max_retries=1, runtime=Runtime.COMMAND)
    w.cluster.action_faults.append(Fault.NOT_LAUNCHED)
    w.settle()
    assert w.expect(job_id, JobState.RUNNING).retries_used == 1
    assert [e.cause for e in w.events(EventKind.WORKER_ENDED)] == ["LAUNCH_FAILED"]


@pytest.mark.parametrize("runtime", [Runtime.COMMAND, Runtime.ELASTIC, Runtime.TORCHRUN])
def test_a_job_whose_program_does_not_exist_fails_at_the_first_try_and_says_why(w: World, runtime: Runtime) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=(2, 4), max_retries=3, runtime=runtime, behaviour=Behaviour(cannot_start=True))
    w.settle()
    job = w.expect(job_id, JobState.FAILED, workers=0)
    assert (job.attempt, job.retries_used, job.stop_reason) == (1, 0, StopReason.CANNOT_START)
    assert job.detail.startswith(f"worker {job_id}-1 on a cannot start: {NO_PROGRAM_DETAIL}")
    assert [e.cause for e in w.events(EventKind.JOB_FAILED)] == ["CANNOT_START"]
    assert {e.cause for e in w.events(EventKind.WORKER_ENDED)} <= {"CANNOT_START", "ASKED"}


@pytest.mark.parametrize("runtime", [Runtime.COMMAND, Runtime.ELASTIC])
def test_a_job_whose_user_has_no_account_is_suspended_until_somebody_resumes_it(w: World, runtime: Runtime) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=(2, 4), max_retries=0, runtime=runtime, behaviour=Behaviour(no_account=True))
    w.settle()
    job = w.expect(job_id, JobState.SUSPENDED, workers=0)
    assert (job.attempt, job.retries_used, job.stop_reason) == (1, 0, StopReason.NO_ACCOUNT)
    assert [e.cause for e in w.events(EventKind.JOB_SUSPENDED)] == ["NO_ACCOUNT"]
    assert {e.cause for e in w.events(EventKind.WORKER_ENDED)} <= {"NO_ACCOUNT", "ASKED"}
    w.advance(300)
    w.expect(job_id, JobState.SUSPENDED)
    w.cluster.behave(job_id, Behaviour(runtime=runtime))
    w.ask(IntentKind.RESUME, job_id)
    w.settle()
    w.expect(job_id, JobState.RUNNING)


def test_a_job_without_a_program_takes_slots_from_an_equal_only_once(w: World) -> None:
    w.node("a", slots=4)
    first = w.job("first", workers=(1, 4))
    w.settle()
    w.job("typo", workers=1, runtime=Runtime.COMMAND, behaviour=Behaviour(cannot_start=True))
    w.settle()
    w.expect(first, JobState.RUNNING, workers=4)
    shrunk = [e for e in w.events(EventKind.WORKER_ENDED) if e.job_id == first]
    assert len(shrunk) <= 1


def test_a_fixed_group_without_a_program_fails_its_job_at_once(w: World) -> None:
    w.node("a", slots=4)
    fixed = FixedGroup(replicas=1, command=("serve",))
    job_id = w.job("j", workers=1, fixed=fixed, behaviour=Behaviour(runtime=ELASTIC, cannot_start=True))
    w.settle()
    job = w.expect(job_id, JobState.FAILED)
    assert (job.attempt, job.stop_reason) == (1, StopReason.CANNOT_START)
    assert job.detail.startswith(f"fixed worker {job_id}-1 on a cannot start")


def test_a_program_that_vanishes_while_workers_run_costs_retries_and_not_the_training(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=(1, 2), max_retries=3)
    w.settle()
    w.cluster.behave(job_id, Behaviour(runtime=ELASTIC, cannot_start=True))
    w.cluster.crash(w.get(job_id).members[1].id)
    w.advance(1.5)
    assert [member.ordinal for member in w.get(job_id).members] == [1]
    assert "CANNOT_START" in {e.cause for e in w.events(EventKind.WORKER_ENDED)}
    w.cluster.behave(job_id, Behaviour(runtime=ELASTIC))
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=2).attempt == 1


def test_a_job_that_ran_before_waits_for_its_program_as_long_as_it_has_retries(w: World) -> None:
    a = w.node("a", slots=1)
    job_id = w.job("j", workers=1, max_retries=1, runtime=Runtime.COMMAND)
    w.settle()
    w.cluster.behave(job_id, Behaviour(cannot_start=True))
    w.cluster.lose_node(a)
    w.advance(2)
    w.cluster.return_node(a, rebooted=True)
    w.settle()
    job = w.expect(job_id, JobState.FAILED)
    assert (job.retries_used, job.stop_reason) == (2, StopReason.RETRIES_EXHAUSTED)


def test_what_no_node_can_start_quarantines_no_node(tmp_path: Path) -> None:
    wary = World(tmp_path, settings=Settings(state_dir=tmp_path, engine=EngineSettings(quarantine_failures=2)))
    wary.node("a", slots=4)
    wary.node("b", slots=4)
    for number in range(4):
        wary.job(f"typo {number}", workers=1, runtime=Runtime.COMMAND, behaviour=Behaviour(cannot_start=True))
    wary.settle()
    assert not wary.events(EventKind.NODE_QUARANTINED)
    wary.close()
