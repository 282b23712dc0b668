"""A cluster under a virtual clock: nodes and workers that behave and fail as they are told to.

It keeps the promises of the Cluster port and nothing more: a worker's slots are held until it is gone, ends may be
seen late or twice, stops may be slow or ignored. Elastic workers report over the same box as real ones do. Everything
that will happen stands in one heap of timers, so that a large cluster in which little happens costs little.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from scheduler.clusters.simulated.foreign import ForeignProcesses
from scheduler.clusters.simulated.node import SimulatedNode
from scheduler.clusters.simulated.process import EXIT_KILLED, Behaviour, Process
from scheduler.clusters.simulated.timers import Timers
from scheduler.clusters.simulated.work import JobProgress
from scheduler.clusters.simulated.workers import ReportSink, SimulatedWorkers
from scheduler.engine.board import Board
from scheduler.engine.ports import TOO_LATE, ActionFailure, Clock, ClusterAction, ForgetWorker, StartWorker, StopWorker
from scheduler.errors import ClusterError
from scheduler.model.foreign import ForeignUse
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import NodeObservation, Observation, WorkerObservation


class Fault(Enum):
    """Ways in which calls to the cluster can go wrong."""

    #: The call fails and has no effect.
    NOT_DONE = auto()
    #: The call fails, but was carried out.
    DONE_BUT_REPORTED_FAILED = auto()
    #: A start is accepted, but its process cannot be started; anything else is done.
    NOT_LAUNCHED = auto()


class SimulatedCluster:
    """Nodes, processes and faults under a clock that the test or the simulator moves."""

    def __init__(self, clock: Clock, board: Board, reports: ReportSink) -> None:
        self._clock = clock
        #: When it was observed last.
        self.observed_at = -math.inf
        self._timers = Timers()
        self._nodes: dict[NodeName, SimulatedNode] = {}
        #: Processes of others beside the workers.
        self.foreign = ForeignProcesses()
        self._workers = SimulatedWorkers(clock, self._timers, self._nodes, self.foreign)
        #: Faults of the next calls, one per action, in order; None lets the call through.
        self.action_faults: list[Fault | None] = []
        #: How many of the next observations fail altogether.
        self.observe_failures = 0
        #: Every start that was carried out, in order, but for those a reboot undid: a worker must appear once.
        self.started: list[WorkerId] = []
        #: Workers that failed by themselves: not launched, never ready, hung, or ended badly without being asked to.
        self.failed = self._workers.failed
        #: Jobs over whose starts this cluster stumbles, by an error that nobody expects.
        self.stumbles_over: set[JobId] = set()
        self._forgotten: dict[WorkerId, WorkerObservation] = {}
        #: Repeat ends that were forgotten already, as a cluster with a stale cache does.
        self.repeat_forgotten = False
        #: All workers as they were seen last, and by node.
        self._seen: Mapping[WorkerId, WorkerObservation] = {}
        self._merged_from: list[Mapping[WorkerId, WorkerObservation]] = []
        self.follow(board, reports)

    # what tests and the simulator set up

    def follow(self, board: Board, reports: ReportSink) -> None:
        """Workers read this board and report there from now on, as they do when another daemon leads."""
        self._workers.follow(board, reports)

    def add_node(self, facts: NodeObservation) -> None:
        """A node joins the cluster, or has other facts than before."""
        if facts.name in self._nodes:
            self._nodes[facts.name].facts = facts
        else:
            self._nodes[facts.name] = SimulatedNode(facts)

    def behave(self, job_id: JobId, behaviour: Behaviour) -> None:
        """Set how workers of the job that start from now on behave."""
        self._workers.jobs[job_id].behave(behaviour, self._clock.now())

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
            self._workers.end(process, EXIT_KILLED)
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
                self._workers.drop(process)
                self._workers.share_work(process.start.job_id)

    def let_foreign_run(self) -> dict[NodeName, ForeignUse]:
        """Start waiting foreign processes where there is room beside the workers; return the foreign use."""
        if self.foreign.waiting:
            self.foreign.take_room([node.facts for node in self._nodes.values() if node.reachable], self.alive())
        return self.foreign.use()

    def crash(self, worker_id: WorkerId, exit_code: int = EXIT_KILLED) -> None:
        """A process ends by itself."""
        process = self._workers.processes.get(worker_id)
        if process is not None and process.alive:
            self._workers.end(process, exit_code)

    def hang(self, worker_id: WorkerId) -> None:
        """A process stops reporting, working and listening; only a kill ends it."""
        process = self._workers.processes.get(worker_id)
        if process is not None:
            process.hung = True
            self._workers.share_work(process.start.job_id)
            if process.alive and process.asked_at is None:
                self.failed.add(worker_id)

    # what tests read

    def facts(self, name: NodeName) -> NodeObservation:
        """The node as it really is, visible or not."""
        return self._nodes[name].facts

    def process(self, worker_id: WorkerId) -> Process | None:
        """The process of a worker, also after its end until it is forgotten."""
        return self._workers.processes.get(worker_id)

    def worker_on(self, name: NodeName, slot: int) -> WorkerId | None:
        """A worker that has this slot of the node, its own or shared; None: no worker has."""
        return self._nodes[name].worker_on(slot)

    def alive(self) -> list[tuple[NodeName, StartWorker]]:
        """Every process that exists, reachable or not, with what it was started with."""
        return [(process.node, process.start) for process in self._workers.processes.values() if process.alive]

    def job_progress(self, job_id: JobId) -> JobProgress | None:
        """How far the job's work has got; None for a job that runs for ever."""
        return self._workers.jobs[job_id].job_progress

    def next_event_at(self) -> float | None:
        """Time of the next event; None if there will be none."""
        return self._timers.next_at

    # the Cluster port

    def observe(self) -> Observation:
        """Everything on reachable nodes."""
        self.advance()
        if self.observe_failures > 0:
            self.observe_failures -= 1
            raise ClusterError("the cluster does not answer")
        now = self.observed_at = self._clock.now()
        workers: list[Mapping[WorkerId, WorkerObservation]] = [dict(self._forgotten)] if self.repeat_forgotten else []
        nodes, loads = {}, {}
        foreign = self.let_foreign_run()
        for name, node in self._nodes.items():
            if node.reachable:
                held = foreign.get(name)
                nodes[name] = node.facts if held is None else replace(node.facts, foreign=held)
                workers.append(node.observe(now))
                if node.oversold:
                    loads[name] = node.loads(self._workers.jobs)
            elif node.listed:
                nodes[name] = replace(node.facts, up=False)
            if node.remembered and not node.reachable:
                workers.append({w: each.seen for w, each in node.processes.items() if each.seen is not None})
        return Observation(nodes, self._merged(workers), loads=loads, demands=self.foreign.demands)

    def _merged(self, workers: list[Mapping[WorkerId, WorkerObservation]]) -> Mapping[WorkerId, WorkerObservation]:
        """All of these workers, by node; the same mapping as long as they stay as they are."""
        if workers != self._merged_from:
            self._merged_from, seen = workers, dict[WorkerId, WorkerObservation]()
            for each in workers:
                seen.update(each)
            self._seen = seen
        return self._seen

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
        self._workers.wake = wake

    def advance(self) -> None:
        """Run all events that are due by now."""
        self._timers.run(self._clock.now())

    def _do(self, node: SimulatedNode, action: ClusterAction, *, launches: bool) -> None:
        match action:
            case StartWorker():
                forgotten = self._forgotten.get(action.worker_id)
                over = forgotten is not None and forgotten.nonce == action.nonce
                if action.worker_id not in node.processes and not over:
                    self._start(node, action, launches=launches)
            case StopWorker():
                process = node.processes.get(action.worker_id)
                if process is not None and process.alive:
                    self._workers.ask(process, action.grace_seconds)
            case ForgetWorker():
                process = node.processes.get(action.worker_id)
                if process is not None and not process.alive:
                    self._forgotten[action.worker_id] = process.observe(self._clock.now(), 0.0)
                    self._workers.drop(process)

    def _start(self, node: SimulatedNode, start: StartWorker, *, launches: bool) -> None:
        if start.job_id in self.stumbles_over:
            self.failed.add(start.worker_id)
            raise LookupError(f"nobody expected job {start.job_id}")
        self.started.append(start.worker_id)
        self._workers.launch(node, start, launches=launches)
