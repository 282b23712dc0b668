"""A cluster under a virtual clock: nodes and workers that behave as told, and fail as told.

It keeps the promises of the Cluster port and nothing more: a worker's slots are held until it is gone, ends may be
seen late or twice, stops may be slow or ignored. Elastic workers report over the same box as real ones do.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from scheduler.engine.board import Board
from scheduler.engine.ports import (
    ActionFailure,
    Clock,
    ClusterAction,
    ForgetWorker,
    StartWorker,
    StopWorker,
)
from scheduler.engine.reports import ReportBox
from scheduler.errors import ClusterError
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.job import Runtime
from scheduler.model.observation import (
    NodeObservation,
    Observation,
    Phase,
    WorkerObservation,
    WorkerReport,
)

EXIT_KILLED = 137
EXIT_DRAINED = 64


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the workers of one job behave; all times in seconds."""

    runtime: Runtime = Runtime.COMMAND
    #: From the start call until the process runs.
    launch_seconds: float = 0.01
    #: From running until an elastic worker reports ready.
    ready_seconds: float = 1.0
    #: From being published until an elastic member reports the generation.
    form_seconds: float = 0.2
    #: From being asked until it is gone; None ignores the request until it is killed.
    leave_seconds: float | None = 0.1
    #: Work of the whole job in worker-seconds, done while workers are members; None runs for ever.
    work_seconds: float | None = None
    #: Exit code that every worker ends with, this long after it runs; None: ends by its work only.
    crash_after_seconds: float | None = None
    crash_code: int = 1


@dataclass(slots=True)
class _Process:
    """One worker's process."""

    start: StartWorker
    phase: Phase
    phase_since: float
    ready: bool = False
    hung: bool = False
    generation: int = 0
    #: The published generation that it is forming, and when it will have formed.
    forming: tuple[int, float] | None = None
    asked_at: float | None = None
    kill_at: float | None = None
    exit_code: int | None = None
    ended_at: float | None = None

    @property
    def alive(self) -> bool:
        return self.phase in (Phase.LAUNCHING, Phase.RUNNING)


class Fault(Enum):
    """Ways in which calls to the cluster can go wrong."""

    #: The call fails and has no effect.
    NOT_DONE = auto()
    #: The call fails, but was carried out.
    DONE_BUT_REPORTED_FAILED = auto()


@dataclass(slots=True)
class _Node:
    facts: NodeObservation
    reachable: bool = True
    processes: dict[WorkerId, _Process] = field(default_factory=dict)


class SimulatedCluster:
    """Nodes, processes and faults under a clock that the test or the simulator moves."""

    def __init__(self, clock: Clock, board: Board, reports: ReportBox) -> None:
        self._clock = clock
        self._board = board
        self._reports = reports
        self._nodes: dict[NodeName, _Node] = {}
        self._behaviours: dict[JobId, Behaviour] = {}
        self._work_left: dict[JobId, float] = {}
        self._worked_until: dict[JobId, float] = {}
        self._timers: list[float] = []
        self._wake: Callable[[], None] = lambda: None
        #: Ends become visible so much later.
        self.observation_lag_seconds = 0.0
        #: Faults of the next calls, one per action, in order; None lets the call through.
        self.action_faults: list[Fault | None] = []
        #: How many of the next observations fail altogether.
        self.observe_failures = 0
        #: Every start that was carried out, in order, but for those a reboot undid: a worker must appear once.
        self.started: list[WorkerId] = []
        self._forgotten: dict[WorkerId, WorkerObservation] = {}
        #: Repeat ends that were forgotten already, as a cluster with a stale cache does.
        self.repeat_forgotten = False

    # what tests and the simulator set up

    def add_node(self, facts: NodeObservation) -> None:
        self._nodes[facts.name] = _Node(facts)

    def behave(self, job_id: JobId, behaviour: Behaviour) -> None:
        """Set how the job's workers behave from now on."""
        self._behaviours[job_id] = behaviour
        if behaviour.work_seconds is not None:
            self._work_left.setdefault(job_id, behaviour.work_seconds)

    def lose_node(self, name: NodeName) -> None:
        """The node becomes unreachable; its processes go on unseen."""
        self._nodes[name].reachable = False

    def return_node(self, name: NodeName, *, rebooted: bool) -> None:
        """The node is reachable again, with its processes as they are or, after a reboot, without any."""
        node = self._nodes[name]
        node.reachable = True
        if rebooted:
            self.started = [worker_id for worker_id in self.started if worker_id not in node.processes]
            node.processes.clear()

    def crash(self, worker_id: WorkerId, exit_code: int = EXIT_KILLED) -> None:
        """A process ends by itself."""
        process = self.process(worker_id)
        if process is not None and process.alive:
            self._end(process, exit_code)

    def hang(self, worker_id: WorkerId) -> None:
        """A process stops reporting, working and listening; only a kill ends it."""
        process = self.process(worker_id)
        if process is not None:
            process.hung = True

    # what tests read

    def process(self, worker_id: WorkerId) -> _Process | None:
        for node in self._nodes.values():
            if worker_id in node.processes:
                return node.processes[worker_id]
        return None

    def alive(self) -> list[tuple[NodeName, StartWorker]]:
        """Every process that exists, reachable or not, with what it was started with."""
        return [
            (name, process.start)
            for name, node in self._nodes.items()
            for process in node.processes.values()
            if process.alive
        ]

    def next_event_at(self) -> float | None:
        """When something changes next by itself; None if nothing will."""
        now = self._clock.now()
        while self._timers and self._timers[0] <= now:
            heapq.heappop(self._timers)
        return self._timers[0] if self._timers else None

    # the Cluster port

    def observe(self) -> Observation:
        self.advance()
        if self.observe_failures > 0:
            self.observe_failures -= 1
            raise ClusterError("the cluster does not answer")
        now = self._clock.now()
        workers = dict(self._forgotten) if self.repeat_forgotten else {}
        nodes = {}
        for name, node in self._nodes.items():
            nodes[name] = replace(node.facts, up=node.facts.up and node.reachable)
            if node.reachable:
                for worker_id, process in node.processes.items():
                    workers[worker_id] = self._observe_process(name, process, now)
        return Observation(nodes, workers)

    def apply(self, actions: Sequence[ClusterAction]) -> Sequence[ActionFailure]:
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
                self._do(node, action)
                if fault is Fault.DONE_BUT_REPORTED_FAILED:
                    failures.append(ActionFailure(action, "timed out"))
        return failures

    def on_change(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def advance(self) -> None:
        """Let everything happen that is due by now."""
        now = self._clock.now()
        for node in self._nodes.values():
            for process in list(node.processes.values()):
                if process.alive:
                    self._advance_process(process, now)
        for job_id in list(self._work_left):
            self._do_work(job_id, now)

    def _do(self, node: _Node, action: ClusterAction) -> None:
        now = self._clock.now()
        match action:
            case StartWorker():
                known = action.worker_id in node.processes or action.worker_id in self._forgotten
                if not known:
                    node.processes[action.worker_id] = _Process(action, Phase.LAUNCHING, now)
                    self.started.append(action.worker_id)
                    self._timer(now + self._behaviour(action.job_id).launch_seconds)
            case StopWorker():
                process = node.processes.get(action.worker_id)
                if process is not None and process.alive:
                    self._ask(process, action.grace_seconds, now)
            case ForgetWorker():
                gone = node.processes.pop(action.worker_id, None)
                if gone is not None:
                    self._forgotten[action.worker_id] = self._observe_process(action.node, gone, now)

    def _ask(self, process: _Process, grace_seconds: float, now: float) -> None:
        behaviour = self._behaviour(process.start.job_id)
        process.asked_at = now if process.asked_at is None else process.asked_at
        kill_at = now + grace_seconds
        process.kill_at = kill_at if process.kill_at is None else min(kill_at, process.kill_at)
        self._timer(process.kill_at)
        if behaviour.leave_seconds is not None:
            self._timer(process.asked_at + behaviour.leave_seconds)
        self._advance_process(process, now)

    def _advance_process(self, process: _Process, now: float) -> None:
        behaviour = self._behaviour(process.start.job_id)
        if process.kill_at is not None and now >= process.kill_at:
            self._end(process, EXIT_KILLED)
        elif process.phase is Phase.LAUNCHING:
            running_at = process.phase_since + behaviour.launch_seconds
            if now >= running_at:
                process.phase, process.phase_since = Phase.RUNNING, running_at
                self._timer(running_at + behaviour.ready_seconds)
                if behaviour.crash_after_seconds is not None:
                    self._timer(running_at + behaviour.crash_after_seconds)
                self._advance_process(process, now)
        elif not process.hung:
            self._advance_running(process, behaviour, now)

    def _advance_running(self, process: _Process, behaviour: Behaviour, now: float) -> None:
        asked, leave = process.asked_at, behaviour.leave_seconds
        crash = behaviour.crash_after_seconds
        if asked is not None and leave is not None and now >= asked + leave:
            self._end(process, EXIT_DRAINED)
        elif crash is not None and now >= process.phase_since + crash:
            self._end(process, behaviour.crash_code)
        elif behaviour.runtime is Runtime.ELASTIC:
            self._talk(process, behaviour, now)

    def _talk(self, process: _Process, behaviour: Behaviour, now: float) -> None:
        """Report readiness, and membership of the published generation once its group has formed."""
        process.ready = process.ready or now >= process.phase_since + behaviour.ready_seconds
        posting = self._board.posting(process.start.job_id)
        if posting is not None and process.ready and posting.generation > process.generation:
            if process.forming is None or process.forming[0] != posting.generation:
                process.forming = (posting.generation, now + behaviour.form_seconds)
                self._timer(process.forming[1])
            elif now >= process.forming[1]:
                process.generation = posting.generation
        worker_id = process.start.worker_id
        self._reports.put(
            WorkerReport(
                worker_id,
                process.start.job_id,
                now,
                generation=process.generation,
                ready=process.ready,
                endpoint=f"{process.start.node}:1" if process.ready else None,
                last_commit_at=now,
            )
        )

    def _do_work(self, job_id: JobId, now: float) -> None:
        """Members of the published generation work; when all is done they end with success."""
        since = self._worked_until.get(job_id, now)
        self._worked_until[job_id] = now
        members = self._members(job_id)
        if not members:
            return
        self._work_left[job_id] -= (now - since) * len(members)
        left = self._work_left[job_id]
        if left <= 1e-9:
            for process in members:
                self._end(process, 0)
        else:
            self._timer(now + left / len(members))

    def _members(self, job_id: JobId) -> list[_Process]:
        found = []
        for node in self._nodes.values():
            for process in node.processes.values():
                mine = process.start.job_id == job_id and process.phase is Phase.RUNNING and not process.hung
                elastic = self._behaviour(job_id).runtime is Runtime.ELASTIC
                if mine and process.asked_at is None and (process.generation > 0 or not elastic):
                    found.append(process)
        return found

    def _end(self, process: _Process, exit_code: int) -> None:
        process.phase = Phase.EXITED
        process.exit_code = exit_code
        process.ended_at = self._clock.now()
        self._timer(process.ended_at + self.observation_lag_seconds)
        self._wake()

    def _observe_process(self, node: NodeName, process: _Process, now: float) -> WorkerObservation:
        unseen = process.ended_at is not None and now < process.ended_at + self.observation_lag_seconds
        return WorkerObservation(
            process.start.worker_id,
            process.start.job_id,
            node,
            Phase.RUNNING if unseen else process.phase,
            process.start.slot_ids,
            process.start.cpus,
            process.start.memory_mib,
            None if unseen else process.exit_code,
            started_at=process.phase_since,
            ended_at=None if unseen else process.ended_at,
        )

    def _behaviour(self, job_id: JobId) -> Behaviour:
        return self._behaviours.get(job_id, Behaviour())

    def _timer(self, at: float) -> None:
        heapq.heappush(self._timers, at)
