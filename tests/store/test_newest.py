"""The newest events of a job and for a job, on both databases."""

from scheduler.model.event import Event, EventKind
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from tests.store.desk import NOW, admitted, lead

TAKINGS = (EventKind.JOB_SHRANK, EventKind.JOB_STOPPING)


def test_the_newest_of_some_kinds_come_first(store: SqlStore) -> None:
    lease = lead(store)
    giver, taker = (admitted(store, lease)[0].id for _ in range(2))
    shrank, stopped = (Event(NOW, kind, giver, cause="PREEMPTED", for_job=taker) for kind in TAKINGS)
    others = (Event(NOW, EventKind.JOB_REQUEUED, giver, for_job=taker), Event(NOW, EventKind.JOB_SHRANK, taker))
    store.commit(Changes(events=(shrank, stopped, *others)), lease, NOW)
    assert [event for _, event in store.newest_of_job(giver, TAKINGS, 5)] == [stopped, shrank]
    assert [event for _, event in store.newest_of_job(giver, TAKINGS, 1)] == [stopped]
    assert [event for _, event in store.newest_for_job(taker, TAKINGS, 5, 100)] == [stopped, shrank]
    assert [event for _, event in store.newest_for_job(taker, TAKINGS, 5, 3)] == [stopped], "of three events"
    assert store.newest_for_job(giver, TAKINGS, 5, 100) == []
