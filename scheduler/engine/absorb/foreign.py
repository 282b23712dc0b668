"""Absorb foreign use of nodes, and foreign demands.

The plan makes room for a demand; taking the room is up to the cluster. A demand that does not use its room (it waits
for something else) must not keep slots idle for ever: after some patience it is ignored for a while.
"""

from collections.abc import Collection, Mapping, Sequence

from scheduler.config import PolicySettings
from scheduler.engine.changeset import Changeset
from scheduler.model.foreign import NO_FOREIGN, Awaited, Demand
from scheduler.model.ids import NodeName
from scheduler.model.node import Node
from scheduler.model.observation import NodeObservation
from scheduler.model.shape import WorkerShape
from scheduler.model.worker import Worker
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import left_of
from scheduler.policy.capacity.resources import amount_of, enough, fit_in, needs

#: A demand that was not taken up is ignored for this multiple of the patience that it got.
IGNORED_TIMES = 10


def absorb_use(
    changeset: Changeset, seen: Mapping[NodeName, NodeObservation], gone: Mapping[NodeName, WorkerShape]
) -> None:
    """Absorb foreign use of nodes; lost capacity counts as such, for no worker may have it either."""
    used = ((name, node.foreign) for name, node in seen.items() if node.foreign is not NO_FOREIGN)  # mostly none is
    foreign = {name: use for name, use in used if use != NO_FOREIGN}
    for name, lost in gone.items():
        foreign[name] = foreign.get(name, NO_FOREIGN).plus(lost)
    changeset.see_foreign(foreign, changeset.base.demands)


def absorb_demands(changeset: Changeset, wanted: Sequence[Demand], settings: PolicySettings) -> None:
    """Absorb foreign demands; whether there is room depends on present foreign use."""
    if not wanted and not changeset.base.demands:
        return
    before = {awaited.demand.name: awaited for awaited in changeset.base.demands}
    nodes = changeset.world().nodes.values() if wanted else ()
    demands = tuple(_follow(changeset, nodes, demand, before.get(demand.name), settings) for demand in wanted)
    changeset.see_foreign(changeset.base.foreign, demands)


def others_took(changeset: Changeset, worker: Worker) -> bool:
    """Whether foreign processes took the place of a worker that ended in this tick, or its slots are gone or closed."""
    node, foreign = changeset.node(worker.node), changeset.base.foreign.get(worker.node, NO_FOREIGN)
    if node is None:
        return False
    if node.closed_among(worker.slot_ids):
        return True
    left = left_of(node, changeset.base.used(node.name), foreign)  # beside the worker, too
    return not enough(left, amount_of(worker, node))


def _follow(
    changeset: Changeset, nodes: Collection[Node], demand: Demand, before: Awaited | None, settings: PolicySettings
) -> Awaited:
    now, patience_seconds = changeset.now, settings.demand_patience_seconds
    ignored_until = before.ignored_until if before is not None else None
    if ignored_until is not None and now < ignored_until:
        return Awaited(demand, ignored_until=ignored_until)
    if not _has_room(changeset.base, nodes, demand):
        return Awaited(demand)
    since = before.room_since if before is not None and before.room_since is not None else now
    if now - since >= patience_seconds:
        return Awaited(demand, ignored_until=now + IGNORED_TIMES * patience_seconds)
    return Awaited(demand, room_since=since)


def _has_room(base: World, nodes: Collection[Node], demand: Demand) -> bool:
    """Whether one of the nodes could take the demand at this moment."""
    need = needs(demand.shape)
    return any(
        fit_in(need, left_of(node, base.used(node.name), base.foreign.get(node.name, NO_FOREIGN)))
        for node in nodes
        if node.schedulable and demand.may_use(node.name) and node.suits(demand.shape)
    )
