"""Whose jobs are: each belongs to the caller who submits it, and only operators submit for somebody else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Header

from scheduler.http.auth.authorize import IdentityDep, forbidden
from scheduler.model.identity import Identity, Role
from scheduler.model.job import JobSpec

#: Most characters of a user's name, as in a request.
_NAME_LENGTH_MAX = 128


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits."""

    identity: Identity
    #: The login that the client names; it counts only for callers without a name of their own.
    login: str = ""

    def claim(self, spec: JobSpec, prefix: str = "") -> JobSpec:
        """The job as one of the caller, or of the user whom an operator names. Raises 403 for anybody else's.

        `prefix`: the job's place in the body.
        """
        own = self.identity.user if self.identity.user is not None else self.login
        if not spec.user:
            return replace(spec, user=own)
        if spec.user != own and not self.identity.role.includes(Role.OPERATOR):
            rule = f"only an operator submits for {spec.user}, and you are {self.identity}: leave it out"
            raise forbidden(f"{prefix}user: {rule}", f"{prefix}user")
        return spec

    def claim_each(self, specs: Sequence[JobSpec]) -> list[JobSpec]:
        """The jobs of a batch, each as `claim`."""
        return [self.claim(spec, f"jobs.{index}.") for index, spec in enumerate(specs)]


async def submitter_of(
    identity: IdentityDep,
    x_sched_login: Annotated[
        str,
        Header(
            max_length=1000,
            pattern=r"^[\x21-\x7e]*$",
            description="Login of the submitter, percent-encoded, for callers without a name of their own.",
        ),
    ] = "",
) -> Submitter:
    login = unquote(x_sched_login, errors="replace")
    fits = len(login) <= _NAME_LENGTH_MAX and login.isprintable()
    return Submitter(identity, login if fits else "")


SubmitterDep = Annotated[Submitter, Depends(submitter_of)]
