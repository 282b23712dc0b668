"""What the scheduler tells a worker through its environment. Standard library only."""

import logging
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler.elastic.errors import Unreachable, UsageError

_LOG = logging.getLogger("scheduler.elastic")
_LOOPBACK = "127.0.0.1"
_RETRY_SECONDS = 0.5
#: A worker that has not found the scheduler by then ends, to be started again.
_REACH_SECONDS_MAX = 300.0


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
    #: File with the certificates that vouch for the scheduler's, else these themselves, else those of the system do.
    ca: str | None = None
    ca_data: str | None = None
    #: Files with this worker's certificate and its key, where the scheduler asks for one.
    certificate: str | None = None
    key: str | None = None

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
            ca=variables.get("SCHED_CA") or None,
            ca_data=variables.get("SCHED_CA_DATA") or None,
            certificate=variables.get("SCHED_CERT") or None,
            key=variables.get("SCHED_KEY") or None,
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
        """The address of this machine from which the scheduler, and so the other nodes, can be reached.

        Loopback, which other machines cannot reach, where only IPv6 leads to the scheduler: workers meet over IPv4.
        Waits where the scheduler's name does not resolve, or no network leads there, since others are told this address
        once. Raises `Unreachable` after a while.
        """
        host = urlsplit(self.url).hostname or _LOOPBACK
        until = time.monotonic() + _REACH_SECONDS_MAX
        told = False
        while True:
            try:
                address = _address_towards(host, self.port)
                if address is None:
                    _LOG.warning(
                        "the scheduler at %s is reached over IPv6 only, and workers meet over IPv4: "
                        "those on other machines cannot reach this one",
                        self.url,
                    )
                return address or _LOOPBACK
            except OSError as error:
                if time.monotonic() >= until:
                    raise Unreachable(f"the scheduler at {self.url} cannot be reached: {error.strerror}") from None
                if not told:
                    _LOG.warning("the scheduler at %s cannot be reached, trying again: %s", self.url, error.strerror)
                    told = True
                time.sleep(_RETRY_SECONDS)


def _address_towards(host: str, port: int) -> str | None:
    """This machine's IPv4 address that leads there; None where only IPv6 leads to another machine. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    first = {family: address for family, _, _, _, address in reversed(found)}
    if socket.AF_INET in first:
        return _source(socket.AF_INET, first[socket.AF_INET])
    with suppress(OSError):
        towards = first[socket.AF_INET6]
        if _source(socket.AF_INET6, towards) == towards[0]:
            return _LOOPBACK
    return None


def _source(family: socket.AddressFamily, towards: Any) -> str:
    """The address of this machine from which packets would go there; none is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(towards)
        address: str = probe.getsockname()[0]
        return address


def checkpoint_dir(variables: Mapping[str, str]) -> Path | None:
    """Where checkpoints go; None means that none are written."""
    path = variables.get("SCHED_CHECKPOINT_DIR")
    return Path(path) if path else None


def rank_and_size(variables: Mapping[str, str]) -> tuple[int, int]:
    """Rank and number of the processes that torchrun started; 0 of 1 where it did not. Raises `UsageError`."""
    rank, size = variables.get("RANK") or None, variables.get("WORLD_SIZE") or "1"
    with suppress(ValueError):
        found = int(rank or "0"), int(size)
        if 0 <= found[0] < found[1] and (rank is not None or found[1] == 1):
            return found
    raise UsageError(
        f"RANK is {'not set' if rank is None else repr(rank)} and WORLD_SIZE is {size!r}: set both, as torchrun does, "
        "RANK from 0 to WORLD_SIZE - 1; or neither, for one process"
    )
