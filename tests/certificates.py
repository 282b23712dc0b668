"""Real certificates: an authority of our own, and what it signs."""

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

#: Longer than any test takes, before and after now.
_VALID = timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """Vouches for certificates; `file` holds its own one."""

    file: Path
    _key: Any
    _name: x509.Name

    @staticmethod
    def made(directory: Path) -> "Authority":
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
        """What a server of this address serves with. `valid`: for how long from now; below zero: not any more."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _begun(_named(address), self._name, key.public_key(), valid)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
            .add_extension(_usage(authority=False), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        file = directory / "server.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


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
