"""Jobs that are slower with many workers come to their best size, and try larger ones again more and more seldom."""

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from scheduler.clusters.simulated.work import Pace, Work
from scheduler.config import PolicySettings
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState
from scheduler.model.worker import LeaveReason
from tests.engine.test_share import trains
from tests.world import World

SLOWER_WITH_MANY = ((1, 1.0), (4, 2.5), (8, 1.5))
#: Of these a report tells.
REPORT_SECONDS = 5.0
RETRY_SECONDS = PolicySettings().retry_seconds


def given_back(w: World, job: JobId) -> list[Event]:
    events = w.events(EventKind.JOB_SHRANK)
    return [event for event in events if event.job_id == job and event.cause == LeaveReason.NO_GAIN]


def test_a_job_that_is_slower_with_many_workers_comes_to_its_best_size(w: World) -> None:
    w.node("a", slots=8)
    job = w.job("slow", workers=(1, 8), behaviour=trains(50_000.0, *SLOWER_WITH_MANY))
    w.advance(RETRY_SECONDS - 10.0)
    w.expect(job, JobState.RUNNING, workers=4)
    assert given_back(w, job)


def test_larger_sizes_are_tried_again_more_and_more_seldom(w: World) -> None:
    w.node("a", slots=8)
    job = w.job("slow", workers=(1, 8), behaviour=trains(100_000.0, *SLOWER_WITH_MANY))
    w.advance(1700.0)  # all is forgotten after `remeasure_seconds`
    times = [event.at for event in given_back(w, job)]
    gaps = [after - before for before, after in pairwise(times)]
    assert len(gaps) >= 2
    assert all(gap >= RETRY_SECONDS * 2**k for k, gap in enumerate(gaps))
    w.expect(job, JobState.RUNNING, workers=4)


def test_a_waiting_job_starts_on_what_is_given_back(w: World) -> None:
    w.node("a", slots=8)
    slow = w.job("slow", workers=(1, 8), preemptible=True, behaviour=trains(50_000.0, *SLOWER_WITH_MANY))
    rigid = w.job("rigid", workers=4, behaviour=trains(50_000.0, (1, 1.0), (4, 4.0)))
    w.advance(60.0)
    w.expect(slow, JobState.RUNNING, workers=4)
    w.expect(rigid, JobState.RUNNING, workers=4)


@dataclass(frozen=True, slots=True)
class NoisyReports:
    """Work of which each report of the speed is off by another factor, log-normal with this spread."""

    work: Work
    spread: float
    seed: int

    @property
    def total(self) -> float:
        return self.work.total

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        pace = self.work.pace(members, done)
        part = round(done / pace.per_second / REPORT_SECONDS) + 1
        factor = random.Random(f"{self.seed} {members} {part}").lognormvariate(0.0, self.spread)
        until = min(part * REPORT_SECONDS * pace.per_second, pace.until)
        return Pace(pace.per_second, until, pace.per_second * factor)

    def fraction(self, done: float) -> float:
        return self.work.fraction(done)


@pytest.mark.parametrize("spread", [0.05, 0.2])
def test_noise_keeps_no_job_from_idle_slots_for_long(w: World, spread: float) -> None:
    seed = random.SystemRandom().randrange(10**9)
    print(f"noise of seed {seed}")
    behaviour = trains(1e7, (1, 1.0), (8, 8.0))
    assert behaviour.work is not None
    w.node("a", slots=8)
    job = w.job("noisy", workers=(1, 8), behaviour=replace(behaviour, work=NoisyReports(behaviour.work, spread, seed)))
    w.advance(300.0)
    w.expect(job, JobState.RUNNING, workers=8)
    assert not given_back(w, job), f"seed {seed}"


@pytest.mark.parametrize("spread", [0.05, 0.2])
def test_a_loss_is_found_in_the_midst_of_noise(w: World, spread: float) -> None:
    seed = random.SystemRandom().randrange(10**9)
    print(f"noise of seed {seed}")
    behaviour = trains(1e7, (1, 1.0), (4, 3.0), (8, 1.5))
    assert behaviour.work is not None
    w.node("a", slots=4)
    job = w.job("noisy", workers=(1, 8), behaviour=replace(behaviour, work=NoisyReports(behaviour.work, spread, seed)))
    w.advance(300.0)
    w.node("b", slots=4)
    w.advance(600.0)
    assert given_back(w, job), f"seed {seed}"
