"""What the scheduler tells a worker through its environment. Standard library only."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.elastic.errors import UsageError


@dataclass(frozen=True, slots=True)
class Environment:
    """The `SCHED_` variables of one worker; docs/guarantees.md says what they mean."""

    url: str
    token: str
    job: str
    #: Tells the job from others that had its id; empty where it has none.
    nonce: str
    worker: str
    grace_seconds: float
    checkpoint_dir: Path | None

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> "Environment | None":
        """The worker's environment, or None where no scheduler started this process (`SCHED_URL` is not set)."""
        url = variables.get("SCHED_URL")
        if not url:
            return None
        missing = [name for name in ("SCHED_JOB_ID", "SCHED_WORKER_ID") if not variables.get(name)]
        if missing:
            raise UsageError(
                f"SCHED_URL is set but {' and '.join(missing)} is not: to run without a scheduler, unset SCHED_URL"
            )
        return cls(
            url=url.rstrip("/"),
            token=variables.get("SCHED_TOKEN", ""),
            job=variables["SCHED_JOB_ID"],
            nonce=variables.get("SCHED_JOB_NONCE", ""),
            worker=variables["SCHED_WORKER_ID"],
            grace_seconds=float(variables.get("SCHED_GRACE_SECONDS", "30")),
            checkpoint_dir=checkpoint_dir(variables),
        )

    @property
    def job_key(self) -> str:
        """Names the job among all that ever had its id."""
        return f"{self.job}-{self.nonce}" if self.nonce else self.job

    @property
    def port(self) -> int:
        """The scheduler's port."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    def own_address(self) -> str:
        """The address of this machine from which the scheduler, and so the other nodes, can be reached."""
        host = urlsplit(self.url).hostname or "127.0.0.1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, self.port))
            except OSError:
                return "127.0.0.1"
            address: str = probe.getsockname()[0]
            return address


def checkpoint_dir(variables: Mapping[str, str]) -> Path | None:
    """Where checkpoints go; None means that none are written."""
    path = variables.get("SCHED_CHECKPOINT_DIR")
    return Path(path) if path else None
