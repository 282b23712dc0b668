"""The planner: from the world to what should change in it."""

from scheduler.config import PolicySettings
from scheduler.model.plan import Plan
from scheduler.model.world import World
from scheduler.policy.bounds import repair_below_minimum, shrink_over_maximum
from scheduler.policy.draft import Draft
from scheduler.policy.drain import drain
from scheduler.policy.grow import grow
from scheduler.policy.reasons import explain
from scheduler.policy.starts import Starts


def plan(world: World, now: float, settings: PolicySettings) -> Plan:
    """What should change now: the same world gives the same plan, and a settled world an empty one.

    `now` is in unix seconds. `waiting` names only the jobs whose reason differs from the one that they carry.
    """
    draft = Draft(world, now, settings)
    # 1. Running jobs come back inside their bounds and off the nodes that are being emptied.
    shrink_over_maximum(draft)
    drain(draft)
    repair_below_minimum(draft)
    # 2. The queue, in order: start, else take what is being freed, else preempt, else wait.
    starts = Starts(draft)
    starts.run()
    # 3. What nobody waits for goes to elastic jobs.
    grow(draft, starts.blocked)
    # 4. Every job that is left has a reason.
    explain(draft, starts.left, starts.blocked)
    return draft.plan()
