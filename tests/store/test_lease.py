"""Who leads: one at a time, each with its own term, whatever happens at the same moment."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from scheduler.engine.ports import Lease, SeenLease
from scheduler.errors import LeaseLost, SchemaMismatch
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.sql import migrate
from tests.store.conftest import OpenStore
from tests.store.desk import admitted, lead

ENGINES = 4
ROUNDS = 15


def test_the_lease_goes_to_the_first_and_stays_whatever_others_clocks_say(store: SqlStore) -> None:
    first = store.acquire_lease("a", 0.0, 10.0)
    assert first == Lease("a", 1, 10.0)
    assert store.acquire_lease("b", 9.9, 10.0) is None
    assert store.acquire_lease("b", 1e9, 10.0) is None


def test_who_has_outlived_it_takes_it_unless_its_holder_has_moved(store: SqlStore) -> None:
    lease = store.acquire_lease("a", 100.0, 10.0, url="http://a")
    seen = store.read_lease()
    assert seen == SeenLease("a", 1, 110.0, 10.0, "http://a", 0)
    assert lease is not None
    store.renew_lease(lease, 101.0, 10.0)
    assert store.acquire_lease("b", 0.0, 10.0, outlived=seen) is None
    renewed = store.read_lease()
    store.commit(Changes(), lease, 102.0)
    assert store.acquire_lease("b", 0.0, 10.0, outlived=renewed) is None, "who commits is alive"
    assert store.acquire_lease("b", 0.0, 10.0, url="http://b", outlived=store.read_lease()) == Lease("b", 2, 10.0)
    assert store.read_lease() == SeenLease("b", 2, 10.0, 10.0, "http://b", 1)


def test_the_holder_takes_it_again_in_the_same_term(store: SqlStore) -> None:
    store.acquire_lease("a", 0.0, 10.0)
    assert store.acquire_lease("a", 5.0, 10.0) == Lease("a", 1, 15.0)
    assert store.acquire_lease("a", 50.0, 10.0) == Lease("a", 1, 60.0)


def test_renewing_extends_it(store: SqlStore) -> None:
    lease = store.acquire_lease("a", 0.0, 10.0)
    assert lease is not None
    assert store.renew_lease(lease, 8.0, 10.0) == Lease("a", 1, 18.0)
    assert store.read_lease().expires_at == 18.0


def test_a_lease_that_another_has_taken_is_lost(store: SqlStore) -> None:
    lease = store.acquire_lease("a", 0.0, 10.0)
    assert lease is not None
    store.acquire_lease("b", 11.0, 10.0, outlived=store.read_lease())
    with pytest.raises(LeaseLost, match="a no longer leads in term 1: b leads in term 2"):
        store.renew_lease(lease, 12.0, 10.0)
    store.release_lease(lease)
    assert store.acquire_lease("c", 12.0, 10.0) is None


def test_a_released_lease_is_free_at_once_and_fences_its_former_term(store: SqlStore) -> None:
    lease = store.acquire_lease("a", 0.0, 10.0)
    assert lease is not None
    store.release_lease(lease)
    with pytest.raises(LeaseLost):
        store.commit(Changes(), lease, 1.0)
    assert store.read_lease().holder is None
    assert store.acquire_lease("a", 1.0, 10.0) == Lease("a", 2, 11.0)


def test_nobody_begins_to_lead_on_another_versions_tables(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "newest_revision", lambda: "0001")
    with pytest.raises(SchemaMismatch, match="run `sched db upgrade`"):
        store.acquire_lease("a", 0.0, 10.0)
    assert store.read_lease().holder is None


def test_of_engines_that_reach_for_it_together_one_leads(database_url: str, open_store: OpenStore) -> None:
    stores = [open_store(database_url) for _ in range(ENGINES)]
    start = Barrier(ENGINES)

    def contend(number: int) -> list[Lease | None]:
        got = []
        for turn in range(ROUNDS):
            seen = stores[number].read_lease()
            start.wait(30)
            got.append(stores[number].acquire_lease(f"engine {number}", turn * 10.0, 10.0, outlived=seen))
            start.wait(30)
        return got

    with ThreadPoolExecutor(ENGINES) as pool:
        leases = list(pool.map(contend, range(ENGINES)))
    for turn in zip(*leases, strict=True):
        assert sum(lease is not None for lease in turn) == 1
    terms: dict[int, str] = {}
    for lease in (lease for turn in zip(*leases, strict=True) for lease in turn if lease is not None):
        assert terms.setdefault(lease.term, lease.holder) == lease.holder


def test_commits_of_rivals_never_mix(database_url: str, open_store: OpenStore) -> None:
    """Each engine raises one job's priority as long as it leads; every acknowledged step is there at the end."""
    stores = [open_store(database_url) for _ in range(ENGINES)]
    job = admitted(stores[0], lead(stores[0], "engine 0"))[0]

    def reign(number: int) -> int:
        store, steps = stores[number], 0
        for turn in range(ROUNDS):
            lease = store.acquire_lease(f"engine {number}", float(turn), 1.0, outlived=store.read_lease())
            if lease is None:
                continue
            current = store.get_job(job.id)
            assert current is not None
            try:
                changed = replace(current, priority=current.priority + 1)
                store.commit(Changes(jobs=(changed,)), lease, 0.0)
                steps += 1
            except LeaseLost:
                continue
        return steps

    with ThreadPoolExecutor(ENGINES) as pool:
        steps = sum(pool.map(reign, range(ENGINES)))
    final = stores[0].get_job(job.id)
    assert final is not None
    assert (final.priority, final.version) == (steps, steps)
    assert steps >= 1
