"""An issuer of OpenID Connect on a real socket: its description, its keys, which can be rotated, and its tokens."""

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "sched"
DESCRIPTION = "/.well-known/openid-configuration"
#: Of tokens, from when they are made.
TOKEN_SECONDS = 600
_NEW_KEY: dict[str, Callable[[], Any]] = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "PS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


@dataclass
class SigningKey:
    """A private key with the name and the algorithm under which its public half is published."""

    kid: str
    algorithm: str
    private: Any

    @staticmethod
    def new(kid: str, algorithm: str = "ES256") -> "SigningKey":
        return SigningKey(kid, algorithm, _NEW_KEY[algorithm]())

    def public_jwk(self, **members: Any) -> dict[str, Any]:
        document = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        return {**document, "kid": self.kid, "use": "sig", "alg": self.algorithm, **members}

    def public_pem(self) -> bytes:
        pem: bytes = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A token. `header`: more of its header, or other than is right."""
        return signed({"alg": self.algorithm, "typ": "JWT", "kid": self.kid, **header}, claims, self._signature)

    def sign_without_kid(self, claims: dict[str, Any]) -> str:
        """A token that does not say which key it is signed with."""
        return signed({"alg": self.algorithm, "typ": "JWT"}, claims, self._signature)

    def _signature(self, content: bytes) -> bytes:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return algorithm.sign(content, algorithm.prepare_key(self.private))


def signed(header: dict[str, Any], claims: Any, signature: Callable[[bytes], bytes]) -> str:
    """A token of any header, claims and signature."""
    content = b".".join(_part(json.dumps(each).encode()) for each in (header, claims))
    return (content + b"." + _part(signature(content))).decode()


def with_secret(secret: bytes) -> Callable[[bytes], bytes]:
    """The signature HS256, which whoever knows the secret can make."""
    return lambda content: hmac.new(secret, content, hashlib.sha256).digest()


def _part(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


@dataclass
class Issuer:
    """Use it as `with Issuer().listening() as issuer`."""

    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey.new("first")])
    port: int = 0
    #: What it serves with; None: without TLS.
    tls: ssl.SSLContext | None = None
    #: What it publishes in place of its keys; None: these.
    published: list[Any] | None = None
    #: Members of its description other than they should be.
    description: dict[str, Any] = field(default_factory=dict)
    #: In place of every answer; None: what was asked for.
    answer: bytes | None = None
    #: Where it sends everybody who asks; None: nowhere.
    moved_to: str | None = None
    #: The paths that were asked for.
    asked: list[str] = field(default_factory=list)
    #: Cleared: requests for keys are held until it is set.
    open: threading.Event = field(default_factory=threading.Event)
    #: Set when a request has come.
    reached: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.open.set()

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}/lab"

    def settings(self, **others: Any) -> dict[str, Any]:
        """Of a daemon that believes it."""
        return {"issuer": self.url, "audience": AUDIENCE, "default_role": "user", **others}

    def claims(self, now: float, **others: Any) -> dict[str, Any]:
        """Of a token for ann. `others`: None leaves a claim out."""
        said = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": int(now), "exp": int(now) + TOKEN_SECONDS}
        return {name: value for name, value in {**said, **others}.items() if value is not None}

    def token(self, now: float, **others: Any) -> str:
        """As `claims`, signed with the newest key."""
        return self.keys[-1].sign(self.claims(now, **others))

    def rotate(self, kid: str, algorithm: str = "ES256") -> None:
        """Publish a new key, by which tokens are signed from now on, and no other."""
        self.keys = [SigningKey.new(kid, algorithm)]

    @contextmanager
    def listening(self) -> Iterator["Issuer"]:
        """On the port of before, if there was one."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = issuer._answer_to(self.path)
                self.send_response(404 if body is None else 200 if issuer.moved_to is None else 302)
                if issuer.moved_to is not None:
                    self.send_header("location", issuer.moved_to)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = server.server_port
        if self.tls is not None:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.open.set()
            server.shutdown()
            thread.join()
            server.server_close()

    def _answer_to(self, path: str) -> bytes | None:
        self.asked.append(path)
        self.reached.set()
        self.open.wait()
        if self.answer is not None:
            return self.answer
        if path == f"/lab{DESCRIPTION}":
            return json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.description}).encode()
        if path != "/lab/keys":
            return None
        keys = [key.public_jwk() for key in self.keys] if self.published is None else self.published
        return json.dumps({"keys": keys}).encode()
