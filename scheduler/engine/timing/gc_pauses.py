"""Pauses of the garbage collector for a large world.

The world is made of values that live long and hold no cycles: reference counts free them. Left alone, the collector
walks all of them again and again, which doubles the time of a tick over ten thousand jobs.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Number of new jobs and workers from which on it pays to tell the collector.
MANY = 1000


@contextmanager
def paused() -> Iterator[None]:
    """No collection inside the block: objects made there are either kept or freed by their reference count."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def keep(newcomers: int) -> None:
    """After many new jobs and workers, exempt all living objects from collection."""
    if newcomers >= MANY:
        gc.freeze()
