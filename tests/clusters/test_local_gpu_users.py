"""GPUs that others than the workers on them use, told by a library in the place of NVIDIA's."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from scheduler.clusters.local.processes import STATE_VARIABLE, WORKER_VARIABLE
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import Phase, WorkerObservation
from scheduler.model.slot import SlotClosure
from tests.clusters.gpus import NODE, at
from tests.nvml import child
from tests.nvml.machine import GIB, FakeMachine, MachineProcess, Process

FOREIGN = SlotClosure.FOREIGN


def worker(name: str, *slots: int, node: NodeName = NODE) -> dict[WorkerId, WorkerObservation]:
    known = WorkerObservation(WorkerId(name), JobId(1), node, Phase.RUNNING, slots)
    return {known.id: known}


def test_a_gpu_that_others_use_is_closed_until_they_did_not_for_a_while(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state, foreign_clear_seconds=30)
    pid = run()
    machine.change("GPU-bbbb", processes=(Process(pid, 8 * GIB),))
    assert process.call(child.look).closed == {}, "it may be a worker that starts"
    expected = at(1, FOREIGN, f"used by process {pid} (sleep)")
    assert process.call(child.look).closed == expected
    machine.change("GPU-bbbb", processes=(Process(pid, 70 * GIB),))
    assert process.call(child.look).changes == 2, "how much it is changes nothing"
    machine.change("GPU-bbbb", processes=())
    assert process.call(child.look, 29.0).closed == expected
    machine.change("GPU-bbbb", processes=(Process(pid, 8 * GIB),))
    process.call(child.look)
    assert process.call(child.look).closed == expected
    machine.change("GPU-bbbb", processes=())
    assert process.call(child.look).closed == expected
    assert process.call(child.look, 29.0).closed == expected
    seen = process.call(child.look, 1.0)
    assert (seen.closed, seen.changes) == ({}, 3)


def test_a_small_context_is_no_use(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state, foreign_memory_min=0.05)
    users = tuple(Process(run(), GIB) for _ in range(3))
    machine.change("GPU-aaaa", processes=users)
    for _ in range(3):
        assert process.call(child.look).closed == {}
    machine.change("GPU-aaaa", processes=(*users, Process(run(), 2 * GIB)))
    process.call(child.look)
    (closed,) = process.call(child.look).closed[NODE]
    assert closed.detail.endswith("(sleep) and 3 more"), "together they hold enough"


def test_others_are_not_watched_where_that_is_not_wanted(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state, foreign_memory_min=None)
    machine.change("GPU-aaaa", processes=(Process(run(), 80 * GIB),))
    for _ in range(3):
        assert process.call(child.look).closed == {}


def test_workers_on_their_own_slots_are_no_others(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state)
    pid = run(**{STATE_VARIABLE: str(state), WORKER_VARIABLE: "1-1"})
    machine.change("GPU-bbbb", processes=(Process(pid, 60 * GIB),))
    for _ in range(3):
        assert process.call(child.look, workers=worker("1-1", 0, 1)).closed == {}
    assert process.call(child.look, workers={}).closed == {}, "one that is forgotten is being cleaned up"
    seen = process.call(child.look, workers=worker("1-1", 0))
    assert seen.closed == at(1, FOREIGN, f"used by process {pid} (sleep)"), "it holds another slot"


def test_workers_of_another_daemon_are_others(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state)
    pid = run(**{STATE_VARIABLE: str(state.parent / "other"), WORKER_VARIABLE: "1-1"})
    machine.change("GPU-bbbb", processes=(Process(pid, 60 * GIB),))
    process.call(child.look, workers=worker("1-1", 1))
    assert process.call(child.look).closed == at(1, FOREIGN, f"used by process {pid} (sleep)")


def test_what_a_worker_started_with_another_environment_is_its_own(
    machine: FakeMachine, process: MachineProcess, state: Path
) -> None:
    process.call(child.watch, state)
    script = "env -i sleep 600 & echo $!; wait"
    owned = {**os.environ, STATE_VARIABLE: str(state), WORKER_VARIABLE: "1-1"}
    with subprocess.Popen(["sh", "-c", script], env=owned, stdout=subprocess.PIPE, start_new_session=True) as first:
        assert first.stdout is not None
        pid = int(first.stdout.readline())
        machine.change("GPU-aaaa", processes=(Process(pid, 60 * GIB),))
        for _ in range(3):
            assert process.call(child.look, workers=worker("1-1", 0)).closed == {}
        os.killpg(first.pid, 9)


def test_processes_that_this_machine_does_not_list_count_for_nobody(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state)
    machine.change("GPU-aaaa", processes=(Process(2**22 + 1, 60 * GIB),))
    for _ in range(3):
        assert process.call(child.look).closed == {}


def test_a_gpu_of_unknown_memory_and_a_process_of_unknown_use_close_nothing(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    process.call(child.watch, state)
    machine.change("GPU-aaaa", memory=None, processes=(Process(run()),))
    machine.change("GPU-bbbb", processes=(Process(run(), None),))
    for _ in range(3):
        assert process.call(child.look).closed == {}


def test_who_used_a_gpu_before_the_library_failed_uses_it_meanwhile(
    machine: FakeMachine, process: MachineProcess, state: Path, run: Callable[..., int]
) -> None:
    machine.change("GPU-aaaa", processes=(Process(run(), 60 * GIB),))
    first = process.call(child.watch, state)
    assert first is not None
    assert first.closed[NODE][0].closure is FOREIGN, "known before the first worker could start"
    machine.load()
    for _ in range(2):
        seen = process.call(child.look)
        assert (seen.closed, seen.changes) == (first.closed, first.changes)
