"""A client that takes next to no processor time: one request, written once, on any number of connections."""

import json
import selectors
import socket
from typing import Any
from urllib.parse import urlsplit

from benchmarks.trouble import Skipped

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


def post(url: str, path: str, value: dict[str, Any]) -> bytes:
    """The request as it goes over the wire."""
    body = json.dumps(value).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def ask_again(url: str, request: bytes, connections: int, total: int) -> None:
    """Have the request answered so many times, on each connection one after the other. Raises `Skipped`."""
    at = urlsplit(url)
    with selectors.DefaultSelector() as selector:
        sent = done = 0
        try:
            for _ in range(connections):
                opened = socket.create_connection((at.hostname or "", at.port or 0))
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(opened, selectors.EVENT_READ, bytearray())
                opened.sendall(request)
                sent += 1
            while done < total:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    if not _is_whole(key.fileobj, key.data):
                        continue
                    done += 1
                    if sent < total:
                        key.fileobj.sendall(request)
                        sent += 1
        finally:
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()


def _is_whole(connection: socket.socket, answer: bytearray) -> bool:
    """Read more of an answer; whether it is whole, and the next one begins then."""
    more = connection.recv(65536)
    answer += more
    head, end, body = answer.partition(_END_OF_HEAD)
    if not more or (end and not head.startswith(b"HTTP/1.1 201")):
        raise Skipped(f"the daemon answers {bytes(answer[:200])!r}")
    if not end:
        return False
    length = head.lower().partition(_LENGTH)[2].partition(b"\r\n")[0]
    if len(body) < int(length):
        return False
    answer.clear()
    return True
