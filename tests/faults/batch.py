"""Many seeds, in parallel processes."""

import gc
import multiprocessing
import random
from collections.abc import Iterable, Iterator

from tests.faults.draw import draw
from tests.faults.plan import Scenario
from tests.faults.run import Outcome, play
from tests.faults.sandbox import sandbox

#: Where seeds are drawn from when nobody names the first: nobody has named them yet.
FRESH = range(1_000_000_000)
#: Seeds that a process takes at a time.
CHUNK = 10


def fresh(count: int) -> range:
    """Seeds that differ in every run."""
    first = random.SystemRandom().choice(FRESH)
    return range(first, first + count)


def play_all(seeds: range, jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from play_chunk(chunk)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=gc.freeze) as pool:
        for outcomes in pool.imap_unordered(play_chunk, chunks):
            yield from outcomes


def play_chunk(seeds: Iterable[int]) -> list[Outcome]:
    """The outcomes of these seeds, one after the other in this process."""
    with sandbox() as box:
        return [play(draw(seed), box.fresh()) for seed in seeds]


def replay(scenario: Scenario) -> Outcome:
    """One scenario with its story."""
    with sandbox() as box:
        return play(scenario, box.fresh(), told=True)
