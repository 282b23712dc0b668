"""The engine dies between any two steps of its tick; the next one converges and harms no running worker.

A failing case prints the command that replays it; its seed is part of the name. Random clusters, workloads and faults
of every kind stand in `tests/faults`.
"""

import random
from pathlib import Path

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.tick import Step
from scheduler.model.ids import JobId
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
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
