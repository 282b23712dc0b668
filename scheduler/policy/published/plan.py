"""Plans of published policies: the ordinary steps of the planner over the world as the policy sees it.

view            ranks, sizes and predicted ends as the policy has them
hold back       conservative backfill: jobs that would delay a promise do not take part
bounds, drain   as always
starts          in the policy's order, at the size or the minimum; more important jobs take from less important ones
share           elastic policies: targets, donors and growth
reasons         as always
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from scheduler.config import PolicySettings
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason, WaitReason
from scheduler.model.plan import Action, Plan, StopJob, Waiting
from scheduler.model.world import Changes, World
from scheduler.policy.draft import Draft
from scheduler.policy.published.growth import grow_to
from scheduler.policy.published.profile import held_back
from scheduler.policy.published.rebalance import Sharing
from scheduler.policy.published.rule import Backfill, Rule
from scheduler.policy.published.rules import RULES
from scheduler.policy.published.view import view
from scheduler.policy.resize.bounds import repair_below_minimum, shrink_over_maximum
from scheduler.policy.resize.drain import drain
from scheduler.policy.resize.relieve_oversold import relieve
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.snapshot.waiting_jobs import not_carried
from scheduler.policy.start.redraft import BackfillGains, decided
from scheduler.policy.start.starts import Starts


def published_plan(world: World, now: float, settings: PolicySettings) -> Plan:
    """The plan of the policy that the settings name."""
    rule = RULES[settings.name]
    apart = [job for job in world.queued.values() if job.spec.fixed is not None]
    seen = view(_without(world, apart), now, rule, settings)
    back = held_back(seen, now) if rule.backfill is Backfill.CONSERVATIVE else {}
    seen = seen.evolve(Changes(jobs=tuple(replace(seen.queued[k], state=JobState.SUSPENDED) for k in back)))
    draft = decided(Snapshot(seen, now, settings), partial(_decide, rule=rule))
    _look_at_key_changes(draft, world, rule, settings)
    made = draft.plan()
    actions = tuple(_named(world, action) for action in made.actions) if rule.stops_equals else made.actions
    back |= {job.id: Waiting(WaitReason.POLICY_WITHOUT_FIXED) for job in apart}
    waiting = {**made.waiting, **not_carried(world, back)}
    return replace(made, actions=actions, waiting=waiting)


def _without(world: World, apart: Sequence[Job]) -> World:
    """The world without these jobs: published policies know nothing of fixed groups."""
    return world.evolve(Changes(jobs=tuple(replace(job, state=JobState.SUSPENDED) for job in apart)))


def _decide(draft: Draft, backfill_gains: BackfillGains, rule: Rule) -> Job | None:
    relieve(draft)
    shrink_over_maximum(draft)
    drain(draft)
    repair_below_minimum(draft)
    starts = Starts(draft, backfill_gains, promises=rule.backfill is Backfill.EASY)
    starts.run()
    if rule.sizes is not None:
        Sharing(draft, rule.sizes).run()
    else:
        grow_to(draft, {job.id: job.max_workers for job in draft.world.active.values()})
    starts.explain()
    return starts.kept_back


def _named(world: World, action: Action) -> Action:
    """The action, as a rebalancing where ranks only made it look like a preemption among equals."""
    if not isinstance(action, StopJob) or action.reason is not StopReason.PREEMPTED or action.for_job is None:
        return action
    taker, loser = world.job(action.for_job), world.job(action.job_id)
    equals = taker is not None and loser is not None and taker.priority == loser.priority
    return replace(action, reason=StopReason.REBALANCED) if equals else action


def _look_at_key_changes(draft: Draft, world: World, rule: Rule, settings: PolicySettings) -> None:
    """While a job waits, a running job that falls behind may have to stop for it."""
    if rule.key_changes_at is None or not world.queued:
        return
    for job in world.active.values():
        when = rule.key_changes_at(job, draft.now, settings)
        if when < math.inf:
            draft.look_at(when)
