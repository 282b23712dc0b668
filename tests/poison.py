"""Make the scheduler fail at one job, wherever the real code handles it: for causes that nobody has thought of."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler.engine import board, deciding
from scheduler.engine.absorb import absorb, dirty_jobs
from scheduler.engine.apply import reconcile
from scheduler.engine.attribution.failure import subject_of
from scheduler.engine.leadership import follower
from scheduler.model.ids import JobId
from scheduler.model.job import Job
from scheduler.model.subject import SubjectKind
from scheduler.policy.snapshot import usage_index
from scheduler.policy.snapshot.waiting_jobs import JobClass, WaitingJobs
from scheduler.store.engine_side import commit

#: Where a job is handled: (module or class, name). Together they see a job in every state it may be in.
POINTS: tuple[tuple[Any, str], ...] = (
    (absorb, "absorb_job_workers"),
    (absorb, "expire"),
    (absorb, "hang_deadline"),
    (dirty_jobs, "is_settled"),
    (dirty_jobs, "job_deadline"),
    (usage_index, "usage_of"),
    (usage_index, "end_of"),
    (WaitingJobs, "_alone"),
    (JobClass, "note"),
    (reconcile, "start_workers"),
    (deciding, "post"),
    (commit, "job_values"),
)


class Poison(Exception):
    """What a poisoned job does to whoever handles it."""


class Killed(BaseException):
    """The process dies of it, as far as one that plays several daemons can."""


def _raise() -> None:
    raise Poison("this job is not to be handled")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    while True:
        pass


#: What happens where the job is handled.
HARMS: dict[str, Callable[[], None]] = {"raise": _raise, "hang": _hang, "kill": _kill}


@contextmanager
def poisoned(is_poison: Callable[[JobId], bool], point: tuple[Any, str], harm: Callable[[], None]) -> Iterator[None]:
    """Let the function at this point do harm whenever it is given such a job, or a worker of it, that is not held."""
    owner, name = point
    real = getattr(owner, name)

    def handle(*arguments: Any, **named: Any) -> Any:
        for argument in arguments:
            subject = subject_of(argument)
            job = subject is not None and subject.kind is SubjectKind.JOB and is_poison(JobId(int(subject.name)))
            if job and not _is_safe(argument):
                harm()
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, handle)
        if name == "post":
            for module in (board, follower):
                patch.setattr(module, name, handle)
        yield


def _is_safe(argument: object) -> bool:
    """A job that is held, or that has ended as one that was."""
    return isinstance(argument, Job) and (argument.held_from is not None or argument.state.terminal)
