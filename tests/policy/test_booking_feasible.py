"""Which bookings the cluster can promise."""

import pytest

from scheduler.model.booking import Booking
from scheduler.model.node import Node
from scheduler.model.shape import WorkerShape
from scheduler.policy.overlay.booking_feasible import refusal
from tests.policy.worlds import DOWN, NOW, Cluster


def booking(name: str, workers: int, hours: tuple[float, float] = (0, 1), **shape: object) -> Booking:
    start, end = (NOW + hour * 3600 for hour in hours)
    return Booking(name, start, end, workers, WorkerShape(**shape), NOW)  # type: ignore[arg-type]


def mixed() -> dict[str, Node]:
    """Two nodes of one GPU type, one of another."""
    cluster = Cluster().node("a1", 8, gpu_type="A").node("a2", 8, gpu_type="A", health=DOWN).node("b", 8, gpu_type="B")
    return dict(cluster.nodes)


@pytest.mark.parametrize(
    ("asked", "standing"),
    [
        (booking("new", 16), []),
        (booking("new", 2, slots=8), []),
        (booking("new", 8), [booking("other", 16)]),
        (booking("new", 16), [booking("other", 8)]),
        (booking("new", 8, gpu_type="B"), [booking("other", 16)]),
        (booking("new", 16), [booking("before", 16, (-1, 0)), booking("after", 16, (1, 2))]),
        # never more than 16 at once
        (booking("new", 4, (0, 9)), [booking("early", 12, (1, 2)), booking("late", 12, (2, 3))]),
        # who can use fewer nodes goes first, whenever it was asked for
        (booking("new", 8, gpu_type="B"), [booking("other", 8)]),
    ],
)
def test_what_empty_nodes_hold_at_every_moment_is_promised(asked: Booking, standing: list[Booking]) -> None:
    assert refusal(asked, standing, mixed(), NOW) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "standing", "why"),
    [
        (booking("new", 17), [], "it needs 17 slots, and the suitable nodes have 16 of one GPU type"),
        (booking("new", 3, slots=8), [], "it needs 24 slots (3 × 8), and the suitable nodes have 16"),
        (
            booking("new", 9, gpu_type="B"),
            [],
            "it needs 9 slots of GPU type B, and the suitable nodes have 8",
        ),
        (
            booking("new", 1, node_selector=(("x", "y"),)),
            [],
            "it needs 1 slot with x=y, and the suitable nodes have 0",
        ),
        (
            booking("new", 9),
            [booking("one", 8), booking("two", 8)],
            "does not have enough left beside booking one, two",
        ),
        (booking("new", 2, slots=8), [booking("one", 16)], "does not have enough left beside booking one"),
        (booking("new", 12, (0, 9)), [booking("later", 16, (5, 6))], "does not have enough left beside booking later"),
        (booking("new", 1, (-2, 0)), [], "its window has already ended"),
    ],
)
def test_what_they_do_not_hold_is_refused_in_one_line(asked: Booking, standing: list[Booking], why: str) -> None:
    said = refusal(asked, standing, mixed(), NOW)  # type: ignore[arg-type]
    assert said is not None
    assert why in said
