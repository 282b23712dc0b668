"""Connections of the TLS listener: whatever pieces it comes in, what is said arrives; what is no TLS ends at once."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.config import HttpSettings
from scheduler.daemon.certificates import open_certificates
from scheduler.http.server.tls import TlsConnection
from tests.certificates import Authority


class Socket(asyncio.Transport):
    """Keeps what is written, and takes nothing after the end."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = self.ended = self.paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        assert not self.closing
        assert not self.ended
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Echo(asyncio.Protocol):
    """Says everything back, and wants to hear no more after each `pauses`-th piece until it is told to go on."""

    def __init__(self, pauses: int) -> None:
        self.heard = b""
        self.paused = False
        self._pauses, self._pieces = pauses, 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert not self.paused
        self.heard += data
        self.transport.write(data)
        self._pieces += 1
        if self._pauses and self._pieces % self._pauses == 0:
            self.paused = True
            self.transport.pause_reading()

    def go_on(self) -> None:
        self.paused = False
        self.transport.resume_reading()


class Talk:
    """A client, and the listener's end of its connection."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, pauses: int = 0) -> None:
        self.loop = asyncio.new_event_loop()
        self.socket, self.echo = Socket(), Echo(pauses)
        self.connection = TlsConnection(self.echo, lambda: server)
        self.connection.connection_made(self.socket)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._read = 0
        #: Whether the listener has said goodbye.
        self.ended = False

    def send(self, sizes: Iterator[int]) -> None:
        """What the client has to say, in pieces of these sizes, and what comes back."""
        data = self._outgoing.read()
        while data and not self.socket.closing:
            size = next(sizes)
            self.deliver(data[:size])
            data = data[size:]
        self._incoming.write(self.socket.written[self._read :])
        self._read = len(self.socket.written)

    def deliver(self, data: bytes) -> None:
        async def deliver() -> None:
            self.connection.data_received(data)
            while self.socket.paused:
                self.echo.go_on()
                await asyncio.sleep(0)

        self.loop.run_until_complete(deliver())

    def shake_hands(self, sizes: Iterator[int]) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.send(sizes)
            else:
                self.send(sizes)
                return

    def heard(self) -> bytes:
        """What has come back by now."""
        found = b""
        while not self.ended:
            try:
                piece = self.tls.read(65536)
            except ssl.SSLWantReadError:
                break
            found += piece
            self.ended = not piece
        return found


def cycled(sizes: Sequence[int]) -> Iterator[int]:
    while True:
        yield from sizes


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the listener and of its clients."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority.made(directory / "authority")
    return authority.server(directory), ssl.create_default_context(cafile=str(authority.file))


@example(said=[b"x" * 40_000], sizes=[65_536], pauses=1, version=ssl.TLSVersion.TLSv1_3)
@given(
    said=st.lists(st.binary(min_size=1, max_size=40_000), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=5),
    pauses=st.integers(0, 3),
    version=st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]),
)
def test_what_is_said_arrives_whatever_pieces_it_comes_in(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
    said: list[bytes],
    sizes: list[int],
    pauses: int,
    version: ssl.TLSVersion,
) -> None:
    server, client = contexts
    client.maximum_version = version
    talk, pieces = Talk(server, client, pauses), cycled(sizes)
    talk.shake_hands(pieces)
    heard = b""
    for words in said:
        assert talk.tls.write(words) == len(words)
        talk.send(pieces)
        heard += talk.heard()
    assert talk.echo.heard == heard == b"".join(said)
    assert talk.tls.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
    talk.connection.close()
    talk.send(pieces)
    assert talk.heard() == b""
    assert talk.ended
    assert talk.socket.closing
    talk.loop.close()


@given(said=st.binary(min_size=1, max_size=2_000))
def test_whatever_is_no_handshake_ends_the_connection_and_says_so_where_it_was_plain(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], said: bytes
) -> None:
    talk = Talk(*contexts)
    talk.deliver(said)
    if said[0] != 0x16:
        assert talk.socket.written.startswith(b"HTTP/1.1 400 ")
        assert b"use https:// in place of http://" in talk.socket.written
    before = talk.socket.written
    talk.deliver(said)  # more of it is dropped
    assert talk.echo.heard == b""
    assert talk.socket.ended or said[0] == 0x16
    assert talk.socket.written == before or not talk.socket.ended
    talk.loop.close()


def test_garbage_in_a_record_gets_an_alert_and_the_end(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    talk = Talk(*contexts)
    talk.deliver(b"\x16\x03\x01\x00\x10" + b"\xff" * 16)
    assert talk.socket.written[:1] == b"\x15"
    assert talk.socket.ended
    talk.deliver(b"more")
    assert talk.echo.heard == b""
    talk.loop.close()


def test_a_word_before_the_handshake_ends_the_connection(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    talk = Talk(*contexts)
    talk.connection.write(b"HTTP/1.1 503 \r\n\r\n")
    talk.connection.write_eof()
    assert talk.socket.closing
    assert talk.socket.written == b""
    talk.loop.close()


def test_after_the_last_word_the_peer_is_not_listened_to(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    talk, pieces = Talk(*contexts), cycled([65536])
    talk.shake_hands(pieces)
    talk.connection.write(b"bye")
    talk.connection.write_eof()
    assert talk.socket.ended
    talk.tls.write(b"but")
    talk.send(pieces)
    assert talk.echo.heard == b""
    assert talk.heard() == b"bye"
    assert talk.ended
    talk.loop.close()


def test_versions_before_1_2_and_the_wish_to_shake_hands_again_are_refused(tmp_path: Path) -> None:

    authority = Authority.made(tmp_path / "authority")
    settings = HttpSettings(**authority.issue(tmp_path).settings, tls_ca=authority.file)
    certificates = open_certificates(settings, "https://127.0.0.1:1", lambda: 0.0)
    assert certificates is not None
    assert certificates.context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert certificates.context.options & ssl.OP_NO_RENEGOTIATION
    client = ssl.create_default_context(cafile=str(authority.file))
    client.set_alpn_protocols(["h2", "http/1.1"])
    talk = Talk(certificates.context, client)
    talk.shake_hands(cycled([65536]))
    assert talk.tls.selected_alpn_protocol() == "http/1.1"
    talk.loop.close()
