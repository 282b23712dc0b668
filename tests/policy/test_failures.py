"""Which attempts are spared because an easier one failed."""

import math

import pytest

from scheduler.model.shape import WorkerShape
from scheduler.policy.start.failed_attempts import Failures

SHAPE = WorkerShape(slots=2, cpus=4.0, memory_mib=1024)


def failed() -> Failures:
    failures = Failures()
    failures.note(7, SHAPE, count=3, priority=5)
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
    assert (priority <= failed().up_to(7, shape, count)) is covered


def test_once_something_opened_everything_is_tried_again() -> None:
    failures = failed()
    assert failures.up_to(8, SHAPE, 3) == -math.inf
    failures.note(8, SHAPE, count=9, priority=5)
    assert failures.up_to(8, SHAPE, 3) == -math.inf


def test_a_failure_is_kept_beside_one_that_is_easier_in_another_way() -> None:
    failures = failed()
    failures.note(7, SHAPE, count=1, priority=4)
    assert (failures.up_to(7, SHAPE, 1), failures.up_to(7, SHAPE, 3)) == (4, 5)
