"""What each node would have if a job took all that it may take: an upper bound, quickly asked for any shape."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from scheduler.model.job import Job
from scheduler.policy.amounts import Amount, Rows, Spare, fit_in_rows, pour
from scheduler.policy.draft import Draft
from scheduler.policy.givers import Givers
from scheduler.policy.ledger import View
from scheduler.policy.place import Suited
from scheduler.policy.victim import own_part

Ints = npt.NDArray[np.int64]


class Room:
    """The room for jobs of one priority; follows the draft through the logs of the ledger and of the givers."""

    def __init__(
        self,
        draft: Draft,
        priority: int,
        spare: Spare | None,
        sharers: Callable[[], Iterable[Job]],
        givers: Givers | None = None,
    ) -> None:
        """`sharers` of the same priority leave for those with own slots; `givers` give above their minimum."""
        self._draft = draft
        self._priority = priority
        self._spare = spare
        self._sharers = sharers
        self._givers = givers
        self._rows = self._at(slice(None))
        self._read = self._written()
        #: Positions that changed, one array per time.
        self._changes: list[Ints] = []
        #: By shape: the changes that it has seen, how many workers each node would take, and all of each kind.
        self._fits: dict[Suited, tuple[int, Ints, Ints]] = {}

    def most(self, suited: Suited) -> int:
        """The most workers that would fit on nodes of one kind."""
        self._follow()
        if suited in self._fits:
            seen, fit, totals = self._fits[suited]
            if seen < len(self._changes):
                self._update(suited, fit, totals, np.unique(np.concatenate(self._changes[seen:])))
        else:
            fit = fit_in_rows(suited.need, self._rows)
            totals = np.array([fit[positions].sum() for positions in suited.by_type.values()], np.int64)
        self._fits[suited] = (len(self._changes), fit, totals)
        return int(totals.max(initial=0))

    def _update(self, suited: Suited, fit: Ints, totals: Ints, changed: Ints) -> None:
        changed = changed[suited.mask[changed]]
        now = fit_in_rows(suited.need, self._rows[changed])
        np.add.at(totals, suited.kinds[changed], now - fit[changed])
        fit[changed] = now

    def _follow(self) -> None:
        written = self._written()
        if written != self._read:
            changed = {*self._draft.ledger.log[self._read[0] :]}
            if self._givers is not None:
                changed.update(self._givers.log[self._read[1] :])
            positions = np.array(sorted(changed), np.int64)
            self._rows[positions] = self._at(positions)
            self._changes.append(positions)
            self._read = written

    def _written(self) -> tuple[int, int]:
        return len(self._draft.ledger.log), len(self._givers.log) if self._givers is not None else 0

    def _at(self, positions: Ints | slice) -> Rows:
        draft = self._draft
        room = draft.ledger.rows_at(positions, View.SOON)
        room += draft.stakes.below(self._priority)[positions]
        pieces = self._besides()
        if pieces:
            besides = np.zeros((len(draft.ledger.nodes), 3), np.int64)
            pour(besides, pieces)
            room += besides[positions]
        if self._givers is not None:
            room += self._givers.most()[positions]
        return room if self._spare is None else self._spare.within(room, positions)

    def _besides(self) -> list[tuple[int, Amount]]:
        """Reservations of less important jobs, and what sharers hold beside their own slots."""
        draft = self._draft
        pieces: list[tuple[int, Amount]] = []
        for holder in draft.holders_below(self._priority):
            pieces += draft.places.amounts(draft.holding[holder.id], holder.shape)
        if draft.ledger.oversold:
            for sharer in self._sharers():
                pieces += own_part(draft.held(sharer), draft.ledger)
        return pieces
