"""Stopping local workers: SIGTERM, the grace, the whole group, and what tries to escape."""

import os
import signal
import sys
import time
from collections.abc import Callable

from scheduler.model.ids import WorkerId
from scheduler.model.observation import Phase
from tests.clusters.local_world import LocalWorld, Signpost, wait_for_end

Posts = Callable[[str], Signpost]

#: Tells the post that SIGTERM is ignored, then stays for ever.
STUBBORN = "trap '' TERM; echo ready > {post}; while :; do sleep 60; done"


def test_a_stopped_worker_may_drain_and_exit_with_its_own_code(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"trap 'echo drained; exit 64' TERM; echo ready > {ready.path}; while :; do sleep 0.05; done")
    ready.read()
    world.stop("1-1", 600.0)
    worker = world.ended("1-1")
    assert (worker.phase, worker.exit_code) == (Phase.EXITED, 64)
    assert world.cluster.logs.read(WorkerId("1-1"))[0].endswith(b"drained\n")


def test_the_whole_group_of_one_that_ignores_sigterm_is_killed_at_the_end_of_its_grace(
    world: LocalWorld, signpost: Posts
) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"trap '' TERM; sleep 60 & sleep 60 & (sleep 60; :) & {STUBBORN.format(post=ready.path)}")
    ready.read()
    began = time.monotonic()
    world.stop("1-1", 0.4)
    worker = world.ended("1-1")
    assert time.monotonic() - began >= 0.4
    assert (worker.exit_code, worker.detail) == (137, "killed by SIGKILL at the end of its grace period")
    assert not world.pids("1-1")


def test_only_a_shorter_grace_takes_effect_when_asked_again(world: LocalWorld, signpost: Posts) -> None:
    for worker, graces in (("1-1", (60.0, 0.1)), ("2-1", (0.1, 60.0))):
        ready = signpost(worker)
        world.shell(worker, STUBBORN.format(post=ready.path))
        ready.read()
        for grace in graces:
            world.stop(worker, grace)
        assert world.ended(worker).exit_code == 137


def test_no_grace_kills_at_once(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"trap 'exit 64' TERM; echo ready > {ready.path}; while :; do sleep 0.05; done")
    ready.read()
    world.stop("1-1", 0.0)
    assert world.ended("1-1").exit_code == 137


def test_a_child_may_use_the_grace_after_its_shell_has_obeyed(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    child = (
        "import signal, sys, time\n"
        "def drain(*_):\n    time.sleep(0.3); print('checkpoint written', flush=True); sys.exit(64)\n"
        "signal.signal(signal.SIGTERM, drain)\n"
        f"with open({str(ready.path)!r}, 'w') as post:\n    post.write('ready')\n"
        "time.sleep(60)\n"
    )
    world.start("1-1", "sh", "-c", f'{sys.executable} -c "$0"; true', child)
    ready.read()
    world.stop("1-1", 20.0)
    assert world.ended("1-1").exit_code == 143
    assert world.cluster.logs.read(WorkerId("1-1"))[0] == b"checkpoint written\n"


def test_a_worker_counts_as_gone_only_when_its_last_process_is(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"(trap '' TERM; echo ready > {ready.path}; exec sleep 60) & wait")
    ready.read()
    pidfd = os.pidfd_open(world.first_pid("1-1"))
    world.stop("1-1", 600.0)
    wait_for_end(pidfd)
    assert world.cluster.observe().workers[WorkerId("1-1")].alive
    world.stop("1-1", 0.1)
    assert world.ended("1-1").exit_code == 143
    assert not world.pids("1-1")


def test_children_of_one_killed_by_a_person_are_killed_too(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"trap '' TERM; sleep 60 & sleep 60 & echo ready > {ready.path}; wait")
    ready.read()
    os.kill(world.first_pid("1-1"), signal.SIGKILL)
    worker = world.ended("1-1")
    assert (worker.exit_code, worker.detail) == (137, "killed by SIGKILL")
    assert not world.pids("1-1")


def test_what_left_the_group_ends_with_its_worker(world: LocalWorld, signpost: Posts) -> None:
    ready, go = signpost("ready"), signpost("go")
    escape = f"trap '' TERM; (setsid sleep 60; :) & setsid sh -c 'sleep 60 & echo ready > {ready.path}; wait' &"
    world.shell("1-1", f"{escape} read -r _ < {go.path}; exit 3")
    ready.read()
    go.write()
    assert world.ended("1-1").exit_code == 3
    assert not world.pids("1-1")


def test_what_left_the_group_and_cleared_its_environment_ends_with_its_worker(
    world: LocalWorld, signpost: Posts
) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"setsid env -i sh -c 'echo $$ > {ready.path}; exec sleep 60' & sleep 60")
    pidfd = os.pidfd_open(int(ready.read()))
    world.stop("1-1", 5.0)
    assert world.ended("1-1").exit_code == 143
    wait_for_end(pidfd)


def test_what_nobody_can_place_ends_when_no_worker_is_left(world: LocalWorld, signpost: Posts) -> None:
    ready, go = signpost("ready"), signpost("go")
    escape = f"setsid env -i sh -c 'echo $$ > {ready.path}; exec sleep 60' > /dev/null 2>&1 &"
    world.shell("1-1", f"({escape}); read -r _ < {go.path}")
    pidfd = os.pidfd_open(int(ready.read()))
    go.write()
    world.ended("1-1")
    world.shell("1-2", "exit 0")
    world.ended("1-2")
    wait_for_end(pidfd)


def test_what_another_worker_left_behind_does_not_hold_this_one(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    world.shell("1-1", f"(setsid sh -c 'echo ready > {ready.path}; exec sleep 60' &) ; sleep 60")
    ready.read()
    world.shell("2-1", "exit 0")
    assert world.ended("2-1").exit_code == 0
    assert len(world.pids("1-1")) >= 2
    world.stop("1-1", 0.0)
    world.ended("1-1")
    assert not world.pids("1-1")


def test_a_suspended_worker_obeys_sigterm(world: LocalWorld) -> None:
    world.start("1-1", "sleep", "60")
    world.running("1-1")
    os.kill(world.first_pid("1-1"), signal.SIGSTOP)
    world.stop("1-1", 20.0)
    assert world.ended("1-1").exit_code == 143


def test_a_stop_of_an_unknown_or_ended_worker_is_harmless(world: LocalWorld) -> None:
    world.shell("1-1", "exit 5")
    ended = world.ended("1-1")
    world.stop("1-1", 1.0)
    world.stop("9-9", 1.0)
    world.shell("1-2", "true")
    world.ended("1-2")
    assert world.cluster.observe().workers[WorkerId("1-1")] == ended


def test_a_program_that_forks_without_end_is_contained(world: LocalWorld, signpost: Posts) -> None:
    ready = signpost("ready")
    breed = "for i in 1 2 3 4 5 6 7 8; do (trap '' TERM; while :; do setsid sleep 5 & sleep 0.05; done) & done"
    world.shell("1-1", f"{breed}; trap '' TERM; echo ready > {ready.path}; while :; do wait; done")
    ready.read()
    world.stop("1-1", 0.2)
    assert world.ended("1-1").exit_code == 137
    assert not world.pids("1-1")
