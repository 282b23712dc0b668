"""How the engine does: ticks, their phases, what failed in them; and who leads."""

from scheduler.engine.ports import ForgetWorker, StartWorker, StopWorker
from scheduler.engine.tick import Step, TickReport
from scheduler.metrics.metric import Metric, each, known
from scheduler.metrics.recorder import Recorder
from scheduler.model.event import EventKind

TICK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

#: Of each step of a tick, what is done up to it.
PHASES = {
    Step.LEASED: "lease",
    Step.OBSERVED: "observe",
    Step.INBOX_TAKEN: "inbox",
    Step.ABSORBED: "absorb",
    Step.PLANNED: "plan",
    Step.COMMITTED: "commit",
    Step.POSTED: "post",
    Step.APPLIED: "apply",
}
_ACTIONS = (StartWorker.__name__, StopWorker.__name__, ForgetWorker.__name__)
#: As `policy.checks` names them in plans, and ACCOUNTS for those of queues that cannot be kept.
_INVARIANTS = ("I1", "I2", "I5", "I11", "I13", "I14", "I15", "PLAN", "ACCOUNTS")
_RESULTS = ("ok", "error", "standby")

TICK_METRICS = (
    Metric("sched_leading", "gauge", (), "1 while this daemon leads."),
    Metric(
        "sched_term",
        "gauge",
        (),
        "Number of the current leadership term known to this daemon; 0: no leader.",
    ),
    Metric(
        "sched_lease_seconds",
        "gauge",
        (),
        "Time after which a standby replaces this daemon; longer than engine.lease_seconds while writes are slow.",
        watched=True,
    ),
    Metric(
        "sched_late_ticks_total",
        "counter",
        (),
        "Ticks after which no worker could be started or stopped, because the lease had ended before.",
    ),
    Metric(
        "sched_clock_ahead_seconds",
        "gauge",
        (),
        "Clock of the machine, less the clock that durations are measured by, which nobody can set.",
        watched=True,
    ),
    Metric(
        "sched_clock_jumps_total",
        "counter",
        (),
        "Times that the clock of the machine was found to be set; durations do not change.",
    ),
    Metric(
        "sched_troubles",
        "gauge",
        (),
        "What is wrong although jobs are decided on, as `sched health` lists it.",
        watched=True,
    ),
    Metric("sched_build_info", "gauge", ("version",), "1, with the version of the daemon as a label."),
    Metric("sched_tick_duration_seconds", "histogram", (), "Duration of a tick.", TICK_BUCKETS),
    Metric(
        "sched_tick_phase_seconds",
        "histogram",
        ("phase",),
        "Duration of each phase of a tick of the daemon that leads: lease (and load), observe, inbox, absorb, plan, "
        "commit, post, apply.",
        TICK_BUCKETS,
        each(PHASES.values()),
    ),
    Metric(
        "sched_ticks_total",
        "counter",
        ("result",),
        "Ticks: ok, error (database or cluster unavailable), standby (another daemon leads).",
        series=each(_RESULTS),
    ),
    Metric(
        "sched_tick_crashes_total",
        "counter",
        (),
        "Ticks that failed with an internal error; the state is reloaded after each.",
    ),
    Metric(
        "sched_action_failures_total",
        "counter",
        ("action",),
        "Starts and stops of workers that failed and are retried.",
        series=each(_ACTIONS),
    ),
    Metric(
        "sched_invariant_violations_total",
        "counter",
        ("invariant",),
        "Violations of invariants: such a plan is dropped, unless it only gives a queue too much (I13 to I15), or what "
        "queues hold cannot be counted (ACCOUNTS).",
        series=each(_INVARIANTS),
    ),
)


def take_tick(recorder: Recorder, report: TickReport) -> None:
    """Count what the report tells of the tick itself."""
    result = "error" if report.error is not None else "standby" if report.following else "ok"
    recorder.count("sched_ticks_total", result=result)
    recorder.observe("sched_tick_duration_seconds", report.duration_seconds)
    for step, seconds in report.steps:
        recorder.observe("sched_tick_phase_seconds", seconds, {"phase": PHASES[step]})
    if report.late:
        recorder.count("sched_late_ticks_total")
    for event in report.events:
        if event.kind is EventKind.CLOCK_JUMPED:
            recorder.count("sched_clock_jumps_total")
    for violation in report.violations:
        recorder.count("sched_invariant_violations_total", invariant=known(violation.invariant, _INVARIANTS))
    for failure in report.action_failures:
        recorder.count("sched_action_failures_total", action=type(failure.action).__name__)
