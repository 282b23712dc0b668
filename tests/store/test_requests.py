"""What users ask of the store, and what of that waits for the engine, on SQLite and on PostgreSQL alike."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.errors import Conflict, InvalidInput, StaleWrite, StoreError
from scheduler.model.booking import Booking, BookingState
from scheduler.model.event import Event, EventKind
from scheduler.model.ids import NodeName
from scheduler.model.intent import IntentKind
from scheduler.model.job_state import JobState
from scheduler.model.shape import WorkerShape
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from tests.store.desk import NOW, SPEC, admitted, lead


def test_a_submitted_job_waits_in_the_inbox_and_not_in_the_world(store: SqlStore) -> None:
    (submitted,) = store.submit([SPEC], NOW)
    assert submitted.created
    inbox = store.take_inbox(10)
    assert [(i.kind, i.job_id, i.created_at) for i in inbox.intents] == [(IntentKind.SUBMIT, submitted.id, NOW)]
    assert list(inbox.jobs) == [store.get_job(submitted.id)]
    world = store.load_world()
    assert (list(world.jobs), world.highest_job_id) == ([], submitted.id)


def test_an_admitted_job_is_in_the_world_and_never_in_the_inbox_again(store: SqlStore) -> None:
    (job,) = admitted(store, lead(store))
    assert job.spec == SPEC
    assert (job.state, job.priority, job.max_workers, job.submitted_at) == (JobState.QUEUED, 0, 4, NOW)
    assert list(store.load_world().jobs) == [job]
    assert store.take_inbox(10).intents == ()


def test_submitting_is_told_in_events(store: SqlStore) -> None:
    ids = [answer.id for answer in store.submit([SPEC, SPEC], NOW)]
    assert [event for _, event in store.list_events()] == [
        Event(NOW, EventKind.JOB_SUBMITTED, job_id) for job_id in ids
    ]


def test_ids_ascend_in_the_order_of_a_batch(store: SqlStore) -> None:
    names = [f"job {n}" for n in range(50)]
    answers = store.submit([replace(SPEC, name=name) for name in names], NOW)
    assert [store.get_job(a.id).spec.name for a in answers] == names  # type: ignore[union-attr]
    assert [a.id for a in answers] == sorted({a.id for a in answers})


def test_a_client_key_gives_the_first_job_again(store: SqlStore) -> None:
    keyed = replace(SPEC, client_key="k")
    first = store.submit([keyed, keyed, SPEC, replace(keyed, name="other")], NOW)
    again = store.submit([SPEC, keyed], NOW + 1)
    assert [a.created for a in first] == [True, False, True, False]
    assert [a.id for a in first] == [1, 1, 2, 1]
    assert [(a.id, a.created) for a in again] == [(3, True), (1, False)]
    assert store.submit([keyed], NOW)[0].created is False
    assert store.submit([], NOW) == []
    assert len(store.list_jobs()) == len(store.take_inbox(10).intents) == 3


def test_a_client_key_of_another_user_is_refused(store: SqlStore) -> None:
    keyed = replace(SPEC, client_key="k", user="ann")
    [first] = store.submit([keyed], NOW)
    with pytest.raises(Conflict, match="client_key 'k' belongs to job 1 of ann: use a new one"):
        store.submit([SPEC, replace(keyed, user="bob")], NOW)
    assert [job.id for job in store.list_jobs()] == [first.id], "none of the batch is stored"
    assert store.submit([keyed], NOW)[0].id == first.id


def test_more_keys_than_one_query_may_hold_are_looked_up(store: SqlStore) -> None:
    specs = [replace(SPEC, client_key=f"key {n}") for n in range(2500)]
    first = store.submit(specs, NOW)
    assert [a.id for a in store.submit(specs, NOW)] == [a.id for a in first]


def test_the_inbox_gives_the_oldest_requests_first_and_keeps_them_until_done(store: SqlStore) -> None:
    lease = lead(store)
    ids = [answer.id for answer in store.submit([SPEC] * 5, NOW)]
    cancel = store.add_intent(IntentKind.CANCEL, NOW + 1, job_id=ids[0])
    inbox = store.take_inbox(3)
    assert [i.job_id for i in inbox.intents] == [j.id for j in inbox.jobs] == ids[:3]
    assert store.take_inbox(3) == inbox
    store.commit(Changes(intents_done=tuple(i.id for i in inbox.intents)), lease, NOW)
    rest = store.take_inbox(10)
    assert [j.id for j in rest.jobs] == ids[3:]
    assert rest.intents[-1].id == cancel
    assert [job.id for job in store.load_world().jobs] == ids[:3]


def test_intents_carry_what_was_asked(store: SqlStore) -> None:
    job_id = store.submit([SPEC], NOW)[0].id
    store.add_intent(IntentKind.PRIORITY, NOW, job_id=job_id, priority=-3)
    store.add_intent(IntentKind.SCALE, NOW, job_id=job_id, max_workers=9)
    store.add_intent(IntentKind.DRAIN, NOW + 0.5, node=NodeName("a"))
    _, priority, scale, drain = store.take_inbox(10).intents
    assert (priority.job_id, priority.priority) == (job_id, -3)
    assert (scale.min_workers, scale.max_workers) == (None, 9)
    assert (drain.node, drain.job_id, drain.created_at) == ("a", None, NOW + 0.5)


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        (IntentKind.SUBMIT, {"job_id": 1}, "kind"),
        (IntentKind.CANCEL, {}, "job_id"),
        (IntentKind.CORDON, {"job_id": 1}, "node"),
        (IntentKind.CORDON, {"job_id": 1, "node": "a"}, "job_id"),
        (IntentKind.PRIORITY, {"job_id": 1}, "priority"),
        (IntentKind.CANCEL, {"job_id": 1, "priority": 2}, "priority"),
        (IntentKind.SCALE, {"job_id": 1}, "min_workers"),
        (IntentKind.UNBOOK, {}, "booking"),
        (IntentKind.UNBOOK, {"booking": "b", "job_id": 1}, "job_id"),
        (IntentKind.CANCEL, {"booking": "b", "job_id": 1}, "booking"),
    ],
)
def test_an_intent_whose_parts_do_not_go_together_is_refused(
    store: SqlStore, kind: IntentKind, fields: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        store.add_intent(kind, NOW, **fields)  # type: ignore[arg-type]
    assert refusal.value.field == field
    assert store.take_inbox(10).intents == ()


BOOKING = Booking("b", NOW + 10, NOW + 20, 4, WorkerShape(2, gpu_type="h200"), NOW, user="ann", priority_min=3)


def test_a_booking_waits_in_the_inbox_until_the_engine_has_decided(store: SqlStore) -> None:
    lease = lead(store)
    asked = store.add_booking(BOOKING)
    inbox = store.take_inbox(10)
    assert [(intent.id, intent.kind, intent.booking) for intent in inbox.intents] == [(asked, IntentKind.BOOK, "b")]
    assert list(inbox.bookings) == store.list_bookings() == [BOOKING]
    assert list(store.load_world().bookings) == []
    planned = replace(BOOKING, state=BookingState.PLANNED)
    store.commit(Changes(bookings=(planned,), intents_done=(asked,)), lease, NOW)
    assert list(store.load_world().bookings) == [planned]
    assert store.take_inbox(10).intents == ()


def test_the_name_of_a_booking_is_taken_until_it_is_over(store: SqlStore) -> None:
    lease = lead(store)
    store.add_booking(BOOKING)
    with pytest.raises(Conflict, match="booking b already exists"):
        store.add_booking(replace(BOOKING, start_at=NOW + 15))
    assert len(store.take_inbox(10).intents) == 1
    over = replace(BOOKING, state=BookingState.OVER)
    store.commit(Changes(bookings=(over,)), lease, NOW)
    with pytest.raises(StaleWrite):
        store.commit(Changes(bookings=(over,)), lease, NOW)
    store.add_booking(BOOKING)
    assert store.get_booking("b") == BOOKING


@pytest.mark.parametrize("broken", [{"end_at": NOW + 10}, {"workers": 0}, {"state": BookingState.OVER}])
def test_the_database_refuses_a_booking_that_cannot_be(store: SqlStore, broken: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        store.add_booking(replace(BOOKING, **broken))
    assert store.list_bookings() == []
    assert store.take_inbox(10).intents == ()


def test_recurring_jobs_are_kept_run_and_deleted(store: SqlStore) -> None:
    spec = replace(SPEC, labels=(("a", "b"),), env=(("X", "1"),), shape=WorkerShape(node_selector=(("r", "1"),)))
    nightly = store.add_recurring("0 3 * * *", "Europe/Berlin", spec, NOW)
    hourly = store.add_recurring("0 * * * *", "UTC", SPEC, NOW)
    found = store.get_recurring(nightly)
    assert found is not None
    assert (found.cron, found.timezone, found.spec, found.last_run_at) == ("0 3 * * *", "Europe/Berlin", spec, None)
    store.mark_recurring_run(nightly, 50.0)
    store.mark_recurring_run(nightly, 40.0)
    assert [(r.id, r.last_run_at) for r in store.list_recurring()] == [(nightly, 50.0), (hourly, None)]
    assert store.delete_recurring(nightly, NOW)
    assert not store.delete_recurring(nightly, NOW)
    assert store.get_recurring(nightly) is None
    assert [r.id for r in store.list_recurring()] == [hourly]
    assert store.add_recurring("0 3 * * *", "UTC", SPEC, NOW) not in (nightly, hourly)
