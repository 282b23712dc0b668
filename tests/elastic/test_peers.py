"""Questions among workers: only holders of the job's token are answered, and no question waits forever."""

import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from scheduler.elastic.membership import peers, signed_line
from scheduler.elastic.membership.peers import PeerServer, ask_all
from scheduler.elastic.membership.signed_line import Line
from tests.eventually import SECONDS_MAX
from tests.ports import free_port


def echo(question: Any) -> Mapping[str, Any] | None:
    """Repeats it; knows no question without a number."""
    return {"heard": question["number"]} if question.get("number") else None


def started(token: str) -> PeerServer:
    server = PeerServer("127.0.0.1", token, echo)
    server.start()
    return server


def test_all_are_asked_and_those_that_answer_are_heard() -> None:
    contacts = {"a": started("secret").contact, "b": started("secret").contact, "dead": f"127.0.0.1:{free_port()}"}
    assert ask_all(contacts, "secret", {"number": 3}) == {"a": {"heard": 3}, "b": {"heard": 3}}
    assert ask_all(contacts, "secret", {"number": 0}) == {}
    assert ask_all({}, "secret", {"number": 3}) == {}


def test_whoever_has_another_token_gets_no_answer_and_is_not_believed() -> None:
    server = started("secret")
    assert ask_all({"a": server.contact}, "another", {"number": 3}) == {}
    host, _, port = server.contact.rpartition(":")
    for key in (b"made up", b""):
        with socket.create_connection((host, int(port)), SECONDS_MAX) as connection:
            connection.sendall(bytes(16))
            Line(connection, key, b"asks", b"answers").send({"number": 3})
            heard = b"".join(iter(lambda: connection.recv(4096), b""))
            assert b"heard" not in heard
    assert ask_all({"a": server.contact}, "secret", {"number": 3}) == {"a": {"heard": 3}}


def test_whoever_has_proved_nothing_yet_is_not_listened_to_for_long() -> None:
    contacts = {"a": started("secret").contact}
    assert ask_all(contacts, "secret", {"number": 3, "more": "x" * 2**19}) == {"a": {"heard": 3}}
    assert ask_all(contacts, "secret", {"number": 3, "more": "x" * 2**20}) == {}


def is_closed(connection: socket.socket, wait_seconds: float) -> bool:
    """Whether the other end ends the connection within that time; what it says is of no interest."""
    connection.settimeout(wait_seconds)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_whoever_speaks_slowly_keeps_no_thread_for_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "ANSWER_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", started("secret").port), SECONDS_MAX) as connection:
        connection.sendall(bytes(16) + (1000).to_bytes(4, "big"))
        said = 0
        with suppress(OSError):
            while said < 100 and not is_closed(connection, 0.1):
                connection.sendall(b"x")
                said += 1
    assert said < 100


def test_where_many_prove_nothing_the_first_of_them_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_line, "UNPROVEN_MAX", 2)
    monkeypatch.setattr(peers, "ANSWER_SECONDS", SECONDS_MAX)
    server = started("secret")
    with ExitStack() as connections:
        strangers = []
        for _ in range(3):
            stranger = connections.enter_context(socket.create_connection(("127.0.0.1", server.port), SECONDS_MAX))
            stranger.sendall(bytes(16))
            assert stranger.recv(16, socket.MSG_WAITALL)  # it is being listened to
            strangers.append(stranger)
        assert is_closed(strangers[0], SECONDS_MAX / 2)
        assert ask_all({"a": server.contact}, "secret", {"number": 3}) == {"a": {"heard": 3}}


def test_a_peer_that_speaks_very_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "ANSWER_SECONDS", 0.5)
    told: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                for byte in range(16):
                    threading.Event().wait(0.3)
                    connection.sendall(bytes(1))
                    told.append(byte)

        threading.Thread(target=speak, daemon=True).start()
        assert ask_all({"a": f"127.0.0.1:{listener.getsockname()[1]}"}, "secret", {"number": 3}) == {}
    assert len(told) < 16
