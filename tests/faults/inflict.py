"""Does to a run what its plan says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, assert_never

from scheduler.errors import Conflict, UserError
from scheduler.http.routes.bookings import LATE_SECONDS
from scheduler.model.booking import Booking
from scheduler.model.foreign import Demand
from scheduler.model.ids import JobId, WorkerId
from scheduler.model.intent import IntentKind
from scheduler.model.queue import Queue
from scheduler.model.shape import WorkerShape
from tests.faults.kinds import (
    AskJob,
    AskNode,
    Book,
    ChangeNode,
    ChangeSlots,
    CloseSlots,
    Come,
    CrashJob,
    CrashWorker,
    CutOff,
    DelayReports,
    DeleteQueue,
    Die,
    FailCalls,
    FailObservations,
    FailStore,
    Fault,
    Freeze,
    Go,
    HangWorker,
    HoldUp,
    Jump,
    LoseNode,
    Reboot,
    Reconfigure,
    RepeatEnds,
    ScaleResizing,
    SeeLate,
    SetQueue,
    SlowCommits,
    SlowObservations,
    Spoil,
    Stop,
    SubmitAgain,
    Suspend,
    TakeRoom,
    Unbook,
)
from tests.invariants.broken import hold

if TYPE_CHECKING:
    from tests.faults.run import Run

_T = TypeVar("_T")


def inflict(run: "Run", fault: Fault) -> object:
    """Do it; gives what it hit, None where there was nothing to hit."""
    cluster = run.cluster
    match fault:
        case CrashWorker():
            return _crash(run, fault)
        case CrashJob():
            return _crash_job(run, fault)
        case HangWorker():
            return _hang(run, fault)
        case LoseNode():
            return run.lose_node(pick(run.scenario.nodes, fault.pick).name, fault)
        case SeeLate():
            node = pick(run.scenario.nodes, fault.pick)
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
        case Die() | Freeze() | Suspend() | Reboot() | Stop() | Reconfigure():
            run.leader.fate = fault
            return run.leader.holder
        case SlowCommits():
            for daemon in run.daemons:
                daemon.commit_seconds = fault.seconds
        case SlowObservations():
            for daemon in run.daemons:
                daemon.observe_seconds = fault.seconds
        case ChangeSlots():
            return _change_slots(run, fault)
        case AskJob():
            return _ask_job(run, fault)
        case AskNode():
            node = pick(run.scenario.nodes, fault.pick)
            run.ask(fault.kind, node=node.name)
            return node.name
        case Book():
            return _book(run, fault)
        case Unbook():
            run.ask(IntentKind.UNBOOK, booking=fault.name)
            return fault.name
        case SetQueue():
            return _set_queue(run, fault)
        case DeleteQueue():
            return _delete_queue(run, fault)
        case SubmitAgain():
            return _submit_again(run, fault)
        case ChangeNode():
            return _change_node(run, fault)
        case CloseSlots():
            return _close_slots(run, fault)
        case Come() | Go() | TakeRoom() | HoldUp():
            return _move_others(run, fault)
        case ScaleResizing():
            run.edits.append(fault)
        case CutOff():
            daemon = pick(run.daemons, fault.pick)
            daemon.cut_off_until = run.clock.now() + fault.seconds
            return daemon.holder
        case Spoil():
            return run.spoilt.spoil(fault)
        case Jump():
            daemon = pick(run.daemons, fault.pick)
            daemon.machine.jump(fault.seconds)
            return daemon.holder
        case _:
            assert_never(fault)
    return "all"


def pick(things: Sequence[_T], share: float) -> _T:
    """One of them, chosen by a number from 0 to 1."""
    return things[int(share * len(things))]


def _crash(run: "Run", fault: CrashWorker) -> WorkerId | None:
    alive = [start.worker_id for _, start in run.cluster.alive()]
    if not alive:
        return None
    worker_id = pick(alive, fault.pick)
    run.cluster.crash(worker_id, fault.exit_code)
    return worker_id


def _crash_job(run: "Run", fault: CrashJob) -> JobId | None:
    alive = [start for _, start in run.cluster.alive()]
    if not alive:
        return None
    job_id = pick(alive, fault.pick).job_id
    for start in alive:
        if start.job_id == job_id:
            run.cluster.crash(start.worker_id, fault.exit_code)
    return job_id


def _hang(run: "Run", fault: HangWorker) -> WorkerId | None:
    """Only workers that are watched: nobody promises to find others."""
    alive = [start.worker_id for _, start in run.cluster.alive() if run.watched(start)]
    if not alive:
        return None
    worker_id = pick(alive, fault.pick)
    run.cluster.hang(worker_id)
    run.hangs.begins(worker_id)
    return worker_id


def _change_slots(run: "Run", fault: ChangeSlots) -> object:
    """Not where slots are oversold: how many more may be given out would follow from it."""
    node = pick(run.scenario.nodes, fault.pick)
    if node.oversell > 1:
        return None
    run.cluster.add_node(replace(run.cluster.facts(node.name), slots=fault.slots))
    run.wake()
    return node.name


def _change_node(run: "Run", fault: ChangeNode) -> object:
    node = pick(run.scenario.nodes, fault.pick)
    run.cluster.add_node(replace(run.cluster.facts(node.name), **dict(fault.facts)))  # type: ignore[arg-type]
    run.wake()
    return node.name


def _close_slots(run: "Run", fault: CloseSlots) -> object:
    facts = run.cluster.facts(pick(run.scenario.nodes, fault.pick).name)
    slots = tuple(each for each in fault.slots if each.slot < facts.slots)
    run.cluster.add_node(replace(facts, closed_slots=slots))
    run.wake()
    return facts.name


def _move_others(run: "Run", fault: Come | Go | TakeRoom | HoldUp) -> object:
    foreign = run.cluster.foreign
    match fault:
        case Come():
            foreign.come(Demand(fault.name, fault.shape, fault.nodes), heard=fault.heard)
        case Go():
            if not foreign.names:
                return None
            name = pick(foreign.names, fault.pick)
            foreign.go(name)
            run.wake()
            return name
        case TakeRoom():
            run.cluster.let_foreign_run()
        case HoldUp():
            foreign.held_up = fault.on
    run.wake()
    return "others"


def _ask_job(run: "Run", fault: AskJob) -> object:
    if not run.submitted:
        return None
    job_id = pick(run.submitted, fault.pick)
    run.ask(
        fault.kind,
        job_id=job_id,
        priority=fault.priority,
        min_workers=fault.min_workers,
        max_workers=fault.max_workers,
    )
    return job_id


def _book(run: "Run", fault: Book) -> str:
    now = run.leader.clock.now()
    start_at = now + fault.after_seconds
    if fault.after_seconds and _people_read(run) < now - LATE_SECONDS - fault.after_seconds:
        return "is in the past by the clock of this daemon"
    shape = WorkerShape(fault.slots_per_worker, node_selector=fault.node_selector, gpu_type=fault.gpu_type)
    window = (start_at, start_at + fault.seconds)
    booking = Booking(fault.name, *window, fault.workers, shape, now, priority_min=fault.priority_min)
    try:
        run.store.add_booking(booking)
    except Conflict as error:
        return str(error)
    run.wake()
    return fault.name


def _people_read(run: "Run") -> float:
    """The time that people go by: that of the last leader, which a daemon that has just started may be ahead of."""
    anchor = run.store.read_lease().anchor
    return run.leader.clock.now() if anchor is None else anchor.now


def _set_queue(run: "Run", fault: SetQueue) -> str:
    now = run.leader.clock.now()
    run.have_queue(fault.path.rpartition("/")[0])
    queue = Queue(
        fault.path,
        now,
        guarantee=fault.guarantee,
        limit=fault.limit,
        weight=fault.weight,
        share_users=fault.share_users,
        user_limit=fault.user_limit,
        budget=fault.budget,
    )
    run.store.set_queue(fault.path, lambda before: queue, now, anew=True)
    run.wake()
    return fault.path


def _delete_queue(run: "Run", fault: DeleteQueue) -> str:
    try:
        run.store.delete_queue(fault.path, run.leader.clock.now(), run.leader.clock.wall())
    except UserError as error:
        return str(error)
    run.wake()
    return fault.path


def _submit_again(run: "Run", fault: SubmitAgain) -> object:
    if not run.submitted:
        return None
    position = int(fault.pick * len(run.submitted))
    spec = run.scenario.arrivals[position].spec
    run.have_queue(spec.queue)
    (answer,) = run.store.submit([spec], run.leader.clock.now())
    same = answer.id == run.submitted[position] and not answer.created
    hold(same, "I6", f"{spec.client_key} gave job {run.submitted[position]} and then {answer}")
    return answer.id
