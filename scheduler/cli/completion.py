"""Words for shell completion, asked from the daemon; silence where it does not answer at once."""

from collections.abc import Callable
from typing import Any

import typer

from scheduler.cli.client.certificates import TlsFiles
from scheduler.cli.client.client import Client
from scheduler.cli.client.connection import find_daemon

_TIMEOUT_SECONDS = 1.0
_WORDS_MAX = 200

Words = list[tuple[str, str]]


def _ask(context: typer.Context, words: Callable[[Client], Words]) -> Words:
    """What the daemon says; nothing on any failure, since the user is still typing."""
    given: dict[str, Any] = context.params
    try:
        tls = TlsFiles(given.get("ca"), given.get("cert"), given.get("key"))
        connection = find_daemon(given.get("url"), given.get("token"), given.get("state_dir"), tls)
        with Client(connection, timeout_seconds=_TIMEOUT_SECONDS) as client:
            return words(client)
    except Exception:
        return []


def complete_job(context: typer.Context, incomplete: str) -> Words:
    """Ids and names of jobs that have not ended."""
    return [word for word in _ask(context, _jobs) if word[0].startswith(incomplete)]


def complete_any_job(context: typer.Context, incomplete: str) -> Words:
    """Ids and names of jobs that have not ended, and ids of recurring jobs."""
    found = _ask(context, lambda client: [*_jobs(client), *_recurring(client)])
    return [word for word in found if word[0].startswith(incomplete)]


def complete_node(context: typer.Context, incomplete: str) -> Words:
    """Names of nodes."""
    return [word for word in _ask(context, _nodes) if word[0].startswith(incomplete)]


def complete_booking(context: typer.Context, incomplete: str) -> Words:
    """Names of bookings."""
    return [word for word in _ask(context, _bookings) if word[0].startswith(incomplete)]


def complete_queue(context: typer.Context, incomplete: str) -> Words:
    """Paths of queues."""
    return [word for word in _ask(context, _queues) if word[0].startswith(incomplete)]


def _jobs(client: Client) -> Words:
    from scheduler.cli.client.resolve import LIVE_STATES

    page = client.get("/v1/jobs", {"state": LIVE_STATES, "limit": _WORDS_MAX, "order": "desc"})
    ids = [(str(job["id"]), f"{job['name']} ({job['state']})") for job in page["jobs"]]
    names = {job["name"]: (job["name"], f"job {job['id']} ({job['state']})") for job in page["jobs"]}
    return [*ids, *names.values()]


def _recurring(client: Client) -> Words:
    return [(each["id"], each["name"]) for each in client.get("/v1/recurring")["recurring"]]


def _bookings(client: Client) -> Words:
    found = client.get("/v1/bookings")["bookings"]
    return [(booking["name"], f"{booking['state']} {booking['slots']} slots") for booking in found]


def _queues(client: Client) -> Words:
    found = client.get("/v1/queues")["queues"]
    return [(queue["path"], f"{queue['slots_held']} slots held") for queue in found]


def _nodes(client: Client) -> Words:
    return [(node["name"], f"{node['health']} {node['intent']}") for node in client.get("/v1/nodes")["nodes"]]
