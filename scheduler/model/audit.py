"""What is recorded of requests: changes, and refusals of callers. Never what was sent, and never a secret."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One request, or several refusals of the same request within about a second."""

    at: float
    #: None: a caller without a name, or whom the daemon does not know.
    user: str | None
    #: How the daemon knows the caller: a value of `IdentifiedBy`, or `nobody`.
    known_by: str
    #: Address of the client; `socket` for the UNIX socket.
    address: str
    method: str
    #: As the API describes it, with the names of its parameters; empty: none was reached.
    route: str
    #: What it was about, such as `job 12`; empty: nothing in particular.
    object: str
    #: Status of the answer.
    status: int
    #: Number of such requests.
    times: int = 1
