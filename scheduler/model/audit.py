"""What is recorded of requests: changes, and refusals of callers. Never what was sent, and never a secret."""

from dataclasses import dataclass

#: How the daemon knows a caller that it does not know.
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One request, or several that failed alike within a minute."""

    at: float
    #: None: a caller without a name, or whom the daemon does not know.
    user: str | None
    #: How the daemon knows the caller: a value of `IdentifiedBy`, or `NOBODY`.
    known_by: str
    #: Address of the client; `uid:N` for a process of this user at the UNIX socket.
    address: str
    method: str
    #: As the API describes it, with the names of its parameters; empty: none was reached.
    route: str
    #: What it was about, such as `job 12`; empty: nothing in particular, or the caller is unknown.
    object: str
    #: Status of the answer.
    status: int
    #: Number of such requests.
    times: int = 1
