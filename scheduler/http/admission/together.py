"""Jobs of one or several requests, checked and stored together: one durable commit serves them all."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.errors import InvalidInput, UserError
from scheduler.http.admission.owner import Submitter
from scheduler.http.admission.pods import check_pods
from scheduler.http.admission.queues import Placed, into_queues_of
from scheduler.http.admission.supported import check_policy
from scheduler.http.routes.bookings import check_bookings
from scheduler.http.services import Services
from scheduler.model.client_key import broken_key_rule
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from scheduler.model.queue import Queue
from scheduler.store.records import Submitted


@dataclass(frozen=True, slots=True)
class Asked:
    """The jobs of one request. Raises `InvalidInput` for a job whose client key has a reserved prefix."""

    submitter: Submitter
    specs: Placed

    def __post_init__(self) -> None:
        for place, spec in self.specs.items():
            if (rule := broken_key_rule(spec.client_key)) is not None:
                raise InvalidInput(f"{place}client_key", rule)


#: The jobs of a request in their order, or why it is refused.
Outcome = list[Submitted] | UserError


def store_together(services: Services, asked: Sequence[Asked]) -> list[Outcome]:
    """Store the jobs that are new of each request whose jobs every rule allows: all of a request or none.

    A retry under a known client key gives the first job, although the rules may have changed since that was submitted.
    """
    if len(asked) == 1 or not _share_a_key(asked):
        try:
            return _stored(services, asked)
        except UserError as refused:  # it may be by one of them, and refuses none of the others
            if len(asked) == 1:
                return [refused]
    return [outcome for each in asked for outcome in store_together(services, [each])]


def _stored(services: Services, asked: Sequence[Asked]) -> list[Outcome]:
    known = services.store.find_submitted([spec for each in asked for spec in each.specs.values()])
    queues = services.store.list_queues()
    checked = [_checked(services, each, known, queues) for each in asked]
    fresh = [spec for each in checked if not isinstance(each, UserError) for spec in each.values()]
    submitted = services.store.submit(fresh, services.clock.now())
    new = [job.id for job in submitted if job.created]
    if new:
        services.stored(new)
    left = iter(submitted)
    again = {key: Submitted(job_id, created=False) for key, job_id in known.items()}
    outcomes: list[Outcome] = []
    for each, specs in zip(asked, checked, strict=True):
        if isinstance(specs, UserError):
            outcomes.append(specs)
            continue
        stored = {place: next(left) for place in specs}
        outcomes.append([stored.get(place) or again[spec.client_key or ""] for place, spec in each.specs.items()])
    return outcomes


def _checked(
    services: Services, asked: Asked, known: dict[str, JobId], queues: Sequence[Queue]
) -> dict[str, JobSpec] | UserError:
    """The jobs of the request that are new, each in its queue; or the rule that one of all its jobs breaks."""
    try:
        fresh = {place: spec for place, spec in asked.specs.items() if spec.client_key not in known}
        if fresh:
            fresh = into_queues_of(queues, services, asked.submitter, fresh)
            check_bookings(services, fresh)
            check_policy(services.settings.policy, fresh)
            check_pods(services.settings, fresh)
    except UserError as refused:
        return refused
    return fresh


def _share_a_key(asked: Sequence[Asked]) -> bool:
    """Whether two jobs have one client key, which may be of different users then."""
    keys = [spec.client_key for each in asked for spec in each.specs.values() if spec.client_key is not None]
    return len(set(keys)) < len(keys)
