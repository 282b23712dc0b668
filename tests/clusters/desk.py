"""One way to drive any cluster: start workers that behave as told, act, and wait for what comes of it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from threading import Event

from scheduler.clock import VirtualClock
from scheduler.clusters.simulated.cluster import SimulatedCluster
from scheduler.clusters.simulated.process import Behaviour
from scheduler.engine.board import Board
from scheduler.engine.ports import ActionFailure, Cluster, ClusterAction, ForgetWorker, StartWorker, StopWorker
from scheduler.engine.state.reports import ReportBox
from scheduler.model.ids import JobId, NodeName, WorkerId
from scheduler.model.observation import NodeObservation, Phase, WorkerObservation
from tests.clusters.local_world import LocalWorld
from tests.eventually import eventually

Workers = Mapping[WorkerId, WorkerObservation]
#: No test waits for it to pass.
GRACE_SECONDS = 600.0


class Manner(Enum):
    """How a worker behaves."""

    #: Until it is asked to leave; then it goes at once.
    POLITE = auto()
    #: Until it is killed.
    STUBBORN = auto()


class Desk(ABC):
    """A cluster with one node that has at least four slots. Worker `7-1` is the first of job 7, and so on."""

    cluster: Cluster
    node: NodeName
    seconds_max = 120.0

    @abstractmethod
    def now(self) -> float:
        """Unix seconds, of this cluster's clock."""

    @abstractmethod
    def action(self, worker: str, does: Manner | int, slot_ids: tuple[int, ...] = (0,)) -> StartWorker:
        """The start of a worker that behaves so; a number is what it exits with at once."""

    @abstractmethod
    def broken(self, worker: str) -> StartWorker:
        """The start of a worker whose program does not exist."""

    @abstractmethod
    def take_over(self) -> None:
        """Another daemon's cluster takes the place of this one's."""

    @abstractmethod
    def until(self, predicate: Callable[[Workers], bool]) -> Workers:
        """Wait for changes until the workers are so."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""

    def apply(self, *actions: ClusterAction) -> list[ActionFailure]:
        return list(self.cluster.apply(actions))

    def start(self, worker: str, does: Manner | int, slot_ids: tuple[int, ...] = (0,)) -> None:
        assert not self.apply(self.action(worker, does, slot_ids))

    def stop(self, worker: str, grace_seconds: float) -> None:
        assert not self.apply(StopWorker(WorkerId(worker), self.node, grace_seconds))

    def forget(self, worker: str) -> list[ActionFailure]:
        return self.apply(ForgetWorker(WorkerId(worker), self.node))

    def workers(self) -> Workers:
        return self.cluster.observe().workers

    def running(self, worker: str) -> WorkerObservation:
        name = WorkerId(worker)
        return self.until(lambda workers: name in workers and workers[name].phase is Phase.RUNNING)[name]

    def ended(self, worker: str) -> WorkerObservation:
        name = WorkerId(worker)
        return self.until(lambda workers: name in workers and not workers[name].alive)[name]


class SimulatedDesk(Desk):
    def __init__(self) -> None:
        self._clock = VirtualClock(1000.0)
        self.node = NodeName("a")
        self._cluster = SimulatedCluster(self._clock, Board(), ReportBox())
        self._cluster.add_node(NodeObservation(self.node, "host-a", 4, 16.0, 65536))
        self.cluster = self._cluster

    def now(self) -> float:
        return self._clock.now()

    def action(self, worker: str, does: Manner | int, slot_ids: tuple[int, ...] = (0,)) -> StartWorker:
        job_id = JobId(int(worker.partition("-")[0]))
        if isinstance(does, Manner):
            behaviour = Behaviour(leave_seconds=None if does is Manner.STUBBORN else 0.1)
        else:
            behaviour = Behaviour(crash_after_seconds=0.0, crash_code=does)
        self._cluster.behave(job_id, behaviour)
        return start_of(worker, self.node, slot_ids, ("train",))

    def broken(self, worker: str) -> StartWorker:
        self._cluster.behave(JobId(int(worker.partition("-")[0])), Behaviour(cannot_start=True))
        return start_of(worker, self.node, (0,), ("train",))

    def take_over(self) -> None:
        self._cluster.follow(Board(), ReportBox())

    def until(self, predicate: Callable[[Workers], bool]) -> Workers:
        while not predicate(workers := self.workers()):
            due = self._cluster.next_event_at()
            assert due is not None, f"nothing will happen any more: {workers}"
            self._clock.set(max(due, self._clock.now()))
        return workers

    def close(self) -> None:
        """Nothing is left of it."""


class WaitingDesk(Desk):
    """Of a cluster whose time passes by itself."""

    def __init__(self) -> None:
        self.changed = Event()

    def now(self) -> float:
        return time.time()

    def until(self, predicate: Callable[[Workers], bool]) -> Workers:
        give_up_at = time.monotonic() + self.seconds_max
        while True:
            self.changed.clear()
            workers = self.workers()
            if predicate(workers):
                return workers
            assert self.changed.wait(give_up_at - time.monotonic()), f"still {dict(workers)}"

    def running(self, worker: str) -> WorkerObservation:
        seen = super().running(worker)
        # Its process runs; whether it heeds signals already, only it can say.
        eventually(lambda: self.output(worker).startswith(b"up"), f"{worker} says nothing", self.seconds_max)
        return seen

    def wait(self, holds: Callable[[], bool]) -> None:
        """For what time alone brings about."""
        eventually(holds, lambda: f"still {dict(self.workers())}", self.seconds_max)

    @abstractmethod
    def output(self, worker: str) -> bytes:
        """What it has written so far."""


class LocalDesk(WaitingDesk):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._world = LocalWorld(directory / "state")
        self._directory = directory
        self.node = NodeName("local")
        self._take(self._world.cluster)

    def action(self, worker: str, does: Manner | int, slot_ids: tuple[int, ...] = (0,)) -> StartWorker:
        return start_of(worker, self.node, slot_ids, shell(does))

    def broken(self, worker: str) -> StartWorker:
        return start_of(worker, self.node, (0,), ("no-such-program",))

    def take_over(self) -> None:
        self._take(self._world.open())

    def _take(self, cluster: Cluster) -> None:
        cluster.on_change(self.changed.set)
        self.cluster = cluster

    def output(self, worker: str) -> bytes:
        name = WorkerId(worker)
        return self._world.cluster.logs.read(name, nonce=self.workers()[name].nonce)[0]

    def close(self) -> None:
        self._world.tear_down()


def shell(does: Manner | int) -> tuple[str, ...]:
    """A command that behaves so under any POSIX shell."""
    if isinstance(does, int):
        return ("sh", "-c", f"exit {does}")
    trap = "'exit 64'" if does is Manner.POLITE else "''"
    return ("sh", "-c", f"trap {trap} TERM; echo up; while :; do sleep 0.1; done")


def start_of(
    worker: str, node: NodeName, slot_ids: tuple[int, ...], command: Sequence[str], template: str | None = None
) -> StartWorker:
    return StartWorker(
        worker_id=WorkerId(worker),
        job_id=JobId(int(worker.partition("-")[0])),
        node=node,
        slot_ids=slot_ids,
        cpus=0.01,
        memory_mib=32,
        command=tuple(command),
        env=(("GREETING", "hello"),),
        workdir=None,
        grace_seconds=GRACE_SECONDS,
        generation=3,
        pod_template=template,
    )
