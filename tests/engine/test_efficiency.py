"""Samples per second count for what they bring: workers go where throughput times efficiency grows."""

from dataclasses import dataclass

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.clusters.simulated.work import Pace
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.world import World

PER_WORKER = 16


@dataclass(frozen=True, slots=True)
class ScaledTraining:
    """Work whose batch grows with its workers; every worker adds the same samples per second."""

    noise_scale: float
    total: float = 1e9

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        workers = sum(members)
        efficiency = (self.noise_scale + PER_WORKER) / (self.noise_scale + PER_WORKER * workers)
        samples = 100.0 * workers
        return Pace(samples * efficiency, self.total, samples_per_second=samples, efficiency=efficiency)

    def fraction(self, done: float) -> float:
        return done / self.total


@pytest.mark.parametrize(("noise", "sizes"), [(1e6, (3, 3)), (0.0, (1, 5))])
def test_workers_go_where_gradients_are_noisy_enough_for_the_larger_batch(
    w: World, noise: float, sizes: tuple[int, int]
) -> None:
    w.node("a", slots=2)
    clear = w.job("clear", workers=(1, 5), behaviour=training(noise))
    noisy = w.job("noisy", workers=(1, 5), behaviour=training(1e6))
    w.advance(120.0)
    w.node("b", slots=4)
    w.advance(600.0)
    w.expect(clear, JobState.RUNNING, workers=sizes[0])
    w.expect(noisy, JobState.RUNNING, workers=sizes[1])
    useful = dict(w.get(clear).progress.throughput)
    assert useful[1] == pytest.approx(100.0)
    assert useful[2] == pytest.approx(200.0 if noise else 100.0, rel=0.01)


def training(noise_scale: float) -> Behaviour:
    return Behaviour(runtime=Runtime.ELASTIC, work=ScaledTraining(noise_scale), heartbeat_seconds=20.0)
