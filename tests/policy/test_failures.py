"""Which attempts are spared because an easier one failed."""

import math

import pytest

from scheduler.model.shape import WorkerShape
from scheduler.model.world import World
from scheduler.policy.capacity.journal import Journal
from scheduler.policy.capacity.ledger import Ledger
from scheduler.policy.capacity.placement import Places
from scheduler.policy.capacity.request import Part, Request
from scheduler.policy.start.failed_attempts import Failures

SHAPE = WorkerShape(slots=2, cpus=4.0, memory_mib=1024)
LEDGER = Ledger(World(), Journal())
PLACES = Places(World(), LEDGER)


def request(count: int, shape: WorkerShape = SHAPE, fixed: int = 0) -> Request:
    group = Part(PLACES.feasible(WorkerShape(slots=1)), fixed) if fixed else None
    return Request(LEDGER, Part(PLACES.feasible(shape), count), group)


def failed() -> Failures:
    failures = Failures()
    failures.note(7, request(3), priority=5)
    return failures


@pytest.mark.parametrize(
    ("shape", "count", "priority", "covered"),
    [
        (SHAPE, 3, 5, True),
        (SHAPE, 4, 4, True),
        (SHAPE, 2, 5, False),
        (SHAPE, 3, 6, False),
        (WorkerShape(slots=4, cpus=4.0, memory_mib=2048), 3, 5, True),
        (WorkerShape(slots=1, cpus=4.0, memory_mib=1024), 3, 5, False),
        (WorkerShape(slots=4, cpus=3.9, memory_mib=1024), 3, 5, False),
        (WorkerShape(slots=2, cpus=4.0, memory_mib=1023), 3, 5, False),
        (WorkerShape(slots=2, cpus=4.0, memory_mib=1024, gpu_type="a"), 3, 5, False),
        (WorkerShape(slots=2, cpus=4.0, memory_mib=1024, oversell=True), 3, 5, False),
    ],
)
def test_an_attempt_is_spared_where_one_no_harder_failed(
    shape: WorkerShape, count: int, priority: int, covered: bool
) -> None:
    assert (priority <= failed().up_to(7, request(count, shape))) is covered


def test_once_something_opened_everything_is_tried_again() -> None:
    failures = failed()
    assert failures.up_to(8, request(3)) == -math.inf
    failures.note(8, request(9), priority=5)
    assert failures.up_to(8, request(3)) == -math.inf


def test_a_failure_is_kept_beside_one_that_is_easier_in_another_way() -> None:
    failures = failed()
    failures.note(7, request(1), priority=4)
    assert (failures.up_to(7, request(1)), failures.up_to(7, request(3))) == (4, 5)


def test_a_failure_covers_only_requests_with_the_same_fixed_group() -> None:
    failures = Failures()
    failures.note(7, request(3, fixed=2), priority=5)
    assert [failures.up_to(7, request(3, fixed=fixed)) for fixed in (0, 1, 2)] == [-math.inf, -math.inf, 5]
