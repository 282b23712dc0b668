"""Which queue a new job belongs to, and whether its user may submit there with this priority."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.errors import InvalidInput
from scheduler.http.admission.owner import Submitter
from scheduler.http.auth.authorize import forbidden
from scheduler.http.services import Services
from scheduler.model.identity import IdentifiedBy, Role
from scheduler.model.job import JobSpec
from scheduler.model.queue import ROOT
from scheduler.model.queue_tree import (
    GROUP_PREFIX,
    Queues,
    check_exists,
    check_priority,
    default_queue,
    not_a_member,
)

#: Jobs of a request, each by its place in the body: "jobs.3.", or "" where the body is the job.
Placed = Mapping[str, JobSpec]


def into_queues(services: Services, submitter: Submitter, specs: Placed) -> dict[str, JobSpec]:
    """The jobs, each in the queue that it names, or in that of its user.

    Raises `InvalidInput` for a queue that does not exist, for a user who could mean several queues, and for a priority
    that is too high there; 403 for a queue of which the user is no member, unless an operator submits.
    """
    queues = {queue.path: queue for queue in services.store.list_queues()}
    if not queues and submitter.identity.queue is None and all(spec.queue == ROOT for spec in specs.values()):
        return dict(specs)
    return {place: _into_queue(services, submitter, queues, spec, place) for place, spec in specs.items()}


def check_new_priority(services: Services, queue: str, priority: int) -> None:
    """Raise `InvalidInput` for a priority that jobs of this queue may not have."""
    if queue != ROOT:
        check_priority({each.path: each for each in services.store.list_queues()}, queue, priority)


def _into_queue(services: Services, submitter: Submitter, queues: Queues, spec: JobSpec, prefix: str) -> JobSpec:
    groups = _groups(services, submitter, queues, spec.user)
    try:
        spec = replace(spec, queue=_queue_of(submitter, queues, spec, groups))
        check_exists(queues, spec.queue)
        check_priority(queues, spec.queue, spec.priority)
    except InvalidInput as error:
        raise InvalidInput(f"{prefix}{error.field}", error.rule) from None
    rule = not_a_member(queues, spec.queue, spec.user, groups)
    if rule is not None and not submitter.identity.role.includes(Role.OPERATOR):
        raise forbidden(f"{prefix}queue: {rule}", f"{prefix}queue")
    return spec


def _queue_of(submitter: Submitter, queues: Queues, spec: JobSpec, groups: Collection[str]) -> str:
    identity = submitter.identity
    if spec.queue != ROOT:
        return spec.queue
    if identity.queue is not None and spec.user == identity.user:
        return identity.queue
    return default_queue(queues, spec.user, groups)


def _groups(services: Services, submitter: Submitter, queues: Queues, user: str) -> Collection[str]:
    """The groups of the user, known only of who submits, as a login of this machine or as a user of the issuer.

    Those of a login are asked for only if a queue has any.
    """
    identity = submitter.identity
    if identity.user != user or identity.by not in (IdentifiedBy.LOGIN, IdentifiedBy.OIDC):
        return ()
    if identity.by is IdentifiedBy.OIDC:
        return identity.groups
    if not any(member.startswith(GROUP_PREFIX) for queue in queues.values() for member in queue.members):
        return ()
    return services.groups_of(user)
