"""A tick takes as many requests as it can handle in about a second, and the next ones take the rest, in order."""

from pathlib import Path

import pytest

from scheduler.engine.timing.intake import FIRST, LEAST, MOST, Intake
from scheduler.model.job import JobSpec
from tests.world import World


@pytest.mark.parametrize(
    ("taken", "seconds", "most"),
    [
        (2_000, 2.0, 1_000),
        (2_000, 0.5, 4_000),
        (2_000, 1e-9, MOST),
        (2_000, 0.0, MOST),
        (2_000, 60.0, LEAST),
        (LEAST - 1, 60.0, FIRST),
        (0, 60.0, FIRST),
    ],
)
def test_the_next_tick_takes_what_fits_into_a_second(taken: int, seconds: float, most: int) -> None:
    intake = Intake()
    intake.took(taken)
    intake.ended(seconds)
    assert intake.most == most


def test_more_requests_than_a_tick_takes_are_taken_at_once_by_the_next_ones(tmp_path: Path) -> None:
    w = World(tmp_path)
    jobs = FIRST + 3
    w.store.submit([JobSpec("many", ("train",))] * jobs, w.clock.now())
    seen = []
    for _ in range(2):
        w.tick()
        assert w.engine.world is not None
        seen.append((list(w.engine.world.queued), w.engine.report.next_tick_at == w.clock.now()))
    assert seen == [(list(range(1, FIRST + 1)), True), (list(range(1, jobs + 1)), False)]
