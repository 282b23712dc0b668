"""The local cluster: this machine, its workers as process groups that outlive the daemon.

A supervisor process (`supervisor`) owns the workers; the daemon's side keeps its picture of them up to date and passes
on the engine's actions. Logs are read from files, so they can be read without either.
"""

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import assert_never

from scheduler import bounds
from scheduler.clusters.local.accounts import Accounts, Refused, login_variables
from scheduler.clusters.local.env import InheritedEnv
from scheduler.clusters.local.link import SupervisorLink
from scheduler.clusters.local.machine import machine_of
from scheduler.clusters.local.wire import Notice, Request, StartRequest, StopRequest, WorkerNotice
from scheduler.clusters.logs.reader import LocalLogs
from scheduler.config import LocalSettings
from scheduler.engine.ports import TOO_LATE, ActionFailure, Clock, ClusterAction, ForgetWorker, StartWorker, StopWorker
from scheduler.errors import ClusterError
from scheduler.model.export import Export
from scheduler.model.ids import NodeName, WorkerId, job_key, split_job_key
from scheduler.model.observation import EndCause, NodeObservation, Observation, Phase, WorkerObservation

#: Of commands and variables, with which a message is sent: each may take twelve of the bytes that one may have.
MESSAGE_CHARACTERS = 1_000_000
_READY_SECONDS_MAX = 15.0
#: How long an observation waits for a supervisor that is being replaced.
_OBSERVE_SECONDS_MAX = 1.0


#: What a supervisor is that would start everything as root.
_TOO_OLD = "is of an older version, which starts nothing as its user: let its workers end"


def in_messages(actions: Iterable[ClusterAction]) -> Iterator[list[ClusterAction]]:
    """The actions in messages that the supervisor takes, whatever commands and variables some of them have."""
    message: list[ClusterAction] = []
    characters = 0
    for action in actions:
        message.append(action)
        if isinstance(action, StartWorker):
            characters += sum(map(len, action.command)) + sum(len(name) + len(value) for name, value in action.env)
        if characters > MESSAGE_CHARACTERS:
            yield message
            message, characters = [], 0
    if message:
        yield message


class LocalCluster:
    """The `Cluster` port on this machine. A second one of the same state directory takes over from the first."""

    def __init__(
        self,
        state_dir: Path,
        settings: LocalSettings,
        clock: Clock,
        *,
        accounts: Accounts | None = None,
        supervisor_idle_seconds: float = 30.0,
    ) -> None:
        """Connects to the supervisor, launching it if need be. Raises `ClusterError` if it cannot.

        `accounts`: the users as whom workers run, where this process is root; None: they run as its own user.
        `supervisor_idle_seconds`: how long the supervisor goes on without workers and daemon before it ends by itself.
        """
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs = LocalLogs(state_dir)
        self._clock = clock
        self._accounts = accounts
        self._env = InheritedEnv(os.environ, settings.pass_environment)
        self._workdir = os.path.expanduser("~")
        self._changed = threading.Condition()
        self._wakes: list[Callable[[], None]] = []
        self._workers: dict[WorkerId, WorkerObservation] = {}
        self._forgetting: set[WorkerId] = set()
        self._snapshot: Mapping[WorkerId, WorkerObservation] | None = None
        self._down_reason: str | None = "the supervisor of local workers has not responded yet"
        self._starts_as_users = False
        self._machine = machine_of(state_dir.resolve(), settings, clock, self._known_workers, self._wake)
        limits = (settings.log_bytes_max, settings.log_files_max)
        self._link = SupervisorLink(
            state_dir.resolve(), limits, supervisor_idle_seconds, self._on_notice, self._on_down
        )
        with self._changed:
            if not self._changed.wait_for(lambda: self._down_reason is None, _READY_SECONDS_MAX):
                self.close()
                raise ClusterError(self._down_reason or "")
        self._machine.start()

    def observe(self) -> Observation:
        """A whole snapshot. Raises `ClusterError` while there is no supervisor."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._down_reason is None, _OBSERVE_SECONDS_MAX):
                raise ClusterError(self._down_reason or "")
            if self._snapshot is None:
                self._snapshot = MappingProxyType(dict(self._workers))
            return Observation(nodes=self._machine.nodes, workers=self._snapshot, loads=self._machine.loads)

    def apply(self, actions: Sequence[ClusterAction], until: float = math.inf) -> Sequence[ActionFailure]:
        """Pass all of them to the supervisor. Started workers are seen as LAUNCHING until it answers."""
        if self._clock.now() >= until:
            return [ActionFailure(action, TOO_LATE) for action in actions]
        failures: list[ActionFailure] = []
        passed: list[ClusterAction] = []
        nodes = self._machine.nodes
        with self._changed:
            for action in actions:
                refusal = self._refusal(action, nodes.get(action.node))
                if refusal:
                    failures.append(ActionFailure(action, refusal))
                else:
                    passed.append(action)
            for message in in_messages(passed):
                try:
                    # Within the lock: the supervisor's answer must come after the notes below.
                    self._link.send(Request(env=self._env.common, actions=[self._encode(action) for action in message]))
                except ClusterError as error:
                    failures += [ActionFailure(action, str(error)) for action in message]
                    continue
                for action in message:
                    self._note(action)
        return failures

    def troubles(self) -> list[str]:
        """Failures besides those of observing and starting workers, one line each."""
        return self._machine.troubles

    @property
    def taken_over(self) -> bool:
        """Whether another one controls the supervisor now: this one sees and does nothing any more."""
        return self._link.taken_over

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a thread of the cluster, whenever `observe` would give more than what `apply` caused."""
        self._wakes.append(wake)

    def close(self) -> None:
        """Disconnect; workers and their supervisor go on."""
        self._machine.close()
        self._link.close()

    def shutdown(self) -> None:
        """Kill all workers and end the supervisor; returns when they are gone. Raises `ClusterError` if that fails."""
        with self._changed:
            self._changed.wait_for(lambda: self._down_reason is None, _READY_SECONDS_MAX)
        self._machine.close()
        self._link.shutdown()

    def _known_workers(self) -> Mapping[WorkerId, WorkerObservation]:
        with self._changed:
            return dict(self._workers)

    def _refusal(self, action: ClusterAction, node: NodeObservation | None) -> str:
        """Why the action cannot be done; empty: it can. A worker may be on a node that is no longer this machine's."""
        known = self._workers.get(action.worker_id)
        if node is None and (known is None or known.node != action.node):
            return f"node {action.node} not found"
        if isinstance(action, ForgetWorker) and self._is_alive(action.worker_id):
            return "it is still alive"
        if isinstance(action, StartWorker) and self._accounts is not None and not self._starts_as_users:
            return f"the supervisor of local workers {_TOO_OLD}"
        gpus = node.slots if node is not None and node.has_gpus else bounds.SLOTS.high
        if isinstance(action, StartWorker) and max(action.slot_ids, default=-1) >= gpus:
            return f"node {action.node} has only {gpus:g} GPUs"
        return ""

    def _is_alive(self, worker: WorkerId) -> bool:
        known = self._workers.get(worker)
        return known is not None and known.alive

    def _encode(self, action: ClusterAction) -> tuple[str, StartRequest | StopRequest | dict[str, str]]:
        match action:
            case StartWorker():
                return "start", self._start_request(action)
            case StopWorker():
                return "stop", StopRequest(id=action.worker_id, grace_seconds=action.grace_seconds)
            case ForgetWorker():
                return "forget", {"id": action.worker_id}
            case _:
                assert_never(action)

    def _start_request(self, action: StartWorker) -> StartRequest:
        export = action.export or Export()
        env = self._env.of_worker(dict(export.env), dict(action.env))
        devices = self._machine.devices(action.node, action.slot_ids)
        if devices is not None:
            env["CUDA_VISIBLE_DEVICES"] = devices
        request = StartRequest(
            id=action.worker_id,
            job_id=job_key(action.job_id, action.nonce),
            node=action.node,
            slot_ids=list(action.slot_ids),
            cpus=action.cpus,
            memory_mib=action.memory_mib,
            shared=action.shared,
            grace_seconds=action.grace_seconds,
            command=list(action.command),
            env=env,
            workdir=action.workdir or export.workdir or "",
        )
        if self._accounts is not None:
            self._as_user(request, self._accounts, action.user)
        request["workdir"] = request["workdir"] or self._workdir
        return request

    def _as_user(self, request: StartRequest, accounts: Accounts, user: str) -> None:
        """Let it be the start of a process of this user, in the user's home unless the job says where."""
        try:
            account = accounts.find(user)
        except Refused as refused:
            request["no_account"] = str(refused)
            return
        request["account"] = account
        request["env"] = {**login_variables(account), **request["env"]}
        request["workdir"] = request["workdir"] or account["home"]

    def _note(self, action: ClusterAction) -> None:
        if isinstance(action, StartWorker) and action.worker_id not in self._workers:
            self._workers[action.worker_id] = WorkerObservation(
                id=action.worker_id,
                job_id=action.job_id,
                node=action.node,
                phase=Phase.LAUNCHING,
                slot_ids=action.slot_ids,
                cpus=action.cpus,
                memory_mib=action.memory_mib,
                shared=action.shared,
                nonce=action.nonce,
            )
            self._snapshot = None
        elif isinstance(action, ForgetWorker):
            self._workers.pop(action.worker_id, None)
            # Notices that are under way may still name it, until the supervisor confirms.
            self._forgetting.add(action.worker_id)
            self._snapshot = None

    def _on_notice(self, notice: Notice) -> None:
        with self._changed:
            if "protocol" in notice:  # the first one tells everything
                self._workers.clear()
                self._forgetting.clear()
                self._down_reason = None
                self._starts_as_users = notice.get("starts_as_users", False)
            # The workers of a notice are as they are after all that it says is forgotten.
            self._forgetting.difference_update(WorkerId(name) for name in notice.get("forgotten", ()))
            for worker in notice.get("workers", ()):
                if worker["id"] not in self._forgetting:
                    self._workers[WorkerId(worker["id"])] = _observed(worker)
            self._snapshot = None
            self._changed.notify_all()
        if notice.get("workers") or "protocol" in notice:
            self._wake()

    def _on_down(self, reason: str) -> None:
        with self._changed:
            self._down_reason = reason
        self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()


def _line(text: str) -> str:
    """The text as any database takes it: names of files may have bytes that are no text, words of users anything."""
    shown = text.encode(errors="backslashreplace").decode()
    return "".join(c if c.isprintable() else " " for c in shown)


def _observed(worker: WorkerNotice) -> WorkerObservation:
    job_id, nonce = split_job_key(str(worker["job_id"]))
    cause = worker.get("cause")
    return WorkerObservation(
        id=WorkerId(worker["id"]),
        job_id=job_id,
        node=NodeName(worker["node"]),
        phase=Phase(worker["phase"]),
        slot_ids=tuple(worker["slot_ids"]),
        cpus=worker["cpus"],
        memory_mib=worker["memory_mib"],
        shared=worker["shared"],
        exit_code=worker["exit_code"],
        detail=_line(worker["detail"]),
        cause=None if cause is None else EndCause(cause),
        started_at=worker["started_at"],
        ended_at=worker["ended_at"],
        nonce=nonce,
    )
