"""Tokens of users. A revoked one stays for a while, so that whoever still sends it is told why it opens nothing."""

from sqlalchemy import ColumnElement, Connection, func, insert, select

from scheduler.errors import Conflict, NotFound
from scheduler.model.identity import PAGE_NAME, UserToken
from scheduler.store.codec.reading import SetAside
from scheduler.store.codec.rows import token_from_row
from scheduler.store.records import TokenList
from scheduler.store.sql.identity_tables import tokens

#: Most tokens that are valid, without those of live pages: every daemon keeps all of them in memory.
TOKENS_MAX = 10_000
#: Most tokens that the live pages of one user have; with another one, the oldest is removed.
PAGE_TOKENS_MAX = 20
_NOT_REVOKED = tokens.c.revoked_at.is_(None)
_OF_PAGE = (tokens.c.name == PAGE_NAME) & (tokens.c.created_by == tokens.c.user_name)
_MARK = select(func.count(), func.max(tokens.c.id), func.count(tokens.c.revoked_at)).select_from(tokens)


def add(connection: Connection, token: UserToken) -> int:
    """Store it under a new id, which is returned.

    Raises `Conflict` where there are too many, or where that from which it is made opens nothing any more.
    """
    unexpired = _unexpired(token.created_at)
    if token.made_from is not None:
        origin = select(tokens.c.id).where(tokens.c.id == token.made_from, _NOT_REVOKED, unexpired)
        if connection.execute(origin.with_for_update()).first() is None:
            raise Conflict(f"token {token.made_from} was revoked, or has expired")
    if token.of_page:
        _make_room_for_page(connection, token.user)
    else:
        valid = select(func.count()).select_from(tokens).where(_NOT_REVOKED, unexpired, ~_OF_PAGE)
        if connection.execute(valid).scalar_one() >= TOKENS_MAX:
            raise Conflict(f"there are {TOKENS_MAX:,} tokens already: revoke those that nobody needs")
    row = {
        "user_name": token.user,
        "role": token.role.value,
        "name": token.name,
        "digest": token.digest,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "made_from": token.made_from,
        "queue": token.queue,
    }
    return int(connection.execute(insert(tokens).values(row).returning(tokens.c.id)).scalar_one())


def _make_room_for_page(connection: Connection, user: str) -> None:
    mine = select(tokens.c.id).where(_OF_PAGE, tokens.c.user_name == user).order_by(tokens.c.id.desc())
    over = list(connection.execute(mine.offset(PAGE_TOKENS_MAX - 1)).scalars())
    connection.execute(tokens.delete().where(tokens.c.id.in_(over)))


def naming(connection: Connection, queue: str, now: float) -> list[tuple[int, str]]:
    """Id and user of the tokens that open something and whose queue it is, without those that were made from them."""
    columns = (tokens.c.id, tokens.c.user_name, tokens.c.made_from)
    mine = select(*columns).where(tokens.c.queue == queue, _NOT_REVOKED, _unexpired(now)).order_by(tokens.c.id)
    rows = connection.execute(mine).all()
    ids = {row.id for row in rows}
    return [(row.id, row.user_name) for row in rows if row.made_from not in ids]


def _unexpired(now: float) -> ColumnElement[bool]:
    return tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now)


def revoke(connection: Connection, token_id: int, now: float) -> None:
    """Make it, and those that were made from it, open nothing from now on; the first revocation counts.

    Raises `NotFound`.
    """
    mine = tokens.c.id == token_id
    connection.execute(select(tokens.c.id).where(mine).with_for_update())  # none is made from it meanwhile
    with_it = mine | (tokens.c.made_from == token_id)
    if connection.execute(tokens.update().where(with_it, _NOT_REVOKED).values(revoked_at=now)).rowcount:
        return
    if connection.execute(select(tokens.c.id).where(mine)).first() is None:
        raise NotFound(f"token {token_id} not found: see sched token list")


def purge(connection: Connection, before: float, limit: int) -> int:
    """Remove at most `limit` tokens that have opened nothing since then; how many. The newest of all stays.

    So it is never forgotten that there were tokens.
    """
    over = func.coalesce(tokens.c.revoked_at, tokens.c.expires_at) < before
    newest = select(func.max(tokens.c.id)).scalar_subquery()
    old = select(tokens.c.id).where(over, tokens.c.id != newest).limit(limit)
    return connection.execute(tokens.delete().where(tokens.c.id.in_(old))).rowcount


def present(connection: Connection, aside: SetAside) -> TokenList:
    """All of them, by id."""
    found = tuple(aside.read(tokens, connection.execute(select(tokens).order_by(tokens.c.id)), token_from_row))
    return TokenList(found, tuple(aside.rows))


def mark(connection: Connection) -> tuple[int, ...]:
    """Another one after each token that was created or revoked."""
    return tuple(value or 0 for value in connection.execute(_MARK).one())
