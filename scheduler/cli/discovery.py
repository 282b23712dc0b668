"""`sched hosts JOB` on the short way, for Horovod asks every second: standard library only, and the plain case only.

Options, names, refusals and whatever else is out of the ordinary are left to the command itself, which words them.
"""

import http.client
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.cli.connection import Connection, find_daemon
from scheduler.errors import InvalidInput

_TIMEOUT_SECONDS = 10.0
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def print_hosts_at_once(words: list[str]) -> bool:
    """Print the hosts if the command line is `hosts ID` and the daemon has them; False: nothing was printed."""
    if len(words) != 2 or words[0] != "hosts" or not (words[1].isascii() and words[1].isdecimal()):
        return False
    state_dir = os.environ.get("SCHED_STATE_DIR")
    try:
        connection = find_daemon(
            os.environ.get("SCHED_URL"), os.environ.get("SCHED_TOKEN"), Path(state_dir) if state_dir else None
        )
        body = _ask(connection, int(words[1]))
    except (OSError, ValueError, http.client.HTTPException, InvalidInput):
        return False
    if body is None:
        return False
    sys.stdout.write(body.decode())
    return True


def _ask(connection: Connection, job_id: int) -> bytes | None:
    """What discover_hosts answers; None unless that is a list of hosts."""
    url = urlsplit(connection.url)
    if url.scheme != "http" or (not connection.loopback and any(os.environ.get(name) for name in _PROXIES)):
        return None
    link = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=_TIMEOUT_SECONDS)
    try:
        headers = {"Accept": "text/plain"}
        if connection.token:
            headers["Authorization"] = f"Bearer {connection.token}"
        link.request("GET", f"{url.path}/v1/jobs/{job_id}/discover_hosts", headers=headers)
        response = link.getresponse()
        plain = response.headers.get_content_type() == "text/plain"
        body = response.read()
        return body if response.status == 200 and plain and body else None
    finally:
        link.close()
