"""Absorb the load of oversold slots: which of them are crowded, so that workers that share them have to leave.

A slot is crowded from the moment at which its memory or utilization crosses a limit. It takes new sharers only some
time after it fell well below, or those that left would come back at once and have to leave again.
"""

from collections.abc import Mapping

from scheduler.config import PolicySettings
from scheduler.engine.changeset import Changeset
from scheduler.model.ids import NodeName
from scheduler.model.observation import SlotLoad
from scheduler.model.stray import Stray
from scheduler.model.worker import Worker
from scheduler.model.world import CrowdedSlot, World, sharers

#: A slot is well below a limit when this share of the whole is free up to it.
MARGIN = 0.1


def absorb_loads(
    changeset: Changeset, loads: Mapping[NodeName, tuple[SlotLoad, ...]], settings: PolicySettings
) -> None:
    """Absorb the load of every slot of oversold nodes; a slot without a reading counts as not busy."""
    loads = {name: seen for name, seen in loads.items() if _oversold(changeset, name)}
    if not loads and not changeset.base.crowded:
        return
    leaving = _leaving(changeset.base)
    crowded: dict[NodeName, dict[int, CrowdedSlot]] = {}
    for name in {**loads, **changeset.base.crowded}:
        before = changeset.base.crowded.get(name, {})
        read = dict(enumerate(loads.get(name, ())))
        for slot in {**read, **before}:
            load = read.get(slot, SlotLoad())
            after = _judge(before.get(slot), load, changeset.now, settings)
            if after is not None and after.reopen_at is None and (name, slot) in leaving:
                after = CrowdedSlot(changeset.now + settings.oversell_cooldown_seconds)
            if after is not None:
                crowded.setdefault(name, {})[slot] = after
    changeset.see_crowded(crowded)


def _oversold(changeset: Changeset, name: NodeName) -> bool:
    node = changeset.node(name)
    return node is not None and node.extra_slots > 0


def _judge(before: CrowdedSlot | None, load: SlotLoad, now: float, settings: PolicySettings) -> CrowdedSlot | None:
    """The slot's state after this reading; None: not crowded."""
    if _exceeds(load, settings, 0.0):
        return CrowdedSlot(now if before is None else before.leave_at)
    if before is None:
        return None
    if before.reopen_at is None:
        return CrowdedSlot(before.leave_at, now + settings.oversell_reopen_seconds)
    if now < before.reopen_at or _exceeds(load, settings, MARGIN):
        return before
    return None


def _exceeds(load: SlotLoad, settings: PolicySettings, margin: float) -> bool:
    limits = ((load.memory, settings.oversell_memory_max), (load.utilization, settings.oversell_utilization_max))
    return any(seen is not None and limit is not None and seen > limit - margin for seen, limit in limits)


def _leaving(world: World) -> set[tuple[NodeName, int]]:
    """Shared slots that a worker was leaving before this tick: the effect of that is not seen yet."""
    leavers = (who for who in sharers(world) if _leaves(world, who))
    return {(who.node, slot) for who in leavers for slot in who.slot_ids}


def _leaves(world: World, who: Worker | Stray) -> bool:
    return not world.goes_on(who) if isinstance(who, Stray) else not who.wanted
