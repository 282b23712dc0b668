"""Tells the scheduler which members this worker waits for too long. Standard library only.

A member that hangs in a step of its own goes on reporting: only the members that wait for it can tell.
"""

import logging
import threading
from collections.abc import Callable

from scheduler.elastic.membership.agent import Agent
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.standalone import Alone

_LOG = logging.getLogger("scheduler.elastic")
#: Workers that one report names; it has a limit of size, and those that are left are named when these are replaced.
_NAMED_MAX = 1000
_LOOK_SECONDS = 0.5
#: How long without news until rank 0 counts as absent: a wait for a store that a stopped process serves never ends,
#: whatever the timeout. If rank 0 does go on, it reports the members that it misses before that.
_RANK_0_SECONDS = 10.0


class AbsenceReporter:
    """A wait for the members of a list; a thread of its own tells, since the waiting one may be stuck.

    Members named in a report are killed and replaced, which makes a newer list; reports about older lists are ignored.
    """

    def __init__(self, agent: Agent | Alone, membership: Membership, patience_seconds: float) -> None:
        """`patience_seconds`: how long members may be apart; infinite where nobody is to be named."""
        self._agent = agent
        self._membership = membership
        self._patience_seconds = patience_seconds
        self._absent: frozenset[int] = frozenset()
        self._is_due = False
        self._looks_without_news = 0
        self._told: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="misses", daemon=True)

    def note(self, find: Callable[[], frozenset[int]]) -> None:
        """There is news of the others. `find`: the ranks that have not come so far; asked once somebody is to be named.

        Raises what `find` raises.
        """
        self._absent = find() if self._is_due else frozenset()
        self._looks_without_news = 0

    def __enter__(self) -> "AbsenceReporter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """The wait is over."""
        self._is_over.set()
        self._thread.join()
        self._agent.update({"missed": None})

    def _watch(self) -> None:
        """Counts looks: while this process itself was stopped, nobody let it wait."""
        looks = 0
        while not self._is_over.wait(_LOOK_SECONDS):
            looks += 1
            self._looks_without_news += 1
            silent = self._looks_without_news * _LOOK_SECONDS > _RANK_0_SECONDS
            self._is_due = looks * _LOOK_SECONDS >= self._patience_seconds
            if self._is_due:
                ranks = frozenset({0}) if silent else self._absent
                self._tell([self._membership.workers[rank] for rank in sorted(ranks)])

    def _tell(self, workers: list[str]) -> None:
        if not workers or workers == self._told:
            return
        self._told = workers
        generation = self._membership.generation
        names = ", ".join(workers)
        _LOG.warning("generation %d has waited for %s for more than %g s", generation, names, self._patience_seconds)
        missed = {"generation": generation, "workers": workers[:_NAMED_MAX], "seconds": self._patience_seconds}
        self._agent.update({"missed": missed}, at_once=True)
