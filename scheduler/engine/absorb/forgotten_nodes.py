"""Remove nodes that the cluster has not listed for long, so that an autoscaler's nodes do not pile up."""

from collections.abc import Collection, Iterator

from scheduler.engine.changeset import Changeset
from scheduler.model.event import Cause, EventKind
from scheduler.model.ids import NodeName
from scheduler.model.job import Job
from scheduler.model.node import Node, NodeIntent


def forget_nodes(changeset: Changeset, listed: Collection[NodeName], after_seconds: float) -> None:
    """Remove nodes that were last listed `after_seconds` ago or earlier; 0: never.

    A node stays while a worker or a reservation names it, while an unreadable row might do so, and after a user
    cordoned or drained it: that is remembered for its return.
    """
    if after_seconds <= 0 or changeset.base.unreadable:
        return
    due = [node for node in _unlisted(changeset, listed) if _is_due(node, changeset.now, after_seconds)]
    if not due:
        return
    named = {name for job in _jobs(changeset) for name in _nodes_of(job)}
    named.update(stray.node for stray in changeset.base.strays.values())
    for node in due:
        if node.name not in named:
            changeset.forget_node(node)
            detail = f"not listed by the cluster for {changeset.now - (node.unlisted_since or 0.0):.0f} s"
            changeset.event(EventKind.NODE_FORGOTTEN, node=node.name, cause=Cause.TIME, detail=detail)


def _unlisted(changeset: Changeset, listed: Collection[NodeName]) -> Iterator[Node]:
    for known in changeset.base.nodes_apart():
        name = known.name
        if name not in listed and name not in changeset.base.usage and (node := changeset.node(name)) is not None:
            yield node


def _is_due(node: Node, now: float, after_seconds: float) -> bool:
    since = node.unlisted_since
    return node.intent is NodeIntent.ACTIVE and since is not None and now - since >= after_seconds


def _jobs(changeset: Changeset) -> Iterator[Job]:
    """All jobs that have not ended, held ones too."""
    yield from changeset.world().all_jobs()
    yield from changeset.held_jobs()


def _nodes_of(job: Job) -> Iterator[NodeName]:
    yield from (worker.node for worker in job.all_workers)
    yield from (name for name, _ in (*job.reservation, *job.fixed_reservation))
