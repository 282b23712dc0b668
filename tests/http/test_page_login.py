"""How a browser logs in to the live page: a code for one use, and a token that ends with its maker's."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.http.auth import page_codes
from scheduler.http.auth.page_codes import CODE_SECONDS, Asker, PageCodes
from scheduler.http.routes.page_login import PAGE_SECONDS
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.store.requests import tokens
from tests.http.site import TOKEN, Site
from tests.http.test_tokens import ADMIN, bearer

ANN = Identity("ann", Role.USER, IdentifiedBy.TOKEN, token_id=3)


def code_for(site: Site, headers: dict[str, str]) -> Any:
    answer = site.client.post("/v1/page-codes", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["code"]


def logged_in(site: Site, code: str) -> dict[str, Any]:
    answer = site.client.post("/v1/page-tokens", json={"code": code})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_code_logs_in_once_as_who_asked_for_it_and_ends_with_its_token(guarded: Site) -> None:
    code = code_for(guarded, guarded.user_header("ann", Role.OPERATOR))
    page = logged_in(guarded, code)
    assert page["expires_at"] == guarded.clock.wall() + PAGE_SECONDS
    whoami = guarded.client.get("/v1/whoami", headers=bearer(page["token"])).json()
    assert (whoami["user"], whoami["role"]) == ("ann", "operator")
    again = guarded.client.post("/v1/page-tokens", json={"code": code})
    assert again.status_code == 401
    assert "the code was used, or is older than 60 s: use sched page again" in again.text
    assert guarded.client.delete("/v1/tokens/1", headers=ADMIN).status_code == 200
    refused = guarded.client.get("/v1/whoami", headers=bearer(page["token"]))
    assert "was revoked" in refused.text


def test_a_page_is_logged_in_no_longer_than_its_maker(guarded: Site) -> None:
    page = logged_in(guarded, code_for(guarded, guarded.user_header("ann", seconds=60)))
    assert page["expires_at"] == guarded.clock.wall() + 60
    second = code_for(guarded, bearer(page["token"]))
    assert logged_in(guarded, second)["expires_at"] == page["expires_at"]
    guarded.clock.advance(61)
    assert guarded.client.get("/v1/jobs", headers=bearer(page["token"])).status_code == 401


def test_a_page_that_a_page_logged_in_is_revoked_with_the_first(guarded: Site) -> None:
    first = logged_in(guarded, code_for(guarded, guarded.user_header("ann")))
    second = logged_in(guarded, code_for(guarded, bearer(first["token"])))
    assert guarded.client.delete("/v1/tokens/1", headers=ADMIN).status_code == 200
    assert guarded.client.get("/v1/jobs", headers=bearer(second["token"])).status_code == 401


def test_who_has_no_name_gets_its_own_token(guarded: Site) -> None:
    assert logged_in(guarded, code_for(guarded, ADMIN)) == {"token": TOKEN, "expires_at": None}
    assert guarded.client.get("/v1/tokens", headers=ADMIN).json()["tokens"] == []


def test_a_daemon_without_tokens_needs_no_code_and_stays_open(site: Site) -> None:
    assert code_for(site, {}) is None
    assert site.client.get("/v1/jobs").status_code == 200


def test_strangers_get_no_code_and_guesses_open_nothing(guarded: Site) -> None:
    assert guarded.client.post("/v1/page-codes").status_code == 401
    assert guarded.client.post("/v1/page-tokens", json={"code": "x"}).status_code == 401
    assert guarded.client.post("/v1/page-tokens", json={}).status_code == 422


def test_a_code_opens_nothing_once_its_token_was_revoked(guarded: Site) -> None:
    code = code_for(guarded, guarded.user_header("ann"))
    assert guarded.client.delete("/v1/tokens/1", headers=ADMIN).status_code == 200
    answer = guarded.client.post("/v1/page-tokens", json={"code": code})
    assert answer.status_code == 401, answer.text
    assert [token["id"] for token in guarded.client.get("/v1/tokens", headers=ADMIN).json()["tokens"]] == [1]


def test_no_token_is_made_from_one_that_another_replica_revoked_just_now(guarded: Site) -> None:
    code = code_for(guarded, guarded.user_header("ann"))
    guarded.store.revoke_token(1, guarded.clock.wall())
    answer = guarded.client.post("/v1/page-tokens", json={"code": code})
    assert (answer.status_code, "token 1 was revoked, or has expired" in answer.text) == (401, True)


def test_one_user_has_so_many_pages_and_keeps_nobody_from_tokens(
    guarded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 3)
    ann, bob = (guarded.user_header(user, Role.VIEWER) for user in ("ann", "bob"))
    pages = [logged_in(guarded, code_for(guarded, ann))["token"] for _ in range(tokens.PAGE_TOKENS_MAX + 2)]
    opened = [guarded.client.get("/v1/jobs", headers=bearer(page)).status_code for page in pages]
    assert opened == [401, 401] + [200] * tokens.PAGE_TOKENS_MAX
    logged_in(guarded, code_for(guarded, bob))
    third = guarded.client.post("/v1/tokens", json={"user": "eve", "role": "viewer"}, headers=ADMIN)
    assert third.status_code == 201, third.text


def test_the_audit_names_who_logged_in(guarded: Site) -> None:
    logged_in(guarded, code_for(guarded, guarded.user_header("ann")))
    guarded.audit.write()
    records = guarded.client.get("/v1/audit", headers=ADMIN).json()["records"]
    assert [record["object"] for record in records if record["route"] == "/v1/page-tokens"] == ["login of ann"]


def asker(user: str, *, known: bool = True) -> Asker:
    return Asker(replace(ANN, user=user), None, lambda: known)


def test_a_code_is_good_for_a_minute_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, ann = PageCodes(), asker("ann")
    early, late = codes.create(ann, 0.0), codes.create(ann, 1.0)
    assert codes.use(early, CODE_SECONDS) is None
    assert codes.use(late, CODE_SECONDS) == ann
    assert codes.use(late, CODE_SECONDS) is None
    assert codes.use(codes.create(asker("ann", known=False), 0.0), 1.0) is None
    monkeypatch.setattr(page_codes, "CODES_MAX", 2)
    first, second, third = (codes.create(asker(user), 0.0) for user in "abc")
    assert [codes.use(code, 1.0) for code in (first, second, third)] == [None, asker("b"), asker("c")]


def test_codes_of_one_user_push_out_none_of_another() -> None:
    codes = PageCodes()
    of_ann = codes.create(asker("ann"), 0.0)
    of_bob = [codes.create(asker("bob"), 0.0) for _ in range(2000)]
    assert codes.use(of_ann, 1.0) == asker("ann")
    used = [codes.use(code, 1.0) for code in of_bob]
    assert used == [None] * (2000 - page_codes.CODES_OF_ONE_MAX) + [asker("bob")] * page_codes.CODES_OF_ONE_MAX
