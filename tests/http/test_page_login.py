"""How a browser logs in to the live page: a code for one use, and a token that ends with its maker's."""

from typing import Any

import pytest

from scheduler.http.auth import page_codes
from scheduler.http.auth.page_codes import CODE_SECONDS, Asker, PageCodes
from scheduler.http.routes.page_login import PAGE_SECONDS
from scheduler.model.identity import IdentifiedBy, Identity, Role
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


def test_a_code_is_good_for_a_minute_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = PageCodes()
    early, late = codes.create(ANN, 0.0), codes.create(ANN, 1.0)
    assert codes.use(early, CODE_SECONDS) is None
    assert codes.use(late, CODE_SECONDS) == Asker(ANN, None)
    assert codes.use(late, CODE_SECONDS) is None
    monkeypatch.setattr(page_codes, "CODES_MAX", 2)
    first, second, third = (codes.create(ANN, 0.0) for _ in range(3))
    assert [codes.use(code, 1.0) for code in (first, second, third)] == [None, Asker(ANN, None), Asker(ANN, None)]
