"""Clients that mean harm: `python tests/security/http_attackers.py KIND COUNT URL [TOKEN [PATH]]`, until stdin closes.

Each keeps COUNT connections and makes a new one whenever the daemon ends one. `ready` is printed when all have
connected once. `silent` says nothing, `drip` sends the head of a request byte by byte, one a second, `body` a body,
`blank` line ends, and `unread` asks for PATH again and again and never reads an answer. Where TLS is spoken, `hello`
begins a handshake and says no more, `handshakes` breaks each one off when the daemon has done its part, `noise` sends
records of random bytes, and `plain` asks without TLS; all others say there what they say over TLS.
"""

import asyncio
import os
import resource
import ssl
import sys
from contextlib import suppress
from urllib.parse import urlsplit

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 10_000
BODY = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n"
#: Kinds that have no use for a handshake that succeeds.
WITHOUT_TLS = frozenset({"silent", "hello", "handshakes", "noise", "plain"})
#: The head of a record of a handshake, with its length.
RECORD = b"\x16\x03\x01\x10\x00"
AT_ONCE_MAX = 200


def trusting_anybody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello() -> bytes:
    """How any handshake begins."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    said = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    return said.read()


async def main(kind: str, count: int, url: str, token: str = "", path: str = "/v1/jobs") -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    parts = urlsplit(url)
    turns, connected = asyncio.Semaphore(AT_ONCE_MAX), asyncio.Semaphore(0)
    host, encrypted = parts.hostname or "127.0.0.1", parts.scheme == "https"
    attack = Attack(kind, host, parts.port or 80, encrypted, token, path, turns, connected)
    attackers = [asyncio.create_task(attack.go_on()) for _ in range(count)]
    for _ in attackers:
        await connected.acquire()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for attacker in attackers:
        attacker.cancel()


class Attack:
    """What all attackers of a kind have in common."""

    def __init__(
        self,
        kind: str,
        host: str,
        port: int,
        encrypted: bool,
        token: str,
        path: str,
        turns: asyncio.Semaphore,
        done: asyncio.Semaphore,
    ) -> None:
        self.kind, self.host, self.port, self.path, self.turns, self.done = kind, host, port, path, turns, done
        self.hello = client_hello()
        self.tls = trusting_anybody() if encrypted and kind not in WITHOUT_TLS else None
        self.token = f"Authorization: Bearer {token}\r\n".encode() if token else b""

    async def go_on(self) -> None:
        first = True
        while True:
            try:
                async with self.turns:
                    reader, writer = await asyncio.open_connection(self.host, self.port, limit=1024, ssl=self.tls)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            if first:
                self.done.release()
                first = False
            try:
                await self.act(reader, writer)
            except OSError:
                pass
            finally:
                writer.transport.abort()

    async def act(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the daemon ends the connection."""
        match self.kind:
            case "silent":
                await reader.read()
            case "hello":
                writer.write(self.hello)
                await reader.read()
            case "handshakes":
                writer.write(self.hello)
                await reader.read(1)
            case "noise":
                writer.write(RECORD + os.urandom(4096))
                await reader.read()
            case "plain":
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await reader.read()
            case "unread":
                ask = f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n".encode() + self.token + b"\r\n"
                while not writer.transport.is_closing():
                    writer.write(ask)
                    await asyncio.sleep(0.2)
            case _:
                if self.kind == "body":
                    writer.write(BODY + self.token + b"\r\n")
                said = {"drip": HEAD, "body": b" " * 60_000, "blank": b"\r\n" * 5_000}[self.kind]
                for byte in said:
                    if reader.at_eof() or writer.transport.is_closing():
                        return
                    writer.write(bytes([byte]))
                    await asyncio.sleep(1.0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
