"""Jobs of one priority that have workers above their minimum, and what they could give to an equal."""

from collections.abc import Collection, Iterable

import numpy as np

from scheduler.model.ids import JobId
from scheduler.policy.capacity.resources import Rows, no_rows, pour_rows
from scheduler.policy.snapshot.peers import Peers
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.taking import AMOUNT, WHERE
from scheduler.policy.snapshot.victim_table import Ints, Table, surplus


class EqualDonors:
    """Donors of one queue and priority, the smallest gain of the last worker first."""

    def __init__(self, snapshot: Snapshot, equals: Iterable[Peers], grown: Collection[JobId]) -> None:
        """`equals`: all of that queue and priority. `grown` are jobs that the draft made larger: they give nothing."""
        self._victim_table = snapshot.victim_table
        self._positions = len(snapshot.ledger.nodes)
        ranks = sorted(rank for peers in equals for rank in peers.donors)
        job_ids = [job_id for _, _, job_id in ranks if job_id not in grown]
        self._place = {job_id: k for k, job_id in enumerate(job_ids)}
        self._all = np.array([self._victim_table.at(job_id) for job_id in job_ids], np.int64)
        #: Records of donors that have something left to give, in order.
        self.records = self._with_surplus()
        #: The most that they can free on each node, and the records that are counted in it.
        self._sum: Rows | None = None
        self._counted = self._victim_table.table[self._all]
        #: Positions at which the sum changed, in order.
        self.log: list[int] = []

    def __bool__(self) -> bool:
        return len(self.records) > 0

    def most(self) -> Rows:
        """Upper bounds on what they can free on each node."""
        if self._sum is None:
            self._sum = no_rows(self._positions)
            self._counted = self._victim_table.table[self._all]
            self._count(self._sum, self._counted, 1)
        return self._sum

    def refresh(self, changed: Iterable[JobId]) -> None:
        """Count what the draft took from these jobs."""
        places = [self._place[job_id] for job_id in changed if job_id in self._place]
        if places:
            self.records = self._with_surplus()
        if places and self._sum is not None:
            self.log += self._count(self._sum, self._counted[places], -1)
            self._counted[places] = self._victim_table.table[self._all[places]]
            self._count(self._sum, self._counted[places], 1)

    def _with_surplus(self) -> Ints:
        return self._all[surplus(self._victim_table.table)[self._all] > 0]

    def _count(self, rows: Rows, table: Table, sign: int) -> list[int]:
        """Add what these could give to the rows; returns the positions."""
        gifts = self._victim_table.gifts_of(table)
        pour_rows(rows, gifts[:, WHERE], gifts[:, AMOUNT], sign)
        positions: list[int] = gifts[:, WHERE].tolist()
        return positions
