"""Whose turn it is among queues: of those that have something to be served, the one that holds least of its part."""

import heapq
from dataclasses import dataclass, field

from scheduler.policy.queues.shares import Counts, Shares
from scheduler.policy.queues.tree import Lane

#: The place of a queue among others, smaller first: from the first level on, what each of its accounts holds of its
#: entitlement, and what it has recently used in relation to its weight; then the number of its oldest waiting job.
Turn = tuple[tuple[tuple[float, float], ...], int]
#: Jobs above all queues go first.
FIRST: Turn = ((), 0)


@dataclass(slots=True)
class _Account:
    """An account with something to be served, and the accounts inside it that have."""

    name: str
    above: "_Account | None"
    depth: int = 0
    #: What the next to be served in it asks for; see `Standing.asked`.
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

    def put(self, lane: Lane, asked: Counts) -> None:
        """The next job to be served of the lane asks for this; see `Standing.asked`."""
        account = self._accounts.get(lane.own) or self._account(lane)
        if lane.own not in self._queues or account.asked != asked:
            self._queues.add(lane.own)
            account.asked = asked
            self._update(account)

    def remove(self, own: str) -> None:
        """No job of the queue with this account is left to be served."""
        self._queues.remove(own)
        self._update(self._accounts[own])

    def first(self) -> tuple[Turn, str] | None:
        """The turn of the queue that is next, and its own account; None: none is left."""
        self._follow()
        account = self._root
        while account is self._root or account.name not in self._queues:
            inner = self._first_in(account)
            if inner is None:
                return None
            account = inner
        assert self._root.inside, "there is one"
        return self._root.inside[0][0], account.name

    def _follow(self) -> None:
        """Bring the turns of queues up to date whose slots changed."""
        names = self._changes.news() if self._changes is not None else ()
        # whatever changed what an account holds changed that of all around it
        for account in sorted(filter(None, map(self._accounts.get, names)), key=lambda account: -account.depth):
            self._note(account)

    def _account(self, lane: Lane) -> _Account:
        above = self._root
        for name in lane.path or (lane.own,):
            account = self._accounts.get(name)
            if account is None:
                account = self._accounts[name] = _Account(name, above, above.depth + 1)
            above = account
        return above

    def _update(self, account: _Account) -> None:
        """Note the account's turn, and those around it."""
        each: _Account | None = account
        while each is not None and each is not self._root:
            self._note(each)
            each = each.above

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
            return FIRST if shares is None or not name else ((shares.place(name, account.asked),), shares.oldest(name))
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
