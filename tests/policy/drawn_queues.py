"""Drawn clusters with trees of queues, for every law of what queues get."""

from typing import Any

from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.queue import ANY_GPU
from tests.policy.drawn_worlds import PREEMPTIBLE
from tests.policy.worlds import NOW, Cluster

#: Inner queues of `a`, those inside `a/a`, and so on.
PATHS = ("a", "b", "c", "a/a", "a/b", "b/a", "a/a/a", "a/a/b")
USERS = ("ann", "bob")
WEIGHTS = (0.5, 1.0, 1.0, 2.0, 3.0)


@st.composite
def trees(draw: st.DrawFn, kinds: tuple[str, ...] = (ANY_GPU,), *, limits: bool = True) -> dict[str, dict[str, Any]]:
    """Fields of queues by path; each is inside one that exists."""
    found: dict[str, dict[str, Any]] = {}
    for path in PATHS:
        parent = path.rpartition("/")[0]
        if (not parent or parent in found) and draw(st.booleans()):
            found[path] = draw(queue_fields(kinds, limits=limits))
    return found or {"a": {}, "b": {}}


@st.composite
def queue_fields(draw: st.DrawFn, kinds: tuple[str, ...], *, limits: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"weight": draw(st.sampled_from(WEIGHTS))}
    rarely = st.sampled_from((False, False, True))
    guarantee = {kind: draw(st.integers(0, 8)) for kind in kinds if draw(rarely)}
    if guarantee:
        fields["guarantee"] = guarantee
    if limits:
        limit = {kind: guarantee.get(kind, 0) + draw(st.integers(0, 8)) for kind in kinds if draw(rarely)}
        if limit:
            fields["limit"] = limit
        if draw(rarely):
            fields["user_limit"] = draw(st.integers(1, 8))
    fields["share_users"] = draw(rarely)
    return fields


@st.composite
def queued_clusters(
    draw: st.DrawFn,
    *,
    types: tuple[str | None, ...] = (None, "x", "y"),
    shapes: tuple[int, ...] = (1, 1, 1, 2, 3),
    jobs_max: int = 12,
    limits: bool = True,
    pinned: bool = True,
) -> Cluster:
    """Up to four nodes, and jobs that wait or run in queues, in the root, or in a queue that does not exist."""
    c = Cluster(PolicySettings(fair_stop_seconds=draw(st.sampled_from((None, None, 500.0)))))
    for name in "nmop"[: draw(st.integers(1, 4))]:
        c.node(name, draw(st.integers(1, 8)), gpu_type=draw(st.sampled_from(types)))
    named = tuple(kind for kind in types if kind is not None)
    tree = draw(trees((ANY_GPU, *dict.fromkeys(named)), limits=limits))
    unread = draw(st.sampled_from((None, None, None, None, *tree)))
    for path, fields in tree.items():
        c.queue(path, **(fields if path != unread else {"readable": False}))
    # beside limits and guarantees of types every job names one: the laws do not say of which type the others would be
    promised = [kind for fields in tree.values() for name in ("guarantee", "limit") for kind in fields.get(name, ())]
    asked_for = named if any(kind != ANY_GPU for kind in promised) else (None, None, *types)
    for number in range(1, draw(st.integers(1, jobs_max)) + 1):
        add_job(draw, c, number, (*tree, "", "gone"), asked_for, shapes, pinned=pinned)
    return c


def add_job(
    draw: st.DrawFn,
    c: Cluster,
    number: int,
    paths: tuple[str, ...],
    types: tuple[str | None, ...],
    shapes: tuple[int, ...],
    *,
    pinned: bool,
) -> None:
    """A job that runs where there is room for it, else waits."""
    low = draw(st.integers(1, 4))
    fields: dict[str, Any] = {
        "workers": (low, low + draw(st.sampled_from((0, 0, 1, 3, 8)))),
        "slots_per_worker": draw(st.sampled_from(shapes)),
        "priority": draw(st.integers(0, 2)),
        **(draw(st.sampled_from(PREEMPTIBLE)) if pinned else {}),
        "queue": draw(st.sampled_from(paths)),
        "user": draw(st.sampled_from(USERS)),
        "gpu_type": draw(st.sampled_from(types)),
        "submitted_at": NOW - draw(st.integers(0, 9)),
    }
    on = spots(draw, c, fields) if draw(st.booleans()) else {}
    if on:
        c.running(number, on, **fields)
    else:
        c.waiting(number, **fields)


def spots(draw: st.DrawFn, c: Cluster, fields: dict[str, Any]) -> dict[str, int]:
    """Nodes of one GPU type for any number of workers within the job's bounds; none if its minimum finds no room."""
    low, high = fields["workers"]
    kind = fields["gpu_type"] or draw(st.sampled_from([node.gpu_type for node in c.nodes.values()]))
    used, size, on = c.slots_used(), draw(st.integers(low, high)), dict[str, int]()
    for node in c.nodes.values():
        fit = (node.slots - used[node.name].bit_count()) // fields["slots_per_worker"]
        count = min(fit, size - sum(on.values()))
        if node.gpu_type == kind and count > 0:
            on[node.name] = count
    return on if sum(on.values()) >= low else {}


@st.composite
def divisible_clusters(draw: st.DrawFn, *, direct: bool = True) -> Cluster:
    """Nothing runs yet, and every job wants every slot, or else one; `direct`: jobs in queues with inner ones, too."""
    c = Cluster().node("n", draw(st.integers(1, 8))).node("m", draw(st.integers(1, 8)))
    tree = draw(trees(limits=False))
    for path, fields in tree.items():
        c.queue(path, **fields)
    inner = {path.rpartition("/")[0] for path in tree} | {""}
    paths = (*tree, "") if direct else tuple(path for path in tree if path not in inner)
    for number in range(1, draw(st.integers(1, 8)) + 1):
        fields = {"queue": draw(st.sampled_from(paths)), "user": draw(st.sampled_from(USERS))}
        c.waiting(number, workers=(1, sum(node.slots for node in c.nodes.values())), **fields)
    return c
