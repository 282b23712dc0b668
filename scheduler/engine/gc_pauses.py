"""The garbage collector beside a large world.

The world is made of values that live long and hold no cycles: reference counts free them. Left alone, the collector
walks all of them again and again, which doubles the time of a tick over ten thousand jobs.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: From so many new jobs and workers on it is worth telling the collector.
MANY = 1000


@contextmanager
def paused() -> Iterator[None]:
    """No collection inside the block: what is made there is either kept or freed by its reference count."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def keep(newcomers: int) -> None:
    """Where many jobs and workers have come, take all that lives now out of what the collector walks."""
    if newcomers >= MANY:
        gc.freeze()
