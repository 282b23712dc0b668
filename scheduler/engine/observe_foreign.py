"""Absorb what others hold of the nodes, and what they wait for.

Who waits is given room by the plan; taking it is up to the cluster. One that does not come although there is room (it
waits for something else) must not keep slots idle for ever: after some patience it does not count for a while.
"""

from collections.abc import Collection

from scheduler.config import PolicySettings
from scheduler.engine.draft import Draft
from scheduler.model.foreign import NO_FOREIGN, Awaited, Demand
from scheduler.model.node import Node
from scheduler.model.observation import Observation
from scheduler.model.world import World
from scheduler.policy.amounts import fit_in, needs
from scheduler.policy.ledger import left_of

#: A demand that was not taken up is ignored for so many times the patience that was had with it.
IGNORED_TIMES = 10


def absorb_foreign(draft: Draft, observation: Observation, settings: PolicySettings) -> None:
    """Take in what processes of others use and need."""
    foreign = {name: node.foreign for name, node in observation.nodes.items() if node.foreign != NO_FOREIGN}
    if not foreign and not observation.demands and not draft.base.foreign and not draft.base.demands:
        return
    draft.see_foreign(foreign, draft.base.demands)  # whether there is room depends on what they hold now
    before = {awaited.demand.name: awaited for awaited in draft.base.demands}
    nodes = draft.world().nodes.values() if observation.demands else ()
    demands = tuple(_follow(draft, nodes, demand, before.get(demand.name), settings) for demand in observation.demands)
    draft.see_foreign(foreign, demands)


def _follow(
    draft: Draft, nodes: Collection[Node], demand: Demand, before: Awaited | None, settings: PolicySettings
) -> Awaited:
    now, patience_seconds = draft.now, settings.demand_patience_seconds
    ignored_until = before.ignored_until if before is not None else None
    if ignored_until is not None and now < ignored_until:
        return Awaited(demand, ignored_until=ignored_until)
    if not _has_room(draft.base, nodes, demand):
        return Awaited(demand)
    since = before.room_since if before is not None and before.room_since is not None else now
    if now - since >= patience_seconds:
        return Awaited(demand, ignored_until=now + IGNORED_TIMES * patience_seconds)
    return Awaited(demand, room_since=since)


def _has_room(base: World, nodes: Collection[Node], demand: Demand) -> bool:
    """Whether one of the nodes could take it at this moment."""
    need = needs(demand.shape)
    return any(
        fit_in(need, left_of(node, base.used(node.name), base.foreign.get(node.name, NO_FOREIGN)))
        for node in nodes
        if node.schedulable and demand.may_use(node.name) and node.suits(demand.shape)
    )
