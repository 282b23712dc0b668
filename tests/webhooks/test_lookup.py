"""A lookup of a receiver's name that hangs: it delays no end of the daemon, and is not begun again and again."""

import socket
import subprocess
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from scheduler.daemon.webhooks.poster import Poster
from tests.webhooks.receiver import Receiver

NAME = "receiver.example"
#: What the system's resolver does while no name server answers, for much longer.
HANGS = f"""
import socket, threading
from scheduler.daemon.webhooks.poster import Poster

socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
poster = Poster("http://{NAME}/", 0.05)
print(poster.post(b"", {{}}), flush=True)
poster.close()
"""


def test_a_process_ends_although_the_lookup_of_a_receiver_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "no answer within 0.05 s"), done.stderr


def test_a_lookup_that_hangs_is_waited_for_again_and_not_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked, look_up = threading.Event(), [], socket.getaddrinfo

    def slow(host: Any, port: Any, *rest: Any, **others: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return look_up(host, port, *rest, **others)
        asked.append(host)
        found.wait()
        return look_up("127.0.0.1", port, *rest, **others)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with Receiver().listening() as receiver:
        poster = Poster(f"http://{NAME}:{urlsplit(receiver.url).port}/", 0.05)
        assert [poster.post(b"{}", {}) for _ in range(3)] == ["no answer within 0.05 s"] * 3
        assert len(asked) == 1
        found.set()
        patient = Poster(f"http://{NAME}:{urlsplit(receiver.url).port}/", 60.0)
        assert patient.post(b"{}", {}) is None
        for each in (poster, patient):
            each.close()
