"""Prometheus metrics: counters and histograms from each tick's report, levels read from the board at every scrape.

`METRICS` names and explains all of them. Labels are bounded by the cluster (nodes) or by enums, never by jobs.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.engine.board import Board
from scheduler.engine.tick import TickReport
from scheduler.model.event import Event, EventKind
from scheduler.model.foreign import NO_FOREIGN
from scheduler.model.ids import JobId, NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job import JobState, StopReason, WaitReason
from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.worker import ExitReason, LeaveReason, WorkerState
from scheduler.model.world import NO_USAGE, World


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS: tuple[Metric, ...] = (
    Metric(
        "sched_slots",
        "gauge",
        ("node", "state"),
        "Slots by state: free, used, foreign (held by others than workers), reserved (held for a job), unavailable.",
    ),
    Metric(
        "sched_oversold_slots",
        "gauge",
        ("node", "state"),
        "Slots beyond the physical ones, for jobs that accept to share: free, used, reserved, unavailable.",
    ),
    Metric("sched_crowded_slots", "gauge", ("node",), "Slots whose load is or was above a limit of overselling."),
    Metric(
        "sched_utilization_ratio",
        "gauge",
        (),
        "Used slots in relation to all slots of nodes that are up; 0 without nodes.",
    ),
    Metric("sched_nodes", "gauge", ("health", "intent"), "Nodes by health and intent."),
    Metric(
        "sched_jobs",
        "gauge",
        ("state", "priority_class"),
        "Jobs that have not ended; the class is the lower bound of its priorities.",
    ),
    Metric("sched_waiting_jobs", "gauge", ("reason",), "Queued jobs by the reason why they wait."),
    Metric("sched_oldest_wait_seconds", "gauge", (), "How long the job has waited that waits longest."),
    Metric("sched_workers", "gauge", ("state",), "Live workers by state; leaving: asked to leave."),
    Metric("sched_leading", "gauge", (), "1 while this daemon leads."),
    Metric("sched_term", "gauge", (), "Number of the present leadership as this daemon knows it; 0: nobody leads."),
    Metric("sched_job_wait_seconds", "histogram", ("priority_class",), "From being queued to being started."),
    Metric(
        "sched_preempt_to_running_seconds",
        "histogram",
        (),
        "From the first worker that was asked to leave for a job until the job ran.",
    ),
    Metric("sched_jobs_ended_total", "counter", ("state",), "Jobs that ended, by how."),
    Metric("sched_jobs_started_total", "counter", (), "Starts of jobs, repeated ones too."),
    Metric("sched_resizes_total", "counter", ("direction",), "Resizes of running jobs: grow or shrink."),
    Metric(
        "sched_preemptions_total",
        "counter",
        ("how",),
        "Times that a job lost slots to another one: shrink or stop.",
    ),
    Metric(
        "sched_job_requeues_total",
        "counter",
        ("cause",),
        "Stopped jobs that went back to the queue, by why they were stopped.",
    ),
    Metric(
        "sched_worker_restarts_total",
        "counter",
        ("cause",),
        "Failed workers that were replaced while the others went on.",
    ),
    Metric("sched_workers_ended_total", "counter", ("cause",), "Workers that ended, by what that meant."),
    Metric(
        "sched_lost_work_slot_seconds_total",
        "counter",
        ("cause",),
        "Work since the last commit that was lost, times slots.",
    ),
    Metric("sched_tick_duration_seconds", "histogram", (), "Duration of a tick."),
    Metric(
        "sched_ticks_total",
        "counter",
        ("result",),
        "Ticks: ok, error (store or cluster away), standby (another daemon leads).",
    ),
    Metric(
        "sched_tick_crashes_total", "counter", (), "Ticks that ended by a defect; the world is loaded again after each."
    ),
    Metric(
        "sched_action_failures_total",
        "counter",
        ("action",),
        "Starts and stops of workers that the cluster could not do at once.",
    ),
    Metric(
        "sched_invariant_violations_total",
        "counter",
        ("invariant",),
        "Plans that were dropped since they broke an invariant.",
    ),
    Metric(
        "sched_requests_refused_total",
        "counter",
        ("intent",),
        "Users' requests that could no longer be done when their turn came.",
    ),
    Metric("sched_discover_hosts_answers_total", "counter", (), "Host lists given at once from memory."),
    Metric("sched_long_polls", "gauge", ("what",), "Requests that wait for news: of hosts, of events."),
)

#: Lower bounds of priority classes where the operator named no ceilings: powers of ten, as people use priorities.
DEFAULT_CLASSES = (0, 10, 100, 1000)
LOWEST_CLASS = "below"

_WAIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_PREEMPT_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10, 30, 60, 300)
_TICK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BUCKETS = {
    "sched_job_wait_seconds": _WAIT_BUCKETS,
    "sched_preempt_to_running_seconds": _PREEMPT_BUCKETS,
    "sched_tick_duration_seconds": _TICK_BUCKETS,
}

#: Counters that others keep.
_WATCHED = frozenset({"sched_discover_hosts_answers_total"})
_Family = GaugeMetricFamily | CounterMetricFamily

#: Values of labels that are enums; what a newer engine adds is counted as `other`.
OTHER = "other"
_CAUSES = frozenset({*StopReason, *LeaveReason, *ExitReason})

#: Beneficiaries of preemptions that may be waited for at once; older ones are given up.
_PENDING_MAX = 10_000


class Metrics:
    """One daemon's metrics, in a registry of their own. `observe` is called on the engine's thread, `render` on any."""

    def __init__(self, board: Board, priority_classes: Iterable[int], now: Callable[[], float]) -> None:
        """`priority_classes` are ascending lower bounds; empty: `DEFAULT_CLASSES`."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when a counter began tells nobody anything
        self._registry = CollectorRegistry()
        self._classes = tuple(sorted(priority_classes)) or DEFAULT_CLASSES
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in METRICS:
            if metric.kind == "counter" and metric.name not in _WATCHED:
                counter = Counter(
                    metric.name.removesuffix("_total"), metric.help, metric.labels, registry=self._registry
                )
                self._counters[metric.name] = counter
            elif metric.kind == "histogram":
                self._histograms[metric.name] = Histogram(
                    metric.name, metric.help, metric.labels, buckets=_BUCKETS[metric.name], registry=self._registry
                )
        self._levels = _Levels(board, self._classes, now)
        self._registry.register(self._levels)
        #: When the first worker was asked to leave for a job that does not run yet.
        self._asked_at: dict[JobId, float] = {}

    def render(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter of `METRICS`."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def watch(self, name: str, level: Callable[[], float], **labels: str) -> None:
        """Read a gauge, or a counter that somebody else keeps, at every scrape."""
        self._levels.watched.append((name, labels, level))

    def observe(self, report: TickReport) -> None:
        """Take in what a tick did."""
        self._levels.leading = report.leading
        result = "error" if report.error is not None else "standby" if report.following else "ok"
        self.count("sched_ticks_total", result=result)
        self._histograms["sched_tick_duration_seconds"].observe(report.duration_seconds)
        for violation in report.violations:
            self.count("sched_invariant_violations_total", invariant=violation.invariant)
        for failure in report.action_failures:
            self.count("sched_action_failures_total", action=type(failure.action).__name__)
        priorities = {job.id: job.priority for job in report.changed}
        for event in report.events:
            self._take(event, priorities)

    def _take(self, event: Event, priorities: dict[JobId, int]) -> None:
        match event.kind:
            case EventKind.JOB_STARTED:
                self.count("sched_jobs_started_total")
                if event.job_id is not None and event.amount is not None:
                    name = priority_class(priorities.get(event.job_id, 0), self._classes)
                    self._histograms["sched_job_wait_seconds"].labels(priority_class=name).observe(event.amount)
            case EventKind.JOB_RUNNING:
                asked_at = self._asked_at.pop(event.job_id, None) if event.job_id is not None else None
                if asked_at is not None:
                    self._histograms["sched_preempt_to_running_seconds"].observe(max(0.0, event.at - asked_at))
            case EventKind.JOB_GREW:
                self.count("sched_resizes_total", direction="grow")
            case EventKind.JOB_SHRANK:
                self.count("sched_resizes_total", direction="shrink")
                self._preempted(event, "shrink")
            case EventKind.JOB_STOPPING:
                self._preempted(event, "stop")
                self._lost_work(event)
            case EventKind.JOB_REQUEUED:
                self.count("sched_job_requeues_total", cause=_known(event.cause, _CAUSES))
            case EventKind.WORKER_REPLACED:
                self.count("sched_worker_restarts_total", cause=_known(event.cause, _CAUSES))
            case EventKind.WORKER_ENDED:
                self.count("sched_workers_ended_total", cause=_known(event.cause, _CAUSES))
                self._lost_work(event)
            case EventKind.JOB_SUCCEEDED | EventKind.JOB_FAILED | EventKind.JOB_CANCELLED:
                self.count("sched_jobs_ended_total", state=event.kind.removeprefix("JOB_"))
                if event.job_id is not None:
                    self._asked_at.pop(event.job_id, None)
            case EventKind.REQUEST_REFUSED:
                self.count("sched_requests_refused_total", intent=_known(event.cause, frozenset(IntentKind)))
            case _:
                pass

    def _preempted(self, event: Event, how: str) -> None:
        if event.cause not in (StopReason.PREEMPTED, StopReason.REBALANCED):
            return
        self.count("sched_preemptions_total", how=how)
        if event.for_job is not None:
            self._asked_at.setdefault(event.for_job, event.at)
            if len(self._asked_at) > _PENDING_MAX:
                del self._asked_at[next(iter(self._asked_at))]

    def _lost_work(self, event: Event) -> None:
        if event.amount:
            self.count("sched_lost_work_slot_seconds_total", event.amount, cause=_known(event.cause, _CAUSES))


def priority_class(priority: int, classes: tuple[int, ...]) -> str:
    """The largest lower bound that the priority reaches."""
    reached = [bound for bound in classes if bound <= priority]
    return str(reached[-1]) if reached else LOWEST_CLASS


def _known(value: str, values: frozenset[str]) -> str:
    return value if value in values else OTHER


class _Levels(Collector):
    """What is now, read from the world at every scrape."""

    def __init__(self, board: Board, classes: tuple[int, ...], now: Callable[[], float]) -> None:
        self._board = board
        self._classes = classes
        self._now = now
        self.leading = False
        self.watched: list[tuple[str, dict[str, str], Callable[[], float]]] = []

    def describe(self) -> Iterable[_Family]:
        return _families().values()

    def collect(self) -> Iterator[_Family]:
        """A standby or a daemon that has not loaded its world says only that it does not lead."""
        families = _families()
        families["sched_leading"].add_metric([], float(self.leading))
        for name, labels, level in self.watched:
            families[name].add_metric(list(labels.values()), level())
        world = self._board.world
        if world is not None and self.leading:
            _add_slots(families, world)
            _add_jobs(families, world, self._classes, self._now())
        yield from families.values()


def _families() -> dict[str, _Family]:
    """An empty family of each metric that is read at scrapes."""
    families: dict[str, _Family] = {}
    for metric in METRICS:
        if metric.kind == "gauge":
            families[metric.name] = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        elif metric.name in _WATCHED:
            families[metric.name] = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    return families


def _add_slots(families: dict[str, _Family], world: World) -> None:
    #: By node and whether they are shared.
    reserved: Tally[tuple[NodeName, bool]] = Tally()
    for job in world.queued.values():
        for name, workers in job.reservation:
            reserved[name, job.reservation_shared] += workers * job.shape.slots
    strays: Tally[tuple[NodeName, bool]] = Tally()
    for stray in world.strays.values():
        strays[stray.node, stray.shared] += len(stray.slot_ids)
    total = busy = 0
    for node in world.nodes.values():
        usage = world.usage.get(node.name, NO_USAGE)
        used = min(node.slots, usage.slots + strays[node.name, False])
        foreign = min(node.slots - used, world.foreign.get(node.name, NO_FOREIGN).slots)
        families["sched_slots"].add_metric([node.name, "foreign"], foreign)
        for state, slots in _slots_of(node, node.slots - foreign, used, reserved[node.name, False]):
            families["sched_slots"].add_metric([node.name, state], slots)
        shared = min(node.extra_slots, usage.slots_shared + strays[node.name, True])
        for state, slots in _slots_of(node, node.extra_slots, shared, reserved[node.name, True]):
            families["sched_oversold_slots"].add_metric([node.name, state], slots)
        families["sched_crowded_slots"].add_metric([node.name], len(world.crowded.get(node.name, ())))
        if node.health is NodeHealth.UP:
            total += node.slots
            busy += used
    families["sched_utilization_ratio"].add_metric([], busy / total if total else 0.0)
    for health in NodeHealth:
        for intent in NodeIntent:
            count = sum(node.health is health and node.intent is intent for node in world.nodes.values())
            families["sched_nodes"].add_metric([health, intent], count)


def _slots_of(node: Node, slots: int, used: int, reserved: int) -> Iterator[tuple[str, int]]:
    left = slots - used
    held = min(left, reserved) if node.schedulable else 0
    yield "used", used
    yield "reserved", held
    yield "free", left - held if node.schedulable else 0
    yield "unavailable", 0 if node.schedulable else left


def _add_jobs(families: dict[str, _Family], world: World, classes: tuple[int, ...], now: float) -> None:
    names = [LOWEST_CLASS, *map(str, classes)]
    jobs: Tally[tuple[JobState, str]] = Tally()
    waiting: Tally[WaitReason] = Tally()
    workers: Tally[str] = Tally()
    for job in world.all_jobs():
        jobs[job.state, priority_class(job.priority, classes)] += 1
        if job.state is JobState.QUEUED:
            waiting[job.wait_reason or WaitReason.SUBMITTED] += 1
        for worker in job.all_workers:
            workers[worker.state if worker.wanted else "leaving"] += 1
    for state in JobState:
        for name in names if not state.terminal else ():
            families["sched_jobs"].add_metric([state, name], jobs[state, name])
    for reason in WaitReason:
        families["sched_waiting_jobs"].add_metric([reason], waiting[reason])
    for worker_state in (*(state.value for state in WorkerState if state.live), "leaving"):
        families["sched_workers"].add_metric([worker_state], workers[worker_state])
    longest = max((now - job.queued_at for job in world.queued.values()), default=0.0)
    families["sched_oldest_wait_seconds"].add_metric([], max(0.0, longest))
