"""Which certificates are served, what is wrong with others in one line, and how a new one replaces the last."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from scheduler.clock import VirtualClock
from scheduler.config import HttpSettings
from scheduler.daemon.certificates import NEAR_END_SECONDS, Certificates, open_certificates
from scheduler.errors import ConfigError
from tests.certificates import Authority, Pair, self_signed

URL = "https://127.0.0.1:8470"
YEAR = timedelta(days=365)


def opened(clock: VirtualClock | None = None, url: str = URL, **settings: Any) -> Certificates:
    found = open_certificates(HttpSettings(**settings), url, (clock or VirtualClock()).now)
    assert found is not None
    return found


def refused(*parts: object, url: str = URL, **settings: Any) -> None:
    """What is told in one line has all of these parts."""
    with pytest.raises(ConfigError) as told:
        opened(url=url, **settings)
    assert "\n" not in str(told.value)
    for part in parts:
        assert str(part) in str(told.value)


def test_without_a_certificate_there_is_no_tls() -> None:
    assert open_certificates(HttpSettings(), "http://127.0.0.1:1", VirtualClock().now) is None


def test_a_private_authority_is_handed_to_workers_and_so_is_a_certificate_that_vouches_for_itself(
    tmp_path: Path, authority: Authority
) -> None:
    signed = opened(**authority.issue(tmp_path).settings, tls_ca=authority.file)
    assert signed.variables() == {"SCHED_CA": str(authority.file)}
    assert signed.pod_variables() == {"SCHED_CA_DATA": authority.file.read_text().strip()}
    own = self_signed(tmp_path / "self")
    assert opened(**own.settings).variables() == {"SCHED_CA": str(own.certificate)}
    assert opened(**own.settings).pod_variables() == {"SCHED_CA_DATA": own.certificate.read_text().strip()}


def test_one_of_an_authority_of_the_system_needs_no_more(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = authority.issue(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert opened(**pair.settings).variables() == opened(**pair.settings).pod_variables() == {}
    monkeypatch.setenv("SSL_CERT_FILE", str(self_signed(tmp_path / "self").certificate))
    refused("http.tls_certificate", pair.certificate, "with http.tls_ca", **pair.settings)


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({"tls_certificate": "a"}, "tls_key"),
        ({"tls_key": "a"}, "tls_certificate"),
        ({"tls_ca": "a"}, "tls_certificate"),
        ({"tls_certificate": "a", "tls_key": "a", "tls_client_ca": "a"}, "tls_client_certificate"),
        ({"tls_certificate": "a", "tls_key": "a", "tls_client_certificate": "a"}, "tls_client_key"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, str], needed: str) -> None:
    refused(f"setting http.{needed}: is required with http.tls_", **given)


def change(pair: Pair, authority: Authority, how: str) -> dict[str, object]:
    """Break something of a good pair; other settings that go with that."""
    match how:
        case "no file":
            pair.certificate.unlink()
        case "no key":
            pair.key.unlink()
        case "no certificate":
            pair.certificate.write_text("certificate")
        case "no private key":
            pair.key.write_text("key")
        case "key of another":
            pair.key.write_bytes(authority.issue(pair.key.parent / "else").key.read_bytes())
        case "encrypted":
            key = load_pem_private_key(pair.key.read_bytes(), None)
            hidden = BestAvailableEncryption(b"secret")
            pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
        case "open to all":
            pair.key.chmod(0o644)
        case "of a group":
            pair.key.chmod(0o640)
        case "expired":
            authority.issue(pair.key.parent, valid=timedelta(hours=-1))
        case "of another address":
            authority.issue(pair.key.parent, name="10.0.0.1")
        case "of another authority":
            return {"tls_ca": Authority.made(pair.key.parent / "else").file}
        case "no authority":
            return {"tls_ca": pair.key}
    return {}


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("no file", ("http.tls_certificate: {certificate}: No such file or directory",)),
        ("no key", ("http.tls_key: {key}: No such file or directory",)),
        ("no certificate", ("http.tls_certificate: {certificate}: holds no certificate in PEM",)),
        ("no private key", ("http.tls_key: {key}: is no private key in PEM",)),
        ("key of another", ("http.tls_key: {key}: does not belong to the certificate in {certificate}",)),
        ("encrypted", ("http.tls_key: {key}: is encrypted: the daemon has no password for it",)),
        ("open to all", ("http.tls_key: {key}: all users of this machine can read it (mode 644): chmod 640 it",)),
        ("expired", ("http.tls_certificate: {certificate}: certificate has expired: renew it",)),
        (
            "of another address",
            (
                "{certificate}: IP address mismatch",
                "not valid for '127.0.0.1'",
                "unless http.workers_url is the address",
            ),
        ),
        ("of another authority", ("http.tls_ca", "does not vouch for {certificate}")),
        ("no authority", ("http.tls_ca: {key}: holds no certificates in PEM",)),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said_in_one_line(
    tmp_path: Path, authority: Authority, how: str, parts: tuple[str, ...]
) -> None:
    pair = authority.issue(tmp_path / "pair")
    settings = {**pair.settings, "tls_ca": authority.file, **change(pair, authority, how)}
    refused(*(part.format(certificate=pair.certificate, key=pair.key) for part in parts), **settings)


def test_a_group_may_read_the_key(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue(tmp_path / "pair")
    change(pair, authority, "of a group")
    opened(**pair.settings, tls_ca=authority.file)


def test_a_certificate_for_a_name_goes_with_the_address_of_workers(tmp_path: Path, authority: Authority) -> None:
    settings = {**authority.issue(tmp_path, name="gpu.example.org").settings, "tls_ca": authority.file}
    refused("not valid for '127.0.0.1'", **settings)
    opened(**settings, workers_url="https://gpu.example.org:8470")


def test_certificates_of_clients_must_be_of_the_authority_that_is_asked_for(
    tmp_path: Path, authority: Authority
) -> None:
    server, client = authority.issue(tmp_path / "server"), authority.issue(tmp_path / "client", name="worker")
    settings = {**server.settings, "tls_ca": authority.file}
    settings |= {"tls_client_certificate": client.certificate, "tls_client_key": client.key}
    found = opened(**settings, tls_client_ca=authority.file)
    assert found.variables()["SCHED_CERT"] == str(client.certificate)
    assert found.variables()["SCHED_KEY"] == str(client.key)
    other = Authority.made(tmp_path / "other").file
    refused(
        "http.tls_client_certificate", client.certificate, "is not accepted", other, **settings, tls_client_ca=other
    )
    refused(f"http.tls_client_ca: {server.key}: holds no certificates in PEM", **settings, tls_client_ca=server.key)


def test_a_renewed_certificate_is_taken_at_the_next_look_and_what_is_unchanged_is_not_read(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.issue(tmp_path / "pair")
    certificates = opened(**pair.settings, tls_ca=authority.file, clock=clock_before(pair))
    first, ends_at = certificates.context, certificates.ends_at
    certificates.look()
    assert certificates.context is first
    authority.issue(tmp_path / "pair", valid=YEAR)
    certificates.look()
    assert certificates.context is not first
    assert certificates.ends_at > ends_at


def clock_before(pair: Pair) -> VirtualClock:
    """The machine's clock as far before now as no certificate is near its end."""
    return VirtualClock(pair.certificate.stat().st_mtime - NEAR_END_SECONDS)


@pytest.mark.parametrize("how", ["no file", "no certificate", "key of another", "open to all", "expired"])
def test_what_cannot_be_used_leaves_the_last_certificate_until_it_can(
    tmp_path: Path, authority: Authority, how: str
) -> None:
    pair = authority.issue(tmp_path / "pair")
    certificates = opened(**pair.settings, tls_ca=authority.file, clock=clock_before(pair))
    first = certificates.context
    change(pair, authority, how)
    for _ in range(2):
        certificates.upkeep.once()
        assert (certificates.upkeep.trouble or "").startswith("certificate: http.tls_")
        assert certificates.context is first
    authority.issue(tmp_path / "pair")
    certificates.upkeep.once()
    assert certificates.upkeep.trouble is None
    assert certificates.context is not first


def test_links_are_followed_as_kubernetes_swaps_them(tmp_path: Path, authority: Authority) -> None:
    """A secret volume: `tls.pem` leads to `..data/tls.pem`, and `..data` to a directory that is replaced as a whole."""
    for name in ("first", "second"):
        authority.issue(tmp_path / name)
    data = tmp_path / "data"
    data.symlink_to("first")
    pair = Pair(tmp_path / "tls.pem", tmp_path / "tls.key")
    for file in (pair.certificate, pair.key):
        file.symlink_to(data / file.name)
    certificates = opened(**pair.settings, tls_ca=authority.file, clock=clock_before(pair))
    first = certificates.context
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").replace(data)
    certificates.look()
    assert certificates.context is not first


def test_one_that_ends_soon_is_a_trouble_until_it_is_renewed(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue(tmp_path / "pair")
    clock = clock_before(pair)
    certificates = opened(**pair.settings, tls_ca=authority.file, clock=clock)
    certificates.upkeep.once()
    assert certificates.upkeep.trouble is None
    clock.advance(certificates.ends_at - clock.now() - NEAR_END_SECONDS + 1)
    certificates.upkeep.once()
    assert f"{pair.certificate}: ends at " in (certificates.upkeep.trouble or "")
    authority.issue(tmp_path / "pair", valid=YEAR)
    certificates.upkeep.once()
    assert certificates.upkeep.trouble is None


def test_so_is_the_one_that_workers_show(tmp_path: Path, authority: Authority) -> None:
    server = authority.issue(tmp_path / "server", valid=YEAR)
    client = authority.issue(tmp_path / "client", name="worker", valid=timedelta(seconds=NEAR_END_SECONDS / 2))
    settings = {**server.settings, "tls_ca": authority.file, "tls_client_ca": authority.file}
    settings |= {"tls_client_certificate": client.certificate, "tls_client_key": client.key}
    certificates = opened(**settings, clock=VirtualClock(client.certificate.stat().st_mtime))
    certificates.upkeep.once()
    assert f"http.tls_client_certificate: {client.certificate}: ends at " in (certificates.upkeep.trouble or "")
    authority.issue(tmp_path / "client", name="worker")
    certificates.upkeep.once()
    assert certificates.upkeep.trouble is None


def test_a_key_beside_the_certificates_of_an_authority_is_not_handed_on(tmp_path: Path, authority: Authority) -> None:
    pair = authority.issue(tmp_path / "pair")
    both = tmp_path / "both.pem"
    both.write_bytes(pair.key.read_bytes() + authority.file.read_bytes())
    assert "PRIVATE KEY" not in opened(**pair.settings, tls_ca=both).pod_variables()["SCHED_CA_DATA"]
