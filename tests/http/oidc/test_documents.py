"""How the issuer's documents are read: over TLS that is checked, from where the settings say, within limits."""

import itertools
from pathlib import Path

import pytest

from scheduler.errors import ConfigError, IssuerError
from scheduler.http.auth.oidc.documents import FETCH_SECONDS, IssuerDocuments
from tests.certificates import Authority
from tests.http.oidc.lab import lab_at
from tests.issuer import Issuer


def test_the_certificate_of_the_issuer_is_checked(tmp_path: Path) -> None:
    authority = Authority.made(tmp_path)
    with Issuer(tls=authority.server(tmp_path)).listening() as issuer:
        (tmp_path / "state").mkdir()
        with lab_at(tmp_path / "state", issuer, ca=authority.file) as lab:
            assert lab.whoami(lab.header())["user"] == "ann"
        issuer.asked.clear()
        with pytest.raises(IssuerError, match=r"cannot be asked for its keys: .*certificate verify failed"):
            IssuerDocuments(issuer.url, None, lambda: 0.0).read_keys()
        assert issuer.asked == []


def test_certificates_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    for name, why in (("no.pem", "holds no certificates in PEM"), ("gone.pem", "No such file or directory")):
        with pytest.raises(ConfigError, match=rf"setting oidc\.ca: .*{name}: {why}"):
            IssuerDocuments("https://login.example.org", tmp_path / name, lambda: 0.0)


def test_keys_of_an_issuer_with_tls_come_with_tls(tmp_path: Path) -> None:
    authority = Authority.made(tmp_path)
    with Issuer(tls=authority.server(tmp_path)).listening() as issuer, Issuer().listening() as other:
        issuer.description = {"jwks_uri": f"{other.url}/keys"}
        with pytest.raises(IssuerError, match="its jwks_uri must begin with https://"):
            IssuerDocuments(issuer.url, authority.file, lambda: 0.0).read_keys()
        assert other.asked == []


def test_nobody_is_sent_elsewhere(issuer: Issuer) -> None:
    with Issuer().listening() as other:
        issuer.moved_to = f"{other.url}/.well-known/openid-configuration"
        with pytest.raises(IssuerError, match="answers with status 302"):
            IssuerDocuments(issuer.url, None, lambda: 0.0).read_keys()
        assert other.asked == []


def test_an_issuer_that_sends_byte_by_byte_holds_nobody_for_longer(issuer: Issuer) -> None:
    passes = itertools.chain([0.0], itertools.repeat(FETCH_SECONDS + 1))
    with pytest.raises(IssuerError, match="takes longer than 5 s"):
        IssuerDocuments(issuer.url, None, lambda: next(passes)).read_keys()
