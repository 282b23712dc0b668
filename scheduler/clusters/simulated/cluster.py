"""A cluster under a virtual clock: nodes and workers that behave and fail as they are told to.

It keeps the promises of the Cluster port and nothing more: a worker's slots are held until it is gone, ends may be
seen late or twice, stops may be slow or ignored. Elastic workers report over the same box as real ones do. Everything
that will happen stands in one heap of timers, so that a large cluster in which little happens costs little.
"""

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol

from scheduler.clusters.simulated.foreign import ForeignProcesses
from scheduler.clusters.simulated.job import SimulatedJob
from scheduler.clusters.simulated.process import EXIT_KILLED, HARMLESS_EXITS, Behaviour, Process
from scheduler.clusters.simulated.work import JobProgress
from scheduler.engine.absorb.exits import EXIT_DONE, EXIT_DRAINED
from scheduler.engine.board import Board
from scheduler.engine.ports import (
    TOO_LATE,
    ActionFailure,
    Clock,
    ClusterAction,
    ForgetWorker,
    Role,
    StartWorker,
    StopWorker,
)
from scheduler.errors import ClusterError
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import (
    EndCause,
    NodeObservation,
    Observation,
    Phase,
    SlotLoad,
    WorkerObservation,
    WorkerReport,
)


class Fault(Enum):
    """Ways in which calls to the cluster can go wrong."""

    #: The call fails and has no effect.
    NOT_DONE = auto()
    #: The call fails, but was carried out.
    DONE_BUT_REPORTED_FAILED = auto()
    #: A start is accepted, but its process cannot be started; anything else is done.
    NOT_LAUNCHED = auto()


#: Between two looks of a process whether others have left room for it.
ROOM_SECONDS = 0.5


class ReportSink(Protocol):
    """Takes the reports of workers."""

    def put(self, report: WorkerReport) -> bool:
        """Store a report; return whether the engine should look at it now."""
        ...


@dataclass(slots=True)
class _Node:
    facts: NodeObservation
    reachable: bool = True
    #: Whether it is listed, as one that is down, while it is out of reach.
    listed: bool = True
    #: Whether its workers are listed as they were seen last while it is out of reach.
    remembered: bool = False
    #: Delay until ends become visible.
    lag_seconds: float = 0.0
    processes: dict[WorkerId, Process] = field(default_factory=dict)


class SimulatedCluster:
    """Nodes, processes and faults under a clock that the test or the simulator moves."""

    def __init__(self, clock: Clock, board: Board, reports: ReportSink) -> None:
        self._clock = clock
        #: When it was observed last.
        self.observed_at = -math.inf
        self._nodes: dict[NodeName, _Node] = {}
        self._processes: dict[WorkerId, Process] = {}
        self._jobs: defaultdict[JobId, SimulatedJob] = defaultdict(SimulatedJob)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._wake: Callable[[], None] = lambda: None
        #: Faults of the next calls, one per action, in order; None lets the call through.
        self.action_faults: list[Fault | None] = []
        #: How many of the next observations fail altogether.
        self.observe_failures = 0
        #: Every start that was carried out, in order, but for those a reboot undid: a worker must appear once.
        self.started: list[WorkerId] = []
        #: Workers that failed by themselves: not launched, never ready, hung, or ended badly without being asked to.
        self.failed: set[WorkerId] = set()
        #: Jobs over whose starts this cluster stumbles, by an error that nobody expects.
        self.stumbles_over: set[JobId] = set()
        self._forgotten: dict[WorkerId, WorkerObservation] = {}
        #: Processes of others beside the workers.
        self.foreign = ForeignProcesses()
        #: Repeat ends that were forgotten already, as a cluster with a stale cache does.
        self.repeat_forgotten = False
        self.follow(board, reports)

    # what tests and the simulator set up

    def follow(self, board: Board, reports: ReportSink) -> None:
        """Workers read this board and report there from now on, as they do when another daemon leads."""
        self._board = board
        self._reports = reports
        board.subscribe(self._listen)
        self._listen(list(self._jobs))

    def add_node(self, facts: NodeObservation) -> None:
        """A node joins the cluster, or has other facts than before."""
        if facts.name in self._nodes:
            self._nodes[facts.name].facts = facts
        else:
            self._nodes[facts.name] = _Node(facts)

    def behave(self, job_id: JobId, behaviour: Behaviour) -> None:
        """Set how workers of the job that start from now on behave."""
        self._jobs[job_id].behave(behaviour, self._clock.now())

    def lose_node(self, name: NodeName, *, listed: bool = True, remembered: bool = False) -> None:
        """The node becomes unreachable, and is not even listed if so told; its processes go on unseen.

        `remembered`: the cluster still lists its workers, since nobody has told that they are gone.
        """
        self._nodes[name].reachable = False
        self._nodes[name].listed = listed
        self._nodes[name].remembered = remembered

    def crash_node(self, name: NodeName) -> int:
        """Let the machine fail: its processes end, and it is unreachable until `return_node`. Returns their number."""
        alive = [process for process in self._nodes[name].processes.values() if process.alive]
        for process in alive:
            self._end(process, EXIT_KILLED)
        self.lose_node(name)
        return len(alive)

    def see_late(self, name: NodeName, lag_seconds: float) -> None:
        """Delay the visibility of ends on this node by `lag_seconds`."""
        self._nodes[name].lag_seconds = lag_seconds

    def return_node(self, name: NodeName, *, rebooted: bool) -> None:
        """The node is reachable again, with its processes as they are or, after a reboot, without any."""
        node = self._nodes[name]
        node.reachable = True
        if rebooted:
            self.started = [worker_id for worker_id in self.started if worker_id not in node.processes]
            for process in list(node.processes.values()):
                self._drop(process)
                self._share_work(process.start.job_id)

    def let_foreign_run(self) -> dict[NodeName, ForeignUse]:
        """Start waiting foreign processes where there is room beside the workers; return the foreign use."""
        if self.foreign.waiting:
            self.foreign.take_room([node.facts for node in self._nodes.values() if node.reachable], self.alive())
        return self.foreign.use()

    def crash(self, worker_id: WorkerId, exit_code: int = EXIT_KILLED) -> None:
        """A process ends by itself."""
        process = self._processes.get(worker_id)
        if process is not None and process.alive:
            self._end(process, exit_code)

    def hang(self, worker_id: WorkerId) -> None:
        """A process stops reporting, working and listening; only a kill ends it."""
        process = self._processes.get(worker_id)
        if process is not None:
            process.hung = True
            self._share_work(process.start.job_id)
            if process.alive and process.asked_at is None:
                self.failed.add(worker_id)

    # what tests read

    def facts(self, name: NodeName) -> NodeObservation:
        """The node as it really is, visible or not."""
        return self._nodes[name].facts

    def process(self, worker_id: WorkerId) -> Process | None:
        """The process of a worker, also after its end until it is forgotten."""
        return self._processes.get(worker_id)

    def worker_on(self, name: NodeName, slot: int) -> WorkerId | None:
        """A worker that has this slot of the node, its own or shared; None: no worker has."""
        for worker_id, process in self._nodes[name].processes.items():
            if process.alive and slot in process.start.slot_ids:
                return worker_id
        return None

    def alive(self) -> list[tuple[NodeName, StartWorker]]:
        """Every process that exists, reachable or not, with what it was started with."""
        return [(process.node, process.start) for process in self._processes.values() if process.alive]

    def job_progress(self, job_id: JobId) -> JobProgress | None:
        """How far the job's work has got; None for a job that runs for ever."""
        return self._jobs[job_id].job_progress

    def next_event_at(self) -> float | None:
        """Time of the next event; None if there will be none."""
        return self._timers[0][0] if self._timers else None

    # the Cluster port

    def observe(self) -> Observation:
        """Everything on reachable nodes."""
        self.advance()
        if self.observe_failures > 0:
            self.observe_failures -= 1
            raise ClusterError("the cluster does not answer")
        now = self.observed_at = self._clock.now()
        workers = dict(self._forgotten) if self.repeat_forgotten else {}
        nodes = {}
        foreign = self.let_foreign_run()
        for name, node in self._nodes.items():
            if node.reachable:
                held = foreign.get(name)
                nodes[name] = node.facts if held is None else replace(node.facts, foreign=held)
                for worker_id, process in node.processes.items():
                    workers[worker_id] = process.observe(now, node.lag_seconds)
            elif node.listed:
                nodes[name] = replace(node.facts, up=False)
            if node.remembered and not node.reachable:
                workers |= {w: process.seen for w, process in node.processes.items() if process.seen is not None}
        loads = {name: self._loads(node) for name, node in self._nodes.items() if node.reachable and _oversold(node)}
        return Observation(nodes, workers, loads=loads, demands=self.foreign.demands)

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        """Carry out the actions, except for the faults that were ordered."""
        if self._clock.now() >= until:
            return [ActionFailure(action, TOO_LATE) for action in actions]
        self.advance()
        failures = []
        for action in actions:
            fault = self.action_faults.pop(0) if self.action_faults else None
            node = self._nodes.get(action.node)
            if node is None or not node.reachable:
                failures.append(ActionFailure(action, f"node {action.node} is unreachable"))
            elif fault is Fault.NOT_DONE:
                failures.append(ActionFailure(action, "refused"))
            else:
                self._do(node, action, launches=fault is not Fault.NOT_LAUNCHED)
                if fault is Fault.DONE_BUT_REPORTED_FAILED:
                    failures.append(ActionFailure(action, "timed out"))
        return failures

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a process ends."""
        self._wake = wake

    def advance(self) -> None:
        """Run all events that are due by now."""
        now = self._clock.now()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    # what happens

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._numbers), happen))

    def _move_on(self, process: Process, when: float) -> None:
        self._at(when, lambda: self._advance_process(process))

    def _do(self, node: _Node, action: ClusterAction, *, launches: bool) -> None:
        match action:
            case StartWorker():
                forgotten = self._forgotten.get(action.worker_id)
                over = forgotten is not None and forgotten.nonce == action.nonce
                if action.worker_id not in node.processes and not over:
                    self._launch(node, action, launches=launches)
            case StopWorker():
                process = node.processes.get(action.worker_id)
                if process is not None and process.alive:
                    self._ask(process, action.grace_seconds)
            case ForgetWorker():
                process = node.processes.get(action.worker_id)
                if process is not None and not process.alive:
                    self._forgotten[action.worker_id] = process.observe(self._clock.now(), 0.0)
                    self._drop(process)

    def _launch(self, node: _Node, start: StartWorker, *, launches: bool) -> None:
        if start.job_id in self.stumbles_over:
            self.failed.add(start.worker_id)
            raise LookupError(f"nobody expected job {start.job_id}")
        now = self._clock.now()
        behaviour = self._jobs[start.job_id].behaviour
        elastic = behaviour.runtime.reports and start.role is Role.WORKER
        process = Process(start, node.facts.name, Phase.LAUNCHING, now, elastic)
        node.processes[start.worker_id] = process
        self._processes[start.worker_id] = process
        self._jobs[start.job_id].processes[start.worker_id] = process
        self.started.append(start.worker_id)
        if behaviour.stuck_seconds is not None:
            process.stuck_at, process.stuck_cause = now + behaviour.stuck_seconds, behaviour.stuck_cause
            self._at(process.stuck_at, lambda: self._get_stuck(process))
        if launches and not behaviour.cannot_start:
            self._move_on(process, now + behaviour.launch_seconds)
        else:
            process.phase = Phase.LAUNCH_FAILED
            process.end_cause = EndCause.CANNOT_START if behaviour.cannot_start else None
            self.failed.add(start.worker_id)
            self._at(now, self._wake)

    def _get_stuck(self, process: Process) -> None:
        blamed = process.stuck_cause is not EndCause.NOT_ADMITTED
        if process.phase is Phase.LAUNCHING and process.asked_at is None and blamed:
            self.failed.add(process.start.worker_id)
        self._wake()

    def _drop(self, process: Process) -> None:
        """Let the node forget a process."""
        process.phase = Phase.EXITED if process.alive else process.phase
        worker_id = process.start.worker_id
        self._nodes[process.node].processes.pop(worker_id, None)
        self._processes.pop(worker_id, None)
        self._jobs[process.start.job_id].processes.pop(worker_id, None)

    def _ask(self, process: Process, grace_seconds: float) -> None:
        now = self._clock.now()
        process.asked_at = now if process.asked_at is None else process.asked_at
        kill_at = now + grace_seconds
        process.kill_at = kill_at if process.kill_at is None else min(kill_at, process.kill_at)
        self._move_on(process, process.kill_at)
        leave_seconds = self._jobs[process.start.job_id].behaviour.leave_seconds
        if leave_seconds is not None:
            self._move_on(process, process.asked_at + leave_seconds)
        self._share_work(process.start.job_id)

    def _advance_process(self, process: Process) -> None:
        now = self._clock.now()
        behaviour = self._jobs[process.start.job_id].behaviour
        if not process.alive:
            return
        if process.kill_at is not None and now >= process.kill_at:
            self._end(process, EXIT_KILLED)
        elif process.phase is Phase.LAUNCHING:
            if now >= process.phase_since + behaviour.launch_seconds:
                self._run_if_room(process, behaviour, now)
        elif not process.hung:
            self._advance_running(process, behaviour, now)

    def _run_if_room(self, process: Process, behaviour: Behaviour, now: float) -> None:
        """Run the process if there is room; if foreign processes took it, wait for them to go."""
        node = self._nodes[process.node]
        beside = [other.start for other in node.processes.values() if other.phase is Phase.RUNNING]
        if self.foreign.leave_room(process.start, node.facts, beside):
            self._run(process, behaviour)
        else:
            process.phase_since = now + ROOM_SECONDS - behaviour.launch_seconds
            self._move_on(process, now + ROOM_SECONDS)

    def _run(self, process: Process, behaviour: Behaviour) -> None:
        process.phase, process.phase_since = Phase.RUNNING, process.phase_since + behaviour.launch_seconds
        if process.elastic and behaviour.ready_seconds is not None:
            self._move_on(process, process.phase_since + behaviour.ready_seconds)
        elif process.elastic:
            self.failed.add(process.start.worker_id)
        if behaviour.crash_after_seconds is not None and process.start.role is Role.WORKER:
            self._move_on(process, process.phase_since + behaviour.crash_after_seconds)
        self._share_work(process.start.job_id)
        self._wake()

    def _advance_running(self, process: Process, behaviour: Behaviour, now: float) -> None:
        asked, leave = process.asked_at, behaviour.leave_seconds
        crash = behaviour.crash_after_seconds if process.start.role is Role.WORKER else None
        ready = behaviour.ready_seconds
        if asked is not None and leave is not None and now >= asked + leave:
            self._end(process, EXIT_DRAINED)
        elif crash is not None and now >= process.phase_since + crash:
            self._end(process, behaviour.crash_code)
        elif process.elastic and ready is not None and now >= process.phase_since + ready:
            self._talk(process, behaviour, now)

    def _listen(self, jobs: Iterable[JobId]) -> None:
        """Let workers read a new list at once, as through a long poll."""
        world = self._board.world
        if world is None:
            return  # the daemon is away: they go on as they are
        for job_id in jobs:
            published = world.active.get(job_id)
            if published is not None and self._jobs[job_id].read(published):
                self._share_work(job_id)
                self._form_later(job_id, published.generation)

    def _form_later(self, job_id: JobId, generation: int) -> None:
        form_at = self._clock.now() + self._jobs[job_id].behaviour.form_seconds
        self._at(form_at, lambda: self._form(job_id, generation))

    def _form(self, job_id: JobId, generation: int) -> None:
        """The members of a generation become a group, unless there is a newer one; they report it."""
        job = self._jobs[job_id]
        if job.generation == generation:
            formed = job.form()
            self._share_work(job_id)
            for process in formed:
                self._report(process, self._clock.now(), formed=True)

    def _talk(self, process: Process, behaviour: Behaviour, now: float) -> None:
        """Report readiness, and then again at every heartbeat."""
        beat = behaviour.heartbeat_seconds
        if not process.ready or (beat is not None and now >= process.heard_at + beat):
            process.ready = True
            self._report(process, now)

    def _report(self, process: Process, now: float, *, formed: bool = False) -> None:
        job = self._jobs[process.start.job_id]
        behaviour, job_progress = job.behaviour, job.job_progress
        pace = job_progress.pace if job_progress is not None and behaviour.work is not None else None
        process.heard_at = now
        watches = behaviour.runtime.watches_checkpoints
        if watches and process.generation > 0:
            job.write_checkpoint(now)
        if job_progress is not None and behaviour.loses_work:
            job_progress.keep(now)
        if behaviour.heartbeat_seconds is not None:
            self._move_on(process, now + behaviour.heartbeat_seconds)
        report = WorkerReport(
            process.start.worker_id,
            process.start.job_id,
            now,
            generation=process.generation,
            ready=process.ready,
            endpoint=f"{process.node}:1",
            last_commit_at=None if watches else now,
            last_checkpoint_at=job.checkpoint_at if watches else None,
            samples_per_second=pace.samples_per_second if pace is not None else None,
            efficiency=pace.efficiency if pace is not None else None,
            resize_seconds=behaviour.form_seconds if formed and pace is not None else None,
            fraction=job_progress.fraction_at(now) if job_progress is not None and behaviour.tells_fraction else None,
        )
        if self._reports.put(report):
            self._wake()

    def _share_work(self, job_id: JobId) -> None:
        """Call when the workers of the job may have changed."""
        job = self._jobs[job_id]
        job.share_work(self._clock.now())
        self._work_later(job)

    def _work_later(self, job: SimulatedJob) -> None:
        """Look again when the pace ends; if the work is done, its workers end."""
        job_progress = job.job_progress
        if job_progress is None:
            return
        if job_progress.finished_at is not None:
            for process in job.working():
                self._exit(process, EXIT_DONE)
        elif job_progress.due is not None:
            self._at(job_progress.due, lambda: self._work_on(job, job_progress))

    def _work_on(self, job: SimulatedJob, job_progress: JobProgress) -> None:
        if job_progress.go_on(self._clock.now()):
            self._work_later(job)

    def _end(self, process: Process, exit_code: int) -> None:
        self._exit(process, exit_code)
        self._jobs[process.start.job_id].left(process, self._clock.now())
        self._share_work(process.start.job_id)

    def _exit(self, process: Process, exit_code: int) -> None:
        process.phase = Phase.EXITED
        process.exit_code = exit_code
        process.ended_at = self._clock.now()
        if process.asked_at is None and exit_code not in HARMLESS_EXITS:
            self.failed.add(process.start.worker_id)
        self._at(process.ended_at + self._nodes[process.node].lag_seconds, self._wake)

    def _loads(self, node: _Node) -> tuple[SlotLoad, ...]:
        """Load of all running processes of the node on its slots."""
        memory, utilization = [0.0] * node.facts.slots, [0.0] * node.facts.slots
        for process in node.processes.values():
            load = self._jobs[process.start.job_id].behaviour.load
            for slot in process.start.slot_ids if process.phase is Phase.RUNNING else ():
                if slot < node.facts.slots:
                    memory[slot] += load.memory or 0.0
                    utilization[slot] += load.utilization or 0.0
        return tuple(SlotLoad(min(m, 1.0), min(u, 1.0)) for m, u in zip(memory, utilization, strict=True))


def _oversold(node: _Node) -> bool:
    return node.facts.oversell > 1
