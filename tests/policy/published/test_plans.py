"""What every plan of a published policy guarantees, on worlds that nobody thought of."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import PolicyName, PolicySettings
from scheduler.model.job import Job
from scheduler.model.job_state import JobState
from scheduler.model.plan import Shrink, Start, StopJob
from scheduler.policy.checks.invariants import check_world
from scheduler.policy.checks.plan import FIXED_SIZES, STOPS_EQUALS
from scheduler.policy.published.rules import RULES
from tests.policy.drawn_worlds import clusters
from tests.policy.oracles import room, takeable, workers_in
from tests.policy.worlds import Cluster, enact

NAMES = sorted(RULES)
#: There are many policies, and one planner behind them.
examples = settings(max_examples=30)
every_policy = pytest.mark.parametrize("name", NAMES)


def under(name: str, c: Cluster, seconds: list[float]) -> Cluster:
    """The cluster under this policy, with declared durations that no test outlives."""
    assert name in RULES
    c.settings = PolicySettings.model_validate({"name": name})
    for job_id, job in c.jobs.items():
        expected = 1e6 + seconds[job_id % len(seconds)]
        c.jobs[job_id] = replace(job, spec=replace(job.spec, expected_seconds=expected))
    return c


durations = st.lists(st.sampled_from((0.0, 1e6, 2e6)), min_size=1, max_size=5)


@every_policy
@examples
@given(c=clusters(drains=True), seconds=durations)
def test_capacity_and_bounds_hold_at_every_round(name: str, c: Cluster, seconds: list[float]) -> None:
    under(name, c, seconds)
    for _ in range(6):
        enact(c, c.plan())
        assert check_world(c.world(), c.now) == []
        c.now += 60


@pytest.mark.slow
@every_policy
@examples
@given(c=clusters(drains=True), seconds=durations)
def test_a_world_settles_and_five_more_rounds_change_nothing(name: str, c: Cluster, seconds: list[float]) -> None:
    under(name, c, seconds)
    c.settle(rounds=40)
    for _ in range(5):
        made = c.step(60.0)
        assert (made.actions, dict(made.waiting)) == ((), {})


@every_policy
@examples
@given(c=clusters(), seconds=durations)
def test_who_loses_is_no_more_important_and_stops_for_an_equal_only_where_the_policy_says_so(
    name: PolicyName, c: Cluster, seconds: list[float]
) -> None:
    under(name, c, seconds)
    for _ in range(4):
        made = c.step(60.0)
        for action in made.actions:
            if isinstance(action, Shrink | StopJob) and action.for_job is not None:
                loser, taker = c.jobs[action.job_id], c.jobs[action.for_job]
                assert loser.spec.shrinkable if isinstance(action, Shrink) else loser.spec.preemptible
                assert loser.priority <= taker.priority
                if isinstance(action, StopJob) and loser.priority == taker.priority:
                    assert name in STOPS_EQUALS


@pytest.mark.parametrize("name", sorted(FIXED_SIZES))
@examples
@given(c=clusters(), seconds=durations)
def test_fixed_sizes_a_job_starts_at_its_preferred_size(name: str, c: Cluster, seconds: list[float]) -> None:
    under(name, c, seconds)
    made = c.plan()
    for action in made.actions:
        if isinstance(action, Start):
            job = c.jobs[action.job_id]
            whole = Counter({node.name: node.slots for node in c.nodes.values()})
            assert sum(n for _, n in action.placement) == min(job.preferred_workers, workers_in(c, job, whole))


@pytest.mark.parametrize("name", sorted(RULES.keys() - FIXED_SIZES))
@examples
@given(c=clusters(), seconds=durations)
def test_elastic_no_job_waits_that_would_fit_into_what_equals_have_above_their_minimum(
    name: str, c: Cluster, seconds: list[float]
) -> None:
    under(name, c, seconds)
    c.settle(rounds=40)
    left = room(c)
    for job in c.jobs.values():
        if job.state is JobState.QUEUED:
            surplus: list[str] = []
            for other in c.jobs.values():
                if other.state is JobState.RUNNING and other.priority == job.priority and other.spec.preemptible:
                    surplus += [w.id for w in other.workers[other.min_workers :]]
            assert workers_in(c, job, left) < job.min_workers
            if job.shape.slots == 1:
                on_nodes = room(c, gone=surplus)
                assert workers_in(c, job, on_nodes) < job.min_workers


@every_policy
@examples
@given(c=clusters(), seconds=durations)
def test_priority_no_job_waits_that_less_important_ones_leave_room_for(
    name: str, c: Cluster, seconds: list[float]
) -> None:
    under(name, c, seconds)
    c.settle(rounds=40)
    first = first_waiting(c)
    if first is not None:
        gone = [worker.id for victim in takeable(c, first) for worker in victim.workers]
        size = min(first.preferred_workers, most(c, first)) if name in FIXED_SIZES else first.min_workers
        assert workers_in(c, first, room(c, gone=gone)) < size


def first_waiting(c: Cluster) -> Job | None:
    """The first in the queue that could start at all on an empty cluster."""
    waiting = [job for job in c.jobs.values() if job.state is JobState.QUEUED]
    possible = [job for job in waiting if most(c, job) >= job.min_workers]
    return min(possible, key=lambda job: (-job.priority, job.submitted_at, job.id), default=None)


def most(c: Cluster, job: Job) -> int:
    """The most workers of the job that the empty cluster would hold."""
    return workers_in(c, job, Counter({node.name: node.slots for node in c.nodes.values() if node.schedulable}))
