"""Tokens of users in the store, on both databases."""

from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

from scheduler.errors import Conflict, NotFound
from scheduler.model.identity import Role, UserToken
from scheduler.store import SqlStore
from scheduler.store.requests import tokens
from scheduler.store.sql.database import Database
from tests.store.desk import NOW

TOKEN = UserToken(0, "ann", Role.USER, "laptop", "00ff", NOW, "root", expires_at=NOW + 60)


def test_tokens_are_read_as_they_were_stored(store: SqlStore) -> None:
    first = store.add_token(TOKEN)
    forever = replace(TOKEN, digest="01", role=Role.ADMIN, name="", created_by="", expires_at=None)
    second = store.add_token(forever)
    assert store.list_tokens().tokens == (replace(TOKEN, id=first), replace(forever, id=second))


def test_the_first_revocation_counts_and_of_an_unknown_token_there_is_none(store: SqlStore) -> None:
    token_id = store.add_token(TOKEN)
    store.revoke_token(token_id, NOW + 1)
    store.revoke_token(token_id, NOW + 2)
    assert store.list_tokens().tokens == (replace(TOKEN, id=token_id, revoked_at=NOW + 1),)
    with pytest.raises(NotFound, match=f"token {token_id + 1} not found"):
        store.revoke_token(token_id + 1, NOW)


def test_the_mark_changes_with_each_change(store: SqlStore) -> None:
    marks = [store.tokens_mark()]
    token_id = store.add_token(TOKEN)
    marks.append(store.tokens_mark())
    store.revoke_token(token_id, NOW)
    marks.append(store.tokens_mark())
    assert len(set(marks)) == len(marks)
    assert store.tokens_mark() == marks[-1]


def test_there_is_a_limit_on_tokens_that_are_valid(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 1)
    token_id = store.add_token(TOKEN)
    with pytest.raises(Conflict, match="1 tokens already"):
        store.add_token(replace(TOKEN, digest="01"))
    store.revoke_token(token_id, NOW)
    second = store.add_token(replace(TOKEN, digest="01"))
    assert second > token_id
    assert store.add_token(replace(TOKEN, digest="02", created_at=NOW + 60)) > second, "the second has expired by then"


def test_those_that_open_nothing_are_removed_but_never_the_newest(store: SqlStore) -> None:
    revoked, expired, young, newest = (store.add_token(replace(TOKEN, digest=f"{n}")) for n in range(4))
    forever = store.add_token(replace(TOKEN, digest="9", expires_at=None))
    store.revoke_token(revoked, NOW + 1)
    store.revoke_token(young, NOW + 61)
    assert store.purge_tokens(NOW + 60, 10) == 1
    assert store.purge_tokens(NOW + 61, 10) == 2
    assert [token.id for token in store.list_tokens().tokens] == [young, forever]
    store.revoke_token(forever, NOW + 1)
    assert store.purge_tokens(NOW + 1000, 10) == 1
    assert [token.id for token in store.list_tokens().tokens] == [forever], "it says that there were tokens"
    assert expired != newest


def test_one_that_cannot_be_read_is_named_and_the_others_are_read(store: SqlStore, database_url: str) -> None:
    broken = store.add_token(TOKEN)
    whole = store.add_token(replace(TOKEN, digest="01"))
    engine = create_engine(Database(database_url).url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE tokens SET created_at = -5 WHERE id = :id"), {"id": broken})
    engine.dispose()
    found = store.list_tokens()
    assert [token.id for token in found.tokens] == [whole]
    assert [str(row) for row in found.unreadable] == [f"tokens {broken}: created_at: must be from 0 to 1e+12, not -5.0"]
