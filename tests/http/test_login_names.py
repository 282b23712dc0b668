"""Logins of users of the daemon's machine, as they are looked up for its UNIX socket."""

import asyncio

import pytest

from scheduler.http.auth.login_names import NAME_SECONDS, NO_NAME_SECONDS, LoginNames


def test_a_login_is_looked_up_once_for_a_while_and_kept_while_it_cannot_be_asked_for() -> None:
    answers: list[str | None] = ["ann", None, "anna"]
    asked: list[int] = []

    def look_up(uid: int) -> str | None:
        asked.append(uid)
        return answers.pop(0)

    names = LoginNames(look_up)

    def name_at(now: float) -> str:
        asyncio.run(names.learn(1001, now))
        return names.name(1001)

    assert [name_at(0.0), name_at(NAME_SECONDS - 1)] == ["ann", "ann"]
    assert asked == [1001]
    assert name_at(NAME_SECONDS) == "ann", "the directory is away"
    assert name_at(NAME_SECONDS + NO_NAME_SECONDS) == "anna"
    assert asked == [1001] * 3


@pytest.mark.parametrize("uid", [4_294_000_000])
def test_who_has_no_login_goes_by_number_and_is_asked_for_again_soon(uid: int) -> None:
    names = LoginNames()
    asyncio.run(names.learn(uid, 0.0))
    assert names.name(uid) == f"uid:{uid}"
