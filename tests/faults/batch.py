"""Many seeds, in parallel processes."""

import multiprocessing
from collections.abc import Iterable, Iterator

from tests.faults.draw import draw
from tests.faults.run import Outcome, play
from tests.faults.sandbox import sandbox

#: Seeds that a process takes at a time.
CHUNK = 10


def play_all(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come."""
    chunks = list(_chunks(list(seeds)))
    if jobs == 1:
        for chunk in chunks:
            yield from play_chunk(chunk)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for outcomes in pool.imap_unordered(play_chunk, chunks):
            yield from outcomes


def play_chunk(seeds: Iterable[int]) -> list[Outcome]:
    """The outcomes of these seeds, one after the other in this process."""
    with sandbox() as box:
        return [play(draw(seed), box.fresh()) for seed in seeds]


def replay(seed: int) -> Outcome:
    """One seed with its story."""
    with sandbox() as box:
        return play(draw(seed), box.fresh(), told=True)


def _chunks(seeds: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(seeds), CHUNK):
        yield seeds[start : start + CHUNK]
