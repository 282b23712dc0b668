"""The search for culprits: a smallest set, found in few tries, whatever the failures name."""

from collections.abc import Callable, Collection

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.attribution.failure import Failure
from scheduler.engine.attribution.search import Progress, find_culprits
from scheduler.model.event import Cause
from scheduler.model.subject import Subject, SubjectKind


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
