"""How a try of a tick fails and what it names, and the search for culprits: a smallest set, found in few tries."""

import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.bounds import SPEED
from scheduler.engine.attribution.failure import Failure, failure_of, is_odd, subject_of, suspects_in
from scheduler.engine.attribution.search import Progress, find_culprits
from scheduler.engine.attribution.trial import attempt
from scheduler.model.booking import Booking
from scheduler.model.event import Cause
from scheduler.model.foreign import Awaited, Demand
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.intent import Intent, IntentKind
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.node import Node
from scheduler.model.observation import NodeObservation, Phase, WorkerObservation, WorkerReport
from scheduler.model.shape import WorkerShape
from scheduler.model.stray import Stray
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.snapshot.usage_index import usage_of


def job(number: int) -> Subject:
    return Subject(SubjectKind.JOB, str(number))


ALL = [job(number) for number in range(64)]
numbers = st.sets(st.integers(0, 63), min_size=1, max_size=6)


def ticks(
    culprits: Collection[Subject], named: Callable[[Subject], tuple[Subject, ...]]
) -> Callable[[Collection[Subject]], Failure | None]:
    """A tick that fails at the first of these that is not left out."""

    def tick_without(left_out: Collection[Subject]) -> Failure | None:
        tried.append(1)
        first = next((each for each in culprits if each not in left_out), None)
        return None if first is None else Failure(Cause.TICK_RAISED, f"at {first}", named(first))

    tried: list[int] = []
    tick_without.tried = tried  # type: ignore[attr-defined]
    return tick_without


def search(tick: Callable[[Collection[Subject]], Failure | None]) -> dict[Subject, Failure]:
    failure = tick(())
    assert failure is not None
    return dict(find_culprits(ALL, failure, tick, lambda: True, Progress()))


@given(numbers)
def test_all_are_found_where_the_stack_names_them(poison: set[int]) -> None:
    tick = ticks([job(n) for n in sorted(poison)], lambda subject: (subject,))
    found = search(tick)
    assert found == {job(n): Failure(Cause.TICK_RAISED, f"at job {n}", (job(n),)) for n in poison}
    assert len(tick.tried) <= 2 * len(poison) + 1  # type: ignore[attr-defined]


@given(numbers)
def test_all_are_found_where_nothing_is_named(poison: set[int]) -> None:
    tick = ticks([job(n) for n in sorted(poison)], lambda _: ())
    found = search(tick)
    assert {subject: failure.detail for subject, failure in found.items()} == {job(n): f"at job {n}" for n in poison}
    assert len(tick.tried) <= 4 + len(poison) * 16  # type: ignore[attr-defined]


@given(numbers, st.data())
def test_innocents_beside_the_culprit_on_the_stack_are_not_held(poison: set[int], data: st.DataObject) -> None:
    def named(subject: Subject) -> tuple[Subject, ...]:
        others = data.draw(st.lists(st.sampled_from(ALL), max_size=3))
        return tuple(dict.fromkeys(data.draw(st.permutations([*others, subject]))))

    assert set(search(ticks([job(n) for n in sorted(poison)], named))) == {job(n) for n in poison}


def test_nothing_is_held_where_nothing_helps() -> None:
    always = Failure(Cause.TICK_RAISED, "always", (job(1), job(2)))
    assert find_culprits(ALL, always, lambda left_out: always, lambda: True, Progress()) == {}


def test_a_search_that_runs_out_of_time_goes_on_where_it_was() -> None:
    poison = [job(n) for n in range(20)]
    tick = ticks(poison, lambda subject: (subject,))
    progress = Progress()
    rounds = 0
    found: dict[Subject, Failure] = {}
    while not found:
        left = iter(range(6))
        failure = tick(())
        assert failure is not None
        found = dict(find_culprits(ALL, failure, tick, lambda left=left: next(left, None) is not None, progress))
        rounds += 1
    assert set(found) == set(poison)
    assert 1 < rounds < 20


def a_job(number: int, **spec: Any) -> Job:
    return Job(JobId(number), JobSpec("j", ("train",), **spec), 0, 1, 1, 0.0, 0.0, JobState.RUNNING)


def fail_at(handled: object) -> NoReturn:
    raise ValueError(f"two\n  lines, and {'more ' * 100}")


def test_a_failure_is_one_short_line_that_ends_with_where() -> None:
    with pytest.raises(ValueError, match="two") as caught:
        fail_at(a_job(7))
    failure = failure_of(caught.value)
    line = fail_at.__code__.co_firstlineno + 1
    assert failure.detail.startswith("ValueError: two lines, and more more ")
    assert failure.detail.endswith(f", in test_attribution.py:{line} (fail_at)")
    assert len(failure.detail) < 300
    assert (failure.cause, failure.suspects[0]) == (Cause.TICK_RAISED, job(7))


def test_where_is_the_innermost_line_of_the_scheduler_itself() -> None:
    with pytest.raises(AttributeError) as caught:
        usage_of(a_job(7), None)  # type: ignore[arg-type]
    assert ", in scheduler/policy/snapshot/usage_index.py:" in failure_of(caught.value).detail
    assert failure_of(KeyError()).detail == "KeyError"


def test_what_has_odd_numbers_in_it_is_suspected_first_and_then_the_innermost() -> None:
    def inner(also: Job, again: Job) -> list[Subject]:
        return suspects_in([sys._getframe(), sys._getframe(1)])

    odd, plain = a_job(1, speedup=((1, SPEED.low), (2, 1e15))), a_job(2)
    assert inner(a_job(3), plain) == [job(1), job(3), job(2)]
    assert (subject_of(odd), subject_of(plain)) == (job(1), job(2))


def test_what_had_odd_numbers_in_it_is_suspected_first_wherever_else_it_is_named() -> None:
    def inner(plain: Job, odd: Job) -> list[Subject]:
        return suspects_in([sys._getframe(), sys._getframe(1)])

    of_the_same_job = a_job(1)
    assert inner(a_job(2), a_job(1, speedup=((1, 1e15),))) == [subject_of(of_the_same_job), job(2)]


@pytest.mark.parametrize(
    ("value", "odd"),
    [
        *((number, True) for number in (math.inf, -math.inf, math.nan, 5e-324, -1e-200, 1e-100, 1e14, -1e300)),
        *((number, False) for number in (0.0, 1.0, -1.0, 1e-9, 1e9, 10**20, "inf", None, (1.0, "x"))),
        (((1, 1.0), (2, math.nan)), True),
        (WorkerShape(cpus=1.0), False),
        (NodeObservation(NodeName("a"), "a", 1, cpus=math.nan), True),
    ],
)
def test_numbers_that_nobody_means_are_odd(value: object, odd: bool) -> None:
    assert is_odd(value) is odd


@pytest.mark.parametrize(
    ("value", "subject"),
    [
        (Node(NodeName("a"), "host", 1), Subject(SubjectKind.NODE, "a")),
        (NodeObservation(NodeName("a"), "host", 1), Subject(SubjectKind.NODE, "a")),
        (Booking("b", 0.0, 1.0, 1, WorkerShape(), 0.0), Subject(SubjectKind.BOOKING, "b")),
        (Demand("pod", WorkerShape()), Subject(SubjectKind.POD, "pod")),
        (Awaited(Demand("pod", WorkerShape())), Subject(SubjectKind.POD, "pod")),
        (Intent(1, IntentKind.CANCEL, 0.0, JobId(7)), job(7)),
        (Intent(1, IntentKind.CORDON, 0.0, node=NodeName("a")), Subject(SubjectKind.NODE, "a")),
        (Intent(1, IntentKind.UNBOOK, 0.0, booking="b"), Subject(SubjectKind.BOOKING, "b")),
        (Intent(1, IntentKind.UNBOOK, 0.0), None),
        (Worker(WorkerId("7-1"), JobId(7), 1, NodeName("a"), "host", (0,), 0.0), job(7)),
        (WorkerObservation(WorkerId("7-1"), JobId(7), NodeName("a"), Phase.RUNNING), job(7)),
        (WorkerReport(WorkerId("7-1"), JobId(7), 0.0), job(7)),
        (Stray(WorkerId("7-1"), JobId(7), NodeName("a"), (0,)), job(7)),
        (usage_of(a_job(7), Ledger(World(), Journal())), job(7)),
        (WorkerShape(), None),
        ("7", None),
    ],
)
def test_whatever_a_tick_deals_with_names_what_could_be_left_out(value: object, subject: Subject | None) -> None:
    assert subject_of(value) == subject


NO_FAILURE = Failure(Cause.TICK_RAISED, "")


def hang(handled: object) -> NoReturn:
    while True:
        time.sleep(0.01)


def hang_outside_of_python() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    hang(None)


def test_work_in_a_process_of_its_own_gives_what_it_gives_here(tmp_path: Path) -> None:
    large = "x" * 3_000_000  # more than a pipe holds
    assert attempt(lambda: large, 60.0) == large
    assert attempt(os.getpid, 60.0) != os.getpid()
    with (tmp_path / "ours").open("w") as ours:
        failure = attempt(lambda: os.write(ours.fileno(), b"theirs"), 60.0)
    assert isinstance(failure, Failure)
    assert (failure.cause, failure.detail.startswith("OSError: ")) == (Cause.TICK_RAISED, True)
    assert (tmp_path / "ours").read_text() == ""
    # The end of the daemon is no failure of the job that is tried at that moment.
    assert attempt(lambda: os.kill(os.getpid(), signal.SIGTERM), 60.0) is None


def test_a_process_of_its_own_has_no_file_of_this_one_whatever_is_open_here() -> None:
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]  # all numbers below them are taken, too
    for free in (opened.pop(3), opened.pop(3)):  # of the pipe
        os.close(free)
    try:
        there = attempt(lambda: {int(number) for number in os.listdir("/proc/self/fd")}, 60.0)
    finally:
        for each in opened:
            os.close(each)
    assert isinstance(there, set)
    assert {0, 1, 2} < there
    assert len(there) == 5  # the pipe, and the directory that is listed
    assert not there & set(opened[1:])


def test_a_process_of_its_own_ends_with_its_work(tmp_path: Path) -> None:
    here = os.getpid()
    try:
        assert attempt(lambda: "done", 60.0) == "done"
    finally:
        if os.getpid() != here:
            (tmp_path / "another").touch()
            os._exit(0)
    assert not (tmp_path / "another").exists()


@pytest.mark.parametrize(
    ("work", "cause", "detail", "suspects"),
    [
        (lambda: fail_at(a_job(7)), Cause.TICK_RAISED, "ValueError: two lines", (job(7),)),
        (lambda: sys.exit(3), Cause.TICK_DIED, "SystemExit: 3, in ", ()),
        (
            lambda: find_culprits([], NO_FAILURE, lambda _: hang(a_job(7)), lambda: True, Progress([job(1)])),
            Cause.TICK_HUNG,
            "no end after 5 s, in scheduler/engine/attribution/search.py:",
            (job(7),),
        ),
        (hang_outside_of_python, Cause.TICK_HUNG, "no end after 0.2 s, outside of Python code", ()),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), Cause.TICK_DIED, "the process died (SIGKILL)", ()),
        (lambda: os._exit(3), Cause.TICK_DIED, "the process died (exit code 3)", ()),
    ],
    ids=["raises", "exits", "hangs", "hangs outside", "is killed", "dies"],
)
def test_however_work_ends_in_a_process_of_its_own_this_one_learns_it(
    work: Callable[[], Any], cause: Cause, detail: str, suspects: tuple[Subject, ...]
) -> None:
    # A machine that does other things besides needs a while to get to where it hangs.
    told = re.match(r"no end after (\S+) s", detail)
    failure = attempt(work, float(told[1]) if told else 60.0)
    assert isinstance(failure, Failure)
    assert (failure.cause, failure.detail[: len(detail)]) == (cause, detail)
    assert failure.suspects[: len(suspects)] == suspects
