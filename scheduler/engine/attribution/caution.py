"""When ticks are rehearsed in a process of their own: after one that failed, or after a leader's death.

A leader that died may have died of its tick, and the next leader would, too. So after a leader that did not give the
lease back, and after a tick that raised, ticks are rehearsed first. One that fails there is looked into.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from scheduler.engine.attribution.failure import Failure, failure_of
from scheduler.engine.attribution.inputs import seconds_allowed, subjects_of
from scheduler.engine.attribution.search import Progress, find_culprits
from scheduler.engine.attribution.set_aside import tried_without
from scheduler.engine.attribution.trial import attempt
from scheduler.engine.ports import Clock, TickInputs
from scheduler.errors import LeaseLost, SchedulerError, SchemaMismatch, StaleWrite, StoreUnavailable
from scheduler.model.subject import Subject
from scheduler.model.world import Changes

#: The search for a culprit ends after this; the next tick begins it anew.
SEARCH_SECONDS_MAX = 60.0
#: Where a rehearsal takes longer, only the next tick is rehearsed.
COST_SECONDS_MAX = 0.25


class Undecidable(SchedulerError):
    """A tick fails whatever is left out of it: nothing is decided until that changes."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How an engine tries a tick."""

    #: All of the tick but store and cluster; runs in a process of its own.
    decide: Callable[[TickInputs], Changes]
    #: Raises what the commit of these changes would raise.
    check: Callable[[Changes], None]
    #: Called between tries, so that a long search is not mistaken for a hang.
    alive: Callable[[], None]


class Caution:
    """`window_seconds`: how long ticks are rehearsed after a failure or a death; at least the next one is."""

    def __init__(self, clock: Clock, limit_seconds: float, window_seconds: float = 0.0) -> None:
        """`limit_seconds`: a rehearsal on a small cluster that takes longer hangs."""
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._window_seconds = window_seconds
        self._until = 0.0
        #: Progress of a search that ran out of time.
        self._progress = Progress()
        #: Duration of the last rehearsal.
        self._cost_seconds = 0.0
        #: Whether the next tick is to be rehearsed.
        self.due = False

    def begin(self) -> None:
        """Begin to rehearse: a tick failed, or a leader died."""
        self.due = True
        self._until = self._clock.monotonic() + self._window_seconds

    def passed(self) -> None:
        """Record that a tick ran through."""
        self.due = self._clock.monotonic() < self._until and self._cost_seconds < COST_SECONDS_MAX

    def find(
        self, inputs: TickInputs, known: Mapping[Subject, Failure], rehearsal: Rehearsal
    ) -> Mapping[Subject, Failure]:
        """The subjects to hold so that the tick passes, `known` in any case. Raises `Undecidable`."""
        began = self._clock.monotonic()

        def tick_without(left_out: Collection[Subject]) -> Failure | None:
            rehearsal.alive()
            everything = {**dict.fromkeys(left_out), **dict.fromkeys(known)}
            return self._try(inputs, tuple(everything), rehearsal)

        failure = tick_without(())
        self._cost_seconds = self._clock.monotonic() - began
        if failure is None:
            self._progress = Progress()
            return known

        def in_time() -> bool:
            return self._clock.monotonic() < began + SEARCH_SECONDS_MAX

        found = find_culprits(subjects_of(inputs), failure, tick_without, in_time, self._progress)
        if not found:
            if not in_time():
                raise Undecidable(f"{failure.detail}; the search for what it fails by goes on")
            raise Undecidable(f"{failure.detail}; no job, pod, booking or node was found that it fails by")
        self._progress = Progress()
        return {**found, **known}

    def _try(self, inputs: TickInputs, left_out: Collection[Subject], rehearsal: Rehearsal) -> Failure | None:
        limit_seconds = seconds_allowed(inputs, self._limit_seconds)
        outcome = attempt(lambda: rehearsal.decide(tried_without(inputs, left_out)), limit_seconds)
        if isinstance(outcome, Failure):
            return outcome
        try:
            rehearsal.check(outcome)
        except (StoreUnavailable, LeaseLost, StaleWrite, SchemaMismatch):
            raise  # of no job's doing
        except Exception as error:
            return failure_of(error)
        return None
