"""Tokens of users: created once, stored as digests, and what their holders may submit and change."""

import hashlib
import os
import pwd
from dataclasses import replace
from typing import Any

import pytest

from scheduler.errors import StoreUnavailable
from scheduler.http.auth.tokens import LOOKS_MAX, TokenBook, digest_of, new_secret
from scheduler.model.identity import TOKEN_PREFIX, Role
from scheduler.model.ids import JobId
from scheduler.model.job_state import JobState
from scheduler.model.world import Changes
from scheduler.store.records import TokenList
from tests.http.site import TOKEN, Site
from tests.store.desk import lead

ADMIN = {"authorization": f"Bearer {TOKEN}"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def created(site: Site, **fields: Any) -> dict[str, Any]:
    answer = site.client.post("/v1/tokens", json={"user": "ann", **fields}, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    token: dict[str, Any] = answer.json()
    return token


def refused(site: Site, headers: dict[str, str]) -> str:
    answer = site.client.get("/v1/jobs", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    message: str = answer.json()["error"]["message"]
    return message


def owner_of(site: Site, job_id: int) -> str:
    user: str = site.client.get(f"/v1/jobs/{job_id}", headers=ADMIN).json()["user"]
    return user


def submitted(site: Site, headers: dict[str, str], **fields: Any) -> int:
    answer = site.client.post("/v1/jobs", json={"command": ["true"], **fields}, headers=headers)
    assert answer.status_code == 201, answer.text
    job_id: int = answer.json()["id"]
    site.submitted.append(JobId(job_id))
    return job_id


def test_a_token_says_who_calls_until_it_is_revoked(guarded: Site) -> None:
    token = created(guarded, role="operator", name="laptop")
    assert token["token"].startswith(TOKEN_PREFIX)
    headers = bearer(token["token"])
    assert guarded.client.get("/v1/whoami", headers=headers).json() == {
        "user": "ann",
        "role": "operator",
        "identified_by": "token",
        "token_id": token["id"],
        "queue": None,
        "jobs_run_as": pwd.getpwuid(os.geteuid()).pw_name,
        "expires_at": None,
    }
    [listed] = guarded.client.get("/v1/tokens", headers=ADMIN).json()["tokens"]
    assert (listed["user"], listed["name"], listed["valid"]) == ("ann", "laptop", True)
    assert guarded.client.delete(f"/v1/tokens/{token['id']}", headers=ADMIN).status_code == 200
    assert refused(guarded, headers).startswith(f"token {token['id']} of ann was revoked")
    assert guarded.client.delete("/v1/tokens/99", headers=ADMIN).status_code == 404


@pytest.mark.parametrize("user", ["", "a b", " ann", "@lab"])
def test_a_token_is_of_one_name_that_is_none_of_a_group(guarded: Site, user: str) -> None:
    answer = guarded.client.post("/v1/tokens", json={"user": user}, headers=ADMIN)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "user")
    for body in ({"command": "true", "user": " ann"}, {"command": "true", "user": "ann "}):
        error = guarded.client.post("/v1/jobs", json=body, headers=ADMIN).json()["error"]
        assert error["message"].startswith("user: must not begin or end with a space, not ")


def test_an_expired_token_is_told_that_it_has_expired(guarded: Site) -> None:
    token = created(guarded, expires_seconds=60)
    headers = bearer(token["token"])
    assert guarded.client.get("/v1/whoami", headers=headers).json()["expires_at"] == token["expires_at"]
    guarded.clock.advance(61)
    assert refused(guarded, headers).startswith(f"token {token['id']} of ann has expired")


def test_other_tokens_are_told_from_none(guarded: Site) -> None:
    assert refused(guarded, {}).startswith("no token: ")
    assert refused(guarded, bearer(new_secret())).startswith("invalid token: ")


def test_only_the_digest_of_a_secret_is_stored_and_looked_up(guarded: Site) -> None:
    token = created(guarded)["token"]
    [stored] = guarded.store.list_tokens().tokens
    assert stored.digest == hashlib.sha256(token.encode()).hexdigest() == digest_of(token.encode())
    assert token not in guarded.client.get("/v1/tokens", headers=ADMIN).text
    assert len({new_secret() for _ in range(100)}) == 100
    found = guarded.tokens.find(token.encode())
    assert found is not None
    assert found.id == stored.id
    assert guarded.tokens.find(token.encode()[:-1]) is None
    assert guarded.tokens.find(stored.digest.encode()) is None


def test_the_first_token_closes_a_daemon_that_was_open(site: Site) -> None:
    assert site.client.get("/v1/whoami").json() == {
        "user": None,
        "role": "admin",
        "identified_by": "nothing",
        "token_id": None,
        "queue": None,
        "jobs_run_as": pwd.getpwuid(os.geteuid()).pw_name,
        "expires_at": None,
    }
    token = site.client.post("/v1/tokens", json={"user": "ann", "role": "admin"}).json()
    assert refused(site, {}).startswith("no token: ")
    assert site.client.delete(f"/v1/tokens/{token['id']}", headers=bearer(token["token"])).status_code == 200
    assert refused(site, {}).startswith("no token: "), "it stays closed when the last token is revoked"


def test_the_first_token_is_an_administrators_where_nobody_else_is_one(site: Site) -> None:
    answer = site.client.post("/v1/tokens", json={"user": "ann"})
    assert answer.status_code == 409
    assert "the first token must have the role admin" in answer.json()["error"]["message"]
    assert site.client.get("/v1/whoami").json()["identified_by"] == "nothing"


def test_a_token_that_was_stored_is_given_though_it_cannot_be_read_back_now(
    guarded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> tuple[int, ...]:
        raise StoreUnavailable("away")

    mark = guarded.tokens._mark
    monkeypatch.setattr(guarded.tokens, "_mark", away)
    headers = bearer(created(guarded)["token"])
    monkeypatch.setattr(guarded.tokens, "_mark", mark)
    guarded.tokens.look()
    assert guarded.client.get("/v1/jobs", headers=headers).status_code == 200


def test_what_another_replica_revokes_is_known_at_the_next_look(guarded: Site) -> None:
    headers = guarded.user_header("ann")
    assert guarded.client.get("/v1/jobs", headers=headers).status_code == 200
    [token] = guarded.store.list_tokens().tokens
    guarded.store.revoke_token(token.id, guarded.clock.now())
    guarded.tokens.look()
    assert "revoked" in refused(guarded, headers)


def test_tokens_are_read_again_after_a_change_and_now_and_then() -> None:
    reads: list[TokenList] = []
    mark = [(0,)]

    def read() -> TokenList:
        reads.append(TokenList((), ()))
        return reads[-1]

    book = TokenBook(read, lambda: mark[0])
    for _ in range(3):
        book.look()
    assert len(reads) == 1
    mark[0] = (1,)
    book.look()
    assert len(reads) == 2
    for _ in range(LOOKS_MAX):
        book.look()
    assert len(reads) == 3, "somebody may have mended a row"


def test_a_job_belongs_to_who_submits_it(guarded: Site) -> None:
    ann = guarded.user_header("ann")
    assert owner_of(guarded, submitted(guarded, {**ann, "x-sched-login": "root"})) == "ann"
    assert owner_of(guarded, submitted(guarded, ann, user="ann")) == "ann"
    operator = guarded.user_header("olga", Role.OPERATOR)
    assert owner_of(guarded, submitted(guarded, operator)) == "olga"
    assert owner_of(guarded, submitted(guarded, operator, user="bob")) == "bob"


def test_who_has_no_name_of_its_own_submits_by_its_login(site: Site) -> None:
    assert owner_of(site, submitted(site, {})) == ""
    assert owner_of(site, submitted(site, {"x-sched-login": "caf%C3%A9"})) == "café"
    assert owner_of(site, submitted(site, {"x-sched-login": "a%0Ab"})) == ""
    assert owner_of(site, submitted(site, {"x-sched-login": "carl"}, user="bob")) == "bob"


@pytest.mark.parametrize(
    ("path", "field", "wrap"),
    [
        ("/v1/jobs", "user", lambda job: job),
        ("/v1/whatif", "user", lambda job: job),
        ("/v1/jobs/batch", "jobs.1.user", lambda job: {"jobs": [{"command": "true"}, job]}),
        ("/v1/recurring", "job.user", lambda job: {"cron": "0 0 1 1 *", "job": job}),
    ],
)
def test_nobody_submits_for_somebody_else(guarded: Site, path: str, field: str, wrap: Any) -> None:
    ann = guarded.user_header("ann")
    guarded.tick()
    answer = guarded.client.post(path, json=wrap({"command": "true", "user": "bob"}), headers=ann)
    assert answer.status_code == 403
    rule = f"{field}: only an operator submits for bob, and you are ann (user): leave it out"
    assert answer.json()["error"] == {"code": "forbidden", "message": rule, "field": field}
    assert guarded.client.get("/v1/jobs", headers=ADMIN).json()["jobs"] == []


def test_a_held_job_is_resumed_by_operators_only(guarded: Site) -> None:
    ann = guarded.user_header("ann")
    job_id = submitted(guarded, ann)
    job, lease = guarded.store.get_job(JobId(job_id)), lead(guarded.store)
    assert job is not None
    held = replace(job, state=JobState.HELD, held_from=JobState.QUEUED)
    guarded.store.commit(Changes(jobs=(held,)), lease, guarded.clock.now())
    assert guarded.client.get(f"/v1/jobs/{job_id}", headers=ann).json()["state"] == JobState.HELD
    answer = guarded.client.post(f"/v1/jobs/{job_id}/resume", headers=ann)
    assert answer.status_code == 403
    assert f"job {job_id} is held: to resume it needs the role operator, and you are ann (user)" in answer.text
    olga = guarded.user_header("olga", Role.OPERATOR)
    assert guarded.client.post(f"/v1/jobs/{job_id}/resume", headers=olga).status_code == 202
