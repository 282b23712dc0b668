"""Every setting: its type, its bounds, its default, and what it means. Frozen, and validated once."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from scheduler.config.cluster_settings import KubernetesSettings, LocalSettings, SystemSettings
from scheduler.config.http_settings import HttpSettings
from scheduler.config.numbers import Duration, Factor, Heartbeat, Price, Seconds, SlotSeconds
from scheduler.config.oidc_settings import OidcSettings
from scheduler.config.section import OR_NONE, PAIRS, WORDS, Section
from scheduler.config.webhook_secret import with_a_key

PORT_MAX = 65535
#: Ours first, then those of published schedulers; see `scheduler.policy`.
PolicyName = Literal["elastic", "fifo", "easy", "conservative", "elastic-fifo", "edl", "afs", "tiresias", "shortest"]


class PolicySettings(Section):
    """How the planner decides."""

    name: PolicyName = Field(
        default="elastic",
        description="How slots are divided among jobs. The page about policies describes each.",
    )
    aging_per_hour: Factor = Field(
        default=0.0,
        description="Priority points that a waiting job gains per hour; 0 turns aging off. Only `elastic` ages jobs.",
    )
    aging_ceilings: Annotated[tuple[int, ...], WORDS] = Field(
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
    fair_stop_seconds: Seconds | None = Field(
        default=None,
        description="A queue below its share, though not below its guarantee, makes jobs of queues above theirs shrink."
        " After a run of this length it may also stop them; unset: never.",
    )
    usage_half_life_seconds: Seconds = Field(
        default=0.0,
        description="Of queues that hold equal parts of what they are entitled to, the one goes first that has used "
        "less for its weight. Usage counts half after this time; 0: it does not count.",
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
        description="Whether sizes follow the reported speed under `elastic`; if not, each worker is assumed to add "
        "nearly as much. Published policies and estimated starts always use it.",
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
    oversell_memory_max: Annotated[float | None, Field(ge=1e-3, le=1), OR_NONE] = Field(
        default=0.9,
        description="Used share of the memory of a GPU above which jobs that share it leave; `none`: not watched.",
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


class EngineSettings(Section):
    """Timing of the tick and of failure handling."""

    tick_interval_seconds: Seconds = Field(default=1.0, description="Longest time between two ticks.")
    tick_gap_seconds: Seconds = Field(
        default=0.01,
        description="Shortest time between two ticks, so that one takes a burst of requests. It doubles, up to 0.1 s, "
        "while ticks only put jobs into the queue.",
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
        default=3600.0,
        description="A job of which one attempt runs for this long without a failure gets all its retries back.",
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
        description="A node is quarantined after this many failures within the window, of at least two jobs. Jobs of "
        "one user close one node at a time to the others.",
    )
    quarantine_window_seconds: Seconds = Field(
        default=600.0, description="The window in which failures of a node are counted."
    )
    quarantine_seconds: Seconds = Field(
        default=60.0, description="Length of the first quarantine of a node; it doubles with each further one."
    )
    quarantine_max_seconds: Seconds = Field(default=3600.0, description="Longest quarantine.")
    master_port_first: int = Field(
        default=21000, ge=1024, le=PORT_MAX, description="First of the ports that are used as MASTER_PORT."
    )
    master_port_count: int = Field(
        default=8000, ge=1, le=60000, description="Number of ports that are used as MASTER_PORT."
    )

    @model_validator(mode="after")
    def _ports_exist(self) -> Self:
        last = self.master_port_first + self.master_port_count - 1
        if last > PORT_MAX:
            raise ValueError(
                f"master_port_first {self.master_port_first} and master_port_count {self.master_port_count} reach port "
                f"{last}, above {PORT_MAX}: lower one of them"
            )
        return self


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


class WebhookSettings(Section):
    """A receiver of events by HTTP: a signed POST for each event, in order, repeated until it is accepted."""

    url: Annotated[str, AfterValidator(_with_a_host)] = Field(
        pattern=r"^https?://[^/\s]+(/\S*)?$", max_length=2000, description="URL that each event is sent to."
    )
    secret: Annotated[str, AfterValidator(with_a_key)] = Field(
        min_length=16,
        repr=False,
        description="Key of the signature: `whsec_` and the key in base64, as Standard Webhooks has it, or any text.",
    )
    events: Annotated[tuple[str, ...], WORDS] = Field(default=(), description="Kinds of events to send; empty: all.")
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


class RetentionSettings(Section):
    """How long ended jobs, their events and logs are kept, and nodes that are gone."""

    jobs_seconds: Seconds = Field(
        default=30 * 86400.0, description="How long ended jobs, with their events and logs, are kept."
    )
    events_seconds: Seconds = Field(default=30 * 86400.0, description="How long events are kept.")
    audit_seconds: Seconds = Field(
        default=90 * 86400.0, description="How long it is kept who changed something, and who was refused."
    )
    nodes_seconds: Seconds = Field(
        default=7 * 86400.0,
        description="How long nodes that the cluster no longer lists are kept; 0: for ever. Cordoned ones always are.",
    )


class UsageSettings(Section):
    """Accounts of what queues and users hold."""

    prices: Annotated[dict[Annotated[str, Field(min_length=1, max_length=253)], Price], PAIRS] = Field(
        default={},
        max_length=1000,
        description="Price of a slot for an hour by GPU type, in any currency; `*`: of the types that are not named, "
        "which cost nothing without it.",
    )


class LogSettings(Section):
    """What the daemon writes to stderr in addition to warnings and errors."""

    decisions: bool = Field(default=True, description="Whether each decision is a line of the log.")


class TracingSettings(Section):
    """OpenTelemetry traces of ticks, with the extra `otel`. The variables of OpenTelemetry say where they go."""

    enabled: bool = Field(default=False, description="Whether ticks are traced.")


class Settings(Section):
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
    system: SystemSettings = SystemSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    http: HttpSettings = HttpSettings()
    oidc: OidcSettings = OidcSettings()
    retention: RetentionSettings = RetentionSettings()
    usage: UsageSettings = UsageSettings()
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
