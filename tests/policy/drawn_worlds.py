"""Worlds that nobody thought of: drawn clusters with running jobs and a queue, for every guarantee of a plan."""

from collections import Counter
from typing import Any

from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.job import Runtime
from scheduler.model.job_state import JobState
from tests.policy.worlds import CORDONED, DRAINING, NOW, Cluster

#: What a job says of being preemptible, as fields of its spec.
PREEMPTIBLE: tuple[dict[str, bool], ...] = (
    {},
    {},
    {},
    {"preemptible": False},
    {"preemptible": False, "surplus_preemptible": True},
)


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    queue_max: int = 5,
    shapes: tuple[int, ...] = (1, 1, 2, 3),
    limits: tuple[float | None, ...] = (None, None, 1500.0, 5000.0),
    types: tuple[str | None, ...] = ("x", "x", "y"),
    drains: bool = False,
    aging: tuple[float, ...] = (0.0,),
    leaving: bool = True,
) -> Cluster:
    """Up to four nodes, filled with running jobs, and a queue."""
    c = Cluster(PolicySettings(aging_per_hour=draw(st.sampled_from(aging))))
    for name in "abcd"[: draw(st.integers(1, 4))]:
        intent = draw(st.sampled_from((DRAINING, CORDONED, None, None, None))) if drains else None
        fields: dict[str, Any] = {"intent": intent} if intent else {}
        c.node(name, draw(st.integers(1, 6)), gpu_type=draw(st.sampled_from(types)), **fields)
    number = 0
    for _ in range(draw(st.integers(0, 6))):
        number += 1
        _fill(draw, c, number, shapes, limits, leaving=leaving)
    for _ in range(draw(st.integers(0, queue_max))):
        number += 1
        c.waiting(number, **random_fields(draw, shapes, limits), submitted_at=NOW - draw(st.integers(0, 9)))
    return c


def random_fields(draw: st.DrawFn, shapes: tuple[int, ...], limits: tuple[float | None, ...]) -> dict[str, Any]:
    low = draw(st.integers(1, 4))
    return {
        "workers": (low, low + draw(st.sampled_from((0, 0, 1, 3)))),
        "slots_per_worker": draw(st.sampled_from(shapes)),
        "priority": draw(st.integers(0, 3)),
        **draw(st.sampled_from(PREEMPTIBLE)),
        "time_limit_seconds": draw(st.sampled_from(limits)),
        "queued_at": NOW - draw(st.integers(0, 7200)),
        "runtime": draw(st.sampled_from((Runtime.ELASTIC, Runtime.COMMAND))),
        "expected_seconds": draw(st.sampled_from((None, None, 100.0, 100_000.0))),
        "speedup": draw(st.sampled_from(((), (), ((1, 1.0), (4, 2.0))))),
    }


def _fill(
    draw: st.DrawFn,
    c: Cluster,
    number: int,
    shapes: tuple[int, ...],
    limits: tuple[float | None, ...],
    *,
    leaving: bool,
) -> None:
    """A running job of any size within its bounds, where there is room for it on nodes of one GPU type."""
    fields = random_fields(draw, shapes, limits)
    fields["running_at"] = NOW - draw(st.sampled_from((10.0, 1000.0)))
    used = c.slots_used()
    low, high = fields["workers"]
    spots: dict[str, int] = {}
    kind = draw(st.sampled_from([node.gpu_type for node in c.nodes.values()]))
    size = draw(st.integers(low, high))
    for node in c.nodes.values():
        fit = (node.slots - used[node.name].bit_count()) // fields["slots_per_worker"]
        if node.gpu_type == kind and fit and sum(spots.values()) < size:
            spots[node.name] = min(fit, size - sum(spots.values()))
    placed = sum(spots.values())
    if not placed:
        return
    fields["workers"] = (min(low, placed), max(high, placed))
    surplus = placed - fields["workers"][0]
    fields["leaving"] = draw(st.integers(0, surplus)) if leaving else 0
    fields["state"] = draw(st.sampled_from((JobState.RUNNING,) * 4 + (JobState.STOPPING,) * leaving))
    c.running(number, spots, **fields)


@st.composite
def full_clusters(draw: st.DrawFn) -> Cluster:
    """Every slot is held by one of three jobs, and job 99, more important than most, waits."""
    c = Cluster()
    slots = {name: draw(st.integers(1, 4)) for name in "abc"[: draw(st.integers(1, 3))]}
    owners = {number: Counter[str]() for number in (1, 2, 3)}
    for name, count in slots.items():
        c.node(name, count)
        for _ in range(count):
            owners[draw(st.integers(1, 3))][name] += 1
    for number, on in owners.items():
        if on:
            size = on.total()
            bounds = (draw(st.integers(1, size)), size)
            c.running(number, dict(on), workers=bounds, priority=draw(st.integers(0, 3)))
    least = draw(st.integers(1, sum(slots.values())))
    return c.waiting(
        99, workers=(least, least), slots_per_worker=draw(st.sampled_from((1, 1, 2))), priority=draw(st.integers(2, 4))
    )
