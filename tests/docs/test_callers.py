"""Who may call which route: what the page says is what a guarded daemon does."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from docs.generate.http_api import callers
from scheduler.http.app import routes
from scheduler.model.ids import JobId
from tests.http.site import Site

TOKEN = "0123456789abcdef"
CALLS = [(method.upper(), path) for path, methods in routes().openapi()["paths"].items() for method in methods]
OPEN = {
    "anyone": (True, True, True),
    **dict.fromkeys(
        (
            *("viewers", "users", "operators", "administrators", "viewers and Prometheus"),
            "users, and operators for what belongs to somebody else",
        ),
        (False, True, False),
    ),
    "viewers and the job's workers": (False, True, True),
    "operators, known by a token or their login, and the job's workers": (False, True, True),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with a token, on which job 1 runs."""
    site = Site(tmp_path_factory.mktemp("guarded"), token=TOKEN)
    site.node("a", slots=4)
    user = {"authorization": f"Bearer {TOKEN}"}
    with capture_logs(), site.served():
        site.submitted.append(JobId(site.client.post("/v1/jobs", json={"command": "true"}, headers=user).json()["id"]))
        site.advance(1)
        yield site
    site.close()


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_route_is_open_to_those_whom_the_page_names(guarded: Site, method: str, path: str) -> None:
    filled = path.format(job_id=1, worker_id="1-1", name="nowhere", recurring_id="r9", token_id=99, path="q")
    if path == "/v1/live":
        filled += "?wait=0"
    nobody: dict[str, str] = {}
    headers = (nobody, {"authorization": f"Bearer {TOKEN}"}, guarded.worker_header(JobId(1)))
    # A body that no route takes: whoever is let in is told so, and nothing changes.
    body = None if method in ("GET", "DELETE") else {"no such field": 1}
    found = tuple(
        guarded.client.request(method, filled, headers=each, json=body).status_code not in (401, 403)
        for each in headers
    )
    assert found == OPEN[callers(method, path)]
