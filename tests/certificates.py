"""Real certificates: an authority of our own, what it signs, and one that vouches for itself."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

#: Before and after now; far enough that none is near its end.
_VALID = timedelta(days=30)


@dataclass(frozen=True)
class Authority:
    """Vouches for certificates; `file` holds its own one."""

    file: Path
    _key: Any
    _name: x509.Name

    @staticmethod
    def made(directory: Path) -> "Authority":
        directory.mkdir(exist_ok=True)
        name, key = _named("an authority of the tests"), ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _begun(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_usage(authority=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        file = directory / "authority.pem"
        file.write_bytes(certificate.public_bytes(Encoding.PEM))
        return Authority(file, key, name)

    def server(self, directory: Path, address: str = "127.0.0.1", valid: timedelta = _VALID) -> ssl.SSLContext:
        """What a server of this address serves with. `valid`: as of `issue`."""
        pair = self.issue(directory, address, valid)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    def issue(
        self, directory: Path, name: str = "127.0.0.1", valid: timedelta = _VALID, file: str = "server"
    ) -> "Pair":
        """A certificate for this address or name, in `FILE.pem`, and its key in `FILE.key`."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _begun(_named(name), self._name, key.public_key(), valid)
            .add_extension(_alternative(name), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
            .add_extension(_usage(authority=False), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        return Pair.written(directory, certificate, key)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path

    @staticmethod
    def written(directory: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> "Pair":
        """In place of what was there, each file at once, as whatever renews certificates does it."""
        directory.mkdir(exist_ok=True)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pair = Pair(directory / "tls.pem", directory / "tls.key")
        for file, text in ((pair.key, private), (pair.certificate, certificate.public_bytes(Encoding.PEM))):
            new = file.with_suffix(".new")
            new.touch(mode=0o600)
            new.write_bytes(text)
            new.replace(file)
        return pair

    @property
    def settings(self) -> dict[str, Path]:
        """Of `[http]`."""
        return {"tls_certificate": self.certificate, "tls_key": self.key}


def self_signed(directory: Path, name: str = "127.0.0.1") -> Pair:
    """A certificate that vouches for itself, as it is made by hand."""
    key = ec.generate_private_key(ec.SECP256R1())
    begun = _begun(_named(name), _named(name), key.public_key()).add_extension(_alternative(name), False)
    return Pair.written(directory, begun.sign(key, hashes.SHA256()), key)


def _alternative(name: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(name)])


def _begun(
    name: x509.Name, by: x509.Name, public: ec.EllipticCurvePublicKey, valid: timedelta = _VALID
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + valid)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=authority, crl_sign=authority, **never)
