"""The keys of the issuer: asked for when they are needed and not more often, and never at the cost of others."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler.errors import IssuerError
from scheduler.http.auth.oidc import logins
from scheduler.http.auth.oidc.keys import BELIEVED_SECONDS, REFETCH_SECONDS, IssuerKeys
from tests.eventually import eventually
from tests.http.oidc.lab import ADMIN, Lab, bearer, lab_at
from tests.issuer import Issuer, SigningKey


def test_keys_are_asked_for_once_and_again_where_a_token_names_another(lab: Lab) -> None:
    assert lab.issuer.asked == []
    for _ in range(3):
        lab.whoami(lab.header())
    assert len(lab.issuer.asked) == 2, "the description, and the keys"
    old = lab.header()
    lab.issuer.rotate("second", "RS256")
    lab.site.clock.advance(REFETCH_SECONDS)
    assert lab.whoami(lab.header())["user"] == "ann"
    assert "has no key 'first' now" in lab.refused(old), "a key that the issuer has removed opens nothing"
    assert len(lab.issuer.asked) == 4


def test_no_stranger_makes_the_daemon_ask_without_limit(lab: Lab) -> None:
    lab.whoami(lab.header())
    for number in range(50):
        made_up = SigningKey(f"made up {number}", "ES256", lab.issuer.keys[0].private)
        assert f"has no key 'made up {number}' now" in lab.refused(bearer(made_up.sign(lab.claims())))
    assert len(lab.issuer.asked) == 2
    lab.site.clock.advance(REFETCH_SECONDS)
    lab.refused(bearer(made_up.sign(lab.claims())))
    lab.refused(bearer(made_up.sign(lab.claims())))
    assert len(lab.issuer.asked) == 4


def test_who_asks_again_at_once_is_told_that_the_issuer_failed() -> None:
    def away() -> list[object]:
        raise IssuerError("connection refused")

    keys = IssuerKeys(away, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(IssuerError, match="connection refused"):
            keys.fetch()


def test_while_the_issuer_does_not_answer_all_others_are_served_and_it_is_asked_once(lab: Lab) -> None:
    bob = lab.site.user_header("bob")
    lab.issuer.open.clear()
    headers = lab.header()
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(lab.whoami, headers) for _ in range(20)]
        assert lab.issuer.reached.wait(60.0)
        eventually(lambda: lab.site.app.access._oidc._waiting == 20, "they wait for the keys")  # type: ignore[union-attr]
        assert lab.whoami(bob)["user"] == "bob"
        assert lab.whoami(ADMIN)["role"] == "admin"
        assert len(lab.issuer.asked) == 1
        lab.issuer.open.set()
        assert {each.result()["user"] for each in waiting} == {"ann"}
    assert len(lab.issuer.asked) == 2


def test_an_issuer_that_is_away_is_told_and_locks_out_nobody_else(tmp_path: Path) -> None:
    with Issuer().listening() as issuer:
        pass
    with lab_at(tmp_path, issuer) as lab:
        answer = lab.get("/v1/whoami", lab.header())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        message = answer.json()["error"]["message"]
        assert message.startswith(
            f"the token could not be checked: the issuer {issuer.url} cannot be asked for its keys: "
        )
        assert lab.whoami(lab.site.user_header("bob"))["user"] == "bob"
        assert lab.site.issuer is not None
        assert "cannot be asked for its keys" in (lab.site.issuer.upkeep.trouble or "")
        with issuer.listening():
            lab.site.clock.advance(REFETCH_SECONDS)
            assert lab.whoami(lab.header())["user"] == "ann"
        assert lab.site.issuer.upkeep.trouble is None


def test_keys_are_believed_for_a_day_while_the_issuer_is_away(tmp_path: Path) -> None:
    issuer = Issuer()
    with issuer.listening(), lab_at(tmp_path, issuer) as lab:
        lab.whoami(lab.header())
        issuer.answer = b"away"
        lab.site.clock.advance(BELIEVED_SECONDS - 1)
        assert lab.whoami(lab.header())["user"] == "ann"
        lab.site.clock.advance(1)
        assert lab.get("/v1/whoami", lab.header()).status_code == 503


def test_a_look_at_intervals_takes_keys_away_that_the_issuer_has_removed(lab: Lab) -> None:
    headers = lab.header()
    lab.whoami(headers)
    lab.issuer.rotate("second")
    lab.site.clock.advance(REFETCH_SECONDS)
    assert lab.site.issuer is not None
    lab.site.issuer.upkeep.once()
    assert "has no key 'first' now" in lab.refused(headers), "also of a token that was checked before"


def test_a_key_that_takes_the_name_of_another_opens_nothing_that_was_signed_before(lab: Lab) -> None:
    headers = lab.header()
    lab.whoami(headers)
    lab.issuer.rotate("first")
    lab.site.clock.advance(REFETCH_SECONDS)
    assert lab.site.issuer is not None
    lab.site.issuer.upkeep.once()
    assert "its signature is not that of the key first of the issuer" in lab.refused(headers)
    assert lab.whoami(lab.header())["user"] == "ann"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"<html>", "sends no JSON"),
        (b"[]", "sends no JSON object"),
        (b"[" * 100_000, "sends no JSON"),
        (b" " * 600_000, "sends more than 524288 bytes"),
        (b'{"issuer": "https://else.example.org"}', "its description is of the issuer 'https://else.example.org'"),
    ],
)
def test_what_is_no_description_is_told(lab: Lab, answer: bytes, why: str) -> None:
    lab.issuer.answer = answer
    refused = lab.get("/v1/whoami", lab.header())
    assert refused.status_code == 503
    assert why in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        (None, "its description has no jwks_uri"),
        ("http://keys.example.org/", "its jwks_uri must begin with https://; http:// is for loopback only"),
        ("file:///etc/passwd", "its jwks_uri invalid host or port"),
    ],
)
def test_keys_come_from_an_address_that_nobody_can_change_on_the_way(lab: Lab, uri: str | None, why: str) -> None:
    lab.issuer.description = {"jwks_uri": uri}
    assert why in lab.get("/v1/whoami", lab.header()).json()["error"]["message"]


def test_an_issuer_without_a_key_that_can_be_used_is_told(lab: Lab) -> None:
    lab.issuer.published = [{"kty": "oct", "kid": "first", "k": "c2VjcmV0"}]
    assert "publishes no key that can be used" in lab.get("/v1/whoami", lab.header()).json()["error"]["message"]


def test_nobody_waits_for_the_keys_without_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "FETCH_SECONDS", 0.01)
    lab.issuer.open.clear()
    assert lab.get("/v1/whoami", lab.header()).status_code == 503
    lab.issuer.open.set()
    eventually(lambda: len(lab.issuer.asked) == 2, "the keys come later")
    eventually(lambda: lab.get("/v1/whoami", lab.header()).is_success, "they are known then")


def test_only_a_limited_number_waits_for_the_keys(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "WAITING_MAX", 1)
    lab.issuer.open.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lab.whoami, lab.header())
        assert lab.issuer.reached.wait(60.0)
        answer = lab.get("/v1/whoami", lab.header(sub="bob"))
        assert answer.status_code == 503
        assert "the keys of the issuer are not known yet: try again" in answer.json()["error"]["message"]
        lab.issuer.open.set()
        assert waiting.result()["user"] == "ann"


def test_who_waits_for_the_keys_and_goes_ends_the_wait_of_nobody_else(lab: Lab) -> None:
    lab.issuer.open.clear()
    headers = lab.header()
    got: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lab.whoami, headers)
        assert lab.issuer.reached.wait(60.0)
        impatient = threading.Thread(target=lambda: got.append(_cut_off(lab, headers)))
        impatient.start()
        impatient.join()
        lab.issuer.open.set()
        assert waiting.result()["user"] == "ann"
    assert got == ["gone"]


def _cut_off(lab: Lab, headers: dict[str, str]) -> str:
    host, port = lab.site.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        lines = [b"GET /v1/whoami HTTP/1.1", b"host: localhost"]
        lines += [f"{name}: {value}".encode() for name, value in headers.items()]
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
    return "gone"
