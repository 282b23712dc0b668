"""Tries work in a process of its own, which may raise, hang or die without harm.

The child is a copy of this process at that moment: it has everything that the work needs, what it changes is its own,
and what it opened is closed before it begins.
"""

import os
import pickle
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from scheduler.engine.attribution.failure import Failure, failure_of
from scheduler.model.event import Cause

T = TypeVar("T")

#: Seconds beyond its limit after which a child that runs no Python, and so does not end by itself, is killed.
_KILL_SECONDS = 1.0
_FILES_MAX = 1 << 20


class _TooLong(BaseException):
    """The work has used up its time; raised wherever it is."""


def attempt(work: Callable[[], T], limit_seconds: float) -> T | Failure:
    """The result of the work, or its failure."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run(work, limit_seconds, writing)
    os.close(writing)
    said = None
    try:
        said = _read(reading, limit_seconds + _KILL_SECONDS)
    finally:
        os.close(reading)
        if said is None:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if said is None:
        return Failure(Cause.TICK_HUNG, f"no end after {limit_seconds:g} s, outside of Python code")
    if not said:
        return Failure(Cause.TICK_DIED, f"the process died ({_death(status)})")
    outcome: T | Failure = pickle.loads(said)
    return outcome


def _run(work: Callable[[], T], limit_seconds: float, writing: int) -> None:
    """The child's whole life."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(3, writing)
        os.closerange(writing + 1, _FILES_MAX)
        data = pickle.dumps(_outcome(work, limit_seconds))
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _outcome(work: Callable[[], T], limit_seconds: float) -> T | Failure:
    def too_long(_: int, __: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, limit_seconds)
    try:
        return work()
    except _TooLong as error:
        _leave_out_handler(error)
        found = failure_of(error, Cause.TICK_HUNG)
        where = found.detail.removeprefix(type(error).__name__)
        return replace(found, detail=f"no end after {limit_seconds:g} s{where}")
    except Exception as error:
        return failure_of(error)
    except BaseException as error:  # what would end the process
        return failure_of(error, Cause.TICK_DIED)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _leave_out_handler(error: _TooLong) -> None:
    """The innermost frame is that of the handler; where the work was is the one before."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_next is not None and frame.tb_next.tb_next is None:
            frame.tb_next = None
        frame = frame.tb_next


def _read(reading: int, limit_seconds: float) -> bytes | None:
    """All output of the child; empty: it wrote nothing and died; None: it took too long."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    if not poll.poll(limit_seconds * 1000.0):
        return None
    parts = []
    while part := os.read(reading, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _death(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    with suppress(ValueError):  # no signal has a negative number
        return signal.Signals(-code).name
    return f"exit code {code}"
