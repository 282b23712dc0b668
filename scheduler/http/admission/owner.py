"""Whose jobs are: each belongs to the caller who submits it, and only operators submit for somebody else.

Where jobs run as their users, nobody but root does, and the user must have an account on the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Request

from scheduler.clusters.local.accounts import Accounts
from scheduler.errors import InvalidInput
from scheduler.http.auth.authorize import forbidden, identity_of
from scheduler.http.schemas.headers import RequestHeader
from scheduler.http.services import services_of
from scheduler.model.evolve import evolve
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.model.job import JobSpec

#: Most characters of a user's name, as in a request.
_NAME_LENGTH_MAX = 128


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits."""

    identity: Identity
    #: The login that the client names; it counts only for callers without a name of their own.
    login: str = ""
    #: The users as whom jobs run; None: all run as the user of the daemon.
    accounts: Accounts | None = None

    @property
    def looked_up(self) -> bool:
        """Whether checks of the submitter's jobs ask the machine for accounts or groups, which may take long."""
        return self.accounts is not None or self.identity.by is IdentifiedBy.LOGIN

    def claim(self, spec: JobSpec, prefix: str = "") -> JobSpec:
        """The job as one of the caller, or of the user whom an operator names. Raises 403 for anybody else's.

        Where jobs run as their users, raises 403 for whoever could start one as somebody else, and `InvalidInput` for
        a user who may have none. `prefix`: the job's place in the body.
        """
        claimed = self._owned(spec, prefix)
        self._check_account(claimed.user, prefix)
        return claimed

    def claim_each(self, specs: Sequence[JobSpec]) -> list[JobSpec]:
        """The jobs of a batch, each as `claim`."""
        claimed = [self._owned(spec, f"jobs.{index}.") for index, spec in enumerate(specs)]
        first = {spec.user: index for index, spec in reversed(list(enumerate(claimed)))}
        for user, index in first.items():
            self._check_account(user, f"jobs.{index}.")
        return claimed

    def _owned(self, spec: JobSpec, prefix: str) -> JobSpec:
        if self.accounts is not None:
            return self._owned_by_account(spec, prefix)
        own = self.identity.user if self.identity.user is not None else self.login
        if not spec.user:
            return evolve(spec, user=own) if own else spec
        if spec.user != own and not self.identity.role.includes(Role.OPERATOR):
            rule = f"only an operator submits for {spec.user}, and you are {self.identity}: leave it out"
            raise forbidden(f"{prefix}user: {rule}", f"{prefix}user")
        return spec

    def _owned_by_account(self, spec: JobSpec, prefix: str) -> JobSpec:
        own = self.identity.user
        if own is None:
            raise forbidden(
                f"{prefix}user: jobs run as their users here, and {self.identity} by {self.identity.by} names none: "
                "submit by the UNIX socket, or with a token of your own",
                f"{prefix}user",
            )
        if spec.user not in ("", own) and not self.identity.is_root:
            rule = f"jobs run as their users here, and only root starts one as {spec.user}: leave it out"
            raise forbidden(f"{prefix}user: {rule}", f"{prefix}user")
        return evolve(spec, user=spec.user or own)

    def _check_account(self, user: str, prefix: str) -> None:
        if self.accounts is not None and (why_not := self.accounts.why_not(user)) is not None:
            raise InvalidInput(f"{prefix}user", why_not)


#: Describes itself at the routes that ask for a submitter.
LOGIN = RequestHeader(
    "x-sched-login",
    "Login of the submitter, percent-encoded, for callers without a name of their own.",
    r"^[\x21-\x7e]*$",
    length_max=1000,
)


def submitter_of(request: Request) -> Submitter:
    """Who sent the request. Raises `InvalidInput`, and what `identity_of` raises for a stranger."""
    login = unquote(LOGIN.sent_in(request) or "", errors="replace")
    fits = len(login) <= _NAME_LENGTH_MAX and login.isprintable()
    return Submitter(identity_of(request), login if fits else "", services_of(request).accounts)


async def _given(request: Request) -> Submitter:
    """On the event loop: FastAPI calls what is not async on a thread."""
    return submitter_of(request)


SubmitterDep = Annotated[Submitter, Depends(_given)]
