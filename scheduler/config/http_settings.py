"""Settings of the HTTP API: its address, TLS, tokens, the UNIX socket, and limits on connections and requests."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from scheduler.bounds import TOKEN_PATTERN
from scheduler.config.section import Section

Url = Annotated[str, Field(pattern=r"^https?://[^/\s]+$", max_length=500)]


class HttpSettings(Section):
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
    tls_certificate: Path | None = Field(
        default=None,
        description="File with the certificate for `https://`, in PEM, and those that lead from it to its authority; "
        "read again when it changes. Not set: plain HTTP. The UNIX socket never has TLS.",
    )
    tls_key: Path | None = Field(
        default=None, description="File with the private key of `tls_certificate`, which not all users may read."
    )
    tls_ca: Path | None = Field(
        default=None,
        description="File with the certificates of the authority that signed `tls_certificate`: workers of this "
        "machine and other replicas trust it. Not set: a self-signed one itself, else the authorities of the system.",
    )
    tls_client_ca: Path | None = Field(
        default=None,
        description="File with certificates of authorities: whoever comes by the address needs a certificate of one of "
        "them, besides a token. Not set: tokens are enough.",
    )
    tls_client_certificate: Path | None = Field(
        default=None,
        description="File with the certificate that workers of this machine show, and this daemon to other replicas; "
        "required with `tls_client_ca`.",
    )
    tls_client_key: Path | None = Field(
        default=None, description="File with the private key of `tls_client_certificate`, which workers have to read."
    )
    token: str | None = Field(
        default=None,
        min_length=16,
        pattern=TOKEN_PATTERN,
        description="Bearer token of an administrator without a name; required on any address but loopback.",
    )
    metrics_token: str | None = Field(
        default=None,
        min_length=16,
        pattern=TOKEN_PATTERN,
        description="Bearer token that opens `/metrics` and nothing else, for Prometheus; those of users do as well.",
    )
    socket: Path | None = Field(
        default=None,
        description="UNIX socket for programs of this machine, which need no token: the kernel says who they are; not "
        "set: `sched.sock` in the state directory.",
    )
    socket_group: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Group whose members may use the socket, at a path that they reach; not set: only the daemon's "
        "user. Everybody else then needs a token.",
    )
    socket_role: Literal["viewer", "user", "operator"] = Field(
        default="user",
        description="Role of those who come by the socket, but for the daemon's user and root, who are administrators.",
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
    requests_per_second_max: float = Field(default=5000.0, ge=1, description="Requests of users, all together.")
    job_requests_per_second_max: float = Field(
        default=200.0, ge=1, description="Requests of the workers of one job, besides 20 for each of them."
    )
    jobs_per_batch_max: int = Field(default=10_000, ge=1, description="Most jobs in one batch.")
    page_size_max: int = Field(default=1000, ge=1, description="Most rows in one page of an answer.")
