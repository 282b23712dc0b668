"""The API served on a real socket, over the test world's engine and store."""

import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from scheduler.clusters.logs.reader import LocalLogs
from scheduler.config import HttpSettings, OidcSettings, Settings
from scheduler.daemon.issuer import open_issuer
from scheduler.daemon.recurring import RecurringJobs, new_timers
from scheduler.daemon.server import Server, bind, url_of
from scheduler.daemon.service_manager import ServiceManager
from scheduler.engine.tick import TickReport
from scheduler.http.app import create_app
from scheduler.http.auth.access import Access
from scheduler.http.auth.page_codes import PageCodes
from scheduler.http.auth.tokens import TokenBook, new_token
from scheduler.http.hosts import HostAnswers
from scheduler.http.live.notifier import Notifier
from scheduler.http.runtime.audit import AuditTrail
from scheduler.http.runtime.relay import Relay
from scheduler.http.runtime.shard_batcher import ShardBatcher
from scheduler.http.server.connections import Connections
from scheduler.http.server.entry import Entry
from scheduler.http.services import Services
from scheduler.metrics import Metrics
from scheduler.model.identity import Role
from scheduler.model.ids import JobId
from tests.eventually import SECONDS_MAX
from tests.world import World

SECRET = b"s" * 32
#: Of the users of a site that has one.
TOKEN = "0123456789abcdef"
#: Sites are served without TLS: reading the system's certificates takes longer than most tests.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Site(World):
    """A world whose users and workers come over HTTP. Ticks are the test's."""

    def __init__(
        self, directory: Path, url: str | None = None, oidc: Mapping[str, Any] | None = None, **http: Any
    ) -> None:
        """`url`: of its database; None: a new one in the directory. `oidc`: settings of its issuer."""
        settings = Settings(state_dir=directory, http=HttpSettings(port=0, **http), oidc=OidcSettings(**oidc or {}))
        super().__init__(directory, url, settings=settings)
        self.woken = threading.Event()
        http = self.settings.http
        self.tokens = TokenBook(self.store.list_tokens, self.store.tokens_mark)
        self.tokens.look()
        self.issuer = open_issuer(settings.oidc, self.tokens, self.clock.monotonic)
        self.access = Access(
            http.token,
            SECRET,
            self.board.nonce_of,
            http.metrics_token,
            self.tokens,
            self.clock.wall,
            oidc=None if self.issuer is None else self.issuer.logins,
        )
        self.audit = AuditTrail(self.store.add_audit, self.clock.wall, self.clock.monotonic)
        self.metrics = Metrics(self.board, (), self.clock)
        self.recurring = RecurringJobs(self.store, self.clock, new_timers())
        events_bell = Notifier()
        self.services = Services(
            settings=self.settings,
            store=self.store,
            board=self.board,
            reports=self.reports,
            clock=self.clock,
            access=self.access,
            tokens=self.tokens,
            page_codes=PageCodes(),
            audit=self.audit,
            logs=LocalLogs(directory),
            recurrence=self.recurring,
            wake=self.woken.set,
            metrics=self.metrics.answer,
            not_ready=lambda: None if self.board.world is not None else "the jobs are not loaded yet",
            troubles=lambda: self.engine.troubles(),
            term=lambda: self.engine.lease.term if self.engine.lease is not None else None,
            leads=lambda: self.engine.lease is not None and self.clock.now() < self.engine.lease.expires_at,
            leader=lambda: self.engine.leader,
            relay=Relay(lambda: self.engine.leader),
            shards=ShardBatcher(
                self.store,
                self.clock.now,
                self.clock.monotonic,
                lambda: self.engine.heard_since,
                lambda jobs: events_bell.ring([None, *jobs]),
            ),
            answers=HostAnswers(self.board),
            events_bell=events_bell,
        )
        self.app: Entry = create_app(self.services)
        self.url = ""
        self.server: Server | None = None
        self.client = httpx.Client(verify=_NO_TLS)

    def tick(self) -> TickReport:
        report = super().tick()
        self.metrics.observe(report)
        self.services.events_bell.ring({None, *(event.job_id for event in report.events)})
        return report

    def submit(self, **fields: Any) -> JobId:
        """A job by HTTP."""
        answer = self.client.post("/v1/jobs", json={"command": ["true"], **fields})
        assert answer.status_code == 201, answer.text
        job_id = JobId(answer.json()["id"])
        self.submitted.append(job_id)
        return job_id

    def user_header(self, user: str, role: Role = Role.USER, seconds: float | None = None) -> dict[str, str]:
        """With a new token of the user, valid for `seconds`; None: for ever."""
        now = self.clock.wall()
        expires_at = None if seconds is None else now + seconds
        secret, token = new_token(user, role, "", now=now, created_by="root", expires_at=expires_at)
        self.store.add_token(token)
        self.tokens.look()
        return {"authorization": f"Bearer {secret}"}

    def worker_header(self, job_id: JobId) -> dict[str, str]:
        return {"authorization": f"Bearer {self.worker_token(job_id)}"}

    def worker_token(self, job_id: JobId) -> str:
        """As the workers of the job have it; of no job, where there is none of this id."""
        job = self.store.get_job(job_id)
        return self.access.worker_token(job_id, "" if job is None else job.nonce)

    @contextmanager
    def served(self) -> Iterator["Site"]:
        """Answer on a socket meanwhile."""
        bound = bind(self.settings.http)
        connections = Connections(self.settings.http)
        self.server = server = Server(
            self.app, connections, on_stop=self.services.wake_all, manager=ServiceManager(None, None)
        )
        started = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        started.start()
        self.url = url_of(bound, self.settings.http)
        try:
            with httpx.Client(base_url=self.url, timeout=SECONDS_MAX, verify=_NO_TLS) as self.client:
                yield self
        finally:
            server.should_exit = True
            started.join()
            bound.close()


def raw_exchange(url: str, request: bytes) -> bytes:
    """What the server sends back to these bytes until it closes the connection."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer
