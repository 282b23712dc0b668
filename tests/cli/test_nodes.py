"""Nodes on the command line. A daemon of their own: a cordoned node stops everybody."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until
from tests.daemon import running_daemon
from tests.eventually import becomes
from tests.http.site import Site

Sched = Callable[..., Call]


def test_nodes_are_listed_cordoned_drained_and_used_again(
    alone: Sched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_daemon(tmp_path, slots=3) as daemon:
        monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))

        def intent_becomes(intent: str, kind: str) -> None:
            next(event for event in daemon.events() if event["kind"] == kind)
            becomes(lambda: alone("nodes", "-o", "json").ok().document["nodes"][0]["intent"], intent)

        [node] = alone("nodes", "-o", "json").ok().document["nodes"]
        name = node["name"]
        assert "0/3" in alone("nodes").ok().out
        assert alone("cordon", name).ok().out == f"node {name} cordoned: it accepts no new workers\n"
        intent_becomes("CORDONED", "NODE_CORDONED")
        assert alone("uncordon", name, "-o", "json").ok().document == {"accepted": [name], "refused": []}
        intent_becomes("ACTIVE", "NODE_UNCORDONED")
        alone("drain", name).ok()
        intent_becomes("DRAINING", "NODE_DRAINING")
        assert "DRAINING" in alone("top", "--once").ok().out
        call = alone("cordon", "no such node", name)
        assert (call.status, call.err) == (3, "sched: node no such node not found\n")
        assert name in call.out


def test_two_jobs_on_one_slot_are_shown_as_owner_and_sharer(
    alone: Sched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_daemon(tmp_path, slots=1, local={"oversell": 2}) as daemon:
        monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))
        owner = submitted(alone, "owner", "--priority", "1")
        until(daemon, owner, "RUNNING")
        sharer = submitted(alone, "sharer", "--oversell")
        until(daemon, sharer, "RUNNING")
        [node] = alone("nodes", "-o", "json").ok().document["nodes"]
        assert (node["slots_used"], node["extra_slots_used"], node["sharers"]) == (1, 1, [f"{sharer}-1"])
        assert f"1/1 {sharer}-1" in " ".join(alone("nodes").ok().out.split())
        shown = " ".join(alone("show", "sharer").ok().out.split())
        assert "slots may be shared" in shown
        assert "0 shared" in shown
        assert "■□  1/1" in alone("top", "--once").ok().out
        alone("cancel", "owner", "sharer").ok()
        until(daemon, sharer, "CANCELLED")


def test_the_memory_of_small_nodes_is_told_in_units_that_fit(alone: Sched, tmp_path: Path) -> None:
    site = Site(tmp_path)
    for name, mib in (("a", 500), ("b", 1500), ("c", 8192), ("d", 65_300)):
        site.node(name, slots=1, memory_mib=mib)
    site.tick()
    with site.served():
        shown = alone("nodes", "--url", site.url).ok().out
    site.close()
    assert re.findall(r"\S+ [MG]iB", shown) == ["500 MiB", "1.5 GiB", "8 GiB", "64 GiB"]


def test_the_health_of_a_cluster_without_nodes_does_not_say_that_all_accept_workers(
    alone: Sched, tmp_path: Path
) -> None:
    site = Site(tmp_path)
    site.tick()
    with site.served():
        assert "none known" in alone("health", "--url", site.url).ok().out
        site.node("a", slots=1)
        site.tick()
        assert "1 of 1 accept workers" in alone("health", "--url", site.url).ok().out
    site.close()
