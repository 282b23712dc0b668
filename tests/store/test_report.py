"""Reports on both databases: sums over a window, percentiles, and what retention has removed."""

from dataclasses import replace

import pytest

from scheduler.model.event import Event, EventKind
from scheduler.model.ids import JobId, NodeName
from scheduler.model.job import Job
from scheduler.model.job_state import JobState, StopReason
from scheduler.model.node import Node, NodeIntent
from scheduler.model.report import Held, Window, slot_seconds
from scheduler.model.worker import ExitReason, Worker, WorkerState
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from tests.store.desk import HOME, NOW, SPEC, admitted, lead, live_worker

CLASSES = (0, 10)
#: Ten parts of ten seconds.
WINDOW = Window(NOW, NOW + 100, 10)


def ended_worker(job: Job, ordinal: int, begun: float, ended: float, slots: int, **fields: object) -> Worker:
    return live_worker(
        job.id,
        ordinal,
        slot_ids=tuple(range(slots)),
        created_at=NOW + begun,
        state=WorkerState.EXITED,
        exit_reason=ExitReason.DONE,
        ended_at=NOW + ended,
        **fields,
    )


def test_holdings_are_added_up_part_by_part() -> None:
    window = Window(0.0, 40.0, 4)
    # Two slots from 5 to 25, one from 30 beyond the end.
    held = [Held(0, 2, 2.0, 10.0, 50.0), Held(3, 4, 1.0, 30.0, 40.0)]
    assert slot_seconds(window, held) == (10.0, 20.0, 10.0, 10.0)
    assert slot_seconds(window, []) == (0.0, 0.0, 0.0, 0.0)


def filled(store: SqlStore) -> None:
    """Three jobs of two users on one node of eight slots that was down for twenty seconds."""
    lease = lead(store)
    low, high, shared = admitted(
        store,
        lease,
        replace(SPEC, user="ada", priority=1),
        replace(SPEC, user="bob", priority=50),
        replace(SPEC, user="ada", priority=-5),
    )
    workers = (
        ended_worker(low, 1, -50, 30, 2),  # began before the window
        ended_worker(low, 2, 15, 25, 3),
        ended_worker(high, 1, 90, 500, 4),  # ends after it
        ended_worker(high, 2, -80, -10, 4),  # was over before
        ended_worker(shared, 1, 0, 100, 1, shared=True),
    )
    done = [
        replace(job, state=JobState.SUCCEEDED, finished_at=NOW + 600, wait_reason=None) for job in (low, high, shared)
    ]
    started = [(low.id, 4.0), (low.id, 1.0), (low.id, 2.0), (low.id, 3.0), (high.id, 7.0), (JobId(99), 9.0)]
    events = [
        Event(NOW - 10, EventKind.JOB_STARTED, low.id, amount=1000.0),
        *(Event(NOW + 1, EventKind.JOB_STARTED, job, amount=waited) for job, waited in started),
        Event(NOW + 20, EventKind.NODE_DOWN, node=NodeName(HOME), detail="the cluster does not list it"),
        Event(NOW + 35, EventKind.JOB_STOPPING, low.id, cause=StopReason.PREEMPTED.value, amount=12.5),
        Event(NOW + 40, EventKind.NODE_UP, node=NodeName(HOME), amount=8.0),
        Event(NOW + 99, EventKind.JOB_SHRANK, low.id, cause="PREEMPTED", for_job=high.id),
        Event(NOW + 100, EventKind.JOB_SHRANK, low.id, cause="PREEMPTED", for_job=high.id),
    ]
    changes = Changes(jobs=tuple(done), workers=workers, events=tuple(events))
    store.commit(changes, lease, NOW)


def test_what_was_held_by_class_and_what_there_was(store: SqlStore) -> None:
    filled(store)
    usage = store.usage(WINDOW, CLASSES)
    assert usage.used == {
        0: pytest.approx((20, 35, 35, 0, 0, 0, 0, 0, 0, 0)),
        1: pytest.approx((0, 0, 0, 0, 0, 0, 0, 0, 0, 40)),
    }
    assert usage.capacity == pytest.approx((80, 80, 0, 0, 80, 80, 80, 80, 80, 80))
    assert usage.shared_slot_seconds == pytest.approx(100)
    assert usage.kept.jobs_since is None
    assert usage.kept.events_since is None


def test_waits_are_those_at_their_ranks(store: SqlStore) -> None:
    filled(store)
    store.submit([replace(SPEC, priority=20)], NOW + 3)
    waits = {each.priority_class: each for each in store.report(WINDOW, CLASSES, 10).waits}
    assert set(waits) == {0, 1, None}
    low = waits[0]
    assert (low.starts, low.seconds_p50, low.seconds_p90, low.seconds_max) == (4, 2.0, 4.0, 4.0)
    assert low.seconds_mean == pytest.approx(2.5)
    assert (waits[1].starts, waits[1].waiting_now, waits[1].queued_at_min) == (1, 1, NOW + 3)
    assert waits[None].seconds_p50 == 9.0, "a job that is stored no longer"


def test_events_are_counted_by_part_kind_and_cause(store: SqlStore) -> None:
    filled(store)
    happened = {each[:3]: each[3:] for each in store.report(WINDOW, CLASSES, 10).happened}
    assert happened[0, "JOB_STARTED", ""] == (6, pytest.approx(26.0))
    assert happened[3, "JOB_STOPPING", "PREEMPTED"] == (1, 12.5)
    assert happened[9, "JOB_SHRANK", "PREEMPTED"] == (1, 0.0)
    assert (2, "NODE_DOWN", "") in happened


def test_users_are_named_by_what_they_held(store: SqlStore) -> None:
    filled(store)
    users = store.report(WINDOW, CLASSES, 10).users
    assert [(each.user, each.jobs, each.slot_seconds, each.shared_slot_seconds) for each in users] == [
        ("ada", 2, pytest.approx(90.0), pytest.approx(100.0)),
        ("bob", 1, pytest.approx(40.0), 0.0),
    ]
    assert [each.user for each in store.report(WINDOW, CLASSES, 1).users] == ["ada"]


def test_what_retention_removed_is_known_whatever_its_settings_were(store: SqlStore) -> None:
    filled(store)
    store.purge(before_jobs=NOW, before_events=NOW)
    assert store.usage(WINDOW, CLASSES).kept.jobs_since is None
    store.purge(before_jobs=NOW, before_events=NOW + 30)
    kept = store.usage(WINDOW, CLASSES).kept
    assert (kept.jobs_since, kept.events_since) == (None, NOW + 35)
    store.purge(before_jobs=NOW + 601, before_events=NOW + 1000)
    kept = store.usage(WINDOW, CLASSES).kept
    assert (kept.jobs_since, kept.events_since) == (WINDOW.until, WINDOW.until)


def test_an_empty_store_has_an_empty_report(store: SqlStore) -> None:
    report = store.report(WINDOW, (), 10)
    assert (report.waits, report.users, report.happened, report.usage.used) == ((), (), (), {})
    assert sum(report.usage.capacity) == 0.0


def node_events(store: SqlStore, *told: tuple[str, float, EventKind]) -> None:
    """Nodes of eight slots that came and went at these seconds after the window's beginning; all are up now."""
    lease = lead(store)
    nodes = tuple(Node(NodeName(name), name, 8) for name in sorted({name for name, _, _ in told}))
    events = tuple(Event(NOW + at, kind, node=NodeName(name), amount=8.0) for name, at, kind in told)
    store.commit(Changes(nodes=nodes, events=events), lease, NOW)


def test_slots_of_a_node_count_from_when_it_was_first_seen(store: SqlStore) -> None:
    node_events(store, ("early", 50, EventKind.NODE_UP), ("late", 200, EventKind.NODE_UP))
    usage = store.usage(WINDOW, CLASSES)
    assert usage.capacity == pytest.approx((0, 0, 0, 0, 0, 80, 80, 80, 80, 80))
    assert usage.slots_since == pytest.approx(NOW + 50)
    before = store.usage(Window(NOW - 100, NOW, 10), CLASSES)
    assert (sum(before.capacity), before.slots_since) == (0, None)
    after = store.usage(Window(NOW + 100, NOW + 150, 1), CLASSES)
    assert (after.capacity, after.slots_since) == (pytest.approx((400,)), NOW + 100)


def test_a_node_that_went_after_the_span_was_there_in_it(store: SqlStore) -> None:
    gone = (("gone", -100, EventKind.NODE_UP), ("gone", 300, EventKind.NODE_DOWN), ("gone", 400, EventKind.NODE_UP))
    node_events(store, *gone)
    usage = store.usage(WINDOW, CLASSES)
    assert usage.capacity == pytest.approx((80,) * 10)
    assert usage.slots_since == NOW


def test_slots_count_from_when_a_node_got_or_lost_them(store: SqlStore) -> None:
    lease = lead(store)
    told = ((30, "a", 2.0), (60, "a", 2.0), (50, "b", -2.0))
    events = tuple(Event(NOW + at, EventKind.NODE_RESIZED, node=NodeName(name), amount=more) for at, name, more in told)
    store.commit(Changes(nodes=tuple(Node(NodeName(name), name, 8) for name in "ab"), events=events), lease, NOW)
    capacity = store.usage(WINDOW, CLASSES).capacity
    assert capacity == pytest.approx((140, 140, 140, 160, 160, 140, 160, 160, 160, 160))


def test_slots_of_a_node_that_was_held_count_until_then(store: SqlStore) -> None:
    lease = lead(store)
    told = ((30, EventKind.NODE_RESIZED, 4.0), (60, EventKind.NODE_HELD, 12.0))
    events = tuple(Event(NOW + at, kind, node=NodeName("a"), amount=slots) for at, kind, slots in told)
    held = Node(NodeName("a"), "a", 0, intent=NodeIntent.HELD)
    store.commit(Changes(nodes=(held,), events=events), lease, NOW)
    assert store.usage(WINDOW, CLASSES).capacity == pytest.approx((80, 80, 80, 120, 120, 120, 0, 0, 0, 0))
