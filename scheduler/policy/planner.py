"""The planner: turns a world into a plan of what should change in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.config import PolicySettings
from scheduler.model.job import Job
from scheduler.model.plan import Plan
from scheduler.model.world import World
from scheduler.policy.draft import Draft
from scheduler.policy.overlay.booking_guard import plan_around
from scheduler.policy.overlay.foreign_demands import plan_beside_others
from scheduler.policy.published.plan import published_plan
from scheduler.policy.resize.bounds import repair_below_minimum, shrink_over_maximum
from scheduler.policy.resize.drain import drain
from scheduler.policy.resize.give_back import give_back
from scheduler.policy.resize.grow import GrowthRound
from scheduler.policy.resize.rebalance import share
from scheduler.policy.resize.reclaim import Reclaims
from scheduler.policy.resize.relieve_oversold import relieve
from scheduler.policy.snapshot.snapshot import Snapshot
from scheduler.policy.start.backfill import HeadReservation
from scheduler.policy.start.redraft import BackfillGains, decided
from scheduler.policy.start.starts import Starts


def _stopped_clock() -> float:
    return 0.0


class Planner:
    """Makes plans for one world after the other, and looks only at what changed since the last one.

    A plan depends on the world, the moment and the settings alone, never on what the planner remembers. Only one that
    takes too long may end early.
    """

    def __init__(self, settings: PolicySettings, monotonic: Callable[[], float] = _stopped_clock) -> None:
        """`monotonic`: a clock in seconds, for plans that end early; without one, none does."""
        self._settings = settings
        self._monotonic = monotonic
        self._began = 0.0
        self._snapshot: Snapshot | None = None

    def plan(self, world: World, now: float) -> Plan:
        """The changes to make now; a settled world gives an empty plan.

        `now` is in unix seconds. `waiting` names only the jobs whose reason differs from the one that they carry.
        """
        self._began = self._monotonic()
        return plan_beside_others(world, now, lambda seen: self._plan_for(seen, now))

    def _seconds(self) -> float:
        return self._monotonic() - self._began

    def _plan_for(self, world: World, now: float) -> Plan:
        if self._settings.name != "elastic":
            return published_plan(world.with_queues({}), now, self._settings)
        return plan_around(world, now, self._settings, lambda seen: self._plan(seen, now))

    def _plan(self, world: World, now: float) -> Plan:
        snapshot, self._snapshot = self._snapshot, None  # what an error leaves half done is not used again
        if snapshot is None or not snapshot.follow(world, now):
            snapshot = Snapshot(world, now, self._settings, self._seconds)
        made = decided(snapshot, lambda draft, backfill_gains: decide(draft, backfill_gains).kept_back).plan()
        snapshot.rollback()
        self._snapshot = snapshot
        return made


def plan(world: World, now: float, settings: PolicySettings) -> Plan:
    """The plan of a planner that has seen nothing before."""
    return Planner(settings).plan(world, now)


class Planned(NamedTuple):
    """A plan, and what it was made of; None under published policies, where only the plan is known."""

    plan: Plan
    draft: Draft | None = None
    head_reservation: HeadReservation | None = None
    growth_round: GrowthRound | None = None


def planned(world: World, now: float, settings: PolicySettings) -> Planned:
    """The plan of a planner that has seen nothing before, with its draft."""
    if settings.name != "elastic":
        return Planned(plan(world, now, settings))
    seen: list[tuple[Draft, Decided]] = []

    def make(seen_world: World) -> Plan:
        decisions: list[Decided] = []

        def note(draft: Draft, backfill_gains: BackfillGains) -> Job | None:
            decisions.append(decide(draft, backfill_gains))
            return decisions[-1].kept_back

        draft = decided(Snapshot(seen_world, now, settings), note)
        seen.append((draft, decisions[-1]))
        return draft.plan()

    made = plan_beside_others(world, now, lambda beside: plan_around(beside, now, settings, make))
    draft, decision = seen[-1]
    return Planned(made, draft, decision.head_reservation, decision.growth_round)


@dataclass(frozen=True, slots=True)
class Decided:
    """Results of the decisions besides the draft."""

    #: The reservation of the first job that could not be placed.
    head_reservation: HeadReservation | None
    #: The most important job of its queue that waits behind it.
    kept_back: Job | None
    growth_round: GrowthRound


def serve_in_turn(starts: Starts, growth_round: GrowthRound) -> None:
    """Serve the queue that holds least of what it is entitled to, again and again; of one queue, starts come first."""
    while True:
        start, growth = starts.turn(), growth_round.turn()
        if start is not None and (growth is None or start <= growth):
            starts.serve()
        elif growth is not None:
            growth_round.serve()
        else:
            return


def decide(draft: Draft, backfill_gains: BackfillGains) -> Decided:
    """Write all decisions into the draft."""
    # 1. Running jobs come off crowded slots and nodes that are being emptied, back inside their bounds, and back to
    #    the size at which they were faster.
    relieve(draft)
    shrink_over_maximum(draft)
    give_back(draft)
    drain(draft)
    repair_below_minimum(draft)
    # 2. Each queue, in turn and in order: start, else take what is being freed, else preempt, else wait; when none of
    #    its jobs starts any more, slots that are left over go to its elastic jobs.
    starts = Starts(draft, backfill_gains)
    reclaims = Reclaims(draft, starts.victims, starts.hopes)
    growth_round = GrowthRound(draft, lambda: starts.head_reservation, reclaims.claim)
    serve_in_turn(starts, growth_round)
    growth_round.place()
    reclaims.release()
    # 3. Equals share.
    share(draft, growth_round, starts.head_reservation)
    # 4. Every job that is left has a reason.
    starts.explain()
    return Decided(starts.head_reservation, starts.kept_back, growth_round)
