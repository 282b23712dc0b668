"""When ticks are rehearsed, and what a rehearsal that fails leads to."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.clock import VirtualClock
from scheduler.engine.attribution.caution import COST_SECONDS_MAX, SEARCH_SECONDS_MAX, Caution, Rehearsal, Undecidable
from scheduler.engine.ports import Inbox, TickInputs
from scheduler.errors import LeaseLost, StoreUnavailable
from scheduler.model.event import Cause
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobSpec
from scheduler.model.job_state import JobState
from scheduler.model.observation import Observation
from scheduler.model.subject import Subject, SubjectKind
from scheduler.model.world import Changes, World

LIMIT_SECONDS = 60.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1000.0)


def a_job(number: int) -> Job:
    return Job(JobId(number), JobSpec("j", ("train",)), 0, 1, 1, 0.0, 0.0, JobState.QUEUED)


def subject(number: int) -> Subject:
    return Subject(SubjectKind.JOB, str(number))


INPUTS = TickInputs(0.0, World.of([a_job(number) for number in range(1, 9)], []), Observation({}, {}), Inbox((), ()))


def rehearsal(
    poison: set[int],
    alive: Callable[[], None] = lambda: None,
    check: Callable[[Changes], None] = lambda changes: None,
) -> Rehearsal:
    """A tick that fails at these jobs, as long as they wait."""

    def decide(inputs: TickInputs) -> Changes:
        for job_id, job in inputs.world.queued.items():
            if job_id in poison:
                raise ValueError(f"fails at {job.spec.name}")
        return inputs.begun

    return Rehearsal(decide, check, alive)


def test_ticks_are_rehearsed_for_a_while_after_a_failure(clock: VirtualClock) -> None:
    caution = Caution(clock, LIMIT_SECONDS, window_seconds=10.0)
    assert not caution.due
    caution.begin()
    assert caution.due
    clock.advance(9.0)
    caution.passed()
    assert caution.due
    clock.advance(1.0)
    caution.passed()
    assert not caution.due


def test_without_a_while_the_next_tick_alone_is_rehearsed(clock: VirtualClock) -> None:
    caution = Caution(clock, LIMIT_SECONDS)
    caution.begin()
    assert caution.due
    caution.passed()
    assert not caution.due


def test_as_long_as_nothing_fails_nothing_is_rehearsed() -> None:
    caution = Caution(VirtualClock(0.0), LIMIT_SECONDS, window_seconds=10.0)
    assert not caution.due
    caution.passed()
    assert not caution.due


@pytest.mark.parametrize(("cost_seconds", "due"), [(COST_SECONDS_MAX - 0.125, True), (COST_SECONDS_MAX, False)])
def test_where_a_rehearsal_takes_long_only_the_next_tick_is_rehearsed(
    clock: VirtualClock, cost_seconds: float, due: bool
) -> None:
    caution = Caution(clock, LIMIT_SECONDS, window_seconds=10.0)
    caution.begin()
    assert caution.find(INPUTS, {}, rehearsal(set(), lambda: clock.advance(cost_seconds))) == {}
    caution.passed()
    assert caution.due is due


def test_what_a_tick_fails_at_is_found_beside_what_is_known(clock: VirtualClock) -> None:
    caution = Caution(clock, LIMIT_SECONDS)
    first = caution.find(INPUTS, {}, rehearsal({3, 5}))
    assert set(first) == {subject(3), subject(5)}
    assert {failure.cause for failure in first.values()} == {Cause.TICK_RAISED}
    assert caution.find(INPUTS, first, rehearsal({3, 5})) == first
    assert set(caution.find(INPUTS, first, rehearsal({3, 5, 8}))) == {subject(3), subject(5), subject(8)}


def test_what_one_search_found_is_nothing_to_the_next(clock: VirtualClock) -> None:
    caution = Caution(clock, LIMIT_SECONDS)
    for number in (3, 7):
        assert set(caution.find(INPUTS, {}, rehearsal({number}))) == {subject(number)}


def test_a_job_that_cannot_be_stored_as_it_is_decided_on_is_found(clock: VirtualClock) -> None:
    def decide(inputs: TickInputs) -> Changes:
        return replace(inputs.begun, jobs=(*inputs.begun.jobs, *inputs.world.queued.values()))

    def check(changes: Changes) -> None:
        if any(job.id == 5 and job.state is JobState.QUEUED for job in changes.jobs):
            raise ValueError("out of range")

    (found,) = Caution(clock, LIMIT_SECONDS).find(INPUTS, {}, Rehearsal(decide, check, lambda: None)).items()
    assert found[0] == subject(5)
    assert found[1].detail.startswith("ValueError: out of range, in ")


def test_a_tick_that_nothing_helps_is_undecidable(clock: VirtualClock) -> None:
    def refuse(changes: Changes) -> None:
        raise KeyError("always")

    told = r"KeyError: 'always', in .*; no job, pod, booking or node was found that it fails by$"
    with pytest.raises(Undecidable, match=told):
        Caution(clock, LIMIT_SECONDS).find(INPUTS, {}, rehearsal(set(), check=refuse))


def test_a_search_has_its_time_and_the_next_tick_goes_on_with_it(clock: VirtualClock) -> None:
    """Each try takes a third of the time: the search ends when all of it is used up."""
    caution = Caution(clock, LIMIT_SECONDS)
    slow = rehearsal({2, 4, 6, 8}, lambda: clock.advance(SEARCH_SECONDS_MAX / 3))
    told = r"^ValueError: fails at j, in .*; the search for what it fails by goes on$"
    for _ in range(5):  # three tries each, of which two see that all is as it was
        began = clock.now()
        with pytest.raises(Undecidable, match=told):
            caution.find(INPUTS, {}, slow)
        assert clock.now() - began == SEARCH_SECONDS_MAX
    assert set(caution.find(INPUTS, {}, slow)) == {subject(number) for number in (2, 4, 6, 8)}
    # Nothing of it is left for the search after the next failure.
    assert caution.find(INPUTS, {}, rehearsal(set())) == {}
    assert set(caution.find(INPUTS, {}, rehearsal({7}))) == {subject(7)}


@pytest.mark.parametrize("error", [StoreUnavailable, LeaseLost])
def test_what_is_of_no_jobs_doing_is_searched_for_nowhere(clock: VirtualClock, error: type[Exception]) -> None:
    tries = []

    def refuse(changes: Changes) -> None:
        raise error("the database")

    with pytest.raises(error, match="the database"):
        Caution(clock, LIMIT_SECONDS).find(INPUTS, {}, rehearsal(set(), lambda: tries.append(1), refuse))
    assert len(tries) == 1
