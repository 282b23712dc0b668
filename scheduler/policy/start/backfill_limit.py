"""What a job behind the blocked one may use."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model.job import Job
from scheduler.policy.capacity.resources import Amount, Headroom, Rows, row
from scheduler.policy.start.redraft import BackfillGains


@dataclass(frozen=True, slots=True)
class BackfillLimit:
    """Bounds of a job behind the blocked one: what that one leaves, and what less important jobs hold anyway."""

    headroom: Headroom
    #: Amounts held by jobs that are less important than this one, as the draft goes on.
    below: Rows
    #: Amounts that less important jobs hold, and would get by backfill.
    lent: Rows
    bounds: Headroom
    backfill_gains: BackfillGains
    #: Openings of the draft and uses of the backfill gains when the limit was made.
    state: tuple[int, int]

    def use(self, job: Job, amounts: Mapping[int, Amount]) -> None:
        """The job has these amounts now, by position."""
        for i, amount in amounts.items():
            self.headroom.use_beyond(row(self.lent, i), i, amount)
        self.backfill_gains.use(amounts, job.priority)
