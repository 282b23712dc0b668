"""Whose turn it is among queues: of those that have something to be served, the one that holds least of its part."""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field

from scheduler.policy.queues.shares import Counts, Shares
from scheduler.policy.queues.tree import Lane

#: The place of a queue among others, smaller first: from the first level on, what each of its accounts holds of its
#: entitlement, and what it has recently used in relation to its weight; then the number of its oldest waiting job.
Turn = tuple[tuple[tuple[float, float], ...], int]
#: Jobs above all queues go first.
FIRST: Turn = ((), 0)


@dataclass(slots=True, eq=False)
class _Account:
    """An account with something to be served, and the accounts inside it that have."""

    name: str
    above: "_Account | None"
    depth: int = 0
    #: What may be asked for next in it, see `Standing.asked`, the most important first; of a queue alone.
    choices: tuple[Counts, ...] = ()
    #: What the next to be served in it asks for: the choice by which it has its turn.
    asked: Counts = ()
    #: Where it stands among its siblings; None: nothing is left in it.
    turn: Turn | None = None
    #: Turns of accounts inside it; those that are theirs no more are dropped once they come first.
    inside: list[tuple[Turn, str]] = field(default_factory=list)


class Turns:
    """Queues by turn, as what they hold changes."""

    def __init__(self, shares: Shares | None) -> None:
        """`shares`: None: there are no queues, and all jobs are above them."""
        self._shares = shares
        self._root = _Account("", None)
        self._accounts: dict[str, _Account] = {}
        #: Queues with something to be served, by their own accounts.
        self._queues: set[str] = set()
        self._changes = shares.changes() if shares is not None else None
        #: Accounts of which the turn may not be what it was.
        self._stale: set[_Account] = set()
        self._first: tuple[Turn, str] | None = None

    def put(self, lane: Lane, *choices: Counts) -> None:
        """The next job to be served of the lane asks for one of these, see `Standing.asked`; the most important first.

        It is the one which has the first turn, so that what is inside a guarantee does not wait for what is not.
        """
        account = self._accounts.get(lane.own) or self._account(lane)
        if lane.own not in self._queues or account.choices != choices:
            self._queues.add(lane.own)
            account.choices = choices
            self._stale.add(account)

    def asked(self, own: str) -> Counts:
        """What the next job to be served of the queue with this account asks for, once `first` gave the queue."""
        return self._accounts[own].asked

    def remove(self, own: str) -> None:
        """No job of the queue with this account is left to be served."""
        self._queues.remove(own)
        self._stale.add(self._accounts[own])

    def first(self) -> tuple[Turn, str] | None:
        """The turn of the queue that is next, and its own account; None: none is left."""
        if self._changes is not None:
            self._stale.update(filter(None, map(self._accounts.get, self._changes.news())))
        if self._stale:
            self._follow()
            self._first = self._find_first()
        return self._first

    def _find_first(self) -> tuple[Turn, str] | None:
        account = self._root
        while account is self._root or account.name not in self._queues:
            inner = self._first_in(account)
            if inner is None:
                return None
            account = inner
        return self._root.inside[0][0], account.name

    def _follow(self) -> None:
        """Bring stale turns up to date, those inside others first: the first inside an account is part of its own."""
        by_depth = defaultdict[int, set[_Account]](set)
        for account in self._stale:
            by_depth[account.depth].add(account)
        self._stale.clear()
        for depth in range(max(by_depth), 0, -1):
            for account in by_depth[depth]:
                self._note(account)
                assert account.above is not None, "only the root is above all"
                by_depth[depth - 1].add(account.above)

    def _account(self, lane: Lane) -> _Account:
        above = self._root
        for name in lane.path or (lane.own,):
            account = self._accounts.get(name)
            if account is None:
                account = self._accounts[name] = _Account(name, above, above.depth + 1)
            above = account
        return above

    def _note(self, account: _Account) -> None:
        turn = self._turn(account)
        if turn != account.turn:
            account.turn = turn
            if turn is not None:
                assert account.above is not None, "the root has no turn"
                heapq.heappush(account.above.inside, (turn, account.name))

    def _turn(self, account: _Account) -> Turn | None:
        shares, name = self._shares, account.name
        if name in self._queues:
            account.asked = account.choices[0]
            if shares is None or not name:
                return FIRST
            place, k = min((shares.place(name, asked), k) for k, asked in enumerate(account.choices))
            account.asked = account.choices[k]
            return (place,), shares.oldest(name)
        inner = self._first_in(account)
        if inner is None or shares is None:
            return None
        assert inner.turn is not None, "it is first by its turn"
        account.asked, (places, oldest) = inner.asked, inner.turn
        return ((shares.place(name, account.asked), *places), oldest)

    def _first_in(self, account: _Account) -> _Account | None:
        """The account inside this one that is first; None: there is none."""
        while account.inside:
            turn, name = account.inside[0]
            inner = self._accounts[name]
            if inner.turn is turn:
                return inner
            heapq.heappop(account.inside)
        return None
