"""How jobs of runtime torchrun are launched, and which of its rules they share with elastic ones."""

from collections.abc import Sequence

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.apply.launch import LaunchContext, start_workers
from scheduler.engine.ports import StartWorker
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from scheduler.model.torchrun import broken_command_rule, launch_command
from tests.world import World

RUN = ("-m", "torch.distributed.run")


@pytest.mark.parametrize(
    ("command", "launched"),
    [
        (["train.py", "--lr", "1"], ("torchrun", "train.py", "--lr", "1")),
        (["torchrun", "--tee", "3", "train.py"], ("torchrun", "--tee", "3", "train.py")),
        (["/opt/bin/torchrun", "-m", "pkg.train"], ("/opt/bin/torchrun", "-m", "pkg.train")),
        (["python", "train.py", "-m", "x"], ("python", *RUN, "train.py", "-m", "x")),
        (["/opt/bin/python3.12", "-u", "train.py"], ("/opt/bin/python3.12", *RUN, "train.py")),
        (["python3", "-m", "pkg.train", "--nnodes=2"], ("python3", *RUN, "-m", "pkg.train", "--nnodes=2")),
        (["python", *RUN, "-r", "3", "train.py"], ("python", *RUN, "-r", "3", "train.py")),
    ],
)
def test_scripts_python_and_torchrun_become_torchrun(command: Sequence[str], launched: Sequence[str]) -> None:
    assert broken_command_rule(command) is None
    assert launch_command(command) == launched


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["/bin/sh", "-c", "torchrun train.py"], "/bin/sh cannot be started by torchrun"),
        (["python", "-c", "print()"], "must start with a script"),
        (["python"], "must start with a script"),
        (["torchrun"], "must start with a script"),
        (["pythonista", "train.py"], "must start with a script"),
        (["torchrun", "--nnodes=2", "train.py"], "option --nnodes is not allowed: use min_workers and max_workers"),
        (["torchrun", "--role", "x", "--nproc_per_node", "2", "train.py"], "option --nproc-per-node is not allowed"),
        (["torchrun", "-r3", "--rdzv-backend=c10d", "train.py"], "option --rdzv-backend is not allowed"),
        (["torchrun", "--run-path", "--standalone", "train.py"], "option --standalone is not allowed"),
        (["python", *RUN, "--max-restarts", "3", "train.py"], "option --max-restarts is not allowed: use max_retries"),
    ],
)
def test_what_torchrun_cannot_start_or_the_scheduler_decides_is_refused(command: Sequence[str], says: str) -> None:
    assert says in (broken_command_rule(command) or "")


def launched(w: World, job_id: JobId) -> StartWorker:
    """What the job's first worker is launched with."""
    job = w.get(job_id)
    return start_workers(job, job.workers[:1], LaunchContext("http://s:1", lambda _: "token", w.directory))[0]


def test_an_agent_is_told_by_variables_who_meets_where_and_never_gives_up_by_itself(w: World) -> None:
    w.node("a", slots=8)
    job_id = w.job("j", workers=(2, 3), slots_per_worker=2, runtime=Runtime.TORCHRUN, env=(("PET_NNODES", "9"),))
    w.settle()
    env = dict(launched(w, job_id).env)
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("2:3", "2")
    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"], env["PET_RDZV_ID"]) == ("sched", "http://s:1", "1")
    assert int(env["PET_MAX_RESTARTS"]) > 10**5
    assert "SIGTERM" not in env["PET_SIGNALS_TO_HANDLE"]


def test_an_ordinary_torchrun_finds_the_setting_that_lets_agents_join_unless_the_job_says_otherwise(w: World) -> None:
    w.node("a", slots=8)
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    plain = w.job("plain", runtime=Runtime.COMMAND)
    own = w.job("own", runtime=Runtime.COMMAND, env=((name, "0"),))
    w.settle()
    assert dict(launched(w, plain).env)[name] == "1"
    assert dict(launched(w, own).env)[name] == "0"
    assert "PET_NNODES" not in dict(launched(w, plain).env)


def test_agents_are_listed_once_they_are_ready_and_the_job_runs_once_all_have_joined(w: World) -> None:
    w.node("a", slots=2)
    slow = Behaviour(runtime=Runtime.TORCHRUN, ready_seconds=3.0, form_seconds=2.0)
    job_id = w.job("j", workers=2, runtime=Runtime.TORCHRUN, behaviour=slow)
    w.advance(2.0)
    assert w.get(job_id).generation == 0
    w.advance(2.0)
    assert w.expect(job_id, JobState.STARTING, workers=2).generation == 1
    w.settle()
    w.expect(job_id, JobState.RUNNING, workers=2)
