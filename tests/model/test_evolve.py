"""Copies of values are those of the standard library."""

from dataclasses import FrozenInstanceError, replace

import pytest

from scheduler.errors import InvalidInput
from scheduler.model.evolve import evolve
from scheduler.model.ids import JobId, NodeName, worker_id
from scheduler.model.job import Job, JobSpec, Progress
from scheduler.model.node import Node
from scheduler.model.worker import Worker, WorkerState
from scheduler.model.world import Changes
from scheduler.policy.snapshot.placeholder import Placeholder

JOB = Job(JobId(1), JobSpec("a", ("train",)), 5, 1, 2, 3.0, 4.0, attempt=2, nonce="n", version=7)
WORKER = Worker(worker_id(JobId(1), 1), JobId(1), 1, NodeName("a"), "a", (0, 1), created_at=2.0)


def test_a_copy_is_as_the_standard_library_makes_it() -> None:
    assert evolve(JOB, priority=6, workers=(WORKER,)) == replace(JOB, priority=6, workers=(WORKER,))
    assert evolve(WORKER, state=WorkerState.READY, rank=0) == replace(WORKER, state=WorkerState.READY, rank=0)
    assert evolve(Node(NodeName("a"), "a", 8), slots=4) == Node(NodeName("a"), "a", 4)
    assert evolve(Changes(jobs=(JOB,)), jobs=()) == Changes()
    assert evolve(JOB) == JOB


def test_a_copy_is_of_the_class_of_the_value_and_frozen_as_it_is() -> None:
    placeholder = Placeholder(JobId(2), JOB.spec, 5, 1, 2, 3.0, 4.0, booking="b")
    assert evolve(placeholder, priority=6) == replace(placeholder, priority=6)
    for copy in (evolve(JOB), evolve(placeholder)):
        with pytest.raises(FrozenInstanceError):
            copy.priority = 7  # type: ignore[misc]
    assert (type(evolve(JOB)), type(evolve(placeholder))) == (Job, Placeholder)


def test_a_copy_is_checked_as_the_value_was() -> None:
    with pytest.raises(InvalidInput):
        evolve(Progress(), fraction=2.0)


def test_a_value_has_no_other_fields() -> None:
    with pytest.raises(KeyError):
        evolve(JOB, size=1)  # type: ignore[call-arg]
