"""discover_hosts while others attack: 10,000 silent connections, and 1,000 clients that send a byte a second.

Questions with a token, one after the other, half of them on connections of their own.
"""

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.daemon import Daemon
from benchmarks.figure import Figure, percentile
from benchmarks.trouble import Skipped

SILENT, SLOW = 10_000, 1_000
SECONDS = 30.0
P99_MS_MAX = 100.0
ATTACKERS = Path(__file__).parent.parent / "tests" / "security" / "http_attackers.py"
#: What the benchmark's daemon asks of its users.
TOKEN = "0123456789abcdef"
#: Reading the system's certificates takes longer than an answer.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def run() -> list[Figure]:
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("needs two cores: one for the daemon, one for the attackers")
    with Daemon(1, settings={"SCHED_HTTP__TOKEN": TOKEN}) as daemon:
        daemon.http.headers["authorization"] = f"Bearer {TOKEN}"
        [job] = daemon.submit_batch([{"command": ["sleep", "1000"]}])
        daemon.wait(job, lambda view: view["state"] == "RUNNING", 60)
        path = f"/v1/jobs/{job}/discover_hosts"
        figures = [_figure("nobody attacks", daemon, path)]
        with _attackers("silent", SILENT, daemon.url):
            figures.append(_figure(f"{SILENT:,} silent connections", daemon, path))
            with _attackers("drip", SLOW, daemon.url):
                figures.append(_figure(f"{SILENT:,} silent and {SLOW:,} slow ones", daemon, path))
    return figures


@contextmanager
def _attackers(kind: str, count: int, url: str) -> Iterator[None]:
    command = [sys.executable, str(ATTACKERS), kind, str(count), url, TOKEN]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise Skipped(f"{count} connections cannot be made here: raise the limit of open files")
        yield
    finally:
        process.kill()
        process.communicate()


def _figure(what: str, daemon: Daemon, path: str) -> Figure:
    """How long an answer takes at the 99th percentile."""
    taken: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for ask in (daemon.http.get, _afresh):
            began = time.perf_counter()
            ask(daemon.url + path, headers={"authorization": f"Bearer {TOKEN}"}).raise_for_status()
            taken.append((time.perf_counter() - began) * 1000)
        time.sleep(0.005)
    note = f"{len(taken):,} questions, the longest {max(taken):.3g} ms"
    return Figure(f"discover_hosts, {what}: 99 %", percentile(taken, 0.99), "ms", at_most=P99_MS_MAX, note=note)


def _afresh(url: str, headers: dict[str, str]) -> httpx.Response:
    with httpx.Client(trust_env=False, verify=_NO_TLS) as client:
        return client.get(url, headers=headers, timeout=60)
