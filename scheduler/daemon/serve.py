"""Put one daemon together and run it until it is told to stop."""

import faulthandler
import os
import random
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from scheduler import __version__
from scheduler.clock import SystemClock
from scheduler.clusters.kubernetes.addresses import host_of
from scheduler.clusters.local.job_directories import JOBS_DIR
from scheduler.clusters.logs.files import log_dir
from scheduler.clusters.logs.reader import LocalLogs
from scheduler.config import Settings
from scheduler.daemon.certificates import Certificates, open_certificates
from scheduler.daemon.decisions import DecisionLog
from scheduler.daemon.directory_owner import owned
from scheduler.daemon.engine_thread import EngineThread
from scheduler.daemon.issuer import open_issuer
from scheduler.daemon.local_socket import local_socket, logins_of
from scheduler.daemon.logging import configure_logging
from scheduler.daemon.opening import (
    DaemonCluster,
    accounts_of,
    open_clock,
    open_cluster,
    open_store,
    open_training_jobs,
)
from scheduler.daemon.place import check_place, place_of
from scheduler.daemon.process import allow_many_connections, stopped_by_signals
from scheduler.daemon.recurring import SWEEP_SECONDS, RecurringJobs, new_timers
from scheduler.daemon.retention import INTERVAL_SECONDS, Retention
from scheduler.daemon.server import Server, bind, url_of
from scheduler.daemon.service_manager import ServiceManager
from scheduler.daemon.state_dir import ADDRESS_FILE, announced, claimed, identity
from scheduler.daemon.system import get_ready, tell_whose_jobs
from scheduler.daemon.tracing import traced_engines
from scheduler.daemon.trainingjobs.controller import TrainingJobs
from scheduler.daemon.watchdog import Watchdog, dump_stacks, save_inputs, start_anew
from scheduler.daemon.watched import watch_engine, watch_others, watch_requests
from scheduler.daemon.webhooks.sender_threads import SenderThreads, check_kinds
from scheduler.engine.apply.addresses import nodes_address
from scheduler.engine.apply.launch import LaunchContext
from scheduler.engine.attribution.caution import Caution
from scheduler.engine.attribution.inputs import seconds_allowed
from scheduler.engine.board import Board
from scheduler.engine.loop import EngineLoop
from scheduler.engine.ports import Place, TickInputs
from scheduler.engine.state.reports import ReportBox
from scheduler.engine.tick import Engine, TickReport
from scheduler.engine.timing.pulse import BEAT_SECONDS
from scheduler.engine.timing.repeating import Repeating
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.errors import ConfigError
from scheduler.http.app import create_app
from scheduler.http.auth.access import Access, check_exposure
from scheduler.http.auth.page_codes import PageCodes
from scheduler.http.auth.tokens import LOOK_SECONDS, TokenBook
from scheduler.http.explain.explanation import explain
from scheduler.http.hosts import HostAnswers
from scheduler.http.live.notifier import Notifier
from scheduler.http.runtime.audit import WRITE_SECONDS, AuditTrail
from scheduler.http.runtime.relay import Relay
from scheduler.http.runtime.shard_batcher import ShardBatcher
from scheduler.http.server.connections import Connections
from scheduler.http.server.entry import Entry
from scheduler.http.services import Services
from scheduler.metrics import Metrics
from scheduler.model.job import Job
from scheduler.model.world import World
from scheduler.store.sql.notify import Listener
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

#: The engine's thread hands the interpreter over this often, so that answers from memory need not wait for a tick.
SWITCH_INTERVAL_SECONDS = 0.0005
#: The file descriptor, whatever `sys.stderr` has become.
_STDERR = 2
#: How long ticks are rehearsed, where that is cheap, after a failed tick or the death of a leader.
CAREFUL_SECONDS = 30.0


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; running workers go on without the daemon.

    Raises `SchedulerError` with one line if it cannot start: `ConfigError` for an address that is taken or open to
    others without a token, `Conflict` for a state directory that another daemon has, `SchemaMismatch` for a database
    that has to be upgraded first, `StoreError` and `ClusterError` for what cannot be reached.
    """
    configure_logging()
    faulthandler.enable(_STDERR)
    check_exposure(settings.http, settings.oidc)
    check_kinds(settings.webhooks)
    get_ready(settings)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    allow_many_connections()
    with stopped_by_signals(), ExitStack() as stack:
        state = stack.enter_context(claimed(settings.state_path, passable=settings.system.enabled))
        bound = stack.enter_context(bind(settings.http))
        url = url_of(bound, settings.http)
        certificates = open_certificates(settings.http, url, SystemClock().now)
        local = stack.enter_context(local_socket(settings.http, state))
        store = open_store(settings)
        stack.callback(store.close)
        clock = open_clock(store)
        place = place_of(settings, store)
        check_place(store, place, clock.monotonic)
        stack.enter_context(owned(settings, store, place, clock.monotonic))
        cluster = open_cluster(settings, state, store, clock)
        stack.callback(cluster.close)
        engine_of = stack.enter_context(traced_engines(holder_of(state))) if settings.tracing.enabled else Engine
        Daemon(settings, state, store, clock, place, cluster, url, certificates, engine_of).serve(bound, local)
    log.info("stopped")


def holder_of(state: Path) -> str:
    """The daemon's name among all of its database.

    The claim on the directory makes it ours alone, so that a restarted daemon leads at once.
    """
    return f"{socket.gethostname()}-{identity(state)}"


class Daemon:
    """The parts of one daemon that live as long as it serves."""

    def __init__(
        self,
        settings: Settings,
        state: Path,
        store: SqlStore,
        clock: SteadyClock,
        place: Place,
        cluster: DaemonCluster,
        url: str,
        certificates: Certificates | None,
        engine_of: Callable[..., Engine] = Engine,
    ) -> None:
        self._settings, self._state, self._store, self._url = settings, state, store, url
        self._clock, self._place, self._cluster = clock, place, cluster
        self._certificates, self._engine_of = certificates, engine_of
        self._board = Board()
        self._reports = ReportBox()
        self._tokens = TokenBook(store.list_tokens, store.tokens_mark)
        self._tokens.look()
        self._issuer = open_issuer(settings.oidc, self._tokens, clock.monotonic)
        issued = self._issuer.logins if self._issuer is not None else None
        http, secret, logins = settings.http, store.secret("worker-token"), logins_of(settings)
        self._access = Access(
            http.token, secret, self._board.nonce_of, http.metrics_token, self._tokens, clock.wall, logins, issued
        )
        self._audit = AuditTrail(store.add_audit, clock.wall, clock.monotonic)
        self._metrics = Metrics(self._board, settings.policy.aging_ceilings, self._clock)
        store.measure(self._metrics.stopwatch.transaction)
        self._timers = new_timers()
        self._recurring = RecurringJobs(store, self._clock, self._timers)
        self._engine = self._new_engine()
        self._thread = EngineThread(
            self._engine,
            self._board,
            self._clock,
            lambda observe: EngineLoop(self._engine, settings.engine, self._clock, observe),
            self._observe,
            self._crashed,
            self._leave_stuck,
        )
        self._watchdog = Watchdog(lambda: self._engine.deciding, settings.engine.decide_seconds_max, self._hangs)
        self._audit_writer = Repeating("audit", self._audit.write, WRITE_SECONDS)
        self._upkeep = self._new_upkeep()
        self._listener: Listener | None = None
        self._services = self._new_services()
        self._training_jobs = self._new_training_jobs()
        self._decisions = DecisionLog() if settings.log.decisions else None
        self._webhook_senders = SenderThreads(settings.webhooks, store, self._clock, self._leads, random.Random())
        #: The newest commit of another replica that was seen.
        self._followed: int | None = None

    def serve(self, bound: socket.socket, local: socket.socket | None) -> None:
        """Answer on the sockets until the process is told to stop. `local`: the UNIX socket, if there is one."""
        services = self._services
        app, connections = create_app(services), Connections(self._settings.http)
        self._watch(app, connections)
        self._recurring.on_submitted = services.stored
        self._cluster.on_change(self._wake_leader)
        at = None if local is None else local.getsockname()
        with ExitStack() as stack:
            # The last requests, once nobody else writes.
            stack.callback(Repeating("audit", partial(self._audit.write, last=True), WRITE_SECONDS).once)
            stack.enter_context(announced(self._state, self._url, self._settings.http.token, at))
            if self._decisions is not None:
                self._decisions.start()
                stack.callback(self._decisions.stop)
            self._thread.start()
            self._watchdog.start()
            stack.callback(self._thread.stop)
            stack.callback(self._watchdog.stop)
            self._listener = self._store.listen(self._wake_leader, self._wake_standby)
            if self._listener is not None:
                stack.callback(self._listener.close)
            if self._training_jobs is not None:
                stack.enter_context(self._training_jobs.followed())
            self._webhook_senders.start()
            stack.callback(self._webhook_senders.stop)
            self._start_timers(stack)
            log.info("serving", url=self._url, state_dir=str(self._state), version=__version__, pid=os.getpid())
            tell_whose_jobs(self._settings)
            certificates = self._certificates
            tls = None if certificates is None else lambda: certificates.context
            server = Server(app, connections, self._finish, ServiceManager.of(os.environ), tls)
            server.run(sockets=[bound] if local is None else [bound, local])
            if not server.started:
                raise ConfigError(f"the HTTP server could not start on {self._url}: see the log")

    def _new_engine(self) -> Engine:
        advertised_url = self._settings.http.advertised_url or self._url
        workers_url = self._settings.http.workers_url or advertised_url
        pods = self._settings.cluster == "kubernetes"
        jobs_dir = self._settings.kubernetes.jobs_dir if pods else self._settings.workers_path / JOBS_DIR
        hosts = host_of(self._settings.kubernetes) if pods else nodes_address
        trust: Callable[[], Mapping[str, str]] = dict
        if self._certificates is not None:
            trust = self._certificates.pod_variables if pods else self._certificates.variables
        launch = LaunchContext(workers_url, self._worker_token, jobs_dir, hosts, trust)
        caution = Caution(self._clock, self._settings.engine.decide_seconds_max, CAREFUL_SECONDS)
        parts = (self._clock, self._settings, launch, self._board, self._reports)
        others = (*parts, holder_of(self._state), advertised_url, caution, self._place)
        return self._engine_of(self._store, self._metrics.measured(self._cluster), *others)

    def _worker_token(self, job: Job) -> str:
        return self._access.worker_token(job.id, job.nonce)

    def _new_services(self) -> Services:
        events_bell = Notifier()
        return Services(
            settings=self._settings,
            store=self._store,
            board=self._board,
            reports=self._reports,
            clock=self._clock,
            access=self._access,
            tokens=self._tokens,
            page_codes=PageCodes(),
            audit=self._audit,
            logs=self._cluster.logs,
            recurrence=self._recurring,
            wake=self._wake_leader,
            metrics=self._metrics.answer,
            not_ready=self._thread.not_ready,
            troubles=self._troubles,
            term=self._term,
            leads=self._leads,
            leader=lambda: self._engine.leader,
            relay=self._new_relay(),
            shards=ShardBatcher(
                self._store,
                self._clock.now,
                self._clock.monotonic,
                lambda: self._engine.heard_since,
                lambda jobs: events_bell.ring([None, *jobs]),
            ),
            answers=HostAnswers(self._board),
            events_bell=events_bell,
            accounts=accounts_of(self._settings),
        )

    def _new_relay(self) -> Relay:
        certificates, workers_url = self._certificates, self._settings.http.workers_url
        trust = (lambda: certificates.client) if certificates is not None else None
        name = urlsplit(workers_url).hostname if workers_url is not None else None
        return Relay(lambda: self._engine.leader, trust, name)

    def _new_training_jobs(self) -> TrainingJobs | None:
        if self._settings.cluster != "kubernetes" or not self._settings.kubernetes.training_jobs:
            return None
        return TrainingJobs(
            open_training_jobs(self._settings, self._clock),
            self._store,
            self._clock,
            self._settings.kubernetes,
            explain=self._explained,
            leading=lambda: self._engine.lease is not None,
            stored=self._services.stored,
        )

    def _explained(self, job: Job) -> str:
        """How the job is and why, in a line."""
        world = self._board.world or World()
        return explain(job, world, self._settings.policy, self._clock.now())["summary"]

    def _term(self) -> int | None:
        lease = self._engine.lease
        return lease.term if lease is not None else None

    def _leads(self) -> bool:
        """Whether nobody else can lead now."""
        lease = self._engine.lease
        return lease is not None and self._clock.now() < lease.expires_at

    def _wake_leader(self) -> None:
        """Somebody has asked for something, or the cluster has changed: of no concern to those that follow."""
        if self._engine.lease is not None:
            self._thread.wake()

    def _wake_standby(self) -> None:
        """Another replica has committed, or taken or left the lead."""
        if self._engine.lease is None:
            self._thread.wake()

    def _hangs(self, inputs: TickInputs) -> None:
        """A decision does not end: another process goes on, which rehearses its first ticks and finds the culprit.

        Also where nothing can be written any more that would tell of it.
        """
        seconds = seconds_allowed(inputs, self._settings.engine.decide_seconds_max)
        what = f"no decision within {seconds:g} s (engine.decide_seconds_max)"
        try:
            save_inputs(self._state / "cases", inputs, self._settings.policy, what)
            said = "the engine hangs: starting anew; the job that it hangs at will be held"
            log.critical(said, reason=what, stacks=str(dump_stacks(self._state)))
        finally:
            start_anew()

    def _leave_stuck(self) -> None:
        """Told to stop while a tick does not end: its commit, if there is one, is refused or whole."""
        try:
            log.critical("stopped while a tick does not end", stacks=str(dump_stacks(self._state)))
            (self._state / ADDRESS_FILE).unlink(missing_ok=True)
        finally:
            os._exit(1)

    def _finish(self) -> None:
        """Another replica may lead while requests that are under way here come to their end."""
        self._thread.finish()
        self._services.wake_all()

    def _crashed(self) -> None:
        self._metrics.crashed()
        if self._training_jobs is not None:
            self._training_jobs.crashed()

    def _observe(self, report: TickReport) -> None:
        self._metrics.observe(report)
        if self._decisions is not None:
            self._decisions.see(report)
        if self._training_jobs is not None:
            self._training_jobs.see(report)
        if report.events:
            self._webhook_senders.wake()
            self._services.events_bell.ring({None, *(event.job_id for event in report.events)})
        elif report.following and report.followed != self._followed:
            self._services.events_bell.ring({None, *(job.id for job in report.changed)})
        self._followed = report.followed

    def _watch(self, app: Entry, connections: Connections) -> None:
        watch_requests(self._metrics, app, connections, self._services)
        watch_engine(self._metrics, self._engine, self._clock, self._services)
        watch_others(self._metrics, self._store, self._webhook_senders, self._certificates)

    def _start_timers(self, stack: ExitStack) -> None:
        for each in self._upkeep:
            each.start()
            stack.callback(each.close)
        self._recurring.start()
        self._timers.start()
        stack.callback(self._timers.shutdown)

    def _new_upkeep(self) -> tuple[Repeating, ...]:
        """What is done at intervals; not by the timers, which go by the machine's time, as cron does."""
        retention = Retention(
            self._store,
            self._settings.retention,
            self._clock,
            log_dir(self._settings.workers_path),
            LocalLogs(self._settings.workers_path).remove,
            waits=lambda: not self._leads() or self._engine.jump is not None,
        )
        return (
            Repeating("retention", retention.run, INTERVAL_SECONDS),
            Repeating("lease", self._engine.keep_lease, self._settings.engine.lease_seconds / 3),
            Repeating("pulse", self._engine.pulse.beat, BEAT_SECONDS),
            Repeating("recurring jobs", self._recurring.sweep, SWEEP_SECONDS),
            Repeating("tokens", self._tokens.look, LOOK_SECONDS),
            self._audit_writer,
            *(each.upkeep for each in (self._issuer, self._certificates) if each is not None),
        )

    def _troubles(self) -> list[str]:
        """What is wrong although jobs are decided on, one line each."""
        others = [each.trouble for each in (*self._upkeep, self._listener) if each is not None]
        return [*self._engine.troubles(), *self._cluster.troubles(), *(each for each in others if each is not None)]
