"""What follows from the tree of queues, for any tree."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.daemon.trainingjobs.queue import into_queue
from scheduler.errors import InvalidInput
from scheduler.http.schemas.queue_requests import QueueChangeRequest, QueueFields
from scheduler.model.ids import JobId
from scheduler.model.job import Job, JobSpec
from scheduler.model.queue import ROOT, Queue, ancestry
from scheduler.model.queue_changes import difference
from scheduler.model.queue_tree import (
    PATH_LENGTH_MAX,
    PATH_PATTERN,
    broken_path,
    default_queue,
    is_member,
    members_of,
    nearest,
    not_a_member,
    unknown_queue,
)

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
USERS = st.sampled_from(["ann", "bob", "@lab"])


def with_ancestors(members: Mapping[str, set[str]]) -> dict[str, Queue]:
    """A queue for each path and for each that contains one."""
    paths = {each for path in members for each in ancestry(path)}
    return {path: Queue(path, 0.0, members=tuple(sorted(members.get(path, ())))) for path in sorted(paths)}


TREES = st.dictionaries(PATHS, st.sets(USERS), max_size=6).map(with_ancestors)


@given(path=st.one_of(st.text(max_size=20), st.from_regex(PATH_PATTERN, fullmatch=True)))
def test_the_pattern_of_the_api_is_the_rule(path: str) -> None:
    assert (broken_path(path) is None) == (re.fullmatch(PATH_PATTERN[1:-1], path) is not None)
    assert broken_path(path) is not None or len(path) <= PATH_LENGTH_MAX


def test_of_many_queues_those_are_named_whose_names_are_most_alike() -> None:
    paths = [f"team-{number}" for number in range(50)] + ["vision"]
    said = unknown_queue("visoin", paths)
    assert said.startswith("queue 'visoin' does not exist: there are ")
    assert ", vision and 46 more" in said


@given(queues=TREES, user=st.sampled_from(["ann", "bob", "carl", ""]), groups=st.sets(st.just("lab")))
def test_a_default_queue_is_one_that_takes_its_user_and_no_inner_one_names_the_user(
    queues: dict[str, Queue], user: str, groups: set[str]
) -> None:
    try:
        found = default_queue(queues, user, groups)
    except InvalidInput:
        return  # several could be meant
    if found == ROOT:
        assert not any(is_member(queue.members, user, groups if user else ()) for queue in queues.values())
        return
    assert not_a_member(queues, found, user, groups) is None
    inside = (queue for path, queue in queues.items() if path.startswith(f"{found}/"))
    assert not any(user in queue.members for queue in inside)


@given(queues=TREES, path=PATHS)
def test_members_are_those_of_the_innermost_queue_that_has_any(queues: dict[str, Queue], path: str) -> None:
    own = [queues[each].members for each in ancestry(path) if each in queues and queues[each].members]
    assert members_of(queues, path) == (own[-1] if own else ())
    assert nearest(queues, path) in {ROOT, *queues}
    assert nearest(queues, path) == path or path not in queues


SLOTS = st.dictionaries(st.sampled_from(["*", "H100", "A100"]), st.integers(0, 9))


@given(before=SLOTS, given_slots=SLOTS, removed=st.sets(st.sampled_from(["*", "H100"])))
def test_a_change_touches_what_is_given_and_nothing_else(
    before: dict[str, int], given_slots: dict[str, int], removed: set[str]
) -> None:
    queue = QueueFields(limit=before, weight=2.0, members=["ann"]).queue("lab", 5.0)
    asked = {**given_slots, **dict.fromkeys(removed)}
    after = QueueChangeRequest(limit=asked).changed(queue)
    kept = {kind: slots for kind, slots in before.items() if kind not in asked}
    assert dict(after.limit) == {**kept, **{kind: slots for kind, slots in asked.items() if slots is not None}}
    assert (after.path, after.created_at, after.weight, after.members) == ("lab", 5.0, 2.0, ("ann",))
    assert (difference(queue, after) == "unchanged") == (queue == after)


def test_the_namespace_of_a_training_job_decides_on_its_queue_and_its_job_stays_there() -> None:
    queues = {
        "lab": Queue("lab", 0.0, members=("@namespace:team-a",), priority_max=5),
        "works": Queue("works", 0.0, members=("ann",)),
    }
    spec = JobSpec("j", ("true",), user="ann")
    placed = into_queue(spec, None, queues, "team-a")
    assert placed.queue == "lab"
    job = Job(JobId(1), placed, 0, 1, 1, submitted_at=0.0, queued_at=0.0)
    assert into_queue(spec, job, {}, "team-b").queue == "lab"
    assert into_queue(spec, None, queues, "team-b").queue == ""
    for wrong, namespace, said in (
        (JobSpec("j", ("true",), priority=6), "team-a", "spec.priority: must be at most 5"),
        (JobSpec("j", ("true",), queue="lab"), "team-b", "spec.queue: namespace team-b is not a member of lab"),
        (JobSpec("j", ("true",), user="ann", queue="works"), "team-a", "spec.queue: namespace team-a is not a member"),
        (JobSpec("j", ("true",), queue="team"), "team-a", "spec.queue: queue 'team' does not exist: there are lab"),
    ):
        with pytest.raises(InvalidInput, match=said):
            into_queue(wrong, None, queues, namespace)
