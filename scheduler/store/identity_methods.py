"""What is stored about callers of the API: the tokens of users, and what is recorded of requests."""

from collections.abc import Sequence

from scheduler.model.audit import AuditRecord
from scheduler.model.identity import UserToken
from scheduler.store.database_access import DatabaseAccess
from scheduler.store.records import AuditPage, TokenList
from scheduler.store.requests import audit, queues, tokens


class IdentityMethods(DatabaseAccess):
    """Creates, revokes and reads tokens; adds to the audit and reads it."""

    def add_token(self, token: UserToken) -> int:
        """Store a token under a new id, which is returned. Raises `Conflict` where there are too many.

        Raises `InvalidInput` for a queue that does not exist, unless the token was made from one that names it.
        """
        with self._database.write() as connection:
            if token.queue is not None and token.made_from is None:
                queues.check_named(connection, token.queue)
            return tokens.add(connection, token)

    def revoke_token(self, token_id: int, now: float) -> None:
        """Make a token open nothing from now on. Raises `NotFound`."""
        with self._database.write() as connection:
            tokens.revoke(connection, token_id, now)

    def list_tokens(self) -> TokenList:
        """All tokens by id, also those that expired or were revoked."""
        with self._reading() as (connection, aside):
            return tokens.present(connection, aside)

    def purge_tokens(self, before: float, limit: int) -> int:
        """Remove at most `limit` tokens that have opened nothing since then, and never the newest; how many."""
        with self._database.write() as connection:
            return tokens.purge(connection, before, limit)

    def tokens_mark(self) -> tuple[int, ...]:
        """Another value after each token that was created or revoked, by whichever process."""
        with self._database.read() as connection:
            return tokens.mark(connection)

    def add_audit(self, records: Sequence[AuditRecord]) -> None:
        """Add records to the audit, all or none."""
        if records:
            with self._database.write() as connection:
                audit.add(connection, self._statements, records)

    def page_of_audit(
        self, since: float = 0.0, user: str | None = None, before: int | None = None, limit: int = 100
    ) -> AuditPage:
        """The newest records from `since` on, of this user (None: of all), with ids below `before`."""
        with self._reading() as (connection, aside):
            return audit.page(connection, since, user, before, limit, aside)

    def purge_audit(self, before: float, limit: int) -> int:
        """Remove at most `limit` records that are older; how many. Call again while it reaches `limit`."""
        with self._database.write() as connection:
            return audit.purge(connection, before, limit)
