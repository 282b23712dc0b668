"""Deadlines, places and rates, in virtual time: who has to wait, who is refused, who gives way."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import HttpSettings
from scheduler.errors import InvalidInput
from scheduler.http.errors import Refusal
from scheduler.http.routes.batch import parse_batch
from scheduler.http.server.connections import LEAVING_SECONDS, Connections, Phase
from scheduler.http.server.protocol import LimitedProtocol
from scheduler.http.server.throttle import BURST_SECONDS, JOB_REQUESTS_MAX, USER_SHARE, Caller, Throttle
from scheduler.model.ids import JobId
from tests.http.site import Site
from tests.http.test_fastpath import PLAIN, Clockwork, Talk, fast

SETTINGS = HttpSettings()
BODY = b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"


@pytest.fixture(scope="module")
def loop() -> Iterator[Clockwork]:
    with asyncio.Runner(loop_factory=Clockwork) as runner:
        yield runner.get_loop()  # type: ignore[misc]


def later(talk: Talk, seconds: float) -> bytes:
    """What was said when so much time has passed."""
    talk.pass_seconds(seconds)
    talk.protocol.table.sweep(talk.loop.time())  # type: ignore[attr-defined]
    if talk.tape.closing:
        talk.settle()
    return talk.tape.written


@pytest.mark.parametrize(
    ("said", "seconds", "told"),
    [
        (b"", SETTINGS.header_seconds, None),
        (b"\r\n\r\n", SETTINGS.header_seconds, None),
        (b"GET /healthz HT", SETTINGS.header_seconds, "the headers of the request did not arrive in time"),
        (BODY + b"{", SETTINGS.body_seconds, "the body of the request did not arrive in time"),
    ],
    ids=["silence", "line ends", "half a head", "half a body"],
)
def test_what_does_not_arrive_in_time_ends_the_connection(
    loop: Clockwork, still_site: Site, said: bytes, seconds: float, told: str | None
) -> None:
    talk = fast(loop, still_site)
    if said:
        talk.protocol.data_received(said)
    assert later(talk, seconds - 1.0) == b""
    assert not talk.tape.closing
    answer = later(talk, 2.0)
    assert talk.tape.closing
    if told is None:
        assert answer == b""
    else:
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"] == told


def test_bytes_that_trickle_in_move_no_deadline(loop: Clockwork, still_site: Site) -> None:
    talk = fast(loop, still_site)
    for number in range(int(SETTINGS.header_seconds)):
        talk.protocol.data_received(b"GET /healthz HTTP/1.1\r\nx" if number == 0 else b"x")
        later(talk, 1.0)
    assert later(talk, 0.5).startswith(b"HTTP/1.1 408 ")


def test_an_idle_connection_outlives_the_deadline_of_heads(loop: Clockwork, still_site: Site) -> None:
    for first in ("wrk", "httpx"):
        talk = fast(loop, still_site)
        talk.say(PLAIN[first])
        later(talk, SETTINGS.header_seconds * 2)
        assert not talk.tape.closing


@pytest.mark.parametrize("line", [b"CONNECT a:1", b"GET http:///v1/jobs", b"GET http://[::1", b"GET http://a:99999/"])
@pytest.mark.parametrize("before", [b"", PLAIN["wrk"], b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"])
def test_a_target_that_is_no_url_is_refused_in_one_line(
    loop: Clockwork, still_site: Site, line: bytes, before: bytes
) -> None:
    talk = fast(loop, still_site)
    answered = talk.say(before) if before else b""
    answer = talk.say(line + b" HTTP/1.1\r\nhost: localhost\r\n\r\n").removeprefix(answered)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"] == "not a valid HTTP request"
    assert talk.tape.closing


@given(
    st.sampled_from(["CONNECT", "OPTIONS", "GET", "POST", "PRI", "SUBSCRIBE"]),
    st.text(st.characters(max_codepoint=0xFF, exclude_characters="\r\n"), min_size=1, max_size=30),
    st.sampled_from(["", "/", "http://", "//", "*", "a:"]),
)
def test_whatever_stands_in_a_request_line_ends_in_an_answer(
    loop: Clockwork, still_site: Site, method: str, rest: str, begins: str
) -> None:
    talk = fast(loop, still_site)
    said = f"{method} {begins}{rest} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode("latin-1")
    assert talk.say(said).startswith(b"HTTP/1.1 ")


class Peer:
    """A connection that only remembers what became of it."""

    def __init__(self, peer: str = "10.0.0.1") -> None:
        self.peer, self.used_at, self.untaken_bytes = peer, 0.0, 0
        self.became = ""

    def give_way(self) -> None:
        self.became = "gave way"

    def refuse(self) -> None:
        self.became = "refused"

    def expire(self, phase: Phase) -> None:
        self.became = f"expired: {phase.value}"


def full(**settings: Any) -> tuple[Connections, list[Peer]]:
    """A table of 16 places, all taken, in the order of their coming."""
    table = Connections(HttpSettings(connections_max=16, **settings))
    peers = [Peer() for _ in range(16)]
    for at, peer in enumerate(peers):
        table.open(peer, float(at))
    return table, peers


def test_the_one_that_was_silent_longest_gives_way() -> None:
    table, peers = full()
    table.enter(peers[0], None, 20.0)
    newcomer = Peer()
    table.open(newcomer, 20.0)
    assert [peer.became for peer in (*peers, newcomer)] == ["", "gave way", *[""] * 15]


def test_idle_ones_give_way_after_those_without_a_request_in_the_order_of_their_use() -> None:
    table, peers = full()
    for peer in peers:
        table.enter(peer, Phase.IDLE, 20.0)
    peers[0].used_at = 30.0
    table.open(Peer(), 40.0)
    assert [peer.became for peer in peers[:3]] == ["", "gave way", ""]


def test_those_at_work_stay_and_the_newcomer_is_refused() -> None:
    table, peers = full()
    for peer in peers:
        table.enter(peer, None, 20.0)
    newcomer = Peer()
    table.open(newcomer, 20.0)
    assert newcomer.became == "refused"
    assert not any(peer.became for peer in peers)


def test_an_address_with_too_many_gives_way_to_itself_and_loopback_does_not() -> None:
    for address, became in (("10.0.0.1", "gave way"), ("127.0.0.1", ""), ("::1", "")):
        table = Connections(HttpSettings(connections_per_peer_max=8))
        other, *own = [Peer("10.9.9.9"), *[Peer(address) for _ in range(9)]]
        for peer in (other, *own):
            table.open(peer, 0.0)
        assert [peer.became for peer in (other, *own)] == ["", became, *[""] * 8]


def test_answers_that_nobody_takes_are_bounded_in_time_and_size() -> None:
    table, peers = full()
    for peer in peers:
        table.enter(peer, None, 20.0)
    peers[0].untaken_bytes = peers[1].untaken_bytes = peers[2].untaken_bytes = 30 * 1024 * 1024
    for peer in peers[:3]:
        table.untaken(peer, 20.0)
    assert [peer.became for peer in peers[:3]] == ["gave way", "", ""]
    table.taken(peers[1])
    table.sweep(20.0 + SETTINGS.body_seconds)
    assert [peer.became for peer in peers[1:3]] == ["", "gave way"]


def test_who_was_told_of_the_end_is_waited_for_a_while() -> None:
    table, peers = full()
    table.enter(peers[3], Phase.LEAVING, 0.0)
    table.sweep(LEAVING_SECONDS)
    assert peers[3].became == "expired: leaving"


@given(steps=st.lists(st.tuples(st.integers(0, 30), st.sampled_from([*Phase, None, "open", "close", "use"]))))
def test_the_table_never_holds_more_than_it_may(steps: list[tuple[int, Any]]) -> None:
    table = Connections(HttpSettings(connections_max=16, connections_per_peer_max=8))
    peers: dict[int, Peer] = {}
    for now, (number, step) in enumerate(steps):
        peer = peers.get(number)
        if step == "open" and peer is None:
            peers[number] = Peer(f"10.0.0.{number % 3}")
            table.open(peers[number], float(now))
        elif peer is None:
            continue
        elif step == "close":
            table.close(peers.pop(number))
        elif step == "use":
            peer.used_at = float(now)
        elif isinstance(step, Phase | None) and not peer.became:
            table.enter(peer, step, float(now))
        for gone in [number for number, peer in peers.items() if peer.became]:
            table.close(peers.pop(gone))
        assert len(table) == len(peers) <= 16


def test_a_job_that_asks_too_much_is_refused_alone_and_only_for_a_while() -> None:
    throttle = Throttle(SETTINGS, lambda _: 0)
    bad, good = Caller(job=JobId(1)), Caller(job=JobId(2))
    allowed = int(SETTINGS.job_requests_per_second_max * BURST_SECONDS)
    for _ in range(allowed):
        with throttle.admitted(bad, 0.0):
            pass
    with pytest.raises(Refusal, match="worker token of job 1") as refused, throttle.admitted(bad, 0.0):
        pass
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    with throttle.admitted(good, 0.0), throttle.admitted(Caller(), 0.0), throttle.admitted(bad, 1.0):
        pass
    assert throttle.refused == {"users": 0, "workers": 1, "others": 0}


def test_a_user_who_asks_too_much_is_refused_alone() -> None:
    throttle = Throttle(SETTINGS, lambda _: 0)
    bad, good = Caller(user="ann"), Caller(user="bob")
    for _ in range(int(SETTINGS.requests_per_second_max * BURST_SECONDS)):
        with throttle.admitted(bad, 0.0):
            pass
    with pytest.raises(Refusal, match="with the name of ann"), throttle.admitted(bad, 0.0):
        pass
    with throttle.admitted(good, 0.0), throttle.admitted(Caller(), 0.0):
        pass
    most = int(SETTINGS.connections_max * USER_SHARE)
    waiting = [throttle.admitted(good, 1.0 + n / SETTINGS.requests_per_second_max) for n in range(most)]
    for each in waiting:
        each.__enter__()
    with pytest.raises(Refusal, match="are under way already"), throttle.admitted(good, 100.0):
        pass
    with throttle.admitted(Caller(), 100.0):
        pass


@pytest.mark.parametrize("workers", [0, 3])
def test_so_many_requests_of_a_job_are_under_way_as_its_workers_need(workers: int) -> None:
    throttle = Throttle(SETTINGS, lambda _: workers)
    caller = Caller(job=JobId(1))
    under_way = [throttle.admitted(caller, 0.0) for _ in range(JOB_REQUESTS_MAX + workers * 8)]
    for each in under_way:
        each.__enter__()
    with pytest.raises(Refusal, match="under way"), throttle.admitted(caller, 0.0):
        pass
    under_way[0].__exit__(None, None, None)
    with throttle.admitted(caller, 0.0):
        pass


TEXTS = st.text(max_size=20) | st.sampled_from(['"', "\\", '\\"', "{[", "]}", ",", '"}', "\\\\"])
COMMANDS = st.lists(TEXTS.map(lambda text: text.replace("\0", "")), min_size=1)
JOBS = st.lists(st.fixed_dictionaries({"command": COMMANDS}), max_size=5)


@given(jobs=JOBS, indent=st.sampled_from([None, 0, 2]), ascii_only=st.booleans())
def test_a_batch_is_read_as_json_would_be(
    jobs: list[dict[str, list[str]]], indent: int | None, ascii_only: bool
) -> None:
    body = json.dumps({"jobs": jobs}, indent=indent, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    try:
        json.loads(body)
        wanted = [tuple(job["command"]) for job in jobs]
        valid = all(command[0] for command in wanted) and bool(jobs)
    except UnicodeDecodeError:
        valid = False
    if not valid:
        with pytest.raises(InvalidInput):
            parse_batch(body, SETTINGS)
    else:
        assert [spec.command for spec in parse_batch(body, SETTINGS)] == wanted


@given(body=st.text(alphabet='{}[]":,\\ ajobs1\n', max_size=40).map(lambda text: f'{{"jobs":[{text}'.encode()))
def test_no_nonsense_is_read_as_a_batch(body: bytes) -> None:
    try:
        json.loads(body)
    except ValueError:
        with pytest.raises((InvalidInput, Refusal)):
            parse_batch(body, SETTINGS)


@pytest.mark.parametrize("odd", ["\u202e", "\u2066", "\u200b", "\u2028", "\u0085", "\ufeff", "\u00ad", "\U000e0041"])
@pytest.mark.parametrize("field", ["name", "user", "labels", "gpu_type", "client_key"])
def test_names_are_seen_as_they_are(still_site: Site, field: str, odd: str) -> None:
    value: Any = f"a{odd}b"
    fields = {field: {"team": value} if field == "labels" else value}
    error = still_site.client.post("/v1/whatif", json={"command": "true", **fields}).json()["error"]
    assert error["field"].startswith(field)
    assert error["message"].endswith(f"must consist of printable characters, without U+{ord(odd):04X}")


def test_only_parts_of_heads_are_parsed_at_once(loop: Clockwork, still_site: Site) -> None:
    talk = fast(loop, still_site)
    talk.protocol.data_received(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000)
    assert isinstance(talk.protocol, LimitedProtocol)
    assert len(talk.protocol.pipeline) < 50
    assert talk.say().count(b"HTTP/1.1 200 OK\r\n") == 1000
