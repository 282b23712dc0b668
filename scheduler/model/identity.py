"""Who calls, and with which rights: identities, roles, the tokens of users, and what is recorded of their requests."""

from dataclasses import dataclass
from enum import StrEnum

#: Begins every token of a user, so that people and scanners of secrets recognize one.
TOKEN_PREFIX = "sched_"
#: Name of the tokens that users get for live pages.
PAGE_NAME = "page"


class Role(StrEnum):
    """What an identity may do. Each role may also do what those before it may."""

    #: Reads everything but tokens and the audit.
    VIEWER = "viewer"
    #: Submits jobs, and changes its own.
    USER = "user"
    #: Changes the jobs of everybody, nodes and bookings.
    OPERATOR = "operator"
    #: Creates and revokes tokens, and reads the audit.
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Whether this role may do all that the other one may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


class IdentifiedBy(StrEnum):
    """How the daemon knows who calls."""

    #: Not at all: it has neither `http.token` nor tokens of users, and answers programs of its machine.
    NOTHING = "nothing"
    #: By the setting `http.token`.
    CONFIGURED = "http.token"
    #: By the token of a user.
    TOKEN = "token"
    #: By the login of a process of its machine, as the kernel tells it at the UNIX socket.
    LOGIN = "login"
    #: By a token of the issuer of OpenID Connect.
    OIDC = "oidc"


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of a request."""

    #: None: the caller has no name of its own, as with `http.token`.
    user: str | None
    role: Role
    by: IdentifiedBy
    #: The token of a user by which it is known.
    token_id: int | None = None
    #: When its token expires; None: never.
    expires_at: float | None = None
    #: The token that this one was made from, for a live page; None: none.
    made_from: int | None = None
    #: The queue of jobs that name none, as its token says; None: as the members of queues say.
    queue: str | None = None
    #: Its groups, as the issuer of OpenID Connect names them.
    groups: frozenset[str] = frozenset()

    @property
    def is_root(self) -> bool:
        """Whether the kernel says that it is root, or the daemon's own user: no other login is an administrator."""
        return self.by is IdentifiedBy.LOGIN and self.role is Role.ADMIN

    def owns(self, user: str) -> bool:
        """Whether what belongs to the user may be changed by this identity."""
        return self.role.includes(Role.OPERATOR) or (self.role.includes(Role.USER) and self.user == user)

    def __str__(self) -> str:
        return f"{self.user} ({self.role})" if self.user is not None else str(self.role)


@dataclass(frozen=True, slots=True)
class UserToken:
    """A user's token as it is stored: never the secret itself, only its digest."""

    id: int
    user: str
    role: Role
    #: What it is for, in its creator's words; empty: not said.
    name: str
    #: SHA-256 of the secret, in hexadecimal.
    digest: str
    created_at: float
    #: Who created it; empty: an administrator without a name.
    created_by: str
    #: None: it never expires.
    expires_at: float | None = None
    revoked_at: float | None = None
    #: The token whose holder got this one for a live page; it is revoked with that.
    made_from: int | None = None
    #: The queue of its user's jobs that name none; None: as the members of queues say.
    queue: str | None = None

    @property
    def of_page(self) -> bool:
        """Whether a user's live page has it."""
        return self.name == PAGE_NAME and self.created_by == self.user

    def why_not(self, now: float) -> str | None:
        """Why it opens nothing now, in one line; None if it does."""
        if self.revoked_at is not None:
            return f"token {self.id} of {self.user} was revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return f"token {self.id} of {self.user} has expired"
        return None
