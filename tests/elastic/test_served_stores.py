"""What rank 0 of a torchrun job serves."""

import pytest
from torch.distributed import TCPStore

from scheduler.elastic.group.rendezvous_store import connect
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.torchrun.served_stores import ServedStores

TOKEN = "a" * 64
ADDRESS = "127.0.0.1"


def listed(generation: int, rendezvous: str | None = None) -> Membership:
    return Membership(generation, ("1-1", "1-2"), rendezvous)


def test_all_who_join_a_list_meet_at_the_same_stores_however_often_rank_0_tries() -> None:
    served = ServedStores(ADDRESS, TOKEN)
    agents, processes = served.of(listed(3))
    early = connect(agents, TOKEN)
    early.set("joined/1", "1")
    assert served.of(listed(3, rendezvous="127.0.0.1:1")) == (agents, processes), "more is known of the same list"
    late = connect(agents, TOKEN)
    assert late.get("joined/1") == b"1"
    host, _, port = processes.rpartition(":")
    assert TCPStore(host, int(port), is_master=False).add("key", 1) == 1
    for store in (early, late):
        store.close()
    served.close()


def test_stores_of_an_earlier_list_end() -> None:
    served = ServedStores(ADDRESS, TOKEN)
    before, _ = served.of(listed(3))
    now, _ = served.of(listed(4))
    assert now != before
    with pytest.raises((OSError, RuntimeError)):
        connect(before, TOKEN, patience_seconds=0.1)
    connect(now, TOKEN).close()
    served.close()
    with pytest.raises((OSError, RuntimeError)):
        connect(now, TOKEN, patience_seconds=0.1)
