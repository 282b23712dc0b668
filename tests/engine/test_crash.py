"""The engine dies between any two steps of its tick; the next one converges and harms no running worker.

A failing case prints the command that replays it; its seed is part of the name.
"""

import random
from pathlib import Path

import pytest

from scheduler.clusters.simulated import Fault
from scheduler.clusters.simulated_process import Behaviour
from scheduler.engine.tick import Step
from scheduler.model.ids import JobId
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobState, Runtime
from tests.world import World

TICKS = 40


def _submit_mixed(w: World) -> list[JobId]:
    """Elastic and rigid jobs of three priorities on two nodes, with more demand than slots."""
    w.node("a", slots=4)
    w.node("b", slots=4)

    def working(runtime: Runtime, seconds: float) -> Behaviour:
        return Behaviour(runtime=runtime, work_seconds=seconds)

    return [
        w.job("low", priority=1, workers=(1, 8), behaviour=working(Runtime.ELASTIC, 600)),
        w.job("rigid", priority=2, workers=3, behaviour=working(Runtime.COMMAND, 90), runtime=Runtime.COMMAND),
        w.job("high", priority=5, workers=(2, 4), behaviour=working(Runtime.ELASTIC, 200)),
        w.job("short", priority=3, workers=1, behaviour=working(Runtime.COMMAND, 5), runtime=Runtime.COMMAND),
    ]


def _run_to_the_end(w: World, jobs: list[JobId]) -> None:
    for _ in range(40):
        w.advance(60)
        if all(w.get(job_id).state.terminal for job_id in jobs):
            break
    for job_id in jobs:
        job = w.expect(job_id, JobState.SUCCEEDED, workers=0)
        assert job.retries_used == 0, "the engine's death is no failure of a job"
    assert not w.cluster.alive()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("step", list(Step), ids=lambda step: step.name)
def test_dying_after_a_step_converges(tmp_path: Path, step: Step, seed: int) -> None:
    print(f"replay: pytest tests/engine/test_crash.py -k 'dying and {step.name}-{seed}'")
    randomness = random.Random(seed * 100 + step.value)
    w = World(tmp_path)
    jobs = _submit_mixed(w)
    for _ in range(TICKS):
        if randomness.random() < 0.3:
            alive = {start.worker_id for _, start in w.cluster.alive()}
            w.tick_until(step)
            assert alive <= {s.worker_id for _, s in w.cluster.alive()} | _ended_by_itself(w), "a death harms nobody"
        else:
            w.advance(randomness.choice([0.0, 0.3, 1.0, 2.5]))
    assert w.restarts > 0
    _run_to_the_end(w, jobs)
    w.close()


def _ended_by_itself(w: World) -> set[str]:
    """Workers whose process ended for a reason of its own or that the engine had asked before."""
    return {
        worker_id
        for worker_id in w.cluster.started
        if (process := w.cluster.process(worker_id)) is None or process.ended_at is not None
    }


@pytest.mark.parametrize("seed", range(12))
def test_faults_of_every_kind_leave_a_world_that_settles(tmp_path: Path, seed: int) -> None:
    print(f"replay: pytest tests/engine/test_crash.py -k 'faults and [{seed}]'")
    randomness = random.Random(seed)
    w = World(tmp_path)
    jobs = _submit_mixed(w)
    w.cluster.observation_lag_seconds = randomness.choice([0.0, 0.0, 0.7])
    w.cluster.repeat_forgotten = randomness.random() < 0.5
    for _ in range(TICKS):
        _one_fault(w, jobs, randomness)
        w.advance(randomness.choice([0.0, 0.2, 1.0, 4.0]))
    w.cluster.action_faults.clear()
    w.cluster.observe_failures = 0
    w.cluster.observation_lag_seconds = 0.0
    for name in ("a", "b"):
        w.cluster.return_node(w.node_name(name), rebooted=False)
    for job_id in jobs:
        w.ask(IntentKind.RESUME, job_id)
    for _ in range(40):
        w.advance(120)
        if all(w.get(job_id).state.terminal for job_id in jobs):
            break
    states = {w.get(job_id).state for job_id in jobs}
    assert states <= {JobState.SUCCEEDED, JobState.FAILED}, states
    assert not w.cluster.alive()
    w.close()


def _one_fault(w: World, jobs: list[JobId], randomness: random.Random) -> None:
    match randomness.randrange(9):
        case 0:
            w.cluster.lose_node(w.node_name(randomness.choice("ab")))
        case 1:
            w.cluster.return_node(w.node_name(randomness.choice("ab")), rebooted=randomness.random() < 0.5)
        case 2 | 3:
            alive = w.cluster.alive()
            if alive:
                w.cluster.crash(randomness.choice(alive)[1].worker_id, randomness.choice([1, 137, 64, 65]))
        case 4:
            w.cluster.action_faults.extend(randomness.choices([None, *Fault], k=4))
        case 5:
            w.cluster.observe_failures = 1
        case 6:
            w.ask(randomness.choice([IntentKind.SUSPEND, IntentKind.RESUME]), randomness.choice(jobs))
        case 7:
            w.set_priority(randomness.choice(jobs), randomness.randrange(8))
        case 8:
            w.tick_until(randomness.choice(list(Step)))
