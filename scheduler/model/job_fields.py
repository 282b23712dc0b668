"""What each field of a request for a job means, for the API, TrainingJobs, the command line and the documents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobField:
    #: Without a full stop: an option adds how it is written, and what holds without it.
    meaning: str
    #: What the API adds.
    in_api: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.meaning}."

    @property
    def description(self) -> str:
        return f"{self.meaning}{self.in_api}."


JOB_FIELDS = {
    "command": JobField("Program and arguments, or one string for /bin/sh"),
    "name": JobField("Job name", "; null: the name of the program or script"),
    "user": JobField("User whose job it is, who may change it"),
    "env": JobField("Environment variables of its workers"),
    "workdir": JobField(
        "Working directory", ": absolute, or a relative one that `export.workdir` names on the submitter's machine"
    ),
    "labels": JobField("Labels to find it by"),
    "runtime": JobField("Kind of script: how its workers are started and the job is resized"),
    "priority": JobField("Priority; higher is more important"),
    "workers": JobField("Number of workers", ": both bounds at once"),
    "min_workers": JobField("Minimum number of workers", "; null: `workers`, or 1"),
    "max_workers": JobField("Maximum number of workers", "; null: `workers`, or `min_workers`"),
    "slots_per_worker": JobField("Slots (GPUs) per worker, all on one node"),
    "cpus_per_worker": JobField("CPUs per worker"),
    "memory_mib_per_worker": JobField("Memory per worker", ", in MiB"),
    "node_selector": JobField("Use only nodes with these labels"),
    "gpu_type": JobField("Use only GPUs of this type"),
    "time_limit_seconds": JobField("Maximum running time of each attempt"),
    "max_retries": JobField("Maximum number of restarts after failures"),
    "grace_seconds": JobField("Time to exit after a request to stop, before SIGKILL"),
    "heartbeat_seconds": JobField(
        "Treat a worker as hung after this time without a report; 0 turns that off",
        "; null: `engine.heartbeat_seconds`",
    ),
    "preemptible": JobField(
        "Allow more important jobs to take its slots", "; surplus: only those of workers beyond its minimum"
    ),
    "preferred_workers": JobField("Number of workers under a policy that fixes sizes", "; null: `max_workers`"),
    "expected_seconds": JobField("Expected running time with the preferred number of workers"),
    "speedup": JobField(
        "Relative speed by number of workers", ": pairs of workers and speed, in any one unit, ascending"
    ),
    "oversell": JobField("Allow the job to share oversold slots"),
    "booking": JobField("Run in the capacity and window of this booking"),
    "queue": JobField(
        "Queue that it belongs to, such as lab/vision",
        "; null: that of the token, else the one of which its user or a group of the user is a member, else none",
    ),
    "client_key": JobField(
        "Idempotency key: a repeated submission with this key returns the same job",
        ". Prefixes `recurring:` and `trainingjob/` are reserved",
    ),
    "pod_template": JobField("Pod template of its workers for Kubernetes", ": `metadata` and `spec`"),
    "data": JobField("Data set for workers that take shards"),
    "fixed": JobField(
        "Fixed group, such as parameter servers or a master",
        ": workers that are never scaled, started before the others and stopped after them",
    ),
    "export": JobField("Environment of its submitter; the job's own `env` and `workdir` win"),
}
