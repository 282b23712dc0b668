"""Open what the settings name: the store, the clock that goes on from it, and the cluster."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from scheduler.clock import SystemClock
from scheduler.clusters.local.accounts import Accounts
from scheduler.clusters.local.cluster import LocalCluster
from scheduler.clusters.local.shared import SharedLocalCluster
from scheduler.config import KubernetesSettings, Settings
from scheduler.daemon.state_dir import make_private
from scheduler.engine.ports import Clock, Cluster
from scheduler.engine.timing.steady_clock import SteadyClock
from scheduler.errors import ConfigError, SchedulerError
from scheduler.http.services import Logs
from scheduler.store.sqlstore import SqlStore

if TYPE_CHECKING:
    from scheduler.clusters.kubernetes.training_jobs import TrainingJobObjects


def open_store(settings: Settings) -> SqlStore:
    """The store with the schema of this version. Only an embedded database is upgraded without being asked."""
    store = SqlStore(settings.store_url)
    try:
        if store.file is not None:
            for suffix in ("", "-wal", "-shm"):
                make_private(store.file.with_name(store.file.name + suffix))
            store.upgrade()
        else:
            store.check_schema()
    except SchedulerError:
        store.close()
        raise
    return store


def open_clock(store: SqlStore) -> SteadyClock:
    """The machine's clocks, going on from where the last leader of this store was."""
    return SteadyClock(SystemClock(), store.read_lease().anchor)


class DaemonCluster(Cluster, Protocol):
    """A cluster, and what the daemon needs of it besides."""

    @property
    def logs(self) -> Logs:
        """Output of its workers."""
        ...

    def troubles(self) -> list[str]:
        """What fails although workers can be seen and told, one line each."""
        ...

    def close(self) -> None:
        """Let go; workers go on."""
        ...


def open_cluster(settings: Settings, state: Path, store: SqlStore, clock: Clock) -> DaemonCluster:
    """The cluster that the settings name. Raises `ConfigError` or `ClusterError`."""
    match settings.cluster:
        case "kubernetes":
            return open_kubernetes(settings, state, store.secret("worker-pods"), clock)
        case "local" if settings.local.directory is None:
            return LocalCluster(state, settings.local, clock, accounts=accounts_of(settings))
        case "local":
            # One that replicas share is not touched by those that follow.
            return SharedLocalCluster(settings.workers_path, settings.local, clock)
        case _:
            assert_never(settings.cluster)


def accounts_of(settings: Settings) -> Accounts | None:
    """The users as whom jobs run; None: all run as the user of the daemon, or in pods."""
    return Accounts.of(settings.system) if settings.system.enabled else None


def open_kubernetes(settings: Settings, state: Path, secret: bytes, clock: Clock) -> DaemonCluster:
    """`secret`: see `WorkerPods`."""
    # Here, since its client takes a second to import.
    from scheduler.clusters.kubernetes.api.credentials import own_namespace
    from scheduler.clusters.kubernetes.cluster import KubernetesCluster

    check_namespaces(settings.kubernetes, own_namespace())
    return KubernetesCluster(settings.kubernetes, clock, random.Random(), state, secret)


def check_namespaces(settings: KubernetesSettings, own: str | None) -> None:
    """Raise `ConfigError` if workers would live in the daemon's own namespace, whose secrets templates can name."""
    if own in settings.worker_namespaces and not settings.trust_templates:
        raise ConfigError(
            f"kubernetes.namespace: {own} is the namespace of this daemon, whose secrets workers could read: "
            "give workers a namespace of their own, or set kubernetes.trust_templates"
        )


def open_training_jobs(settings: Settings, clock: Clock) -> "TrainingJobObjects":
    """TrainingJob objects of the cluster's API, not followed yet. Raises `ConfigError`."""
    from scheduler.clusters.kubernetes.training_jobs import TrainingJobObjects

    return TrainingJobObjects(settings.kubernetes, clock, random.Random())
