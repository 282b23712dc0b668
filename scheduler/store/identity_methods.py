"""What is stored about callers of the API: the tokens of users."""

from scheduler.model.identity import UserToken
from scheduler.store.database_access import DatabaseAccess
from scheduler.store.records import TokenList
from scheduler.store.requests import tokens


class IdentityMethods(DatabaseAccess):
    """Creates, revokes and reads tokens."""

    def add_token(self, token: UserToken) -> int:
        """Store a token under a new id, which is returned. Raises `Conflict` where there are too many."""
        with self._database.write() as connection:
            return tokens.add(connection, token)

    def revoke_token(self, token_id: int, now: float) -> None:
        """Make a token open nothing from now on. Raises `NotFound`."""
        with self._database.write() as connection:
            tokens.revoke(connection, token_id, now)

    def list_tokens(self) -> TokenList:
        """All tokens by id, also those that expired or were revoked."""
        with self._reading() as (connection, aside):
            return tokens.present(connection, aside)

    def tokens_mark(self) -> tuple[int, ...]:
        """Another value after each token that was created or revoked, by whichever process."""
        with self._database.read() as connection:
            return tokens.mark(connection)
