"""The daemon's process: how it is told to stop, and how many connections it may have."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class _Stopped(BaseException):
    """Told to stop; raised wherever the main thread is, so that all is taken down in order."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Leave the block at the first SIGTERM or SIGINT; the server takes them first, and passes them on at its end."""
    told = False

    def stop(_: int, __: object) -> None:
        nonlocal told
        if not told:  # a second one must not break off what the first one has begun
            told = True
            raise _Stopped

    former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def allow_many_connections() -> None:
    """Let thousands of workers wait at once, as far as the system's hard limit on open files goes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the limit of before will do for fewer
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
