"""Jobs with a fixed group: it starts before the other workers and stops after them, and all come and go together."""

from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.config import PolicySettings, Settings
from scheduler.engine.tick import Step
from scheduler.model.event import EventKind
from scheduler.model.fixed import FixedGroup
from scheduler.model.hosts import host_list
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.intent import IntentKind
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState, WaitReason
from scheduler.model.observation import WorkerReport
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import ExitReason, WorkerState
from tests.world import World

#: Two that need no slot, and one that does.
SERVERS = FixedGroup(2, ("serve",), (("PORT_BASE", "1"),), WorkerShape(slots=0))
MASTER = FixedGroup(1, ("lead",))
MASTER_WITH_SLOT = FixedGroup(1, ("lead",), shape=WorkerShape(slots=1))
SLOW = Behaviour(runtime=Runtime.ELASTIC, launch_seconds=5.0, leave_seconds=3.0)


def variables(w: World, worker_id: WorkerId) -> dict[str, str]:
    process = w.cluster.process(worker_id)
    assert process is not None
    return dict(process.start.env)


def asked(w: World, job: Job) -> list[WorkerId]:
    """Live workers that the cluster was told to stop."""
    processes = ((worker.id, w.cluster.process(worker.id)) for worker in job.all_workers)
    return [name for name, process in processes if process is not None and process.asked_at is not None]


def test_workers_start_once_the_fixed_group_runs(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, fixed=SERVERS, behaviour=SLOW)
    w.tick()
    job = w.expect(job_id, JobState.STARTING, workers=2)
    assert [worker.fixed_index for worker in job.fixed_workers] == [0, 1]
    assert w.cluster.started == [worker.id for worker in job.fixed_workers]
    w.advance(4.9)
    assert len(w.cluster.started) == 2
    w.advance(0.2)
    assert w.cluster.started == [worker.id for worker in job.all_workers]
    w.settle()
    assert w.expect(job_id, JobState.RUNNING, workers=2).fixed_ready


def test_the_host_list_ranks_and_sizes_are_of_the_other_workers_alone(w: World) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=(1, 4), fixed=MASTER_WITH_SLOT)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=3)
    hosts = host_list(job)
    assert hosts is not None
    assert [member.id for member in hosts.members] == [worker.id for worker in job.workers]
    assert hosts.text() == "host-a:3\n"
    assert job.attained(w.clock.now()) < 3 * 70.0


def test_everybody_is_told_where_the_fixed_group_listens(w: World) -> None:
    w.node("a", slots=2)
    first = w.get(w.job("j", workers=1, fixed=SERVERS))
    second = w.get(w.job("k", workers=1, fixed=SERVERS))
    w.settle()
    first, second = w.get(first.id), w.get(second.id)
    ports = [int(host.rpartition(":")[2]) for host in (*first.fixed_hosts, *second.fixed_hosts)]
    assert len({*ports, first.master_port, second.master_port}) == 6
    server, worker = variables(w, first.fixed_workers[1].id), variables(w, first.workers[0].id)
    assert server["SCHED_FIXED_HOSTS"] == worker["SCHED_FIXED_HOSTS"] == ",".join(first.fixed_hosts)
    assert first.fixed_hosts[0].startswith("host-a:")
    assert (server["SCHED_ROLE"], server["RANK"], server["WORLD_SIZE"]) == ("fixed", "1", "2")
    assert (worker["SCHED_ROLE"], worker["RANK"], worker["WORLD_SIZE"]) == ("worker", "0", "1")
    assert (server["PORT_BASE"], worker.get("PORT_BASE")) == ("1", None)
    process = w.cluster.process(first.fixed_workers[0].id)
    assert process is not None
    assert process.start.command == ("serve",)


def test_a_stopped_job_lets_its_fixed_group_go_last(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, fixed=SERVERS, behaviour=SLOW)
    w.settle()
    w.ask_cancel(job_id)
    w.advance(2.5)
    job = w.expect(job_id, JobState.STOPPING)
    assert asked(w, job) == [worker.id for worker in job.workers]
    w.advance(1.0)
    job = w.expect(job_id, JobState.STOPPING)
    assert not job.workers
    assert asked(w, job) == [worker.id for worker in job.fixed_workers]
    w.settle()
    w.expect(job_id, JobState.CANCELLED)
    assert not w.cluster.alive()


def test_a_job_that_is_cancelled_before_its_fixed_group_runs_starts_nobody_else(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, fixed=SERVERS, behaviour=SLOW)
    w.tick()
    w.ask_cancel(job_id)
    w.settle()
    w.expect(job_id, JobState.CANCELLED)
    assert len(w.cluster.started) == 2


def test_a_job_succeeds_when_its_workers_are_done_and_its_fixed_group_is_stopped(w: World) -> None:
    w.node("a", slots=2)
    behaviour = Behaviour(runtime=Runtime.ELASTIC, work_seconds=40.0, leave_seconds=3.0)
    job_id = w.job("j", workers=2, fixed=SERVERS, behaviour=behaviour, time_limit_seconds=24.0)
    w.advance(22.5)
    job = w.expect(job_id, JobState.RUNNING, workers=0)
    assert job.finishing
    assert len(job.fixed_workers) == 2
    w.settle()
    job = w.expect(job_id, JobState.SUCCEEDED)
    assert (job.exit_code, job.retries_used, job.fixed_hosts) == (0, 0, ())
    ends = w.events(EventKind.WORKER_ENDED)
    assert [event.cause for event in ends] == [ExitReason.DONE] * 2 + [ExitReason.ASKED] * 2


@pytest.mark.parametrize("code", [0, 1])
def test_how_fixed_workers_end_with_the_last_worker_does_not_matter(w: World, code: int) -> None:
    w.node("a", slots=1)
    job_id = w.job("j", fixed=MASTER)
    w.settle()
    job = w.get(job_id)
    w.cluster.crash(job.workers[0].id, exit_code=0)
    w.cluster.crash(job.fixed_workers[0].id, exit_code=code)
    w.settle()
    assert w.expect(job_id, JobState.SUCCEEDED).retries_used == 0


def test_a_fixed_worker_that_is_done_is_not_missed(w: World) -> None:
    w.node("a", slots=4)
    job_id = w.job("j", workers=(1, 4), fixed=MASTER_WITH_SLOT)
    w.settle()
    before = w.expect(job_id, JobState.RUNNING, workers=3)
    w.cluster.crash(before.fixed_workers[0].id, exit_code=0)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=4)
    assert (job.fixed_workers, job.attempt, job.retries_used) == ((), 1, 0)
    assert job.fixed_hosts == before.fixed_hosts


@pytest.mark.parametrize("workers", [2, (1, 2)])
def test_a_fixed_worker_that_fails_restarts_the_whole_job_after_a_pause(w: World, workers: int) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=workers, fixed=SERVERS)
    w.settle()
    w.cluster.crash(w.get(job_id).fixed_workers[1].id, exit_code=3)
    w.tick()
    job = w.expect(job_id, JobState.STOPPING)
    assert "fixed worker 1-2 on a: FAILED, exit code 3" in job.detail
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert (job.attempt, job.retries_used, len(job.fixed_workers)) == (2, 1, 2)


def test_a_job_fails_when_its_fixed_group_has_used_up_the_retries(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", fixed=MASTER, max_retries=0)
    w.settle()
    w.cluster.crash(w.get(job_id).fixed_workers[0].id, exit_code=9)
    w.settle()
    assert w.expect(job_id, JobState.FAILED).exit_code == 9


def test_a_failing_worker_beside_its_failing_server_is_one_failure(w: World) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", workers=2, fixed=MASTER, runtime=Runtime.COMMAND)
    w.settle()
    job = w.get(job_id)
    w.cluster.crash(job.fixed_workers[0].id)
    w.cluster.crash(job.workers[0].id)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert (job.attempt, job.retries_used) == (2, 1)


def test_a_lost_fixed_worker_restarts_the_job_and_consumes_no_retry(w: World) -> None:
    a = w.node("a", slots=0, cpus=8.0)
    w.node("b", slots=2, cpus=8.0)
    servers = FixedGroup(2, ("serve",), shape=WorkerShape(slots=0, cpus=2.0))
    job_id = w.job("j", workers=(1, 2), cpus=1.0, fixed=servers)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert {worker.node for worker in job.fixed_workers} == {a}
    w.cluster.lose_node(a)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert (job.attempt, job.retries_used) == (2, 0)
    assert {worker.node for worker in job.fixed_workers} == {"b"}


@pytest.mark.parametrize("leader_dies", [False, True])
def test_a_fixed_worker_need_not_report_but_is_expected_to_go_on_once_it_has(w: World, *, leader_dies: bool) -> None:
    w.node("a", slots=2)
    job_id = w.job("j", fixed=MASTER, heartbeat_seconds=10.0)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=1)
    assert job.attempt == 1
    master = job.fixed_workers[0].id
    w.cluster.hang(master)
    w.reports.put(WorkerReport(master, job_id, w.clock.now()))
    w.tick()
    if leader_dies:
        w.reports.clear()
        w.kill_engine()
    w.settle()
    ends = [event for event in w.events(EventKind.WORKER_ENDED) if event.worker_id == master]
    assert [event.cause for event in ends] == [ExitReason.HUNG]
    job = w.expect(job_id, JobState.RUNNING, workers=1)
    assert (job.attempt, job.retries_used) == (2, 1)


def test_preempting_a_job_frees_its_fixed_group_too(w: World) -> None:
    w.node("a", slots=4)
    low = w.job("low", workers=(1, 3), fixed=MASTER_WITH_SLOT, behaviour=SLOW)
    w.settle()
    w.expect(low, JobState.RUNNING, workers=3)
    high = w.job("high", priority=5, workers=4)
    w.advance(4.0)
    assert w.get(high).reservation == (("a", 4),)
    w.settle()
    w.expect(high, JobState.RUNNING, workers=4)
    job = w.expect(low, JobState.QUEUED)
    assert job.retries_used == 0
    w.ask_cancel(high)
    w.settle()
    w.expect(low, JobState.RUNNING, workers=3)


def test_a_job_shrinks_before_it_is_stopped_and_keeps_its_fixed_group(w: World) -> None:
    w.node("a", slots=4)
    low = w.job("low", workers=(1, 3), fixed=MASTER_WITH_SLOT)
    w.settle()
    high = w.job("high", priority=5, workers=2)
    w.settle()
    w.expect(high, JobState.RUNNING, workers=2)
    job = w.expect(low, JobState.RUNNING, workers=1)
    assert (len(job.fixed_workers), job.attempt) == (1, 1)


def test_a_more_important_job_takes_room_for_both_of_its_groups_at_once(w: World) -> None:
    w.node("a", slots=2)
    w.node("b", slots=2)
    low = [w.job("low", workers=(1, 2)) for _ in range(2)]
    w.settle()
    high = w.job("high", priority=5, workers=2, fixed=MASTER_WITH_SLOT, behaviour=SLOW)
    w.advance(2.0)
    w.settle()
    job = w.expect(high, JobState.RUNNING, workers=2)
    assert len(job.fixed_workers) == 1
    assert sorted(w.get(job_id).state for job_id in low) == [JobState.QUEUED, JobState.RUNNING]


def test_nothing_starts_or_is_held_where_only_one_group_fits(w: World) -> None:
    w.node("a", slots=2)
    w.job("busy", priority=5, workers=1, preemptible=False)
    w.settle()
    job_id = w.job("j", workers=1, fixed=MASTER_WITH_SLOT)
    w.settle()
    job = w.expect(job_id, JobState.QUEUED)
    assert job.wait_reason is WaitReason.INSUFFICIENT_SLOTS
    assert (job.reservation, job.fixed_reservation) == ((), ())
    too_large = w.job("k", workers=2, fixed=MASTER_WITH_SLOT)
    w.settle()
    assert w.get(too_large).wait_reason is WaitReason.EXCEEDS_CLUSTER


def test_draining_a_node_moves_a_job_whose_fixed_group_is_there(w: World) -> None:
    w.node("a", slots=0, cpus=8.0)
    w.node("b", slots=2, cpus=8.0)
    master = FixedGroup(1, ("lead",), shape=WorkerShape(slots=0, cpus=2.0))
    job_id = w.job("j", workers=(1, 2), cpus=1.0, fixed=master)
    w.settle()
    assert w.get(job_id).fixed_workers[0].node == "a"
    w.ask(IntentKind.DRAIN, node=w.node_name("a"))
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert (job.fixed_workers[0].node, job.attempt, job.retries_used) == ("b", 2, 0)


def test_published_policies_let_such_jobs_wait(tmp_path: Path) -> None:
    w = World(tmp_path, settings=Settings(state_dir=tmp_path, policy=PolicySettings(name="easy")))
    w.node("a", slots=2)
    job_id, other = w.job("j", fixed=MASTER), w.job("k")
    w.settle()
    assert w.expect(job_id, JobState.QUEUED).wait_reason is WaitReason.POLICY_WITHOUT_FIXED
    w.expect(other, JobState.RUNNING, workers=1)
    w.close()


@pytest.mark.parametrize("step", list(Step), ids=lambda step: step.name)
def test_dying_after_a_step_keeps_the_order(tmp_path: Path, step: Step) -> None:
    w = World(tmp_path)
    w.node("a", slots=4)
    behaviour = Behaviour(runtime=Runtime.ELASTIC, work_seconds=60.0, launch_seconds=2.0, leave_seconds=2.0)
    low = w.job("low", workers=(1, 3), fixed=MASTER_WITH_SLOT, behaviour=behaviour)
    high: JobId | None = None
    for number in range(30):
        if number == 12:
            high = w.job("high", priority=5, workers=4, behaviour=Behaviour(runtime=Runtime.ELASTIC, work_seconds=20.0))
        if number % 3 == 1:
            w.tick_until(step)
        else:
            w.advance(1.5)
    for _ in range(5):
        w.advance(60)
    assert high is not None
    for job_id in (low, high):
        assert w.expect(job_id, JobState.SUCCEEDED).retries_used == 0
    assert not w.cluster.alive()
    assert all(worker.state is WorkerState.EXITED for worker in w.store.list_workers(low))
    w.close()
