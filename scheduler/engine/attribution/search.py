"""Finds a smallest set of subjects to leave out for a tick to pass, so that each of them is needed.

What the failed tick was handling is tried first. Where that does not tell, halves are left out and put back, as
FastDiag does (Felfernig, Schubert, Zehentner: An efficient diagnosis algorithm for inconsistent constraint sets,
2012): for k among n in some 2k (1 + log2(n/k)) tries.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.engine.attribution.failure import Failure
from scheduler.model.subject import Subject

#: A tick without these: how it fails; None: it passes.
Try = Callable[[Collection[Subject]], Failure | None]


class OutOfTime(Exception):
    """The search has used up its time."""


@dataclass(slots=True)
class Progress:
    """How far a search has got; one that ran out of time goes on from there."""

    #: Subjects that failures named, and how often.
    left_out: list[Subject] = field(default_factory=list)
    votes: Counter[Subject] = field(default_factory=Counter)
    #: Subjects that are needed, and how the tick fails by each.
    needed: dict[Subject, Failure] = field(default_factory=dict)


def find_culprits(
    subjects: Sequence[Subject],
    failure: Failure,
    tick_without: Try,
    in_time: Callable[[], bool],
    progress: Progress,
) -> Mapping[Subject, Failure]:
    """A smallest set without which the tick passes, with each failure; empty: no set does, or none was found in time.

    `failure` is that of the whole tick; `subjects` are ordered, the first to be left out first.
    """

    def without(left_out: Collection[Subject]) -> Failure | None:
        if not in_time():
            raise OutOfTime
        return tick_without(left_out)

    try:
        if _follow_suspects(failure, without, progress):
            return _needed(failure, without, progress)
        candidates = [*progress.left_out, *(subject for subject in subjects if subject not in progress.left_out)]
        if without(candidates) is not None:
            return {}
        culprits = _smallest(candidates, without)
        return {each: without([other for other in culprits if other != each]) or failure for each in culprits}
    except OutOfTime:
        return {}


def _follow_suspects(failure: Failure, without: Try, progress: Progress) -> bool:
    """Leave out what the failures name most, until the tick passes or names nothing new; returns whether it passes."""
    found = without(progress.left_out) if progress.left_out else failure
    while found is not None:
        progress.votes.update(found.suspects)
        fresh = [suspect for suspect in found.suspects if suspect not in progress.left_out]
        if not fresh:
            return False
        progress.left_out.append(max(fresh, key=lambda suspect: progress.votes[suspect]))
        found = without(progress.left_out)
    return True


def _needed(failure: Failure, without: Try, progress: Progress) -> Mapping[Subject, Failure]:
    """Named subjects that are needed for the tick to pass; the least often named are put back first."""
    if len(progress.left_out) == 1:
        return {progress.left_out[0]: failure}
    for suspect in sorted(progress.left_out, key=lambda suspect: progress.votes[suspect]):
        if suspect not in progress.needed:
            found = without([other for other in progress.left_out if other != suspect])
            if found is None:
                progress.left_out.remove(suspect)
            else:
                progress.needed[suspect] = found
    return progress.needed


def _smallest(candidates: Sequence[Subject], without: Try) -> list[Subject]:
    """A smallest set of candidates without which the tick still passes; earlier candidates are preferred."""

    def search(just_left_out: Sequence[Subject], among: Sequence[Subject], left_out: list[Subject]) -> list[Subject]:
        if just_left_out and without(left_out) is None:
            return []
        if len(among) == 1:
            return list(among)
        half = len(among) // 2
        first, second = among[:half], among[half:]
        of_second = search(first, second, [*left_out, *first])
        of_first = search(of_second, first, [*left_out, *of_second])
        return [*of_second, *of_first]

    return search([], candidates, [])
