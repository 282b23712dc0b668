"""Which queue a new job belongs to, and whether its user may submit there with this priority."""

from collections.abc import Callable, Collection, Iterable, Mapping

from scheduler.errors import InvalidInput
from scheduler.http.admission.owner import Submitter
from scheduler.http.auth.authorize import forbidden
from scheduler.http.services import Services
from scheduler.model.evolve import evolve
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.model.job import JobSpec
from scheduler.model.queue import ROOT, Queue
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
    return into_queues_of(services.store.list_queues(), services, submitter, specs)


def into_queues_of(
    present: Iterable[Queue], services: Services, submitter: Submitter, specs: Placed
) -> dict[str, JobSpec]:
    """As `into_queues`, with these as all queues that there are."""
    queues = {queue.path: queue for queue in present}
    if not queues and submitter.identity.queue is None and all(spec.queue == ROOT for spec in specs.values()):
        return dict(specs)
    rules = QueueRules(queues, submitter.identity, services.groups_of)
    return {place: rules.into_queue(spec, place) for place, spec in specs.items()}


def check_new_priority(services: Services, queue: str, priority: int) -> None:
    """Raise `InvalidInput` for a priority that jobs of this queue may not have."""
    if queue != ROOT:
        check_priority({each.path: each for each in services.store.list_queues()}, queue, priority)


class QueueRules:
    """What the queues of one moment say of the jobs of one submitter: what holds for a user is found once."""

    def __init__(self, queues: Queues, identity: Identity, groups_of: Callable[[str], Collection[str]]) -> None:
        """`groups_of` gives the groups of a login."""
        self._queues = queues
        self._identity = identity
        self._groups_of_login = groups_of
        self._groups: dict[str, Collection[str]] = {}
        #: By user, the queue of jobs that name none.
        self._defaults: dict[str, str] = {}
        #: By queue and user, why the user may not submit to it.
        self._refusals: dict[tuple[str, str], str | None] = {}

    def into_queue(self, spec: JobSpec, place: str = "") -> JobSpec:
        """The job in its queue; raises what `into_queues` raises."""
        try:
            spec = evolve(spec, queue=self._queue_of(spec))
            check_exists(self._queues, spec.queue)
            check_priority(self._queues, spec.queue, spec.priority)
        except InvalidInput as error:
            raise InvalidInput(f"{place}{error.field}", error.rule) from None
        rule = self._refusal(spec)
        if rule is not None and not self._identity.role.includes(Role.OPERATOR):
            raise forbidden(f"{place}queue: {rule}", f"{place}queue")
        return spec

    def _queue_of(self, spec: JobSpec) -> str:
        if spec.queue != ROOT:
            return spec.queue
        if self._identity.queue is not None and spec.user == self._identity.user:
            return self._identity.queue
        if spec.user not in self._defaults:
            self._defaults[spec.user] = default_queue(self._queues, spec.user, self._groups_of(spec.user))
        return self._defaults[spec.user]

    def _refusal(self, spec: JobSpec) -> str | None:
        key = (spec.queue, spec.user)
        if key not in self._refusals:
            self._refusals[key] = not_a_member(self._queues, *key, self._groups_of(spec.user))
        return self._refusals[key]

    def _groups_of(self, user: str) -> Collection[str]:
        if user not in self._groups:
            self._groups[user] = self._known_groups(user)
        return self._groups[user]

    def _known_groups(self, user: str) -> Collection[str]:
        """The groups of the user, known only of who submits, as a login of this machine or as a user of the issuer.

        Those of a login are asked for only if a queue has any.
        """
        identity = self._identity
        if identity.user != user or identity.by not in (IdentifiedBy.LOGIN, IdentifiedBy.OIDC):
            return ()
        if identity.by is IdentifiedBy.OIDC:
            return identity.groups
        if not any(member.startswith(GROUP_PREFIX) for queue in self._queues.values() for member in queue.members):
            return ()
        return self._groups_of_login(user)
