"""Attacks with tokens of OpenID Connect: forged, stolen from elsewhere, out of date, or made to break the reader."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.http.auth.oidc.claims import LEEWAY_SECONDS, TOKEN_BYTES_MAX
from scheduler.http.auth.stranger import Stranger
from scheduler.model.identity import Role
from tests.http.oidc.lab import ADMIN, Lab, bearer, lab_at
from tests.issuer import Issuer, SigningKey, signed, with_secret

DAY = 86400.0
TEXTS = st.text(max_size=40) | st.sampled_from(["RS256", "ES256", "none", "first", "JWT"])
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXTS, st.lists, max_leaves=5)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().listening() as listening:
        yield listening


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One for all attacks: the issuer signs with an RSA and an EC key, and its keys are known."""
    keys = [SigningKey.new("rsa", "RS256"), SigningKey.new("first", "ES256")]
    with Issuer(keys).listening() as issuer, lab_at(tmp_path_factory.mktemp("lab"), issuer) as served:
        assert served.whoami(served.header())["user"] == "ann"
        yield served


def refused(lab: Lab, token: str) -> str:
    """Why, in one line that repeats nothing of the token but its key; and nobody was asked for anything."""
    before = len(lab.issuer.asked)
    message = lab.refused(bearer(token))
    assert message.isprintable()
    assert token not in message
    assert len(lab.issuer.asked) == before
    return message


@pytest.mark.parametrize("none", ["none", "None", "NONE", "nOnE", "", None, 0, ["none"], {"ES256": 1}])
def test_a_token_without_a_signature_is_refused(lab: Lab, none: Any) -> None:
    token = signed({"alg": none, "kid": "first"}, lab.claims(), lambda _: b"")
    assert "its signature (alg) must be one of ES256, " in refused(lab, token)
    assert "its signature (alg) must be one of" in refused(lab, signed({"kid": "first"}, lab.claims(), lambda _: b""))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("form", ["pem", "line", "jwk"])
def test_a_public_key_is_no_secret(lab: Lab, algorithm: str, form: str) -> None:
    """The key confusion: a signature by a secret, for which the public key is taken."""
    for key in lab.issuer.keys:
        secret = json.dumps(key.public_jwk()).encode() if form == "jwk" else key.public_pem()
        token = signed(
            {"alg": algorithm, "kid": key.kid}, lab.claims(), with_secret(secret.strip() if form == "line" else secret)
        )
        assert "its signature (alg) must be one of" in refused(lab, token)


def test_a_secret_that_the_issuer_publishes_by_mistake_opens_nothing(tmp_path: Path) -> None:
    key = SigningKey.new("good")
    shared = {"kty": "oct", "kid": "shared", "alg": "HS256", "k": base64.urlsafe_b64encode(b"s" * 32).decode()}
    published = [shared, key.public_jwk()]
    with Issuer([key], published=published).listening() as issuer, lab_at(tmp_path, issuer) as lab:
        for algorithm in ("HS256", "ES256"):
            token = signed({"alg": algorithm, "kid": "shared"}, lab.claims(), with_secret(b"s" * 32))
            assert lab.refused(bearer(token)).startswith("invalid token: ")
        assert lab.whoami(lab.header())["user"] == "ann"


def test_the_signature_of_another_key_is_refused(lab: Lab) -> None:
    for key in lab.issuer.keys:
        other = SigningKey.new(key.kid, key.algorithm)
        assert f"its signature is not that of the key {key.kid} of the issuer" in refused(lab, other.sign(lab.claims()))
    rsa, first = lab.issuer.keys
    message = refused(lab, SigningKey("rsa", "ES256", first.private).sign(lab.claims()))
    assert "the key rsa is for RS256, not for ES256" in message
    assert "the key rsa is for RS256, not for PS256" in refused(
        lab, SigningKey("rsa", "PS256", rsa.private).sign(lab.claims())
    )


@pytest.mark.parametrize("claims", [{"sub": "root"}, {"groups": ["root"]}, {"exp": 10**10}])
def test_what_was_signed_cannot_be_changed(lab: Lab, claims: dict[str, Any]) -> None:
    header, _, signature = lab.issuer.token(lab.site.clock.wall()).split(".")
    changed = signed({}, lab.claims(**claims), lambda _: b"").split(".")[1]
    assert "its signature is not that of the key first" in refused(lab, f"{header}.{changed}.{signature}")


def test_a_token_brings_no_keys_of_its_own(lab: Lab) -> None:
    with Issuer([SigningKey.new("evil")]).listening() as foreign:
        [evil] = foreign.keys
        for kid in ("first", "evil"):
            for header in (
                {"jwk": evil.public_jwk(kid=kid)},
                {"jku": f"{foreign.url}/keys"},
                {"x5u": f"{foreign.url}/keys"},
                {"x5c": ["MIIB"], "jku": f"{foreign.url}/keys", "jwk": evil.public_jwk(kid=kid)},
            ):
                message = lab.refused(bearer(evil.sign(lab.claims(), kid=kid, **header)))
                assert message.startswith("invalid token: ")
        assert foreign.asked == []


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://else.example.org"}, "it is from somebody else: its issuer (iss) must be http://127.0.0.1:"),
        ({"iss": None}, "it has no claim iss"),
        ({"iss": 7}, "it is from somebody else"),
        ({"aud": "another program"}, "it is for others: its audience (aud) must be sched"),
        ({"aud": ["another", "Sched", "sched "]}, "it is for others"),
        ({"aud": {"sched": True}}, "it is for others"),
        ({"aud": []}, "it has no claim aud"),
        ({"aud": None}, "it has no claim aud"),
        ({"exp": None}, "it has no claim exp"),
        ({"exp": "9999999999"}, "its claim exp is no time in unix seconds"),
        ({"exp": True}, "its claim exp is no time in unix seconds"),
        ({"exp": float("inf")}, "its claim exp is no time in unix seconds"),
        ({"exp": float("nan")}, "its claim exp is no time in unix seconds"),
        ({"exp": 1e300}, "its claim exp is no time in unix seconds"),
        ({"exp": 10**400}, "its claim exp is no time in unix seconds"),
        ({"exp": -1}, "its claim exp is no time in unix seconds"),
        ({"nbf": "soon"}, "its claim nbf is no time in unix seconds"),
        ({"iat": [1]}, "its claim iat is no time in unix seconds"),
        ({"sub": None}, "it names no user: the claim sub (oidc.user_claim) is missing or no text"),
        ({"sub": ""}, "it names no user"),
        ({"sub": 7}, "it names no user"),
        ({"sub": ["ann"]}, "it names no user"),
        ({"sub": "@lab"}, "the name in its claim sub begins with @, as groups do among members"),
        ({"sub": "an\nn"}, "the name in its claim sub has more than 128 or unprintable characters"),
        ({"sub": "ann\u202e"}, "the name in its claim sub has more than 128 or unprintable characters"),
        ({"sub": "\ud800"}, "the name in its claim sub has more than 128 or unprintable characters"),
        ({"sub": "a" * 129}, "the name in its claim sub has more than 128 or unprintable characters"),
        ({"groups": {"root": 1}}, "its claim groups is no list of at most 1000 groups"),
        ({"groups": ["ml", 7]}, "its claim groups is no list of at most 1000 groups"),
        ({"groups": ["g"] * 1001}, "its claim groups is no list of at most 1000 groups"),
    ],
)
def test_a_token_that_is_signed_must_be_from_this_issuer_for_us_and_of_somebody(
    lab: Lab, claims: dict[str, Any], why: str
) -> None:
    message = refused(lab, lab.issuer.token(lab.site.clock.wall(), **claims))
    assert message.startswith("invalid token: ")
    assert why in message


def test_a_token_opens_while_it_is_valid_and_not_before_or_after(tmp_path: Path, issuer: Issuer) -> None:
    with lab_at(tmp_path, issuer, token_seconds_max=DAY) as lab:
        now = lab.site.clock.wall()
        for claims, why in (
            ({"exp": now - LEEWAY_SECONDS}, "the token of ann has expired: get a new one from the issuer"),
            ({"nbf": now + LEEWAY_SECONDS + 1}, "the token of ann is not valid yet"),
            ({"iat": now + LEEWAY_SECONDS + 1}, "the token of ann is not valid yet"),
            ({"exp": now + DAY + LEEWAY_SECONDS + 1}, "the token of ann is valid for too long: oidc.token_seconds_max"),
            ({"exp": 10**10}, "the token of ann is valid for too long"),
        ):
            assert why in lab.refused(lab.header(**claims))
        lab.whoami(lab.header(exp=now - LEEWAY_SECONDS + 1))
        lab.whoami(lab.header(nbf=now + LEEWAY_SECONDS, iat=now + LEEWAY_SECONDS))
        lab.whoami(lab.header(exp=now + DAY + LEEWAY_SECONDS))
        headers = lab.header(exp=now + 60)
        lab.whoami(headers)
        lab.site.clock.advance(60 + LEEWAY_SECONDS)
        assert "has expired" in lab.refused(headers), "also one that was checked before"
        lab.site.audit.write(last=True)
        assert "ann" in {record["user"] for record in lab.get("/v1/audit", ADMIN).json()["records"]}


def test_nobody_takes_the_name_of_who_has_a_token_of_our_own(tmp_path: Path, issuer: Issuer) -> None:
    with lab_at(tmp_path, issuer) as lab:
        headers = lab.header()
        lab.whoami(headers)
        own = lab.site.user_header("ann", Role.ADMIN)
        assert lab.refused(headers) == (
            "ann has token 1 of this daemon: use it, or ask an administrator to revoke it or to set oidc.user_prefix"
        )
        assert lab.whoami(own)["role"] == "admin"
        assert lab.whoami(lab.header(sub="bob"))["user"] == "bob"
        assert lab.site.client.delete("/v1/tokens/1", headers=ADMIN).is_success
        assert lab.whoami(headers)["role"] == "user"


@pytest.mark.parametrize(
    "kid",
    [
        *(None, "", 7, ["first"], {"first": 1}, "first\n", "fir\x00st", "first\r\nx-sched: 1"),
        *("\u202efirst", "f" * 257, "\ud800", "fürst"),
    ],
)
def test_odd_names_of_keys_are_refused_in_one_line(lab: Lab, kid: Any) -> None:
    token = lab.issuer.keys[-1].sign(lab.claims(), kid=kid)
    assert "its header must name a key (kid) in printable ASCII" in refused(lab, token)


def test_a_token_without_the_name_of_a_key_means_the_only_one(tmp_path: Path, lab: Lab) -> None:
    for key in lab.issuer.keys:
        assert lab.whoami(bearer(key.sign_without_kid(lab.claims())))["user"] == "ann"
        other = SigningKey.new(key.kid, key.algorithm).sign_without_kid(lab.claims())
        assert f"its signature is not that of the only key for {key.algorithm} of the issuer" in refused(lab, other)
    two = [SigningKey.new("first"), SigningKey.new("second")]
    with Issuer(two).listening() as issuer, lab_at(tmp_path, issuer) as several:
        assert several.whoami(several.header())["user"] == "ann"
        for key in two:
            message = refused(several, key.sign_without_kid(several.claims()))
            assert message.endswith(f"its key (kid): the issuer {issuer.url} has 2 keys for ES256 now")


@pytest.mark.parametrize("kid", ["../../keys/first", "first' OR '1'='1", "%s%n{0}", "first ", "FIRST", "https://x/"])
def test_names_of_keys_are_no_paths_or_queries(lab: Lab, kid: str) -> None:
    message = lab.refused(bearer(lab.issuer.keys[-1].sign(lab.claims(), kid=kid)))
    assert f"has no key {kid!r} now" in message
    assert lab.whoami(lab.header())["user"] == "ann"


@pytest.mark.parametrize(
    "header", [{"crit": ["exp"], "exp": 1}, {"crit": []}, {"b64": False}, {"b64": False, "crit": ["b64"]}]
)
def test_extensions_that_nobody_here_knows_are_refused(lab: Lab, header: dict[str, Any]) -> None:
    token = lab.issuer.keys[-1].sign(lab.claims(), **header)
    assert "its header asks for extensions (crit)" in refused(lab, token)


def test_tokens_that_are_too_long_or_nested_without_end_are_refused(lab: Lab) -> None:
    padded = lab.issuer.token(lab.site.clock.wall(), padding="x" * TOKEN_BYTES_MAX)
    assert f"it is longer than {TOKEN_BYTES_MAX} bytes" in refused(lab, padded)
    nested = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 9000).rstrip(b"=").decode()
    assert "its first one is no JSON" in refused(lab, f"{nested}.e30.e30")
    deep = json.loads("[" * 900 + "]" * 900)
    assert lab.get("/v1/whoami", lab.header(deep=deep)).status_code in (200, 401)


def test_weak_keys_of_the_issuer_open_nothing(tmp_path: Path) -> None:
    weak = SigningKey("weak", "RS256", rsa.generate_private_key(65537, 1024))
    with Issuer([weak, SigningKey.new("good")]).listening() as issuer, lab_at(tmp_path, issuer) as lab:
        assert lab.whoami(lab.header())["user"] == "ann"
        assert "has no key 'weak' now" in lab.refused(bearer(weak.sign(lab.claims())))


def test_a_key_of_the_issuer_for_something_else_than_signing_opens_nothing(tmp_path: Path) -> None:
    good, other = SigningKey.new("good"), SigningKey.new("other")
    for use, opens in (("enc", False), ("sig", True)):
        with Issuer([good], published=[good.public_jwk(), other.public_jwk(use=use)]).listening() as issuer:
            (tmp_path / use).mkdir()
            with lab_at(tmp_path / use, issuer) as lab:
                assert lab.whoami(lab.header())["user"] == "ann"
                answer = lab.get("/v1/whoami", bearer(other.sign(lab.claims())))
                assert answer.is_success is opens


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk"]), JSON) | JSON,
    claims=st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "groups"]), JSON) | JSON,
    signature=st.binary(max_size=80),
)
def test_whatever_has_three_parts_is_refused_and_breaks_nothing(
    lab: Lab, header: Any, claims: Any, signature: bytes
) -> None:
    found = lab.site.access.identify(b"Bearer " + signed(header, claims, lambda _: signature).encode())
    assert isinstance(found, Stranger)
    assert found.why.isprintable()


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "groups", "email"]), JSON))
def test_whatever_the_issuer_signs_makes_a_user_or_a_clear_refusal(lab: Lab, claims: dict[str, Any]) -> None:
    said = {**lab.claims(), **claims}
    found = lab.site.access.identify(b"Bearer " + lab.issuer.keys[-1].sign(said).encode())
    if isinstance(found, Stranger):
        assert found.why.isprintable()
    else:
        assert (found.user, found.role) == (said["sub"], Role.USER)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), min_size=3, max_size=3))
def test_whatever_bytes_stand_between_two_points_are_refused(lab: Lab, parts: list[bytes]) -> None:
    found = lab.site.access.identify(b"Bearer " + b".".join(parts))
    assert isinstance(found, Stranger)
    assert found.why.isprintable()
