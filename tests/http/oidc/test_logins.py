"""Who comes with a token of the issuer: a user as any other, with the role and queue of their groups."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import OidcSettings
from scheduler.daemon.issuer import open_issuer
from scheduler.errors import ConfigError
from scheduler.http.auth.oidc.claims import LEEWAY_SECONDS
from scheduler.http.auth.tokens import NO_TOKENS, new_token
from scheduler.model.identity import PAGE_NAME, Role
from scheduler.model.ids import JobId
from tests.http.oidc.lab import ADMIN, Lab, bearer, lab_at
from tests.http.test_live import Stream
from tests.issuer import TOKEN_SECONDS, Issuer, SigningKey


def submitted(lab: Lab, headers: dict[str, str], **fields: Any) -> dict[str, Any]:
    answer = lab.site.client.post("/v1/jobs", json={"command": ["true"], **fields}, headers=headers)
    assert answer.status_code == 201, answer.text
    lab.site.submitted.append(JobId(answer.json()["id"]))
    job: dict[str, Any] = lab.get(f"/v1/jobs/{answer.json()['id']}", ADMIN).json()
    return job


def test_a_token_of_the_issuer_says_who_calls_beside_our_own(lab: Lab) -> None:
    assert lab.whoami(lab.header()) == {
        "user": "ann",
        "role": "user",
        "identified_by": "oidc",
        "token_id": None,
        "expires_at": int(lab.site.clock.wall()) + TOKEN_SECONDS,
        "queue": None,
        "jobs_run_as": pwd.getpwuid(os.geteuid()).pw_name,
    }
    assert lab.whoami(ADMIN)["identified_by"] == "http.token"
    assert lab.whoami(lab.site.user_header("bob"))["identified_by"] == "token"
    assert lab.refused({}).startswith("no token: ")


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
@pytest.mark.parametrize("named", [True, False])
def test_each_kind_of_key_opens_whether_it_names_its_algorithm_or_not(
    tmp_path: Path, algorithm: str, named: bool
) -> None:
    key = SigningKey.new("k", algorithm)
    document = key.public_jwk()
    if not named:
        del document["alg"]
    with Issuer([key], published=[document]).listening() as issuer, lab_at(tmp_path, issuer) as lab:
        assert lab.whoami(lab.header())["user"] == "ann"


def test_an_issuer_whose_only_key_has_no_name_signs_tokens_that_name_none(tmp_path: Path) -> None:
    key = SigningKey.new("k")
    document = key.public_jwk()
    del document["kid"]
    with Issuer([key], published=[document]).listening() as issuer, lab_at(tmp_path, issuer) as lab:
        assert lab.whoami(bearer(key.sign_without_kid(lab.claims())))["user"] == "ann"
        assert "has no key 'k' now" in lab.refused(lab.header())


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"realm_access": {"roles": ["ml"]}}, "operator"),
        ({"realm_access.roles": ["ml"]}, "operator"),
        ({"realm_access.roles": [], "realm_access": {"roles": ["ml"]}}, "viewer"),
        ({"realm_access": {"roles": "ml"}}, "operator"),
        ({"realm_access": {"groups": ["ml"]}}, "viewer"),
        ({"realm_access": ["ml"]}, "viewer"),
        ({"roles": ["ml"]}, "viewer"),
    ],
)
def test_a_claim_inside_others_is_named_with_dots(tmp_path: Path, claims: dict[str, Any], role: str) -> None:
    named = {"user_claim": "person.name", "groups_claim": "realm_access.roles", "default_role": "viewer"}
    with Issuer().listening() as issuer, lab_at(tmp_path, issuer, **named, roles={"ml": "operator"}) as lab:
        seen = lab.whoami(lab.header(person={"name": "eve"}, **claims))
        assert (seen["user"], seen["role"]) == ("eve", role)
        assert "the claim person.name (oidc.user_claim) is missing" in lab.refused(lab.header(person="eve"))
        assert "its claim realm_access.roles is no list" in lab.refused(
            lab.header(person={"name": "eve"}, realm_access={"roles": {"ml": True}})
        )


def test_keys_that_cannot_be_used_keep_no_other_from_being_used(lab: Lab) -> None:
    good = lab.issuer.keys[0]
    lab.issuer.published = [
        *(None, 7, "key", {}, {"kid": 3, "kty": "RSA"}, {"kid": "x", "kty": ["RSA"]}, {"kid": "x", "kty": "RSA"}),
        *({"kid": "x", "kty": "RSA", "n": "!", "e": "AQAB"}, {"kid": "x", "kty": "EC", "crv": "P-256", "x": "a"}),
        *({"kid": "x", "kty": "oct", "k": "c2VjcmV0"}, {"kid": "x", "kty": "EC", "crv": {}}, {"kid": "\u202e"}),
        *(good.public_jwk(kid="y", alg="HS256"), good.public_jwk(kid="y", alg=7), good.public_jwk(use="enc")),
        good.public_jwk(),
    ]
    assert lab.whoami(lab.header())["user"] == "ann"


def test_jobs_belong_to_the_user_and_the_audit_names_them(lab: Lab) -> None:
    job = submitted(lab, lab.header())
    assert job["user"] == "ann"
    other = lab.site.client.post(f"/v1/jobs/{job['id']}/cancel", headers=lab.header(sub="bob"))
    assert other.status_code == 403
    assert "only ann or an operator may change it, and you are bob (user)" in other.text
    assert lab.site.client.post(f"/v1/jobs/{job['id']}/cancel", headers=lab.header()).is_success
    forbidden = lab.site.client.post(
        "/v1/jobs", json={"command": ["true"], "user": "ann"}, headers=lab.header(sub="bob")
    )
    assert forbidden.status_code == 403
    lab.site.audit.write(last=True)
    records = lab.get("/v1/audit", ADMIN).json()["records"]
    assert sorted((each["user"], each["known_by"], each["status"]) for each in records) == [
        ("ann", "oidc", 201),
        ("ann", "oidc", 202),
        ("bob", "oidc", 403),
        ("bob", "oidc", 403),
    ]


def test_limits_count_by_user(tmp_path: Path, issuer: Issuer) -> None:
    with lab_at(tmp_path, issuer) as lab:
        headers = lab.header()
        lab.whoami(headers)
        assert "the name of ann" in {str(caller) for caller in lab.site.app.throttle._accounts}


def test_groups_give_the_role_that_may_do_most_and_the_queue_that_comes_first(tmp_path: Path, issuer: Issuer) -> None:
    roles = {"staff": "viewer", "ml": "user", "on call": "operator", "root": "admin"}
    queues = {"vision": "lab/vision", "ml": "lab"}
    with lab_at(tmp_path, issuer, roles=roles, queues=queues, default_role=None) as lab:
        for groups, role, queue in (
            (["staff"], "viewer", None),
            (["ml", "staff"], "user", "lab"),
            (["ml", "vision", "on call"], "operator", "lab/vision"),
            ("root", "admin", None),
            (["root", "staff", "nothing here"], "admin", None),
        ):
            view = lab.whoami(lab.header(groups=groups))
            assert (view["role"], view["queue"]) == (role, queue), groups
        for none in ([], ["nothing here"], ["Root"], None):
            assert lab.refused(lab.header(groups=none)) == (
                "no group of ann has a role here: an administrator sets oidc.roles or oidc.default_role"
            )


def test_jobs_go_to_the_queue_of_the_groups_and_groups_are_members(tmp_path: Path, issuer: Issuer) -> None:
    with lab_at(tmp_path, issuer, queues={"vision": "lab"}) as lab:
        for path, members in (("lab", ["@vision"]), ("audio", ["@audio"])):
            made = lab.site.client.post("/v1/queues", json={"path": path, "members": members}, headers=ADMIN)
            assert made.status_code == 201, made.text
        assert submitted(lab, lab.header(groups=["vision"]))["queue"] == "lab"
        assert submitted(lab, lab.header(groups=["audio"]))["queue"] == "audio"
        assert submitted(lab, lab.header())["queue"] is None
        body = {"command": ["true"], "queue": "audio"}
        assert lab.site.client.post("/v1/jobs", json=body, headers=lab.header(groups=["vision"])).status_code == 403


def test_names_come_from_the_claim_and_with_the_prefix_that_the_settings_name(tmp_path: Path, issuer: Issuer) -> None:
    with lab_at(tmp_path, issuer, user_claim="email", user_prefix="sso:", groups_claim="https://x/teams") as lab:
        headers = lab.header(email="ann@example.org", **{"https://x/teams": ["ml"]})
        assert lab.whoami(headers)["user"] == "sso:ann@example.org"
        assert lab.whoami(lab.header(email="ann@example.org", email_verified=True))["user"] == "sso:ann@example.org"
        for verified in (False, "true", 1):
            message = lab.refused(lab.header(email="ann@example.org", email_verified=verified))
            assert message == "invalid token: the issuer has not verified the address in its claim email"


def test_a_stream_ends_with_the_token(lab: Lab) -> None:
    with lab.site.client.stream("GET", "/v1/live", headers=lab.header()) as answer:
        stream = Stream(answer)
        assert stream.message()[0] == "picture"
        lab.site.clock.advance(TOKEN_SECONDS + LEEWAY_SECONDS)
        with pytest.raises(AssertionError, match="the stream has ended"):
            stream.next_with("nothing has this")


def test_a_page_is_logged_in_with_the_token_of_its_user(lab: Lab) -> None:
    headers = lab.header()
    code = lab.site.client.post("/v1/page-codes", headers=headers).json()["code"]
    page = lab.site.client.post("/v1/page-tokens", json={"code": code}).json()
    assert bearer(page["token"]) == headers
    assert page["expires_at"] == lab.whoami(headers)["expires_at"]
    assert lab.site.store.list_tokens().tokens == ()


def test_a_page_that_a_user_opened_by_the_socket_keeps_them_out_of_nothing(lab: Lab) -> None:
    now = lab.site.clock.wall()
    for name, status in ((PAGE_NAME, 200), ("laptop", 401)):
        _, token = new_token("ann", Role.USER, name, now=now, created_by="ann", expires_at=now + 60)
        lab.site.store.add_token(token)
        lab.site.tokens.look()
        assert lab.get("/v1/whoami", lab.header()).status_code == status


def test_an_issuer_needs_an_audience_and_an_address_that_nobody_can_change_on_the_way(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"setting oidc\.audience: is required with oidc\.issuer"):
        open_issuer(OidcSettings(issuer="https://login.example.org"), NO_TOKENS, lambda: 0.0)
    broken = OidcSettings(issuer="https://login.example.org", audience="sched", ca=tmp_path / "gone.pem")
    with pytest.raises(ConfigError, match=r"setting oidc\.ca: .*gone\.pem: No such file"):
        open_issuer(broken, NO_TOKENS, lambda: 0.0)
    with pytest.raises(ValueError, match="must begin with https://"):
        OidcSettings(issuer="http://login.example.org", audience="sched")
