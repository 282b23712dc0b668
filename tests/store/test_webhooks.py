"""Webhooks' places in the history, on both databases."""

from dataclasses import replace

from scheduler.model.event import Event, EventKind
from scheduler.model.queue import Queue
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from tests.store.desk import NOW, SPEC, admitted, lead


def happened(store: SqlStore, *kinds: EventKind) -> None:
    lease = lead(store)
    (job,) = admitted(store, lease)
    store.commit(Changes(events=tuple(Event(NOW, kind, job.id) for kind in kinds)), lease, NOW)


def test_a_new_webhook_begins_with_the_next_event_and_keeps_its_place(store: SqlStore) -> None:
    happened(store, EventKind.JOB_FAILED)
    begun = store.begin_webhook("chat")
    assert (begun.position, begun.delivered) == (2, 0)
    happened(store, EventKind.JOB_FAILED)
    assert store.begin_webhook("chat") == begun
    further = replace(begun, position=4, delivered=1, delivered_at=NOW)
    store.save_delivery(further)
    store.save_delivery(replace(begun, attempts=3, failing_since=NOW, next_try_at=NOW + 1, error="away"))
    assert store.list_deliveries() == [further], "who knows less does not set it back"


def test_stretches_of_the_history_hold_the_kinds_that_are_asked_for(store: SqlStore) -> None:
    happened(store, EventKind.JOB_STARTED, EventKind.JOB_FAILED, EventKind.JOB_STARTED, EventKind.NODE_DOWN)
    found = store.scan_events(0, ("JOB_FAILED", "NODE_DOWN"), 3)
    assert [each.event.kind for each in found.events] == ["JOB_FAILED"]
    assert (found.seen, found.missed) == (3, 0)
    rest = store.scan_events(found.seen, (), 100)
    assert [each.id for each in rest.events] == [4, 5]
    assert rest.events[0].job_name is not None
    assert store.scan_events(rest.seen, (), 100) == ([], 5, 0)
    assert store.count_events_after(0, ("JOB_STARTED",), 10) == 2
    assert store.count_events_after(0, (), 3) == 3


def test_events_that_are_gone_are_counted(store: SqlStore) -> None:
    happened(store, EventKind.JOB_STARTED)
    store.purge(0.0, NOW + 1)
    happened(store, EventKind.JOB_FAILED)
    found = store.scan_events(1, (), 100)
    assert (found.missed, [each.id for each in found.events]) == (1, [3, 4])


def test_what_is_set_to_what_it_is_leaves_no_gap_that_looks_like_lost_events(store: SqlStore) -> None:
    happened(store, EventKind.JOB_STARTED)
    recurring = store.add_recurring("0 3 * * *", "UTC", SPEC, NOW)
    for _ in range(3):
        store.set_queue("lab", lambda _: Queue("lab", NOW), NOW)
        store.refuse_recurring(recurring, "the queue is full", NOW)
    happened(store, EventKind.JOB_FAILED)
    found = store.scan_events(0, (), 100)
    assert [each.id for each in found.events] == list(range(1, found.seen + 1))
    assert [each.event.kind for each in found.events].count(EventKind.QUEUE_SET) == 1
