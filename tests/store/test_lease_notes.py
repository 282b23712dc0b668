"""What a leader notes beside its lease, for the next one; a note that cannot be read stops nobody."""

import math
import random
import secrets

import pytest

from scheduler.clock import SystemClock
from scheduler.engine.ports import Anchor, Place
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.errors import StoreUnavailable
from scheduler.model.world import Changes
from scheduler.store import SqlStore
from scheduler.store.sql.engine_tables import lease as table
from tests.store import garbage

NOW = 1_800_000_000.0
ANCHOR = Anchor(NOW, NOW + 7.25, 1234.5, "boot-1")
PLACE = Place("a1b2", "state directory /var/lib/sched on a")
NOTES = ("anchor_now", "anchor_wall", "anchor_booted", "anchor_boot", "ahead_seconds", "place", "place_name")


def test_notes_come_back_as_they_were_and_an_anchor_that_is_not_given_stays(store: SqlStore) -> None:
    lease = store.acquire_lease("a", NOW, 10, anchor=ANCHOR, place=PLACE)
    assert lease is not None
    assert (store.read_lease().anchor, store.read_lease().place) == (ANCHOR, PLACE)
    lease = store.renew_lease(lease, NOW + 1, 10)
    assert store.read_lease().anchor == ANCHOR
    later = Anchor(NOW + 2, NOW - 50.0, 0.0, "boot-2")
    lease = store.renew_lease(lease, NOW + 2, 10, anchor=later)
    assert store.read_lease().anchor == later
    store.commit(Changes(ahead_seconds=-52.0), lease, NOW + 2)
    assert store.read_lease().ahead_seconds == store.load_world().ahead_seconds == -52.0
    store.release_lease(lease, anchor=ANCHOR)
    assert (store.read_lease().anchor, store.read_lease().place) == (ANCHOR, PLACE)


@pytest.mark.parametrize("name", NOTES)
def test_a_note_that_cannot_be_read_stops_nobody_and_is_replaced(store: SqlStore, database_url: str, name: str) -> None:
    seed = secrets.randbits(32)
    column, sqlite = table.columns[name], database_url.startswith("sqlite")
    stored = 0
    for value in garbage.values(column, random.Random(seed), sqlite=sqlite):
        lease = store.acquire_lease("a", NOW, 10, anchor=ANCHOR, place=PLACE)
        assert lease is not None, f"seed {seed}: {value!r:.100}"
        store.commit(Changes(ahead_seconds=5.0), lease, NOW)
        with garbage.connected(database_url) as session:
            if not garbage.corrupt(session, table, column, value):
                continue
        stored += 1
        store.load_world()
        store.load_news(0)
        seen = store.read_lease()
        assert (seen.holder, seen.term) == ("a", lease.term), f"seed {seed}: {value!r:.100}"
        clock = SteadyClock(SystemClock(), seen.anchor)
        assert math.isfinite(clock.now()), f"seed {seed}: {value!r:.100}"
        lease = store.acquire_lease("a", NOW, 10, anchor=ANCHOR, place=PLACE)
        assert (store.read_lease().anchor, store.read_lease().place) == (ANCHOR, PLACE)
    assert stored > 1


def test_a_lease_of_which_more_than_notes_is_broken_is_told(store: SqlStore, database_url: str) -> None:
    store.acquire_lease("a", NOW, 10, anchor=ANCHOR, place=PLACE)
    with garbage.connected(database_url) as session:
        assert garbage.corrupt(session, table, table.columns["expires_at"], -5.0)
    with pytest.raises(StoreUnavailable, match="the row of the lease cannot be read: expires_at"):
        store.read_lease()
