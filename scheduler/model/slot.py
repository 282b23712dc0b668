"""Slots that take no new workers, and why."""

from dataclasses import dataclass
from enum import StrEnum


class SlotClosure(StrEnum):
    """Why a slot takes no new workers although its node does."""

    #: Processes that are not workers use it. Workers that are there go on.
    FOREIGN = "FOREIGN"
    #: Its hardware is broken or gone. Workers that are there are moved off.
    UNHEALTHY = "UNHEALTHY"
    #: Nothing can be read of it, so that nobody knows whether it works. Workers that are there go on.
    UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True)
class ClosedSlot:
    """A slot as the cluster sees it, with one line for people that stays the same as long as nothing new happens."""

    slot: int
    closure: SlotClosure
    detail: str = ""
