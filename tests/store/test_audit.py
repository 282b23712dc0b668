"""Records of requests in the store, on both databases."""

from dataclasses import replace

from scheduler.model.audit import AuditRecord
from scheduler.store import SqlStore
from tests.store.desk import NOW

RECORD = AuditRecord(NOW, "ann", "token", "10.0.0.1", "POST", "/v1/jobs/{job_id}/cancel", "job 1", 202)


def test_records_are_read_by_time_and_user_in_pages(store: SqlStore) -> None:
    records = [replace(RECORD, at=NOW + n, user=("ann", "bob", None)[n % 3], object=f"job {n}") for n in range(9)]
    store.add_audit(records[:4])
    store.add_audit([])
    store.add_audit(records[4:])
    assert [record for _, record in store.page_of_audit().records] == records
    assert [record for _, record in store.page_of_audit(since=NOW + 7).records] == records[7:]
    assert [record for _, record in store.page_of_audit(user="bob").records] == records[1::3]
    newest = store.page_of_audit(limit=4)
    assert [record for _, record in newest.records] == records[5:]
    older = store.page_of_audit(before=newest.next, limit=4)
    assert [record for _, record in older.records] == records[1:5]
    oldest = store.page_of_audit(before=older.next, limit=4)
    assert ([record for _, record in oldest.records], oldest.next) == (records[:1], None)


def test_old_records_are_removed_and_their_ids_are_not_given_again(store: SqlStore) -> None:
    store.add_audit([replace(RECORD, at=NOW + n) for n in range(5)])
    assert store.purge_audit(NOW + 4, limit=3) == 3
    assert store.purge_audit(NOW + 4, limit=3) == 1
    [(last, _)] = store.page_of_audit().records
    store.purge_audit(NOW + 10, limit=3)
    store.add_audit([RECORD])
    [(following, _)] = store.page_of_audit().records
    assert following > last
