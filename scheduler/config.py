"""Settings: frozen, validated once, from a TOML file and `SCHED_*` environment variables."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from scheduler.errors import ConfigError, broken_rule

Seconds = Annotated[float, Field(ge=0, le=10**9)]
Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+$", max_length=500)]
KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


#: Ours first, then those of published schedulers; see `scheduler.policy`.
PolicyName = Literal["elastic", "fifo", "easy", "conservative", "elastic-fifo", "edl", "afs", "tiresias", "shortest"]


class PolicySettings(_Frozen):
    """What the planner may be told."""

    #: How slots are shared out.
    name: PolicyName = "elastic"
    #: Priority points that a waiting job gains per hour; 0 turns aging off. Published policies do without.
    aging_per_hour: float = Field(default=0.0, ge=0)
    #: Priorities that aging alone never reaches from below, ascending.
    aging_ceilings: tuple[int, ...] = ()
    #: Between two growths of one job.
    grow_cooldown_seconds: Seconds = 2.0
    #: A job grows again only after this many times its own measured resize cost...
    grow_cooldown_factor: float = Field(default=2.0, ge=0)
    #: ... and only where its end comes nearer by this many times that cost.
    grow_payback_factor: float = Field(default=48.0, ge=0)
    #: Published elastic policies: a job does not shrink for equals sooner after its last resize.
    rebalance_seconds: Seconds = 30.0
    #: tiresias: what a job has had when it falls into the second queue.
    tiresias_slot_seconds: float = Field(default=3600.0 * 16, gt=0)
    #: A job whose time limit ends sooner is not resized by growth.
    near_end_seconds: Seconds = 5.0
    #: Booked slots are to be free so long before their window, besides the grace of those who have to leave.
    booking_lead_seconds: Seconds = 5.0
    #: Booked slots that no job of the booking uses so long after its start are lent to elastic jobs.
    booking_idle_seconds: Seconds = 60.0
    #: Room that others of the cluster wait for is kept for them so long; who does not come by then waits for more.
    demand_patience_seconds: Seconds = 60.0
    #: Whether jobs of equal priority give up workers above their minimum for each other.
    share: bool = True
    #: A worker moves to another job only where it is worth this share more, since both pay for a resize.
    share_margin: float = Field(default=2.0, ge=0)
    #: Who gets how much is looked at again at least this often while jobs compete.
    share_interval_seconds: float = Field(default=60.0, gt=0)
    #: Jobs that have had less are in the first service class; each further class reaches four times as far.
    service_class_slot_seconds: float = Field(default=28800.0, gt=0)
    #: Whether a job's size follows the speed that its workers report; else each worker is taken to add nearly as much.
    measured_gain: bool = True
    #: A job that has not reported its speed yet grows no further than this for a while...
    unmeasured_workers: int = Field(default=4, ge=1)
    #: ... namely until it has run for so long.
    measure_seconds: Seconds = 30.0
    #: What was measured at larger sizes is forgotten after so long at one size: batch sizes, nodes and data change.
    remeasure_seconds: float = Field(default=1800.0, gt=0)
    #: Used share of a GPU's memory above which those who share it leave; None: not watched.
    oversell_memory_max: float | None = Field(default=0.9, gt=0, le=1)
    #: The same of its utilization.
    oversell_utilization_max: float | None = Field(default=None, gt=0, le=1)
    #: Between the end of one who left a crowded GPU and the next that is asked to.
    oversell_cooldown_seconds: Seconds = 10.0
    #: A GPU that was crowded is not shared by others again before.
    oversell_reopen_seconds: Seconds = 300.0


class EngineSettings(_Frozen):
    """Timing of the tick and of failure handling."""

    #: Longest time between two ticks.
    tick_interval_seconds: Seconds = 1.0
    #: Shortest time between two ticks, so that bursts are taken together.
    tick_gap_seconds: Seconds = 0.01
    #: A leader that has not been heard of for so long is replaced by a standby.
    lease_seconds: float = Field(default=3.0, gt=0, le=10**9)
    #: Pause before the first replacement of a failed worker; doubles with each failure.
    backoff_seconds: Seconds = 1.0
    backoff_max_seconds: Seconds = 300.0
    #: A job without a failure for so long has its retries back.
    failure_reset_seconds: Seconds = 3600.0
    #: A ready newcomer waits at most so long for its slower siblings before it is published.
    join_wait_seconds: Seconds = 2.0
    #: A worker of an elastic job that runs so long without reporting ready is hung.
    ready_seconds: Seconds = 600.0
    #: Progress of a job is stored at most this often.
    progress_interval_seconds: Seconds = 5.0
    #: A node is quarantined after this many failures within the window, of at least two jobs.
    quarantine_failures: int = Field(default=4, ge=2)
    quarantine_window_seconds: Seconds = 600.0
    #: First quarantine; doubles with each further one.
    quarantine_seconds: Seconds = 60.0
    quarantine_max_seconds: Seconds = 3600.0
    #: Ports for rank 0 of ordinary torch.distributed scripts.
    master_port_first: int = Field(default=21000, ge=1024, le=65535)
    master_port_count: int = Field(default=8000, ge=1, le=60000)


class LocalSettings(_Frozen):
    """The local cluster."""

    #: Holds workers, their logs and checkpoints; None: the state directory. Replicas on one machine name the same.
    directory: Path | None = None
    #: Declared CPU slots where the machine has no GPU; None: one per core.
    slots: int | None = Field(default=None, ge=1, le=4096)
    #: Slots that may be given out in relation to those that there are; more than 1 is for jobs that accept to share.
    oversell: float = Field(default=1.0, ge=1, le=64)
    node_name: str = "local"
    host: str = "127.0.0.1"
    log_bytes_max: int = Field(default=16 * 1024 * 1024, ge=4096)
    log_files_max: int = Field(default=3, ge=1, le=100)


class KubernetesSettings(_Frozen):
    """A Kubernetes cluster: workers are pods."""

    #: Where workers run; it must exist.
    namespace: KubernetesName = "default"
    #: None: the service account of the pod that the daemon runs in, or else the default kubeconfig.
    kubeconfig: Path | None = None
    #: Of the kubeconfig; None: its current one.
    context: str | None = None
    #: Name of this scheduler in labels and names of pods, so that several may share a namespace.
    instance: KubernetesName = "sched"
    #: What a slot is: the resource that nodes offer and workers ask for. With `cpu`, one slot is one CPU.
    resource: str = Field(default="nvidia.com/gpu", pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9._-]+$", max_length=253)
    #: Label of nodes that tells the type of their GPUs.
    gpu_type_label: str = "nvidia.com/gpu.product"
    #: Whether TrainingJob objects of the namespace enter the queue, where their custom resource is installed.
    training_jobs: bool = True
    #: Image of workers whose job gives no other.
    image: str | None = None
    #: Of the pods; None: the cluster's default.
    priority_class: str | None = None
    service_account: str | None = None
    #: Workers leave for pods of others that wait with at least this priority; None: a higher one than the workers'.
    yield_to_priority: int | None = None
    #: Taints of nodes that workers tolerate, as in a pod; other tainted nodes take no workers.
    tolerations: tuple[dict[str, Any], ...] = ()
    #: Directory in the workers' containers below which each job has one for its checkpoints; mount a volume there.
    jobs_dir: Path = Path("/checkpoints")
    #: A pod that has not come to run for so long, because it cannot be bound or its image not be had, is given up.
    launch_limit_seconds: float = Field(default=120.0, ge=1, le=86400)
    #: What was heard of the cluster is relied upon for so long while its API does not answer.
    stale_seconds: float = Field(default=30.0, ge=1, le=3600)
    #: API requests per second at most, besides watches.
    requests_per_second: float = Field(default=50.0, gt=0, le=10_000)
    #: Requests at a time.
    connections: int = Field(default=8, ge=1, le=256)
    #: One request takes at most so long.
    request_seconds: float = Field(default=10.0, gt=0, le=600)


class HttpSettings(_Frozen):
    host: str = "127.0.0.1"
    port: int = Field(default=8470, ge=0, le=65535)
    #: Where other replicas reach this daemon; None: as bound.
    advertised_url: Url | None = None
    #: Where workers reach any replica, such as a Service that stands before all of them; None: `advertised_url`.
    #: Replicas need one, since workers go on calling it when another of them leads.
    workers_url: Url | None = None
    #: Bearer token of users; required on any address but loopback.
    token: str | None = Field(default=None, min_length=16)
    request_bytes_max: int = Field(default=32 * 1024 * 1024, ge=1024)
    jobs_per_batch_max: int = Field(default=10_000, ge=1)
    page_size_max: int = Field(default=1000, ge=1)


def _words(value: Any) -> Any:
    """A variable of the environment holds a list as words with commas between them."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _with_a_host(url: str) -> str:
    """Says nothing of the rest, which may be a secret."""
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("invalid host or port")
    return url


class WebhookSettings(_Frozen):
    """Who is told of events by HTTP: a POST for each, signed, in their order, and again until it is taken."""

    url: Annotated[str, AfterValidator(_with_a_host)] = Field(pattern=r"^https?://[^/\s]+(/\S*)?$", max_length=2000)
    #: Key of the signature.
    secret: str = Field(min_length=16, repr=False)
    #: Kinds of events, as in `sched events`; none: all.
    events: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    #: A receiver has so long for its answer.
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    #: Pause after the first failed try; doubles with each further one, and is shortened by up to half at random.
    backoff_seconds: float = Field(default=1.0, gt=0, le=3600)
    backoff_max_seconds: float = Field(default=300.0, gt=0, le=86400)


class RetentionSettings(_Frozen):
    """How long ended jobs, their events and logs are kept."""

    jobs_seconds: Seconds = 30 * 86400.0
    events_seconds: Seconds = 30 * 86400.0


class LogSettings(_Frozen):
    """What the daemon writes to stderr beside trouble."""

    #: A line for each decision.
    decisions: bool = True


class TracingSettings(_Frozen):
    """OpenTelemetry traces of ticks; needs the extra `otel`. Its own variables say where they go."""

    enabled: bool = False


class Settings(_Frozen):
    """All settings of one daemon."""

    #: Holds the database, logs, checkpoints and the daemon's secret.
    state_dir: Path = Path("~/.sched")
    #: None: SQLite in the state directory.
    database_url: str | None = None
    policy: PolicySettings = PolicySettings()
    engine: EngineSettings = EngineSettings()
    #: Where workers run.
    cluster: Literal["local", "kubernetes"] = "local"
    local: LocalSettings = LocalSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    http: HttpSettings = HttpSettings()
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    #: By name, under which each keeps its place in the history.
    webhooks: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")], WebhookSettings] = Field(
        default_factory=dict, max_length=32
    )

    @property
    def state_path(self) -> Path:
        return self.state_dir.expanduser().absolute()

    @property
    def workers_path(self) -> Path:
        """Where local workers are kept."""
        return self.state_path if self.local.directory is None else self.local.directory.expanduser().absolute()

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.state_path / 'sched.db'}"


def load_settings(path: Path | None = None, overrides: dict[str, Any] | None = None) -> Settings:
    """Settings from a TOML file, then `SCHED_<GROUP>__<NAME>` variables, then `overrides` (nested mapping).

    Raises `ConfigError` naming the setting and the rule.
    """
    data: dict[str, Any] = {}
    if path is not None:
        data = _read_toml(path)
    _merge(data, _from_environment())
    _merge(data, overrides or {})
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        rule = "unknown setting" if first["type"] == "extra_forbidden" else broken_rule(first)
        raise ConfigError(f"setting {name}: {rule}") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def _from_environment() -> dict[str, Any]:
    """`SCHED_STATE_DIR`, `SCHED_DATABASE_URL`, and nested ones such as `SCHED_ENGINE__LEASE_SECONDS`."""
    data: dict[str, Any] = {}
    for name, value in os.environ.items():
        if not name.startswith("SCHED_"):
            continue
        keys = name.removeprefix("SCHED_").lower().split("__")
        if keys[0] not in Settings.model_fields:
            continue  # SCHED_URL, SCHED_TOKEN and the like belong to clients and workers
        target = data
        for key in keys[:-1]:
            target = target.setdefault(key, {})
        target[keys[-1]] = value
    return data


def _merge(base: dict[str, Any], extra: dict[str, Any]) -> None:
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
