"""The store of a rendezvous is open to those that know the job's token, and is a store as torch has them."""

import gc
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from torch.distributed import DistStoreError, HashStore, PrefixStore, Store, TCPStore

from scheduler.elastic.errors import Superseded
from scheduler.elastic.group import signed_store
from scheduler.elastic.group.rendezvous_store import Meeting, connect, meet
from scheduler.elastic.group.signed_store import SignedStore, StoreServer
from scheduler.elastic.membership.membership import Membership
from tests.elastic.processes import environment, python
from tests.eventually import SECONDS_MAX

TOKEN = "a" * 64
NONCE = 16


@pytest.fixture
def server() -> Iterator[StoreServer]:
    server = StoreServer("127.0.0.1", TOKEN)
    yield server
    server.close()


def whole(connection: socket.socket, count: int) -> bytes:
    return connection.recv(count, socket.MSG_WAITALL)


def message(connection: socket.socket) -> bytes:
    """Length, signature and body."""
    length = whole(connection, 4)
    return length + whole(connection, 32 + int.from_bytes(length, "big"))


def joined(server: StoreServer, prefix: str = "", token: str = TOKEN) -> SignedStore:
    store = SignedStore(server.endpoint, token, SECONDS_MAX, prefix)
    store.set_timeout(timedelta(seconds=SECONDS_MAX))
    return store


def test_the_connections_of_groups_long_gone_are_closed(server: StoreServer) -> None:
    for _ in range(100):
        joined(server).set("key", "value")
    gc.collect()  # a socket that is dropped without being closed is a warning, and so a failure here
    assert joined(server).get("key") == b"value"


@pytest.mark.parametrize("endpoint", ["127.0.0.1:99999", "127.0.0.1:x", "[::1"])
def test_an_endpoint_where_nobody_can_listen_is_like_one_where_nobody_does(endpoint: str) -> None:
    with pytest.raises(ConnectionError, match="is not HOST:PORT"):
        connect(endpoint, TOKEN)
    looks = iter([True, False])
    with pytest.raises(Superseded):
        meet(endpoint, TOKEN, Membership(1, ("1-1", "1-2"), None), 1, 0, lambda: next(looks))


@pytest.mark.parametrize("token", ["b" * 64, "", "a" * 63])
def test_without_the_jobs_token_there_is_no_store(server: StoreServer, token: str) -> None:
    joined(server).set("key", "value")
    with pytest.raises(OSError, match=r"not from a worker of this job|closed|reset"):
        joined(server, token=token)


def test_torchs_own_client_gets_nothing_and_changes_nothing(server: StoreServer) -> None:
    store = joined(server)
    store.set("key", "value")
    with pytest.raises(RuntimeError):
        TCPStore("127.0.0.1", server.port, is_master=False, timeout=timedelta(seconds=0.5)).set("key", "planted")
    assert (store.get("key"), store.num_keys()) == (b"value", 1)


def test_a_server_that_does_not_know_the_token_is_not_believed() -> None:
    impostor = StoreServer("127.0.0.1", "another")
    with pytest.raises(OSError, match="not from a worker of this job"):
        joined(impostor)
    impostor.close()


def test_what_is_sent_again_or_made_up_ends_the_connection(server: StoreServer) -> None:
    store = joined(server)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def relay() -> None:
            """Stands between the ends, and says again what it heard."""
            inner, _ = listener.accept()
            with inner, socket.create_connection(("127.0.0.1", server.port)) as outer:
                outer.sendall(whole(inner, NONCE))
                inner.sendall(whole(outer, NONCE) + message(outer))
                question = message(inner)
                outer.sendall(question)
                inner.sendall(message(outer))
                outer.sendall(question)
                heard.append(outer.recv(1))

        thread = threading.Thread(target=relay)
        thread.start()
        SignedStore(f"127.0.0.1:{listener.getsockname()[1]}", TOKEN, SECONDS_MAX).add("count", 1)
        thread.join()
    assert heard == [b""], "the repeated one is not answered"
    assert store.add("count", 0) == 1
    body = json.dumps(["add", "count", 1]).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as stranger:
        stranger.sendall(bytes(16) + len(body).to_bytes(4, "big") + bytes(32) + body)
        while stranger.recv(4096):
            pass
    assert store.add("count", 0) == 1


def test_those_that_say_nothing_or_too_much_keep_nobody_waiting(server: StoreServer) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    for connection in idle[:50]:
        connection.sendall(bytes(16) + b"\xff\xff\xff\xff")
    store = joined(server)
    store.set("key", "value")
    assert store.get("key") == b"value"
    for connection in idle:
        connection.close()


def stores(server: StoreServer) -> dict[str, Store]:
    return {"ours": joined(server), "torch": HashStore()}


def test_it_answers_as_torchs_stores_do(server: StoreServer) -> None:
    seen = {}
    for name, store in stores(server).items():
        prefixed = PrefixStore("p", store)
        prefixed.set("a", "1")
        prefixed.set("bytes", bytes(range(256)))
        seen[name] = [
            prefixed.get("a"),
            prefixed.get("bytes"),
            prefixed.add("n", 3),
            prefixed.add("n", -1),
            prefixed.get("n"),
            prefixed.check(["a", "n"]),
            prefixed.check(["a", "none"]),
            prefixed.compare_set("c", "", "first"),
            prefixed.compare_set("c", "other", "second"),
            prefixed.compare_set("c", "first", "third"),
            prefixed.delete_key("a"),
            prefixed.delete_key("a"),
            prefixed.has_extended_api(),
            prefixed.multi_get(["n", "c"]),
        ]
        prefixed.append("log", "x")
        prefixed.append("log", "y")
        prefixed.multi_set(["m", "o"], ["1", "2"])
        seen[name] += [prefixed.get("log"), prefixed.multi_get(["m", "o"])]
        with pytest.raises(DistStoreError):
            prefixed.wait(["never"], timedelta(seconds=0.05))
    assert seen["ours"] == seen["torch"]


def test_who_waits_is_woken_by_another_and_by_the_end(server: StoreServer) -> None:
    found: list[object] = []

    def wait(store: SignedStore, key: str) -> None:
        try:
            found.append(store.get(key))
        except DistStoreError:
            found.append("ended")

    for key, then in (("came", lambda: joined(server).set("came", "1")), ("never", server.close)):
        waiter = threading.Thread(target=wait, args=(joined(server), key))
        waiter.start()
        then()
        waiter.join()
    assert found == [b"1", "ended"]


STOPPED = """
import signal
from scheduler.elastic.group.signed_store import StoreServer
print(StoreServer("127.0.0.1", "a" * 64).endpoint, flush=True)
signal.pause()
"""


@pytest.mark.timeout(30)
@pytest.mark.parametrize("ask", [lambda store: store.check(["key"]), lambda store: store.get("key")])
def test_a_server_that_does_not_answer_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[SignedStore], object]
) -> None:
    monkeypatch.setattr(signed_store, "ANSWER_SECONDS", 0.2)
    with python(["-c", STOPPED], env=[environment()]) as (server,):
        assert server.stdout is not None
        store = connect(server.stdout.readline().strip(), TOKEN, SECONDS_MAX)
        store.set_timeout(timedelta(seconds=0.1))
        assert store.add("number", 1) == 1
        server.send_signal(signal.SIGSTOP)
        with pytest.raises(
            DistStoreError, match=r"the connection to the rendezvous is lost: (timed out|it took too long)"
        ):
            ask(store)
        server.send_signal(signal.SIGCONT)
        with pytest.raises(DistStoreError):
            ask(store)


def test_a_store_that_is_closed_ends_what_waits_for_it(server: StoreServer) -> None:
    store = joined(server)
    found: list[str] = []

    def wait() -> None:
        try:
            store.get("never")
        except DistStoreError as error:
            found.append(str(error))

    waiter = threading.Thread(target=wait)
    waiter.start()
    store.close()
    waiter.join(SECONDS_MAX)
    (told,) = found
    assert told.startswith("the connection to the rendezvous is lost: ")


def test_a_prefix_keeps_groups_apart(server: StoreServer) -> None:
    joined(server, "one/").set("key", "1")
    assert not joined(server, "two/").check(["key"])
    assert joined(server).get("one/key") == b"1"


def test_who_waits_for_one_of_many_asks_little(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    size, late = 500, 321
    store = joined(server, "generation-1/attempt-0/")
    for rank in range(size):
        if rank != late:
            store.set(f"came/{rank}", "1")
    asked: list[list[str]] = []
    found: list[frozenset[int]] = []
    check = SignedStore.check
    monkeypatch.setattr(SignedStore, "check", lambda store, keys: asked.append(keys) or check(store, keys))

    def missing(find: Callable[[], frozenset[int]]) -> None:
        asked.clear()
        found.append(find())

    everybody = Membership(1, tuple(f"1-{ordinal}" for ordinal in range(size)), None)
    with pytest.raises(Superseded):
        meet(server.endpoint, TOKEN, everybody, 1, 0, lambda: not found, missing)
    assert found == [{late}]
    assert len(asked) < 20


def test_only_the_jobs_own_workers_reach_a_meeting() -> None:
    meeting = Meeting("127.0.0.1", TOKEN)
    connect(meeting.endpoint, TOKEN).set("generation-1/attempt-0/came/1", "1")
    with pytest.raises(OSError, match="not from a worker of this job"):
        connect(meeting.endpoint, "b" * 64)
    meeting.close()
