"""What the engine keeps of the share that workers report as done: how much all of the job takes."""

from dataclasses import dataclass

import pytest

from scheduler.clusters.simulated.process import Behaviour
from scheduler.clusters.simulated.work import Pace
from scheduler.model.job import Job, Runtime
from scheduler.model.job_state import JobState
from tests.world import World

SECONDS_ALONE = 1000.0


@dataclass(frozen=True, slots=True)
class Epochs:
    """Steady work of one worker whose first half of the time makes this share of the epochs."""

    first_half: float
    total: float = SECONDS_ALONE

    def pace(self, members: tuple[int, ...], done: float) -> Pace:
        return Pace(1.0, self.total)

    def fraction(self, done: float) -> float:
        half = self.total / 2
        late = max(done - half, 0.0) / half
        return self.first_half * min(done / half, 1.0) + (1.0 - self.first_half) * late


def after(w: World, seconds: float, first_half: float) -> Job:
    """A job that has reported for `seconds`."""
    w.node("a", slots=1)
    work = Epochs(first_half)
    trains = Behaviour(runtime=Runtime.ELASTIC, work=work, tells_fraction=True, heartbeat_seconds=5.0)
    job_id = w.job("job", behaviour=trains)
    w.advance(seconds)
    return w.expect(job_id, JobState.RUNNING)


def test_a_steady_job_takes_what_its_share_tells(w: World) -> None:
    progress = after(w, 300.0, first_half=0.5).progress
    assert progress.fraction is not None
    assert progress.whole_slot_seconds == pytest.approx(progress.slot_seconds / progress.fraction, rel=0.01)
    assert progress.whole_slot_seconds == pytest.approx(SECONDS_ALONE, rel=0.05)


def test_what_was_done_of_late_tells_more_than_the_beginning(w: World) -> None:
    progress = after(w, 700.0, first_half=0.2).progress
    assert progress.fraction is not None
    assert progress.whole_slot_seconds is not None
    left = progress.whole_slot_seconds * (1.0 - progress.fraction)
    left_by_the_average = progress.slot_seconds / progress.fraction - progress.slot_seconds
    assert SECONDS_ALONE - progress.slot_seconds < left < 0.8 * left_by_the_average
