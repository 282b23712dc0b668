"""The state of a worker from the status of its pod: whether it runs, why it does not yet, and how it ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.errors import line
from scheduler.clusters.kubernetes.nodes import node_terms, qualifies
from scheduler.clusters.kubernetes.pods import ASKS_MORE, CONTAINER
from scheduler.model.observation import EndCause, Phase
from scheduler.model.pod_template import worker_index

#: Waiting reasons of a container that are no trouble.
_WELL = frozenset({"ContainerCreating", "PodInitializing", ""})
#: A container that was not started at all: there is no such program, or the runtime refuses it.
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError"})
#: The runtime does not know any more how it ended.
_UNKNOWN = frozenset({"Unknown", "ContainerStatusUnknown"})
_CAUSES = {"OOMKilled": EndCause.OUT_OF_MEMORY}
#: Reasons of a whole pod that the node gave up for others or could not take in.
_DISPLACED = frozenset({"Preempting", "Preempted"})
_NODE_ENDS_IT = frozenset({"NodeShutdown", "Shutdown", "Terminated", "NodeAffinity"})
#: The kubelet did not admit it, beside OutOf and a resource: it has no such device, or not on one socket.
_REJECTED = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError"})
#: Since Kubernetes 1.26 a condition gives the reason of a disruption.
_DISRUPTIONS = {
    "PreemptionByScheduler": EndCause.DISPLACED,
    "EvictionByEvictionAPI": EndCause.REMOVED,
    "DeletionByTaintManager": EndCause.EVICTED,
    "TerminationByKubelet": EndCause.EVICTED,
    "DeletionByPodGC": EndCause.NODE_GONE,
}
#: Reasons that keep every pod of a node from running.
_FAULTS_OF_NODES = frozenset({"FailedCreatePodSandBox", "NetworkNotReady"})
_KILLED = 137
_DETAIL_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class PodState:
    """State of the worker in a pod, from the pod's status."""

    phase: Phase
    exit_code: int | None = None
    detail: str = ""
    cause: EndCause | None = None
    #: Whether the detail names something that keeps it from running.
    blocked: bool = False
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def alive(self) -> bool:
        return self.phase in (Phase.LAUNCHING, Phase.RUNNING)


def pod_state(pod: Document, labels: Mapping[str, str]) -> PodState:
    """State of the worker of a pod that exists. `labels`: the known labels of its node, with its name."""
    status = pod.get("status", {})
    state = _worker_state(pod)
    ended = status.get("phase") in ("Succeeded", "Failed")
    if "terminated" in state:
        return _terminated(pod, state["terminated"])
    if ended:
        return _ended_as_a_whole(pod)
    if "running" in state:
        return PodState(Phase.RUNNING, started_at=timestamp(state["running"].get("startedAt")))
    return _waiting(pod, state, labels)


def _may_exclude_its_node(pod: Document, labels: Mapping[str, str]) -> bool:
    """Whether the node that the pod was sent to may not be what the user's template asks for."""
    spec, notes = pod["spec"], pod.get("metadata", {}).get("annotations") or {}
    affinity = spec.get("affinity") or {}
    return bool(
        ASKS_MORE in notes
        or not qualifies(labels, *node_terms(spec))
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
        or spec.get("topologySpreadConstraints")
        or any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in spec.get("volumes") or ())
    )


def gone_state(last: PodState, pod: Document, node_is_there: bool) -> PodState:
    """State of a worker whose pod was deleted, given the pod's last version."""
    now = pod_state(pod, {})
    if not now.alive:
        return now
    cause = _disruption(pod) or (EndCause.REMOVED if node_is_there else EndCause.NODE_GONE)
    if now.phase is Phase.LAUNCHING:
        return PodState(Phase.EXITED, None, now.detail or last.detail or "its pod was deleted before it ran", cause)
    what = "its pod was deleted" if node_is_there else "its pod was deleted after its node was lost"
    return PodState(Phase.LOST, None, what, cause, started_at=now.started_at)


def vanished(last: PodState) -> PodState:
    """State of a worker whose pod was deleted while no watch was open."""
    what = last.detail or "its pod was deleted while the API was not being watched"
    return replace(last, phase=Phase.LOST, exit_code=None, detail=what, cause=None, blocked=False)


def timestamp(text: str | None) -> float | None:
    """Unix seconds of a time as the API writes it; None for none, and for the year 1, which means none."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text).timestamp()


def worker_container(pod: Document) -> str:
    """The name of the container that the worker runs in; pods of earlier versions do not say which it is."""
    containers = pod["spec"]["containers"]
    noted = (pod["metadata"].get("annotations") or {}).get(CONTAINER)
    if any(each["name"] == noted for each in containers):
        return str(noted)
    return str(containers[worker_index(containers) or 0]["name"])


def _worker_state(pod: Document) -> Mapping[str, Any]:
    name = worker_container(pod)
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return next((each.get("state") or {} for each in statuses if each["name"] == name), {})


def _terminated(pod: Document, end: Mapping[str, Any]) -> PodState:
    """State of a worker whose container has ended."""
    reason, code = end.get("reason", ""), end.get("exitCode")
    times = (timestamp(end.get("startedAt")), timestamp(end.get("finishedAt")))
    message = _line(reason, end.get("message", ""))
    if reason in _NOT_STARTED:
        return PodState(Phase.LAUNCH_FAILED, None, message, None, False, *times)
    cause = _CAUSES.get(reason) or _pod_cause(pod) or _removal(pod, times[1])
    if reason in _UNKNOWN:
        return PodState(Phase.LOST, None, "its node did not report how it ended", cause, False, *times)
    if cause is EndCause.REMOVED:
        message = "its pod was deleted"
    elif cause is not None and cause is not EndCause.OUT_OF_MEMORY:
        message = _pod_line(pod) or message
    plain = cause is None and not end.get("message")
    return PodState(Phase.EXITED, code, "" if plain else message, cause, False, *times)


def _ended_as_a_whole(pod: Document) -> PodState:
    """State of a worker whose container never ran: its pod was rejected or evicted, or an init container failed."""
    status = pod["status"]
    cause = _pod_cause(pod) or _removal(pod, None)
    failed = next(
        (
            (each["name"], state["terminated"])
            for each in status.get("initContainerStatuses") or ()
            if (state := each.get("state") or {}).get("terminated", {}).get("exitCode")
        ),
        None,
    )
    if failed is not None and cause is None:
        name, end = failed
        detail = f"init container {name} ended with exit code {end['exitCode']}"
        return PodState(Phase.LAUNCH_FAILED, None, detail)
    code = None if cause is not None else _KILLED
    return PodState(Phase.EXITED, code, _pod_line(pod), cause)


def _waiting(pod: Document, state: Mapping[str, Any], labels: Mapping[str, str]) -> PodState:
    """State of a worker that does not run yet, whether its pod is bound or not."""
    status = pod.get("status", {})
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            detail = _line(condition.get("reason", ""), condition.get("message", ""))
            cause = None if _may_exclude_its_node(pod, labels) else EndCause.NOT_ADMITTED
            return PodState(Phase.LAUNCHING, detail=detail, cause=cause, blocked=True)
    waits: list[Mapping[str, Any]] = [state.get("waiting") or {}]
    for key in ("initContainerStatuses", "containerStatuses"):
        waits += [(each.get("state") or {}).get("waiting") or {} for each in status.get(key) or ()]
    for wait in waits:
        if wait.get("reason", "") not in _WELL:
            return PodState(Phase.LAUNCHING, detail=_line(wait["reason"], wait.get("message", "")), blocked=True)
    return PodState(Phase.LAUNCHING)


def _pod_cause(pod: Document) -> EndCause | None:
    status = pod.get("status", {})
    reason, message = status.get("reason", ""), status.get("message", "")
    if reason == "Evicted":
        # A pod that exceeds its own limit is evicted, too: that is its own fault.
        return EndCause.EVICTED if message.startswith("The node ") else None
    if reason in _DISPLACED:
        return EndCause.DISPLACED
    if reason in _NODE_ENDS_IT:
        return EndCause.EVICTED
    if reason in _REJECTED or reason.startswith("OutOf"):
        return EndCause.NOT_ADMITTED
    return _disruption(pod)


def _disruption(pod: Document) -> EndCause | None:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return _DISRUPTIONS.get(condition.get("reason", ""), EndCause.EVICTED)
    return None


def _removal(pod: Document, ended_at: float | None) -> EndCause | None:
    """`REMOVED` if it ended because its pod was being deleted; None if it had ended before, or no deletion is asked."""
    deadline = timestamp(pod["metadata"].get("deletionTimestamp"))
    if deadline is None:
        return None
    asked_at = deadline - (pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    return EndCause.REMOVED if ended_at is None or ended_at >= asked_at else None


def _pod_line(pod: Document) -> str:
    status = pod.get("status", {})
    return _line(status.get("reason", ""), status.get("message", ""))


def _line(*parts: str) -> str:
    text = ": ".join(part for part in parts if part)
    return line(text, _DETAIL_LENGTH_MAX)


def complaint(events: Iterable[Document]) -> PodState | None:
    """State by the newest event of a pod that does not run yet, if that is a warning; None otherwise."""

    def when(event: Document) -> str:
        return str(event.get("lastTimestamp") or event.get("eventTime") or "")

    last = max(events, key=when, default=None)
    if last is None or last.get("type") != "Warning":
        return None
    reason = last.get("reason", "")
    cause = EndCause.NOT_ADMITTED if reason in _FAULTS_OF_NODES else None
    detail = _line(reason, last.get("message", ""))
    return PodState(Phase.LAUNCHING, detail=detail, cause=cause, blocked=True)


def was_displaced(events: Iterable[Document]) -> bool:
    """Whether an event says that the cluster's scheduler preempted the pod for another."""
    return any(event.get("reason") == "Preempted" for event in events)
