"""Jobs that may lose workers, by the queue that they belong to, side by side in arrays."""

from itertools import chain

import numpy as np

from scheduler.model.ids import JobId
from scheduler.policy.queues.shares import Shares, kind_of
from scheduler.policy.queues.tree import Lane
from scheduler.policy.snapshot.usage_index import UsageIndex
from scheduler.policy.snapshot.victim_table import Bools, Ints, VictimTable


class LaneTable:
    """Lanes and slots of jobs, by record of the victim table."""

    def __init__(self, victim_table: VictimTable, usages: UsageIndex, shares: Shares) -> None:
        jobs = [usages[JobId(job_id)] for job_id in victim_table.table["job"].tolist()]
        each = [shares.tree.lane_of(usage.job) for usage in jobs]
        #: Every lane once, and by record the index of its lane.
        self.lanes: list[Lane] = list(dict.fromkeys(each))
        index = {lane: k for k, lane in enumerate(self.lanes)}
        self.lane: Ints = np.array([index[lane] for lane in each], np.int64)
        #: Slots of each worker, of the fixed group, and the kind of its GPU type.
        self.slots: Ints = np.array([usage.job.shape.slots for usage in jobs], np.int64)
        counts = [shares.standing.counts(usage.held) for usage in jobs]
        fixed = [shares.standing.counts(chain.from_iterable(usage.fixed_each))[0] for usage in jobs]
        self.fixed_slots: Ints = np.array(fixed, np.int64)
        self.kind: Ints = np.array(list(map(kind_of, counts)), np.int64)
        #: Whether it holds slots that count.
        self.counted: Bools = np.array([count[0] > 0 for count in counts], np.bool_)

    def in_queue(self, own: str) -> Bools:
        """By record: whether the job is in the queue with this account."""
        same = np.array([lane.own == own for lane in self.lanes], np.bool_)
        return same[self.lane] if len(same) else np.zeros(0, np.bool_)
