"""Every setting: its type, its bounds, its default, and what it means. Frozen, and validated once."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from scheduler.config.numbers import Duration, Factor, Heartbeat, Seconds, SlotSeconds

Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+$", max_length=500)]
KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
ExporterPods = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?/[A-Za-z0-9._/-]+=[A-Za-z0-9._-]+(,[A-Za-z0-9._/-]+=[A-Za-z0-9._-]+)*$",
        max_length=500,
    ),
]
VariablePattern = Annotated[str, Field(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]*$", max_length=200)]


def _words(value: Any) -> Any:
    """A variable of the environment holds a list as words with commas between them."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


#: Ours first, then those of published schedulers; see `scheduler.policy`.
PolicyName = Literal["elastic", "fifo", "easy", "conservative", "elastic-fifo", "edl", "afs", "tiresias", "shortest"]


class PolicySettings(_Frozen):
    """How the planner decides."""

    name: PolicyName = Field(
        default="elastic",
        description="How slots are divided among jobs. The page about policies describes each.",
    )
    aging_per_hour: Factor = Field(
        default=0.0,
        description="Priority points that a waiting job gains per hour; 0 turns aging off. Only `elastic` ages jobs.",
    )
    aging_ceilings: Annotated[tuple[int, ...], BeforeValidator(_words)] = Field(
        default=(), description="Priorities, ascending, that a job below them never reaches by aging alone."
    )
    grow_cooldown_seconds: Seconds = Field(default=2.0, description="Shortest time between two growths of one job.")
    grow_cooldown_factor: Factor = Field(
        default=2.0, description="A job grows again only after this multiple of its measured resize cost."
    )
    grow_payback_factor: Factor = Field(
        default=48.0, description="A job grows only if its end comes nearer by this multiple of its resize cost."
    )
    rebalance_seconds: Seconds = Field(
        default=30.0,
        description="Published elastic policies: shortest time between two resizes of a job in favour of equals.",
    )
    tiresias_slot_seconds: SlotSeconds = Field(
        default=3600.0 * 16, gt=0, description="`tiresias`: slot-seconds after which a job falls into the second queue."
    )
    near_end_seconds: Seconds = Field(
        default=5.0, description="A job does not grow if its time limit ends within this time."
    )
    booking_lead_seconds: Seconds = Field(
        default=5.0,
        description="Time by which booked slots are free before their window, added to the grace of leaving jobs.",
    )
    booking_idle_seconds: Seconds = Field(
        default=60.0,
        description="Booked slots that are still unused this long after the window began are lent to elastic jobs.",
    )
    demand_patience_seconds: Seconds = Field(
        default=60.0,
        description="How long room is kept for a waiting pod of others; after that it must lack something else.",
    )
    share: bool = Field(
        default=True, description="Whether jobs of equal priority give each other workers above their minimum."
    )
    share_margin: Factor = Field(
        default=2.0,
        description="A worker moves to an equal job only if its worth there exceeds its worth here by this share.",
    )
    share_interval_seconds: Duration = Field(
        default=60.0, description="Longest time between two looks at the division of slots while jobs compete."
    )
    service_class_slot_seconds: SlotSeconds = Field(
        default=28800.0,
        gt=0,
        description="Slot-seconds of the first service class; each further class reaches four times as far.",
    )
    measured_gain: bool = Field(
        default=True,
        description="Whether sizes follow the reported speed; if not, each worker is assumed to add nearly as much.",
    )
    unmeasured_workers: int = Field(
        default=4,
        ge=1,
        description="A job that has not reported its speed grows to at most this size during `measure_seconds`.",
    )
    measure_seconds: Seconds = Field(
        default=30.0, description="How long `unmeasured_workers` bounds a job that has not reported its speed."
    )
    remeasure_seconds: Duration = Field(
        default=1800.0, description="Speeds measured at larger sizes are forgotten after this time at one size."
    )
    retry_seconds: Duration = Field(
        default=120.0,
        description="A larger size at which a job was slower is tried again with idle slots after this time at one "
        "size, and after twice as long for each time that it was slower there again.",
    )
    oversell_memory_max: float | None = Field(
        default=0.9,
        ge=1e-3,
        le=1,
        description="Used share of the memory of a GPU above which jobs that share it leave; not set: not watched.",
    )
    oversell_utilization_max: float | None = Field(
        default=None,
        ge=1e-3,
        le=1,
        description="Utilization of a GPU above which jobs that share it leave; not set: not watched.",
    )
    oversell_cooldown_seconds: Seconds = Field(
        default=10.0,
        description="Time between the end of a job that left a crowded GPU and the request to the next one.",
    )
    oversell_reopen_seconds: Seconds = Field(
        default=300.0, description="Time for which a GPU that was crowded is not shared again."
    )


class EngineSettings(_Frozen):
    """Timing of the tick and of failure handling."""

    tick_interval_seconds: Seconds = Field(default=1.0, description="Longest time between two ticks.")
    tick_gap_seconds: Seconds = Field(
        default=0.01, description="Shortest time between two ticks, so that one takes a burst of requests."
    )
    decide_seconds_max: Duration = Field(
        default=4.0,
        description="A decision that takes longer hangs: the daemon saves what it was about and starts anew. With "
        "4,000 jobs and nodes it may take twice as long, and so on.",
    )
    lease_seconds: Duration = Field(
        default=3.0,
        description="A standby replaces a leader that has been silent for this long; longer while writes are slow.",
    )
    backoff_seconds: Seconds = Field(
        default=1.0,
        description="Pause after a job's first failure; it doubles with each. A worker that had trained is replaced "
        "without a pause the first time.",
    )
    backoff_max_seconds: Seconds = Field(default=300.0, description="Longest pause after a failure.")
    failure_reset_seconds: Seconds = Field(
        default=3600.0, description="A job that has had no failure for this long gets all its retries back."
    )
    join_wait_seconds: Seconds = Field(
        default=2.0, description="Longest time that a ready new worker waits for slower ones to join with it."
    )
    ready_seconds: Seconds = Field(
        default=600.0, description="A worker of an elastic job that is not ready after this time is hung."
    )
    heartbeat_seconds: Heartbeat = Field(
        default=600.0,
        description="A worker that reports (all runtimes but `command`) and is silent for this long is hung, where its "
        "job does not set `heartbeat_seconds`; 0: such workers are not watched.",
    )
    progress_interval_seconds: Seconds = Field(
        default=5.0, description="Shortest time between two writes of the progress of one job."
    )
    quarantine_failures: int = Field(
        default=4,
        ge=2,
        description="A node is quarantined after this many failures of at least two jobs within the window.",
    )
    quarantine_window_seconds: Seconds = Field(
        default=600.0, description="The window in which failures of a node are counted."
    )
    quarantine_seconds: Seconds = Field(
        default=60.0, description="Length of the first quarantine of a node; it doubles with each further one."
    )
    quarantine_max_seconds: Seconds = Field(default=3600.0, description="Longest quarantine.")
    master_port_first: int = Field(
        default=21000, ge=1024, le=65535, description="First of the ports that are used as MASTER_PORT."
    )
    master_port_count: int = Field(
        default=8000, ge=1, le=60000, description="Number of ports that are used as MASTER_PORT."
    )


class LocalSettings(_Frozen):
    """The machine of the daemon as a cluster of one node (`cluster = "local"`)."""

    directory: Path | None = Field(
        default=None,
        description="Directory of workers, logs and checkpoints; not set: the state directory. Replicas share it.",
    )
    slots: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="CPU slots to declare on a machine without a GPU; not set: one per core that the daemon may use.",
    )
    oversell: float = Field(
        default=1.0,
        ge=1,
        le=64,
        description="Slots given out per slot that exists; those above 1 go to jobs that accept to share.",
    )
    node_name: str = Field(
        default="local",
        description="Name of the node. Where GPUs are of several types, each further type is a node of its own, whose "
        "name has the type besides.",
    )
    foreign_memory_min: float | None = Field(
        default=0.05,
        ge=1e-3,
        le=1,
        description="Share of a GPU's memory that processes of others hold to compute, from which on no new workers "
        "start on it; not set: not watched.",
    )
    foreign_clear_seconds: Seconds = Field(
        default=30.0, description="Time for which others must hold less before workers start on such a GPU again."
    )
    unhealthy_xids: Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], BeforeValidator(_words)] = Field(
        default=(46, 48, 61, 62, 64, 74, 79, 94, 95, 110, 119, 120, 140),
        description="Critical errors (Xids) after which a GPU takes no workers until its driver is loaded again, or a "
        "user uncordons its node. See NVIDIA's catalog of Xid errors.",
    )
    host: str = Field(default="127.0.0.1", description="Address at which workers reach each other.")
    pass_environment: Annotated[tuple[VariablePattern, ...], BeforeValidator(_words)] = Field(
        default=(),
        description="Further variables that workers inherit from the daemon, as names or patterns such as `HF_*`. By "
        "default they inherit what programs need, and neither secrets nor proxies.",
    )
    log_bytes_max: int = Field(
        default=16 * 1024 * 1024, ge=4096, description="Size at which the log file of a worker is rotated."
    )
    log_files_max: int = Field(
        default=3, ge=1, le=100, description="Number of log files that are kept for each worker."
    )


class KubernetesSettings(_Frozen):
    """A Kubernetes cluster, where workers are pods (`cluster = "kubernetes"`)."""

    namespace: KubernetesName = Field(
        default="default",
        description="Namespace of the workers, and of the TrainingJobs that are queued. It must exist.",
    )
    namespaces: Annotated[tuple[KubernetesName, ...], BeforeValidator(_words)] = Field(
        default=(),
        description="More namespaces whose TrainingJobs are queued. The workers of a TrainingJob run in its own one.",
    )
    trust_templates: bool = Field(
        default=False,
        description="Whether pod templates may ask for anything, such as `hostPath` volumes or privileged containers: "
        "whoever may submit jobs is root on the nodes then.",
    )
    template_resources: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        default=(),
        description="Resources besides CPUs and memory that pod templates may ask for, such as `rdma/hca`. They "
        "are not counted: a resource that names GPUs does not belong here.",
    )
    network_policies: bool = Field(
        default=True,
        description="Whether each job gets a network policy, by which only its own workers reach its workers.",
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="Path of the kubeconfig; not set: the service account of the pod, or the default kubeconfig.",
    )
    context: str | None = Field(default=None, description="Context of the kubeconfig; not set: its current one.")
    instance: KubernetesName = Field(
        default="sched",
        description="Name of this scheduler in labels and names of pods, so that several can share a namespace.",
    )
    resource: str = Field(
        default="nvidia.com/gpu",
        pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9._-]+$",
        max_length=253,
        description="The resource of a slot, which nodes offer and workers request. With `cpu`, a slot is one CPU.",
    )
    gpu_type_label: str = Field(default="nvidia.com/gpu.product", description="Node label with the type of the GPUs.")
    oversell: float = Field(
        default=1.0,
        ge=1,
        le=64,
        description="Slots given out per slot that a node offers; those above 1 go to jobs that accept to share. Where "
        "slots are GPUs, this needs `gpu_exporter`.",
    )
    gpu_exporter: ExporterPods | None = Field(
        default=None,
        description="Pods of NVIDIA's DCGM exporter, as `NAMESPACE/LABEL=VALUE`, such as "
        "`gpu-operator/app=nvidia-dcgm-exporter`: they tell which GPUs pods have and how busy these are. They are read "
        "only where `oversell` is above 1.",
    )
    gpu_exporter_port: int = Field(
        default=9400, ge=1, le=65535, description="Port at which these pods answer `/metrics` by plain HTTP."
    )
    load_seconds: float = Field(
        default=10.0, ge=0.01, le=3600, description="Time between two looks at how busy oversold slots are."
    )
    training_jobs: bool = Field(
        default=True,
        description="Whether TrainingJob objects of the namespace are queued, if their custom resource is installed.",
    )
    image: str | None = Field(default=None, description="Image of workers whose job names none.")
    priority_class: str | None = Field(
        default=None, description="Priority class of the workers' pods; not set: the default of the cluster."
    )
    service_account: str | None = Field(
        default=None, description="Service account of the workers' pods; not set: the default of the cluster."
    )
    yield_to_priority: int | None = Field(
        default=None,
        description="Workers leave for pods of others of at least this priority; not set: any above the workers' own.",
    )
    tolerations: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="Taints that workers tolerate, written as in a pod. Other tainted nodes take no workers.",
    )
    jobs_dir: Path = Field(
        default=Path("/checkpoints"),
        description="Directory in containers that holds a checkpoint directory per job: pod templates mount a volume "
        "there, or a directory above. Where they do not, `SCHED_CHECKPOINT_DIR` is not set.",
    )
    names_image: str | None = Field(
        default=None,
        description="Image with `sh`, and `getent` or `nslookup`, such as `busybox:1`, for an init container in which "
        "each worker waits until its own name and that in `MASTER_ADDR` resolve; not set: workers do not wait.",
    )
    launch_limit_seconds: float = Field(
        default=120.0,
        ge=1,
        le=86400,
        description="A pod that cannot be bound, or whose image cannot be pulled, is given up after this.",
    )
    stale_seconds: float = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="How long decisions rest on the last known state while the API does not answer.",
    )
    requests_per_second: float = Field(
        default=50.0, ge=1e-3, le=10_000, description="Most API requests per second, watches not counted."
    )
    connections: int = Field(default=8, ge=1, le=256, description="Most API requests at the same time.")
    request_seconds: float = Field(
        default=10.0, ge=1e-3, le=600, description="Longest time that one API request may take."
    )

    @model_validator(mode="after")
    def _gpus_are_told_apart(self) -> Self:
        if self.oversell > 1 and self.has_gpus and self.gpu_exporter is None:
            raise ValueError(
                f"oversell above 1 needs gpu_exporter, which tells which {self.resource} a pod has: "
                "set it, or let oversell be 1"
            )
        return self

    @property
    def has_gpus(self) -> bool:
        """Whether slots are GPUs."""
        return self.resource != "cpu"

    @property
    def worker_namespaces(self) -> tuple[str, ...]:
        """All namespaces of workers, each once."""
        return tuple(dict.fromkeys((self.namespace, *self.namespaces)))


class HttpSettings(_Frozen):
    """The HTTP API and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on. Any address but loopback needs a token.")
    port: int = Field(default=8470, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    advertised_url: Url | None = Field(
        default=None, description="URL at which other replicas reach this daemon; not set: the address it listens on."
    )
    workers_url: Url | None = Field(
        default=None,
        description="URL at which workers reach any replica, such as that of a Service; not set: `advertised_url`.",
    )
    token: str | None = Field(
        default=None, min_length=16, description="Bearer token of users; required on any address but loopback."
    )
    metrics_token: str | None = Field(
        default=None,
        min_length=16,
        description="Bearer token that opens `/metrics` and nothing else, for Prometheus; that of users does as well.",
    )
    request_bytes_max: int = Field(default=32 * 1024 * 1024, ge=1024, description="Largest body of a batch of jobs.")
    job_bytes_max: int = Field(
        default=1024 * 1024, ge=1024, description="Largest body of a single job, and largest job of a batch."
    )
    connections_max: int = Field(
        default=20_000,
        ge=16,
        description="Most open connections; fewer where the limit of open files is low. When all are in use, the one "
        "that has been silent longest is closed for a new one.",
    )
    connections_per_peer_max: int = Field(
        default=2_000,
        ge=8,
        description="Connections of one address above which its own silent ones are closed for new ones. "
        "Loopback has no limit of its own.",
    )
    header_seconds: float = Field(
        default=10.0, gt=0, le=3600, description="Time in which the headers of a request must arrive."
    )
    body_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Time in which the body of a request must arrive, and in which a client must take an answer.",
    )
    requests_per_second_max: float = Field(default=1000.0, ge=1, description="Requests of users, all together.")
    job_requests_per_second_max: float = Field(
        default=200.0, ge=1, description="Requests of the workers of one job, besides 20 for each of them."
    )
    jobs_per_batch_max: int = Field(default=10_000, ge=1, description="Most jobs in one batch.")
    page_size_max: int = Field(default=1000, ge=1, description="Most rows in one page of an answer.")


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
    """A receiver of events by HTTP: a signed POST for each event, in order, repeated until it is accepted."""

    url: Annotated[str, AfterValidator(_with_a_host)] = Field(
        pattern=r"^https?://[^/\s]+(/\S*)?$", max_length=2000, description="URL that each event is sent to."
    )
    secret: str = Field(min_length=16, repr=False, description="Key of the signature.")
    events: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        default=(), description="Kinds of events to send; empty: all."
    )
    timeout_seconds: float = Field(
        default=10.0, ge=1e-3, le=60, description="Time that the receiver has for its answer."
    )
    backoff_seconds: float = Field(
        default=1.0,
        ge=1e-3,
        le=3600,
        description="Pause after the first failed attempt; doubles with each, and is cut at random by up to half.",
    )
    backoff_max_seconds: float = Field(
        default=300.0, ge=1e-3, le=86400, description="Longest pause between two attempts."
    )


class RetentionSettings(_Frozen):
    """How long ended jobs, their events and logs are kept, and nodes that are gone."""

    jobs_seconds: Seconds = Field(
        default=30 * 86400.0, description="How long ended jobs, with their events and logs, are kept."
    )
    events_seconds: Seconds = Field(default=30 * 86400.0, description="How long events are kept.")
    nodes_seconds: Seconds = Field(
        default=7 * 86400.0,
        description="How long nodes that the cluster no longer lists are kept; 0: for ever. Cordoned ones always are.",
    )


class LogSettings(_Frozen):
    """What the daemon writes to stderr in addition to warnings and errors."""

    decisions: bool = Field(default=True, description="Whether each decision is a line of the log.")


class TracingSettings(_Frozen):
    """OpenTelemetry traces of ticks, with the extra `otel`. The variables of OpenTelemetry say where they go."""

    enabled: bool = Field(default=False, description="Whether ticks are traced.")


class Settings(_Frozen):
    """All settings of one daemon."""

    state_dir: Path = Field(
        default=Path("~/.sched"),
        description="Directory of the database, logs, checkpoints and the secret of the daemon.",
    )
    database_url: str | None = Field(
        default=None,
        description="`sqlite:///PATH` or `postgresql+psycopg://…`; not set: SQLite in the state directory.",
    )
    policy: PolicySettings = PolicySettings()
    engine: EngineSettings = EngineSettings()
    cluster: Literal["local", "kubernetes"] = Field(default="local", description="Where workers run.")
    local: LocalSettings = LocalSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    http: HttpSettings = HttpSettings()
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    webhooks: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")], WebhookSettings] = Field(
        default_factory=dict,
        max_length=32,
        description="Webhooks by name. A webhook keeps its place in the history under its name.",
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
