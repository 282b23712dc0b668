"""How jobs of runtime horovod are launched, and what the end of their driver means."""

from collections.abc import Sequence

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.apply.launch import LaunchContext, start_workers
from scheduler.model.fixed import FixedGroup
from scheduler.model.horovod import broken_command_rule, driver_command, driver_group, worker_command
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.worker import ExitReason
from tests.world import World

MODULE = ("-m", "scheduler.elastic.horovod")
DRIVER = FixedGroup(1, ("python", "train.py"))


@pytest.mark.parametrize(
    ("command", "python", "driven", "warm"),
    [
        (
            ["python", "train.py", "--lr", "1"],
            "python",
            ["python", "-m", "horovod.runner.launch", "--", "python", "train.py", "--lr", "1"],
            2,
        ),
        (["train.py"], "python3", ["python3", "-m", "horovod.runner.launch", "--", "python3", "train.py"], 2),
        (
            [
                "/opt/bin/horovodrun",
                "--verbose",
                "--fusion-threshold-mb",
                "32",
                "/opt/bin/python3.11",
                "-u",
                "train.py",
            ],
            "/opt/bin/python3.11",
            ["/opt/bin/horovodrun", "--", "--verbose", "--fusion-threshold-mb", "32", "/opt/bin/python3.11", "-u"],
            2,
        ),
        (["/opt/bin/horovodrun", "./train"], "/opt/bin/python3", ["/opt/bin/horovodrun", "--", "./train"], 0),
        (
            ["/bin/sh", "-c", "cd x; python a.py"],
            "python3",
            ["python3", "-m", "horovod.runner.launch", "--", "/bin/sh", "-c", "cd x; python a.py"],
            0,
        ),
    ],
)
def test_workers_hold_the_slots_and_the_driver_runs_horovodrun(
    command: Sequence[str], python: str, driven: Sequence[str], warm: int
) -> None:
    assert broken_command_rule(command) is None
    assert worker_command(command, 2) == (python, *MODULE, "hold", str(warm))
    assert driver_command(command)[: 4 + len(driven)] == (python, *MODULE, "drive", *driven)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["horovodrun"], "horovodrun needs a program to run"),
        (["horovodrun", "--verbose"], "horovodrun needs a program to run"),
        (["horovodrun", "-np", "2", "python", "train.py"], "option -np is not allowed: use min_workers, max_workers"),
        (
            ["horovodrun", "--gloo", "--cycle-time-ms", "1", "--max-np=4", "python", "train.py"],
            "option --max-np is not allowed",
        ),
        (
            ["horovodrun", "-H", "a:1", "python", "train.py"],
            "option -H is not allowed: the scheduler provides the hosts",
        ),
        (["horovodrun", "--mpi", "python", "train.py"], "option --mpi is not allowed: only Gloo supports elastic jobs"),
    ],
)
def test_what_the_scheduler_decides_is_refused(command: Sequence[str], says: str) -> None:
    broken = broken_command_rule(command)
    assert broken is not None
    assert says in broken


def submit(w: World, **fields: object) -> JobId:
    behaviour = Behaviour(runtime=Runtime.HOROVOD, leave_seconds=3.0)
    return w.job("j", runtime=Runtime.HOROVOD, fixed=DRIVER, behaviour=behaviour, **fields)


def test_driver_and_workers_are_launched_with_what_is_theirs(w: World) -> None:
    w.node("a", slots=2)
    job = w.get(submit(w, workers=(1, 2)))
    w.settle()
    job = w.expect(job.id, JobState.RUNNING, workers=2)
    context = LaunchContext("http://s:1", lambda _: "token", w.directory)
    driver, worker = start_workers(job, [job.fixed_workers[0], job.workers[0]], context)
    assert driver.command == driver_command(("python", "train.py"))
    assert driver.slot_ids == ()
    assert worker.command == worker_command(("train",), 1)
    assert dict(worker.env)["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "30"


def test_the_job_is_done_when_its_driver_is(w: World) -> None:
    w.node("a", slots=2)
    job_id = submit(w, workers=(1, 2))
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    w.cluster.crash(job.fixed_workers[0].id, exit_code=0)
    w.tick()
    job = w.get(job_id)
    assert job.finishing
    assert not job.wanted_workers
    w.settle()
    job = w.expect(job_id, JobState.SUCCEEDED)
    assert (job.exit_code, job.retries_used) == (0, 0)


def test_a_worker_that_fails_is_replaced_beside_its_driver(w: World) -> None:
    w.node("a", slots=2)
    job_id = submit(w, workers=(1, 2))
    w.settle()
    before = w.expect(job_id, JobState.RUNNING, workers=2)
    w.cluster.crash(before.workers[1].id, exit_code=137)
    w.settle()
    job = w.expect(job_id, JobState.RUNNING, workers=2)
    assert (job.attempt, job.retries_used) == (1, 1)
    assert job.fixed_workers == before.fixed_workers


def test_a_driver_that_fails_restarts_the_job_and_one_that_asks_for_it_consumes_no_retry(w: World) -> None:
    w.node("a", slots=2)
    job_id = submit(w, workers=(1, 2), max_retries=1)
    w.settle()
    for code, retries in ((65, 0), (1, 1)):
        w.cluster.crash(w.get(job_id).fixed_workers[0].id, exit_code=code)
        w.settle()
        assert w.expect(job_id, JobState.RUNNING, workers=2).retries_used == retries
    w.cluster.crash(w.get(job_id).fixed_workers[0].id, exit_code=1)
    w.settle()
    job = w.expect(job_id, JobState.FAILED)
    assert "fixed worker" in job.detail
    assert ExitReason.FAILED in job.detail


def test_the_driver_is_placed_like_the_workers_and_needs_no_slot() -> None:
    group = driver_group(["python", "train.py"], (("zone", "a"),), '{"spec":{}}')
    assert (group.replicas, group.shape.slots, group.shape.node_selector) == (1, 0, (("zone", "a"),))
    assert group.pod_template == '{"spec":{}}'
