"""Does to a run what its plan says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, assert_never

from scheduler.errors import Conflict
from scheduler.model.booking import Booking
from scheduler.model.ids import WorkerId
from scheduler.model.intent import IntentKind
from scheduler.model.shape import WorkerShape
from tests.broken import hold
from tests.faults.plan import (
    AskJob,
    AskNode,
    Book,
    ChangeSlots,
    CrashWorker,
    DelayReports,
    Die,
    FailCalls,
    FailObservations,
    FailStore,
    Fault,
    Freeze,
    HangWorker,
    LoseNode,
    RepeatEnds,
    SeeLate,
    Stop,
    SubmitAgain,
    Unbook,
)

if TYPE_CHECKING:
    from tests.faults.run import Run

_T = TypeVar("_T")


def inflict(run: "Run", fault: Fault) -> object:
    """Do it; gives what it hit, None where there was nothing to hit."""
    cluster = run.cluster
    match fault:
        case CrashWorker():
            return _crash(run, fault)
        case HangWorker():
            return _hang(run, fault)
        case LoseNode():
            return run.lose_node(_pick(run.scenario.nodes, fault.pick).name, fault)
        case SeeLate():
            node = _pick(run.scenario.nodes, fault.pick)
            cluster.see_late(node.name, fault.lag_seconds)
            return node.name
        case RepeatEnds():
            cluster.repeat_forgotten = fault.on
        case DelayReports():
            run.mail.late_seconds, run.mail.twice = fault.seconds, fault.twice
        case FailCalls():
            cluster.action_faults += fault.outcomes
        case FailObservations():
            cluster.observe_failures += fault.count
        case FailStore():
            run.line.faults.append(fault)
        case Die() | Freeze() | Stop():
            run.leader.fate = fault
            return run.leader.holder
        case ChangeSlots():
            return _change_slots(run, fault)
        case AskJob():
            return _ask_job(run, fault)
        case AskNode():
            node = _pick(run.scenario.nodes, fault.pick)
            run.ask(fault.kind, node=node.name)
            return node.name
        case Book():
            return _book(run, fault)
        case Unbook():
            run.ask(IntentKind.UNBOOK, booking=fault.name)
            return fault.name
        case SubmitAgain():
            return _submit_again(run, fault)
        case _:
            assert_never(fault)
    return "all"


def _pick(things: Sequence[_T], pick: float) -> _T:
    return things[int(pick * len(things))]


def _crash(run: "Run", fault: CrashWorker) -> WorkerId | None:
    alive = [start.worker_id for _, start in run.cluster.alive()]
    if not alive:
        return None
    worker_id = _pick(alive, fault.pick)
    run.cluster.crash(worker_id, fault.exit_code)
    return worker_id


def _hang(run: "Run", fault: HangWorker) -> WorkerId | None:
    """Only workers that are watched: nobody promises to find others."""
    alive = [start.worker_id for _, start in run.cluster.alive() if run.watched(start.job_id)]
    if not alive:
        return None
    worker_id = _pick(alive, fault.pick)
    run.cluster.hang(worker_id)
    return worker_id


def _change_slots(run: "Run", fault: ChangeSlots) -> object:
    """Not where slots are oversold: how many more may be given out would follow from it."""
    node = _pick(run.scenario.nodes, fault.pick)
    if node.oversell > 1:
        return None
    run.cluster.add_node(replace(node, slots=fault.slots))
    run.wake()
    return node.name


def _ask_job(run: "Run", fault: AskJob) -> object:
    if not run.submitted:
        return None
    job_id = _pick(run.submitted, fault.pick)
    run.ask(
        fault.kind,
        job_id=job_id,
        priority=fault.priority,
        min_workers=fault.min_workers,
        max_workers=fault.max_workers,
    )
    return job_id


def _book(run: "Run", fault: Book) -> str:
    now = run.clock.now()
    start_at = now + fault.after_seconds
    shape = WorkerShape(slots=fault.slots_per_worker)
    booking = Booking(fault.name, start_at, start_at + fault.seconds, fault.workers, shape, now)
    try:
        run.store.add_booking(booking)
    except Conflict as error:
        return str(error)
    run.wake()
    return fault.name


def _submit_again(run: "Run", fault: SubmitAgain) -> object:
    if not run.submitted:
        return None
    position = int(fault.pick * len(run.submitted))
    spec = run.scenario.arrivals[position].spec
    (answer,) = run.store.submit([spec], run.clock.now())
    same = answer.id == run.submitted[position] and not answer.created
    hold(same, "I6", f"{spec.client_key} gave job {run.submitted[position]} and then {answer}")
    return answer.id
