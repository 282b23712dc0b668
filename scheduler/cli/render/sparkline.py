"""Utilization as a line of blocks: the last hour as the daemon knows it, then what is seen at each look."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from scheduler.cli.client.client import Client
from scheduler.cli.exits import Unavailable
from scheduler.errors import InvalidInput, NotFound

PARTS = 60
SPAN_SECONDS = 3600.0
_BLOCKS = "▁▂▃▄▅▆▇█"
_NONE = " "


def sparkline(shares: Iterable[float | None]) -> str:
    """One block for each share of 0 to 1; a blank where there were no slots."""
    return "".join(_block(share) for share in shares)


def _block(share: float | None) -> str:
    if share is None:
        return _NONE
    return _BLOCKS[min(len(_BLOCKS) - 1, max(0, int(share * len(_BLOCKS))))]


def shares(view: dict[str, Any]) -> list[float | None]:
    """Utilization in each part of a document that has a course of slots."""
    course = view["course"]
    used = [sum(held) for held in zip(*course["used"].values(), strict=True)] or [0.0] * len(course["slots"])
    return [min(1.0, held / slots) if slots else None for held, slots in zip(used, course["slots"], strict=True)]


class Recent:
    """Utilization of the last hour, minute by minute; the minute that runs is the mean of what was seen in it."""

    def __init__(self, past: Iterable[float | None], now: float) -> None:
        self._minutes: deque[float | None] = deque(past, maxlen=PARTS)
        self._minute = int(now // 60)
        self._seen: list[float] = []

    @classmethod
    def asked(cls, client: Client, now: float) -> "Recent":
        """From the daemon; one that does not tell, or whose clock is far behind, leaves the past blank."""
        try:
            view = client.get("/v1/utilization", {"since": max(0.0, now - SPAN_SECONDS), "parts": PARTS})
        except (Unavailable, NotFound, InvalidInput):
            return cls((), now)
        return cls(shares(view)[1:], now)

    def see(self, cluster: dict[str, Any], now: float) -> None:
        """Take in what is used now."""
        minute = int(now // 60)
        if minute != self._minute:
            unseen = min(max(0, minute - self._minute - 1), PARTS)
            self._minutes.extend([self._running(), *[None] * unseen])
            self._minute, self._seen = minute, []
        if cluster["slots_total"]:
            self._seen.append(min(1.0, cluster["slots_used"] / cluster["slots_total"]))

    def _running(self) -> float | None:
        return sum(self._seen) / len(self._seen) if self._seen else None

    def line(self) -> str:
        """`▂▃▅▇ 84% of slots used in the last hour`; the newest minute is the last block."""
        course = [*self._minutes, self._running()][-PARTS:]
        known = [share for share in course if share is not None]
        mean = f"  {sum(known) / len(known):.0%} of slots used on average in the last hour" if known else ""
        return f"{sparkline(course)}{mean}"
