"""Whether a recurring job may be submitted at the time that is due: as its submitter could submit it then."""

from collections.abc import Callable, Collection
from dataclasses import replace

from scheduler.http.admission.owner import Submitter
from scheduler.http.admission.queues import QueueRules
from scheduler.http.auth.authorize import check_role, forbidden
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.store.records import Recurring
from scheduler.store.sqlstore import SqlStore

#: Of recurring jobs that were created before it was stored by whom: only limits of their queues hold for them.
_UNKNOWN = Identity(None, Role.ADMIN, IdentifiedBy.CONFIGURED)


def check_run(store: SqlStore, entry: Recurring, wall: float, groups_of: Callable[[str], Collection[str]]) -> None:
    """Raise what a submission of the job by its submitter would be refused with at `wall`.

    `groups_of` gives the groups of a login. Those of a user of an issuer are known as of the creation.
    """
    submitter = _at(store, entry.submitter or _UNKNOWN, wall)
    check_role(submitter, Role.USER, "submitting")
    Submitter(submitter).claim(entry.spec)
    queues = {queue.path: queue for queue in store.list_queues()}
    QueueRules(queues, submitter, groups_of).into_queue(entry.spec)


def _at(store: SqlStore, submitter: Identity, wall: float) -> Identity:
    """The submitter with the rights of that moment: of users with tokens, those of their valid tokens."""
    if submitter.by is not IdentifiedBy.TOKEN:
        return submitter
    tokens = [token for token in store.list_tokens().tokens if token.user == submitter.user]
    roles = [token.role for token in tokens if token.why_not(wall) is None]
    if not roles:
        raise forbidden(f"{submitter.user} has no valid token any more: create one, or cancel the recurring job")
    return replace(submitter, role=max(roles, key=list(Role).index))
