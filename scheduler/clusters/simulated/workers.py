"""Workers on the simulated cluster, from launch to end: they run, form groups, report, work, and leave or fail."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from scheduler.clusters.simulated.foreign import ForeignProcesses
from scheduler.clusters.simulated.job import SimulatedJob
from scheduler.clusters.simulated.node import SimulatedNode
from scheduler.clusters.simulated.process import EXIT_KILLED, HARMLESS_EXITS, Behaviour, Process
from scheduler.clusters.simulated.timers import Timers
from scheduler.clusters.simulated.work import JobProgress
from scheduler.engine.absorb.exits import EXIT_DONE, EXIT_DRAINED
from scheduler.engine.board import Board
from scheduler.engine.ports import Clock, Role, StartWorker
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import EndCause, Phase, WorkerReport

#: Between two looks of a process whether others have left room for it.
ROOM_SECONDS = 0.5


class ReportSink(Protocol):
    """Takes the reports of workers."""

    def put(self, report: WorkerReport) -> bool:
        """Store a report; return whether the engine should look at it now."""
        ...


class SimulatedWorkers:
    """The processes of all workers and their jobs; each does what the behaviour of its job says."""

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        nodes: Mapping[NodeName, SimulatedNode],
        foreign: ForeignProcesses,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._nodes = nodes
        self._foreign = foreign
        self.processes: dict[WorkerId, Process] = {}
        self.jobs: defaultdict[JobId, SimulatedJob] = defaultdict(SimulatedJob)
        #: Workers that failed by themselves: not launched, never ready, hung, or ended badly without being asked to.
        self.failed: set[WorkerId] = set()
        #: Called when a process ends.
        self.wake: Callable[[], None] = lambda: None

    def follow(self, board: Board, reports: ReportSink) -> None:
        """Read this board and report there from now on."""
        self._board = board
        self._reports = reports
        board.subscribe(self._listen)
        self._listen(list(self.jobs))

    def launch(self, node: SimulatedNode, start: StartWorker, *, launches: bool) -> None:
        """Start a process on the node; `launches`: it comes to run, unless its job cannot start."""
        now = self._clock.now()
        behaviour = self.jobs[start.job_id].behaviour
        elastic = behaviour.runtime.reports and start.role is Role.WORKER
        process = Process(start, node.facts.name, Phase.LAUNCHING, now, elastic)
        node.processes[start.worker_id] = process
        node.stir()
        self.processes[start.worker_id] = process
        self.jobs[start.job_id].processes[start.worker_id] = process
        if behaviour.stuck_seconds is not None:
            process.stuck_at, process.stuck_cause = now + behaviour.stuck_seconds, behaviour.stuck_cause
            self._timers.at(process.stuck_at, lambda: self._get_stuck(process))
        if launches and behaviour.start_refused is None:
            self._move_on(process, now + behaviour.launch_seconds)
        else:
            process.phase = Phase.LAUNCH_FAILED
            process.end_cause = behaviour.start_refused
            self.failed.add(start.worker_id)
            self._timers.at(now, self.wake)

    def ask(self, process: Process, grace_seconds: float) -> None:
        """Ask a process to leave; what is still there after that time is killed."""
        now = self._clock.now()
        process.asked_at = now if process.asked_at is None else process.asked_at
        kill_at = now + grace_seconds
        process.kill_at = kill_at if process.kill_at is None else min(kill_at, process.kill_at)
        self._move_on(process, process.kill_at)
        leave_seconds = self.jobs[process.start.job_id].behaviour.leave_seconds
        if leave_seconds is not None:
            self._move_on(process, process.asked_at + leave_seconds)
        self.share_work(process.start.job_id)

    def end(self, process: Process, exit_code: int) -> None:
        """A process ends, and its job goes on without it."""
        self._exit(process, exit_code)
        self.jobs[process.start.job_id].left(process, self._clock.now())
        self.share_work(process.start.job_id)

    def drop(self, process: Process) -> None:
        """Let the node forget a process."""
        process.phase = Phase.EXITED if process.alive else process.phase
        worker_id, node = process.start.worker_id, self._nodes[process.node]
        node.processes.pop(worker_id, None)
        node.stir()
        self.processes.pop(worker_id, None)
        self.jobs[process.start.job_id].processes.pop(worker_id, None)

    def share_work(self, job_id: JobId) -> None:
        """Call when the workers of the job may have changed."""
        job = self.jobs[job_id]
        job.share_work(self._clock.now())
        self._work_later(job)

    def _move_on(self, process: Process, when: float) -> None:
        self._timers.at(when, lambda: self._advance_process(process))

    def _get_stuck(self, process: Process) -> None:
        blamed = process.stuck_cause is not EndCause.NOT_ADMITTED
        if process.phase is Phase.LAUNCHING and process.asked_at is None and blamed:
            self.failed.add(process.start.worker_id)
        self.wake()

    def _advance_process(self, process: Process) -> None:
        now = self._clock.now()
        behaviour = self.jobs[process.start.job_id].behaviour
        if not process.alive:
            return
        if process.kill_at is not None and now >= process.kill_at:
            self.end(process, EXIT_KILLED)
        elif process.phase is Phase.LAUNCHING:
            if now >= process.phase_since + behaviour.launch_seconds:
                self._run_if_room(process, behaviour, now)
        elif not process.hung:
            self._advance_running(process, behaviour, now)

    def _run_if_room(self, process: Process, behaviour: Behaviour, now: float) -> None:
        """Run the process if there is room; if foreign processes took it, wait for them to go."""
        node = self._nodes[process.node]
        beside = [other.start for other in node.processes.values() if other.phase is Phase.RUNNING]
        if self._foreign.leave_room(process.start, node.facts, beside):
            self._run(process, behaviour)
        else:
            process.phase_since = now + ROOM_SECONDS - behaviour.launch_seconds
            self._move_on(process, now + ROOM_SECONDS)

    def _run(self, process: Process, behaviour: Behaviour) -> None:
        process.phase, process.phase_since = Phase.RUNNING, process.phase_since + behaviour.launch_seconds
        talks_at = _talks_at(process, behaviour)
        if talks_at is not None:
            self._move_on(process, talks_at)
        elif process.elastic:
            self.failed.add(process.start.worker_id)
        if behaviour.crash_after_seconds is not None and process.start.role is Role.WORKER:
            self._move_on(process, process.phase_since + behaviour.crash_after_seconds)
        self.share_work(process.start.job_id)
        self.wake()

    def _advance_running(self, process: Process, behaviour: Behaviour, now: float) -> None:
        asked, leave = process.asked_at, behaviour.leave_seconds
        crash = behaviour.crash_after_seconds if process.start.role is Role.WORKER else None
        talks_at = _talks_at(process, behaviour)
        if asked is not None and leave is not None and now >= asked + leave:
            self.end(process, EXIT_DRAINED)
        elif crash is not None and now >= process.phase_since + crash:
            self.end(process, behaviour.crash_code)
        elif talks_at is not None and now >= talks_at:
            self._talk(process, behaviour, now)

    def _listen(self, jobs: Iterable[JobId]) -> None:
        """Let workers read a new list at once, as through a long poll."""
        world = self._board.world
        if world is None:
            return  # the daemon is away: they go on as they are
        for job_id in jobs:
            published = world.active.get(job_id)
            if published is not None and self.jobs[job_id].read(published):
                self.share_work(job_id)
                self._form_later(job_id, published.generation)

    def _form_later(self, job_id: JobId, generation: int) -> None:
        form_at = self._clock.now() + self.jobs[job_id].behaviour.form_seconds
        self._timers.at(form_at, lambda: self._form(job_id, generation))

    def _form(self, job_id: JobId, generation: int) -> None:
        """The members of a generation become a group, unless there is a newer one; they report it."""
        job = self.jobs[job_id]
        if job.generation == generation:
            formed = job.form()
            self.share_work(job_id)
            for process in formed:
                self._report(process, self._clock.now(), formed=True)

    def _talk(self, process: Process, behaviour: Behaviour, now: float) -> None:
        """Report readiness, and then again at every heartbeat."""
        beat = behaviour.seconds_between_reports(process.start.role)
        if not process.ready or (beat is not None and now >= process.heard_at + beat):
            job_id, job = process.start.job_id, self.jobs[process.start.job_id]
            if not process.ready and process.start.worker_id in job.members:
                self._form_later(job_id, job.generation)  # it was published when its last process was ready
            process.ready = True
            self._report(process, now)

    def _report(self, process: Process, now: float, *, formed: bool = False) -> None:
        job = self.jobs[process.start.job_id]
        behaviour, job_progress = job.behaviour, job.job_progress
        pace = job_progress.pace if job_progress is not None and behaviour.work is not None else None
        process.heard_at = now
        watches = behaviour.runtime.watches_checkpoints
        if watches and process.generation > 0:
            job.write_checkpoint(now)
        if job_progress is not None and behaviour.loses_work:
            job_progress.keep(now)
        beat = behaviour.seconds_between_reports(process.start.role)
        if beat is not None:
            self._move_on(process, now + beat)
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
            self.wake()

    def _work_later(self, job: SimulatedJob) -> None:
        """Look again when the pace ends; if the work is done, its workers end."""
        job_progress = job.job_progress
        if job_progress is None:
            return
        if job_progress.finished_at is not None:
            for process in job.working():
                self._exit(process, EXIT_DONE)
        elif job_progress.due is not None:
            self._timers.at(job_progress.due, lambda: self._work_on(job, job_progress))

    def _work_on(self, job: SimulatedJob, job_progress: JobProgress) -> None:
        if job_progress.go_on(self._clock.now()):
            self._work_later(job)

    def _exit(self, process: Process, exit_code: int) -> None:
        node = self._nodes[process.node]
        node.stir()
        process.phase = Phase.EXITED
        process.exit_code = exit_code
        process.ended_at = self._clock.now()
        if process.asked_at is None and exit_code not in HARMLESS_EXITS:
            self.failed.add(process.start.worker_id)
        self._timers.at(process.ended_at + node.lag_seconds, self.wake)


def _talks_at(process: Process, behaviour: Behaviour) -> float | None:
    """When a running worker first reports; None: it never does."""
    if process.elastic:
        return None if behaviour.ready_seconds is None else process.phase_since + behaviour.ready_seconds
    reports = process.start.role is Role.FIXED and behaviour.fixed_heartbeat_seconds is not None
    return process.phase_since if reports else None
