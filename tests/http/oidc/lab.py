"""A served site whose users come with tokens of an issuer."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from scheduler.http.auth.oidc import documents, logins
from tests.eventually import SECONDS_MAX
from tests.http.site import TOKEN, Site
from tests.issuer import Issuer

ADMIN = {"authorization": f"Bearer {TOKEN}"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@dataclass
class Lab:
    site: Site
    issuer: Issuer

    def header(self, **claims: Any) -> dict[str, str]:
        """With a token of ann, or as the claims say."""
        return bearer(self.issuer.token(self.site.clock.wall(), **claims))

    def claims(self, **claims: Any) -> dict[str, Any]:
        return self.issuer.claims(self.site.clock.wall(), **claims)

    def get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        return self.site.client.get(path, headers=headers)

    def whoami(self, headers: dict[str, str]) -> dict[str, Any]:
        answer = self.get("/v1/whoami", headers)
        assert answer.status_code == 200, answer.text
        view: dict[str, Any] = answer.json()
        return view

    def refused(self, headers: dict[str, str]) -> str:
        """Why the caller is not let in."""
        answer = self.get("/v1/whoami", headers)
        assert answer.status_code == 401, answer.text
        assert answer.json()["error"]["code"] == "unauthorized"
        message: str = answer.json()["error"]["message"]
        return message


@contextmanager
def lab_at(directory: Path, issuer: Issuer, **settings: Any) -> Iterator[Lab]:
    """`settings`: of its section `oidc`, besides those of the issuer."""
    site = Site(directory, token=TOKEN, oidc=issuer.settings(**settings))
    site.node("a", slots=4)
    site.tick()
    with capture_logs(), site.served(), pytest.MonkeyPatch.context() as patch:
        # Whoever a test holds waits as long as it takes.
        patch.setattr(documents, "STEP_SECONDS", SECONDS_MAX)
        patch.setattr(logins, "FETCH_SECONDS", SECONDS_MAX)
        yield Lab(site, issuer)
    site.close()
