"""Slots that two hold, as may be where rows could not be read or a node is seen late: one end alone frees none."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import PolicySettings
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState
from scheduler.model.unreadable import Unreadable
from scheduler.model.world import World
from scheduler.policy.capacity.ledger import View
from scheduler.policy.planner import plan
from scheduler.policy.snapshot.snapshot import Snapshot
from tests.policy.worlds import NOW, Cluster

SLOTS = 4
#: Strays of this job go on, as its row cannot be read.
UNREAD = JobId(99)

some_slots = st.lists(st.integers(0, SLOTS - 1), unique=True, min_size=1, max_size=2)


def world_of(running: list[tuple[list[int], bool]], ending: list[list[int]], going_on: list[list[int]]) -> World:
    """One node; of each running job the slots of its worker and whether it leaves, and the slots of strays."""
    c = Cluster().node("a", SLOTS)
    for number, (slots, leaves) in enumerate(running, 1):
        c.running(number, {"a": 1}, slots=sorted(slots), slots_per_worker=len(slots), leaving=int(leaves))
    for number, slots in enumerate(ending, 50):
        c.stray(number, "a", slots)
    for slots in going_on:
        c.stray(UNREAD, "a", slots)
    return c.world().with_unreadable([Unreadable("workers", "9.1", "slot_ids: not valid JSON", UNREAD)])


@given(
    st.lists(st.tuples(some_slots, st.booleans()), max_size=5),
    st.lists(some_slots, max_size=2),
    st.lists(some_slots, max_size=1),
)
def test_nothing_is_counted_on_that_stays_held(
    running: list[tuple[list[int], bool]], ending: list[list[int]], going_on: list[list[int]]
) -> None:
    snapshot = Snapshot(world_of(running, ending, going_on), NOW, PolicySettings())
    soon = snapshot.ledger.available(0, View.SOON)[0]
    stay = [set(slots) for slots, leaves in running if not leaves] + [set(slots) for slots in going_on]
    leave = [slots for slots, leaves in running if leaves]
    kept = set[int]().union(*stay)
    assert soon <= SLOTS - len(kept)
    if len({slot for slots in leave for slot in slots}) == sum(map(len, leave)):
        assert soon == SLOTS - len(kept), "all that is freed is counted on"
    for number, (slots, leaves) in enumerate(running, 1):
        if not leaves:
            others = [set(each) for k, (each, gone) in enumerate(running, 1) if k != number and not gone]
            left = set[int]().union(*others, *map(set, going_on))
            assert sum(amount[0] for _, amount in snapshot.usages[JobId(number)].held) <= len(set(slots) - left)


@given(
    st.lists(st.tuples(some_slots, st.booleans()), min_size=1, max_size=4),
    st.tuples(some_slots, st.booleans()),
    st.lists(some_slots, max_size=1),
)
def test_a_snapshot_that_is_kept_sees_slots_come_to_be_held_twice(
    running: list[tuple[list[int], bool]], other: tuple[list[int], bool], going_on: list[list[int]]
) -> None:
    settings = PolicySettings()
    before, after = world_of(running, [], []), world_of([*running, other], [], going_on)
    for old, new in ((before, after), (after, before)):
        kept, made = Snapshot(old, NOW, settings), Snapshot(new, NOW, settings)
        if kept.follow(new, NOW):
            assert kept.ledger.available(0, View.SOON) == made.ledger.available(0, View.SOON)
            assert [kept.usages[job_id].held for job_id in new.active] == [
                made.usages[job_id].held for job_id in new.active
            ]


def test_a_waiting_job_takes_as_many_victims_as_free_what_it_needs() -> None:
    c = Cluster().node("a", 2).running(1, {"a": 1}, slots=[0], priority=9, preemptible=False)
    c.running(2, {"a": 1}, slots=[0], priority=1, state=JobState.STOPPING).running(3, {"a": 1}, slots=[1], priority=0)
    planned = plan(c.waiting(4, priority=5).world(), c.now, c.settings)
    assert [action.job_id for action in planned.actions] == [3, 4], "what job 2 leaves is still job 1's"
