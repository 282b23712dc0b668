"""Invariants of worlds and plans, checked independently of how the planner came to its decisions.

I1 capacity, I2 bounds, I4 uniqueness, I12 the order of fixed groups, and the index of a world; for a plan also I5: only
strictly more important jobs take, I11: what is booked is kept, I13 to I15: limits, entitlements and guarantees of
queues, and PLAN: actions that contradict each other or the state of their job.
"""

from scheduler.policy.checks.plan import check_plan
from scheduler.policy.checks.world import Violation, check_world

__all__ = ["QUEUE_INVARIANTS", "Violation", "check_plan", "check_world"]

#: What a queue gets too much of: it harms no node and no job.
QUEUE_INVARIANTS = frozenset({"I13", "I14", "I15"})
