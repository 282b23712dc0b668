"""What a worker knows from its environment: where the scheduler is, its own address, its rank without a scheduler."""

import re
import socket
from typing import Any

import pytest

from scheduler.elastic import environment
from scheduler.elastic.data.shard_source import Own
from scheduler.elastic.environment import Environment, rank_and_size
from scheduler.elastic.errors import Unreachable, UsageError
from scheduler.elastic.membership.client import Client, Standing
from scheduler.elastic.membership.standalone import Alone

HERE = socket.getaddrinfo


def of(url: str) -> Environment:
    found = Environment.read({"SCHED_URL": url, "SCHED_JOB_ID": "1", "SCHED_WORKER_ID": "1-1"})
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_RETRY_SECONDS", 0.0)


def resolving_after(monkeypatch: pytest.MonkeyPatch, failures: int) -> list[str]:
    """The name service fails so often and then says that any host is this one; the hosts that it was asked for."""
    asked: list[str] = []

    def look(host: str, port: int, **more: Any) -> Any:
        asked.append(host)
        if len(asked) <= failures:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return HERE("127.0.0.2", port, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look)
    return asked


def test_a_name_that_does_not_resolve_for_a_moment_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = resolving_after(monkeypatch, failures=3)
    assert of("http://sched.example:8470").own_address().startswith("127.")
    assert asked == ["sched.example"] * 4
    [told] = [record.getMessage() for record in caplog.records]
    assert told.endswith(
        "http://sched.example:8470 cannot be reached, trying again: Temporary failure in name resolution"
    )


def test_a_name_that_never_resolves_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_REACH_SECONDS_MAX", 0.0)
    resolving_after(monkeypatch, failures=10**9)
    with pytest.raises(Unreachable, match=r"^the scheduler at http://sched\.example cannot be reached: Temporary"):
        of("http://sched.example").own_address()


@pytest.mark.parametrize("url", ["http://127.0.0.1:8470", "http://[::1]:8470"])
def test_who_is_reached_on_this_machine_is_told_loopback(url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert of(url).own_address() == "127.0.0.1"
    assert caplog.records == []


def test_who_is_reached_over_ipv6_only_says_that_other_machines_do_not_reach_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = (socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_UDP, "", ("2001:db8::1", 8470, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [elsewhere])
    assert of("http://sched.example:8470").own_address() == "127.0.0.1"
    [told] = [record.getMessage() for record in caplog.records]
    assert told == (
        "the scheduler at http://sched.example:8470 is reached over IPv6 only, and workers meet over IPv4: "
        "those on other machines cannot reach this one"
    )


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://[fd00::1]", ("fd00::1", 80)),
        ("https://[fd00::1]/", ("fd00::1", 443)),
        ("http://[fd00::1]:8470", ("fd00::1", 8470)),
        ("https://sched.example", ("sched.example", 443)),
    ],
)
def test_the_scheduler_is_asked_where_its_url_says(
    monkeypatch: pytest.MonkeyPatch, url: str, place: tuple[str, int]
) -> None:
    asked: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    assert Client(of(url)).discover(0, 0).standing is Standing.AWAY
    assert set(asked) == {place}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, (0, 1)),
        ({"RANK": "", "WORLD_SIZE": ""}, (0, 1)),
        ({"WORLD_SIZE": "1"}, (0, 1)),
        ({"RANK": "0"}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "3"}, (2, 3)),
    ],
)
def test_the_rank_is_that_of_torchrun(variables: dict[str, str], found: tuple[int, int]) -> None:
    assert rank_and_size(variables) == found
    own = Own.read(7, 1, variables)
    assert (own.rank, own.world_size) == found
    alone = Alone(variables)
    assert (alone.membership().rank_of(alone.worker), alone.membership().size) == found


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"RANK": "1"}, "RANK is '1' and WORLD_SIZE is '1': set both"),
        ({"WORLD_SIZE": "4"}, "RANK is not set and WORLD_SIZE is '4': set both"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK is '4' and WORLD_SIZE is '4': "),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "RANK is '-1' and WORLD_SIZE is '4': "),
        ({"RANK": "first", "WORLD_SIZE": "4"}, "RANK is 'first' and WORLD_SIZE is '4': "),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK is '0' and WORLD_SIZE is '0': "),
    ],
)
def test_a_rank_that_cannot_be_is_refused(variables: dict[str, str], told: str) -> None:
    for take in (lambda: Own.read(7, 1, variables), lambda: Alone(variables)):
        with pytest.raises(UsageError, match=re.escape(told)):
            take()
