"""The fast way and the ordinary one answer every conversation with the same bytes."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from scheduler.config import HttpSettings
from scheduler.http.server.connections import Connections
from scheduler.http.server.fastpath import REQUEST_BYTES_MAX, FastProtocol, protocol_for
from scheduler.http.server.protocol import LimitedProtocol
from scheduler.model.ids import JobId
from tests.eventually import SECONDS_MAX
from tests.http.site import Site
from tests.http.test_access import TOKEN
from tests.http.test_hosts import hosts, published, until_listening

PATH = "/v1/jobs/1/discover_hosts"
HOST = "Host: 127.0.0.1:8470"
KEEP_ALIVE_SECONDS = 75


def request(*fields: str, line: str = f"GET {PATH} HTTP/1.1", body: bytes = b"") -> bytes:
    return "".join(f"{part}\r\n" for part in (line, *fields, "")).encode("latin-1") + body


PLAIN = {
    "bare": request(),
    "wrk": request(HOST),
    "json": request(HOST, "Accept: application/json"),
    "text": request(HOST, "accept: text/plain, application/json"),
    "padded": request(HOST, "ACCEPT:   application/json  "),
    "no space": request("host:localhost", "accept:*/*"),
    "empty accept": request(HOST, "Accept:"),
    "httpx": request(HOST, "Accept: */*", "Accept-Encoding: gzip", "Connection: keep-alive", "User-Agent: x/1 (y; z)"),
    "a token nobody asks for": request(HOST, "Authorization: Bearer x"),
    "zeros": request(HOST, line="GET /v1/jobs/0001/discover_hosts HTTP/1.1"),
}
OTHER = {
    "nothing published": request(HOST, line="GET /v1/jobs/7/discover_hosts HTTP/1.1"),
    "huge id": request(HOST, line=f"GET /v1/jobs/{'9' * 18}/discover_hosts HTTP/1.1"),
    "huger id": request(HOST, line=f"GET /v1/jobs/{'9' * 19}/discover_hosts HTTP/1.1"),
    "no id": request(HOST, line="GET /v1/jobs/discover_hosts HTTP/1.1"),
    "empty id": request(HOST, line="GET /v1/jobs//discover_hosts HTTP/1.1"),
    "encoded": request(HOST, line="GET /v1/jobs/%31/discover_hosts HTTP/1.1"),
    "absolute": request(HOST, line=f"GET http://127.0.0.1:8470{PATH} HTTP/1.1"),
    "fragment": request(HOST, line=f"GET {PATH}#x HTTP/1.1"),
    "query": request(HOST, line=f"GET {PATH}?wait=0 HTTP/1.1"),
    "empty query": request(HOST, line=f"GET {PATH}? HTTP/1.1"),
    "bad query": request(HOST, line=f"GET {PATH}?wait=x HTTP/1.1"),
    "head": request(HOST, line=f"HEAD {PATH} HTTP/1.1"),
    "post": request(HOST, "Content-Length: 2", line=f"POST {PATH} HTTP/1.1", body=b"{}"),
    "another prefix": request(HOST, line="GET /v2/jobs/1/discover_hosts HTTP/1.1"),
    "another path": request(HOST, line="GET /healthz HTTP/1.1"),
    "1.0": request(HOST, line=f"GET {PATH} HTTP/1.0"),
    "1.0 keep-alive": request(HOST, "Connection: keep-alive", line=f"GET {PATH} HTTP/1.0"),
    "close": request(HOST, "Connection: close"),
    "upgrade": request(HOST, "Connection: upgrade", "Upgrade: websocket"),
    "expect": request(HOST, "Expect: 100-continue"),
    "known": request(HOST, "If-None-Match: *"),
    "body": request(HOST, "Content-Length: 3", body=b"abc"),
    "hidden question": request(HOST, f"Content-Length: {len(PLAIN['wrk'])}", body=PLAIN["wrk"]),
    "question hidden in a refused body": request(
        HOST, f"Content-Length: {len(PLAIN['wrk'])}", line="PUT /nowhere HTTP/1.1", body=PLAIN["wrk"]
    ),
    "chunked": request(HOST, "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "origin": request(HOST, "Origin: http://evil.example"),
    "own origin": request(HOST, "Origin: http://127.0.0.1:8470"),
    "another host": request("Host: evil.example"),
    "two accepts": request(HOST, "Accept: text/plain", "Accept: application/json"),
    "unknown field": request(HOST, "X-Request-Id: 1"),
    "long field": request(HOST, f"User-Agent: {'x' * 2000}"),
    "latin-1": request(HOST, "User-Agent: \xe9"),
    "tab": request(HOST, "Accept:\tapplication/json"),
    "folded": request(HOST, "Accept: text/html,", " application/json"),
    "space before colon": request("Host : 127.0.0.1"),
    "no colon": request(HOST, "Accept"),
    "bare newlines": f"GET {PATH} HTTP/1.1\n{HOST}\n\n".encode(),
    "two spaces": request(HOST, line=f"GET  {PATH} HTTP/1.1"),
    "small letters": request(HOST, line=f"get {PATH} HTTP/1.1"),
    "blank line before": b"\r\n" + PLAIN["wrk"],
    "garbage": b"\x00\x01\r\n\r\n",
}
SHAPES = PLAIN | OTHER


class Clockwork(asyncio.SelectorEventLoop):
    """A loop whose time passes only where it is moved on."""

    seconds = 1_000.0

    def time(self) -> float:
        return self.seconds


class Tape(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 8470), "peername": ("127.0.0.1", 5)}.get(name, default)

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def write_eof(self) -> None:
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Talk:
    """One connection to the application, without a socket."""

    def __init__(self, loop: Clockwork, site: Site, kind: type[LimitedProtocol]) -> None:
        self.loop = loop
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"today")]
        config = Config(
            site.app, http=kind, ws="none", lifespan="off", log_config=None, timeout_keep_alive=KEEP_ALIVE_SECONDS
        )
        self.protocol = kind(config, self.state, {}, loop)
        self.protocol.access_log = False
        self.tape = Tape()
        self.protocol.connection_made(self.tape)

    def say(self, *reads: bytes, at_once: bool = False) -> bytes:
        """What has been answered after these reads; `at_once`: they come before the first answer is out."""
        for read in reads:
            if read and not self.tape.closing:
                self.protocol.data_received(read)
                if not at_once:
                    self.settle()
        self.settle()
        return self.tape.written

    def settle(self) -> None:
        while self.state.tasks:
            self.loop.run_until_complete(asyncio.wait(set(self.state.tasks)))

    def pass_seconds(self, seconds: float) -> None:
        self.loop.seconds += seconds
        self.loop.run_until_complete(asyncio.sleep(0))

    @property
    def fast(self) -> bool:
        """Whether uvicorn has not seen a request yet."""
        return self.protocol.cycle is None


@pytest.fixture(scope="module")
def loop() -> Iterator[Clockwork]:
    with asyncio.Runner(loop_factory=Clockwork) as runner:
        yield runner.get_loop()  # type: ignore[misc]


class Ordinary(LimitedProtocol):
    """The protocol without the fast way."""

    table = Connections(HttpSettings())


def fast(loop: Clockwork, site: Site) -> Talk:
    return Talk(loop, site, protocol_for(site.app, Connections(HttpSettings())))


def both(loop: Clockwork, site: Site) -> tuple[Talk, Talk]:
    return fast(loop, site), Talk(loop, site, Ordinary)


def compare(loop: Clockwork, site: Site, reads: Sequence[bytes], *, at_once: bool = False) -> Talk:
    """Both ways answer these reads alike. Returns the fast connection."""
    talk, plain = both(loop, site)
    asked = dict(site.app.asked)
    assert talk.say(*reads, at_once=at_once) == plain.say(*reads, at_once=at_once)
    assert talk.tape.closing == plain.tape.closing
    assert talk.state.total_requests == plain.state.total_requests
    assert not any((count - asked[outcome]) % 2 for outcome, count in site.app.asked.items()), "both ways count alike"
    return talk


@pytest.mark.parametrize("name", PLAIN)
def test_plain_questions_are_answered_fast_and_alike(loop: Clockwork, still_site: Site, name: str) -> None:
    talk = compare(loop, still_site, [PLAIN[name]])
    assert talk.tape.written.startswith(b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: ")
    assert talk.fast


@pytest.mark.parametrize("name", OTHER)
def test_whatever_else_is_left_to_uvicorn(loop: Clockwork, still_site: Site, name: str) -> None:
    compare(loop, still_site, [OTHER[name]])
    talk = fast(loop, still_site)
    talk.say(OTHER[name])
    assert not talk.fast or talk.tape.closing or not talk.tape.written


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("after", ["wrk", "json", "known", "query"])
def test_the_next_request_on_the_connection_is_answered_alike(
    loop: Clockwork, still_site: Site, name: str, after: str
) -> None:
    for at_once in (False, True):
        compare(loop, still_site, [SHAPES[name], SHAPES[after], PLAIN["json"]], at_once=at_once)
        compare(loop, still_site, [SHAPES[name] + SHAPES[after], PLAIN["json"]], at_once=at_once)


@pytest.mark.parametrize("name", ["httpx", "json", "hidden question", "question hidden in a refused body", "chunked"])
def test_a_request_in_two_reads_is_answered_alike_wherever_it_is_cut(
    loop: Clockwork, still_site: Site, name: str
) -> None:
    whole = PLAIN["json"] + SHAPES[name] + PLAIN["wrk"]
    for cut in range(1, len(whole)):
        compare(loop, still_site, [whole[:cut], whole[cut:], PLAIN["wrk"]])


def test_a_body_that_comes_after_its_answer_is_no_question(loop: Clockwork, still_site: Site) -> None:
    whole = SHAPES["question hidden in a refused body"]
    question = PLAIN["wrk"]
    talk = compare(loop, still_site, [whole.removesuffix(question), question, question])
    assert talk.tape.written.count(b"HTTP/1.1 200") == 1


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_conversation_in_any_pieces_is_answered_alike(
    loop: Clockwork, still_site: Site, data: st.DataObject
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=6))
    whole = b"".join(SHAPES[name] for name in names)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=6)))
    reads = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    compare(loop, still_site, reads, at_once=data.draw(st.booleans()))


@pytest.mark.parametrize("count", [2, 33, 96])
def test_questions_in_one_read_are_all_answered_in_order(loop: Clockwork, still_site: Site, count: int) -> None:
    talk = compare(loop, still_site, [(PLAIN["json"] + PLAIN["wrk"]) * (count // 2) + PLAIN["json"] * (count % 2)])
    assert talk.tape.written.count(b"HTTP/1.1 200") == count
    assert not talk.fast


@pytest.mark.parametrize("beyond", [0, 1])
def test_requests_are_remembered_up_to_their_limit(loop: Clockwork, still_site: Site, beyond: int) -> None:
    fields = (HOST, "User-Agent: ")
    padding = "x" * (REQUEST_BYTES_MAX + beyond - len(request(*fields)))
    talk = compare(loop, still_site, [request(HOST, f"User-Agent: {padding}")])
    assert talk.fast == (beyond == 0)


def test_a_client_that_takes_no_answers_is_left_to_uvicorn(loop: Clockwork, still_site: Site) -> None:
    talk = fast(loop, still_site)
    talk.protocol.pause_writing()
    talk.protocol.data_received(PLAIN["wrk"])
    loop.run_until_complete(asyncio.sleep(0))
    assert talk.tape.written == b""
    talk.protocol.resume_writing()
    assert talk.say().startswith(b"HTTP/1.1 200")


def test_the_date_is_the_servers(loop: Clockwork, still_site: Site) -> None:
    talk = fast(loop, still_site)
    talk.say(PLAIN["wrk"])
    talk.state.default_headers = [(b"date", b"tomorrow"), (b"x", b"y")]
    assert b"date: tomorrow\r\nx: y\r\n" in talk.say(PLAIN["wrk"])


@pytest.mark.parametrize("first", ["wrk", "query"])
def test_a_connection_is_kept_for_so_long_after_its_last_answer(loop: Clockwork, still_site: Site, first: str) -> None:
    for talk in both(loop, still_site):
        for name in (first, "wrk", "json"):
            talk.say(SHAPES[name])
            talk.pass_seconds(KEEP_ALIVE_SECONDS - 5)
        assert not talk.tape.closing
        talk.say(OTHER["known"])
        talk.pass_seconds(KEEP_ALIVE_SECONDS - 5)
        assert not talk.tape.closing
        talk.pass_seconds(10)
        assert talk.tape.closing


def test_an_idle_connection_is_closed_in_time(loop: Clockwork, still_site: Site) -> None:
    talk = fast(loop, still_site)
    talk.say(PLAIN["wrk"])
    talk.pass_seconds(KEEP_ALIVE_SECONDS - 40)
    talk.say(PLAIN["wrk"])
    talk.pass_seconds(KEEP_ALIVE_SECONDS - 1)
    assert not talk.tape.closing
    talk.pass_seconds(2)
    assert talk.tape.closing


def test_a_stop_of_the_server_closes_idle_connections(loop: Clockwork, still_site: Site) -> None:
    talk = fast(loop, still_site)
    talk.say(PLAIN["wrk"])
    talk.protocol.shutdown()
    assert talk.tape.closing


def test_where_users_need_a_token_nothing_is_plain(loop: Clockwork, guarded: Site) -> None:
    user = f"Authorization: Bearer {TOKEN}"
    fields_of_job = {"command": ["true"]}
    answer = guarded.client.post("/v1/jobs", json=fields_of_job, headers={"authorization": f"Bearer {TOKEN}"})
    guarded.submitted.append(JobId(answer.json()["id"]))
    guarded.advance(1)
    for fields in ((), (user,), ("Authorization: Bearer wrong",)):
        talk = compare(loop, guarded, [request(HOST, *fields)])
        assert not talk.fast
        assert talk.tape.written.startswith(b"HTTP/1.1 200" if fields == (user,) else b"HTTP/1.1 401")


def test_a_new_list_is_answered_at_once(loop: Clockwork, site: Site) -> None:
    job_id = published(site, min_workers=1, max_workers=4)
    talk = fast(loop, site)
    assert talk.say(PLAIN["wrk"]).endswith(b"\r\n\r\nhost-a:4\n")
    site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 2})
    site.tick()
    assert talk.say(PLAIN["wrk"]).endswith(b"\r\n\r\nhost-a:2\n")
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.settle()
    assert talk.say(PLAIN["wrk"]).count(b"HTTP/1.1 410") == 1


def test_questions_on_the_connection_of_a_long_poll_wait_for_its_answer(site: Site) -> None:
    job_id = published(site, min_workers=1, max_workers=4)
    assert hosts(site, job_id).text == "host-a:4\n"
    wait = request(HOST, line=f"GET {PATH}?wait=30&generation=1 HTTP/1.1")
    close = request(HOST, "Connection: close")
    with socket.create_connection(("127.0.0.1", int(site.url.rpartition(":")[2])), timeout=SECONDS_MAX) as connection:
        connection.sendall(PLAIN["wrk"])
        received = connection.recv(65536)
        connection.sendall(wait)
        until_listening(site)
        connection.sendall(PLAIN["wrk"] * 2)
        site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 3})
        site.tick()
        connection.sendall(PLAIN["wrk"] + close)
        while chunk := connection.recv(65536):
            received += chunk
    assert [part[:8] for part in received.split(b"\r\n\r\n")[1:]] == [b"host-a:4"] + [b"host-a:3"] * 5


def test_a_client_that_asks_and_asks_before_it_reads_gets_every_answer(site: Site) -> None:
    published(site)
    count = 20_000
    with socket.create_connection(("127.0.0.1", int(site.url.rpartition(":")[2])), timeout=SECONDS_MAX) as connection:
        sender = threading.Thread(
            target=connection.sendall, args=(PLAIN["wrk"] * count + request(HOST, "Connection: close"),)
        )
        sender.start()
        received = bytearray()
        while chunk := connection.recv(1 << 20):
            received += chunk
        sender.join()
    assert received.count(b"HTTP/1.1 200 OK\r\n") == received.count(b"\r\n\r\nhost-a:1\n") == count + 1


def test_the_fast_way_is_the_servers(site: Site) -> None:
    assert site.server is not None
    kind = site.server.config.http
    assert isinstance(kind, type)
    assert issubclass(kind, FastProtocol)
