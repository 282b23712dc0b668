"""Accounts in the store, on both databases: charged, loaded, followed, summed, and kept when jobs are removed."""

import pytest

from scheduler.model.account import HOUR_SECONDS, AccountKey, AccountSum, Charge, Holding
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.queries.accounts import Span
from tests.store.desk import NOW, SPEC, admitted, finished, lead, started, stored

ANN = AccountKey("lab", "ann", "H100")
BOB = AccountKey("lab/vision", "bob", "")


def test_charges_of_one_hour_are_added_up(store: SqlStore) -> None:
    lease = lead(store)
    store.commit(Changes(charges=(Charge(5, ANN, 10.0, 4.0, 0.0), Charge(6, BOB, 3.0, 0.0, 1.5))), lease, NOW)
    store.commit(Changes(charges=(Charge(5, ANN, 1.5, 0.5, 2.0), Charge(7, ANN, 7.0, 7.0, 0.0))), lease, NOW)
    now = 100 * HOUR_SECONDS
    by = ("queue", "user", "gpu_type")
    assert store.accounts(Span(0, 100, now), by) == [
        AccountSum(*ANN, None, 18.5, 11.5, 2.0),
        AccountSum(*BOB, None, 3.0, 0.0, 1.5),
    ]
    assert store.accounts(Span(5, 6, now), by) == [AccountSum(*ANN, None, 11.5, 4.5, 2.0)]
    assert store.accounts(Span(6, 8, now), ()) == [AccountSum(None, None, None, None, 10.0, 7.0, 1.5)]
    assert store.accounts(Span(8, 100, now), by) == []
    assert store.first_hour() == 5


def test_what_is_held_is_loaded_and_followed_and_counts_up_to_now(store: SqlStore) -> None:
    assert store.first_hour() is None
    lease = lead(store)
    store.commit(Changes(holdings=(Holding(ANN, 3600.0, 4, 1.5), Holding(BOB, 4000.0, 2, 0.0))), lease, NOW)
    before = store.load_world()
    assert sorted(before.holdings, key=lambda each: each.key) == [
        Holding(ANN, 3600.0, 4, 1.5),
        Holding(BOB, 4000.0, 2, 0.0),
    ]
    store.commit(Changes(holdings=(Holding(BOB, 5000.0, 0, 0.0),)), lease, NOW)
    assert store.load_news(before.revision).holdings == (Holding(BOB, 5000.0, 0, 0.0),)
    assert store.load_world().holdings == (Holding(ANN, 3600.0, 4, 1.5),)
    assert store.accounts(Span(1, 3, 7200.0 + 10), ("user",)) == [
        AccountSum(None, "ann", None, None, 4 * 3610.0, 1.5 * 3610.0, 0.0)
    ]
    assert store.first_hour() == 1


def test_jobs_are_told_apart_until_they_are_removed(store: SqlStore) -> None:
    lease = lead(store)
    spec = SPEC
    first, second = admitted(store, lease, spec, spec)
    running = [started(first, 2), started(second, 1)]
    store.commit(Changes(jobs=tuple(running), workers=tuple(w for job in running for w in job.workers)), lease, NOW)
    done, ended = finished(stored(running[0])[0])
    key = AccountKey("", "", "")
    held = (Holding(key, NOW + 5, 1, 0.0),)
    store.commit(Changes((done,), ended, holdings=held, charges=(Charge(0, key, 15.0, 3.0, 0.0),)), lease, NOW + 5)
    span = Span(0, 1, NOW + 25)
    whole = AccountSum(None, None, None, first.id, 10.0, 35.0, 0.0)
    by_job = store.accounts(span, ("job",))
    assert [(each.job, each.held) for each in by_job] == [(first.id, 10.0), (second.id, 25.0)]
    assert sum(each.lent for each in by_job) == pytest.approx(3.0)
    assert whole.held + by_job[1].held == 35.0
    assert store.purge(NOW + 6, 0.0).jobs == 1
    assert [(each.job, each.held) for each in store.accounts(span, ("job",))] == [(0, 10.0), (second.id, 25.0)]
    assert store.accounts(span, ()) == [AccountSum(None, None, None, None, 35.0, 3.0, 0.0)]
