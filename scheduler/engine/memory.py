"""What an engine knows from its earlier ticks, beside the world. If it is lost, the next tick looks at everything."""

import math

from scheduler.config import Settings
from scheduler.engine.absorb.dirty_jobs import DirtyJobs
from scheduler.engine.apply.sent_actions import SentActions
from scheduler.engine.attribution.caution import Caution
from scheduler.engine.ports import TickInputs
from scheduler.engine.state.accounts import Accounts
from scheduler.engine.state.budgets import Budgets
from scheduler.engine.state.reports import Liveness, ReportBox
from scheduler.engine.timing.intake import Intake
from scheduler.engine.timing.wall_watch import WallWatch
from scheduler.model.event import EventKind
from scheduler.model.unreadable import Unreadable
from scheduler.model.world import Changes, World

#: A store that was away for longer than this number of intervals between ticks may have kept others from being heard.
_AWAY_INTERVALS_MAX = 3


class Memory:
    """Used by the engine's thread."""

    def __init__(self, settings: Settings, reports: ReportBox, caution: Caution | None) -> None:
        """`caution`: when ticks are rehearsed; None: never."""
        self.caution = caution
        self.liveness = Liveness(reports)
        self.dirty_jobs = DirtyJobs(settings.engine, self.liveness)
        self.sent = SentActions()
        self.wall = WallWatch()
        self.intake = Intake()
        self.accounts = Accounts(settings.policy.usage_half_life_seconds)
        self.budgets = Budgets()
        #: The plan stays empty until this time unless something that matters changes; None: it may not be empty.
        self.calm_until: float | None = None
        #: A new leader, or one whose store was away for longer, begins to hear anew.
        self._away_seconds_max = _AWAY_INTERVALS_MAX * settings.engine.tick_interval_seconds
        #: When the last tick of this term that was stored began; unix seconds.
        self._stored_at = -math.inf
        #: Rows of the world that could not be read when it was loaded last.
        self._unreadable: frozenset[Unreadable] = frozenset()
        #: The newest term in which this engine has led.
        self._term = 0

    def begin_term(self, term: int, *, outlived: bool) -> None:
        """Forget what it sent, heard and noticed before others led. `outlived`: the former leader may have died."""
        if term == self._term:
            return
        self._term, self._stored_at = term, -math.inf
        self.sent.clear()
        self.liveness.clear()
        self.wall.jump = None
        if outlived:
            self.be_careful()

    def be_careful(self) -> None:
        """Rehearse the next ticks: one failed, or a leader died."""
        if self.caution is not None:
            self.caution.begin()

    def take_over(self, world: World, now: float) -> None:
        """Go on with a world that was loaded. Silence counts anew where it may be that somebody could not be heard.

        Nobody could while the store was away, nor could workers of a job as long as it could not be read.
        """
        self.look_at_everything()
        self.accounts.begin(world)
        self.budgets.begin()
        mended = {row.job_id for row in self._unreadable - set(world.unreadable)}
        self._unreadable = frozenset(world.unreadable)
        jobs = (world.active.get(job_id) for job_id in mended if job_id is not None)
        self.liveness.hear_from(now, (worker for job in jobs if job is not None for worker in job.all_workers))
        if now - self._stored_at > self._away_seconds_max:
            self.liveness.since = now

    def look_at_everything(self) -> None:
        """Let the next tick look at every job and make a plan."""
        self.dirty_jobs.reset()
        self.calm_until = None

    def committed(self, inputs: TickInputs, changes: Changes) -> None:
        """Record that the changes which follow from these inputs are stored."""
        self._stored_at = inputs.now
        self.dirty_jobs.absorbed(inputs.observation)
        self.budgets.committed(changes.charges)
        self.liveness.reports.absorbed()
        if self.caution is not None:
            self.caution.passed()
        if any(event.kind is EventKind.JOB_RELEASED for event in changes.events):
            self.look_at_everything()  # what happened to its workers was not looked at

    def forget_ended(self, changes: Changes) -> None:
        """Drop workers that have ended, and nodes that are gone."""
        ended = [worker.id for worker in changes.workers if not worker.state.live]
        self.sent.forget(ended)
        self.liveness.forget(ended, [node.name for node in changes.forgotten])
