"""The parts in which published policies differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job import Job

#: A job's place among its equals at a moment, smaller first; ties are broken by age, then id.
Key = Callable[[Job, float, PolicySettings], float]
#: (jobs of one priority, in order; slots that they may use together; now; the settings) to workers per job.
#: With 0 a job does not run.
Sizes = Callable[[Sequence[Job], int, float, PolicySettings], Mapping[JobId, int]]
#: When the key of a running job changes next; infinite: no moment is known.
KeyChange = Callable[[Job, float, PolicySettings], float]


class Backfill(Enum):
    """How waiting jobs are protected from those behind them."""

    #: Not at all: every job that fits now starts.
    FIRST_FIT = "FIRST_FIT"
    #: The first job that does not fit has a promised start.
    EASY = "EASY"
    #: Every waiting job has a promised start.
    CONSERVATIVE = "CONSERVATIVE"


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy among jobs of the same priority. Priorities themselves always come first."""

    #: None: first come, first served.
    key: Key | None = None
    #: None: every job has its preferred size, and keeps it.
    sizes: Sizes | None = None
    backfill: Backfill = Backfill.FIRST_FIT
    #: Whether a running job is stopped for one that goes before it.
    stops_equals: bool = False
    key_changes_at: KeyChange | None = None
