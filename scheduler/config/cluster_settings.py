"""Settings of the places where workers run: this machine, and Kubernetes."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from scheduler.config.numbers import Seconds
from scheduler.config.section import OR_NONE, WORDS, Section

KubernetesName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
ExporterPods = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?/[A-Za-z0-9._/-]+=[A-Za-z0-9._-]+(,[A-Za-z0-9._/-]+=[A-Za-z0-9._-]+)*$",
        max_length=500,
    ),
]
VariablePattern = Annotated[str, Field(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]*$", max_length=200)]

AccountName = Annotated[str, Field(min_length=1, max_length=128)]


class LocalSettings(Section):
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
    foreign_memory_min: Annotated[float | None, Field(ge=1e-3, le=1), OR_NONE] = Field(
        default=0.05,
        description="Share of a GPU's memory that processes of others hold to compute, from which on no new workers "
        "start on it; `none`: not watched.",
    )
    foreign_clear_seconds: Seconds = Field(
        default=30.0, description="Time for which others must hold less before workers start on such a GPU again."
    )
    unhealthy_xids: Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], WORDS] = Field(
        default=(46, 48, 61, 62, 64, 74, 79, 94, 95, 110, 119, 120, 140),
        description="Critical errors (Xids) after which a GPU takes no workers until its driver is loaded again, or a "
        "user uncordons its node. See NVIDIA's catalog of Xid errors.",
    )
    host: str = Field(default="127.0.0.1", description="Address at which workers reach each other.")
    pass_environment: Annotated[tuple[VariablePattern, ...], WORDS] = Field(
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


class SystemSettings(Section):
    """The scheduler of a whole machine, which starts each job as its user (`sched serve --system`)."""

    enabled: bool = Field(
        default=False,
        description="Whether the daemon runs as root and starts each job as its user; set by `sched serve --system`. "
        "Not set: all jobs run as the user of the daemon.",
    )
    uid_min: int | None = Field(
        default=None,
        ge=1,
        le=2**32 - 2,
        description="Lowest user number of those whose jobs are accepted; not set: `UID_MIN` of `/etc/login.defs`, "
        "else 1000. Jobs of root are never accepted.",
    )
    accounts: Annotated[tuple[AccountName, ...], WORDS] = Field(
        default=(), description="System accounts whose jobs are accepted although their number is below `uid_min`."
    )
    umask: str = Field(
        default="022", pattern=r"^0?[0-7]{3}$", description="Permissions that files of jobs do not get, in octal."
    )


class KubernetesSettings(Section):
    """A Kubernetes cluster, where workers are pods (`cluster = "kubernetes"`)."""

    namespace: KubernetesName = Field(
        default="default",
        description="Namespace of the workers, and of the TrainingJobs that are queued. It must exist.",
    )
    namespaces: Annotated[tuple[KubernetesName, ...], WORDS] = Field(
        default=(),
        description="More namespaces whose TrainingJobs are queued. The workers of a TrainingJob run in its own one.",
    )
    trust_templates: bool = Field(
        default=False,
        description="Whether pod templates may ask for anything, such as `hostPath` volumes or privileged containers: "
        "whoever may submit jobs is root on the nodes then.",
    )
    template_resources: Annotated[tuple[str, ...], WORDS] = Field(
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
        description="A pod that cannot be made or bound, or whose image cannot be pulled, is given up after this.",
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
