"""`sched hosts JOB` on the short way, for Horovod asks every second: standard library only, and the plain case only.

Options, ambiguous names, refusals and whatever else is unusual are left to the command itself, which words them.
"""

import http.client
import json
import os
import socket
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

from scheduler.cli.client.certificates import TlsFiles, trusting
from scheduler.cli.client.connection import Connection, find_daemon
from scheduler.errors import SchedulerError

_TIMEOUT_SECONDS = 10.0
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def print_hosts_at_once(words: list[str]) -> bool:
    """Print the hosts if the command line is `hosts JOB` and the daemon has them; False: nothing was printed."""
    if len(words) != 2 or words[0] != "hosts" or words[1].startswith("-"):
        return False
    state_dir = os.environ.get("SCHED_STATE_DIR")
    try:
        connection = find_daemon(
            os.environ.get("SCHED_URL"),
            os.environ.get("SCHED_TOKEN"),
            Path(state_dir) if state_dir else None,
            TlsFiles.read(os.environ),
        )
        body = _hosts(connection, words[1])
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException, SchedulerError):
        return False
    if body is None:
        return False
    sys.stdout.write(body.decode())
    return True


def _hosts(connection: Connection, job: str) -> bytes | None:
    """What discover_hosts answers; None unless that is a list of hosts."""
    url = urlsplit(connection.base_url)
    if not connection.loopback and any(os.environ.get(name) for name in _PROXIES):
        return None
    link = _link(url.scheme, url.hostname or "", url.port, connection)
    if connection.socket is not None:
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.settimeout(_TIMEOUT_SECONDS)
    headers = {"Authorization": f"Bearer {connection.token}"} if connection.token else {}

    def answer(path: str, media_type: str) -> bytes | None:
        link.request("GET", f"{url.path}/v1/jobs{path}", headers={**headers, "Accept": media_type})
        response = link.getresponse()
        body = response.read()
        expected = response.status == 200 and response.headers.get_content_type() == media_type
        return body if expected and body else None

    try:
        if connection.socket is not None:
            link.sock.connect(str(connection.socket))
        if not (job.isascii() and job.isdecimal()):
            found = answer(f"?active=true&limit=2&name={quote(job, safe='')}", "application/json")
            jobs = json.loads(found)["jobs"] if found else []
            if len(jobs) != 1:
                return None
            job = str(int(jobs[0]["id"]))
        return answer(f"/{job}/discover_hosts", "text/plain")
    finally:
        link.close()


def _link(scheme: str, host: str, port: int | None, connection: Connection) -> http.client.HTTPConnection:
    if scheme == "https":
        trust = trusting(connection.tls)
        return http.client.HTTPSConnection(host, port or 443, timeout=_TIMEOUT_SECONDS, context=trust)
    return http.client.HTTPConnection(host, port or 80, timeout=_TIMEOUT_SECONDS)
