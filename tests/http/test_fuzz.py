"""The API against its own description: whatever is sent, no defect shows, and every answer is as documented."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks
from structlog.testing import capture_logs

from scheduler.model.ids import JobId
from tests.eventually import SECONDS_MAX
from tests.http.site import TOKEN, Site

EXAMPLES_PER_CALL = 10
#: 503 says that there is no list of hosts now; any other 5xx is a defect.
UNAVAILABLE = 503

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.allow_header_conformance,
]

CALLS = [
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("POST", "/v1/jobs/batch"),
    ("POST", "/v1/whatif"),
    ("GET", "/v1/jobs/{job_id}"),
    ("PATCH", "/v1/jobs/{job_id}"),
    ("GET", "/v1/jobs/{job_id}/workers"),
    ("POST", "/v1/jobs/{job_id}/cancel"),
    ("POST", "/v1/jobs/{job_id}/suspend"),
    ("POST", "/v1/jobs/{job_id}/resume"),
    ("GET", "/v1/jobs/{job_id}/explain"),
    ("GET", "/v1/jobs/{job_id}/whatif"),
    ("GET", "/v1/explain"),
    ("GET", "/v1/jobs/{job_id}/logs"),
    ("GET", "/v1/jobs/{job_id}/discover_hosts"),
    ("POST", "/v1/jobs/{job_id}/workers/{worker_id}"),
    ("POST", "/v1/jobs/{job_id}/workers/{worker_id}/shards"),
    ("GET", "/v1/events"),
    ("GET", "/v1/nodes"),
    ("POST", "/v1/nodes/{name}/cordon"),
    ("POST", "/v1/nodes/{name}/uncordon"),
    ("POST", "/v1/nodes/{name}/drain"),
    ("GET", "/v1/bookings"),
    ("POST", "/v1/bookings"),
    ("GET", "/v1/bookings/{name}"),
    ("DELETE", "/v1/bookings/{name}"),
    ("GET", "/v1/queues"),
    ("POST", "/v1/queues"),
    ("GET", "/v1/queues/{path}"),
    ("PUT", "/v1/queues/{path}"),
    ("PATCH", "/v1/queues/{path}"),
    ("DELETE", "/v1/queues/{path}"),
    ("GET", "/v1/recurring"),
    ("POST", "/v1/recurring"),
    ("GET", "/v1/recurring/{recurring_id}"),
    ("DELETE", "/v1/recurring/{recurring_id}"),
    ("GET", "/v1/cluster"),
    ("GET", "/v1/utilization"),
    ("GET", "/v1/report"),
    ("GET", "/v1/usage"),
    ("GET", "/v1/webhooks"),
    ("GET", "/v1/whoami"),
    ("GET", "/v1/tokens"),
    ("GET", "/v1/audit"),
    ("POST", "/v1/tokens"),
    ("POST", "/v1/page-codes"),
    ("POST", "/v1/page-tokens"),
    ("DELETE", "/v1/tokens/{token_id}"),
    ("GET", "/v1/live"),
    ("GET", "/v1/history"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]

#: What exists, so that half of the calls reach something.
KNOWN = {"job_id": 1, "worker_id": "1-1", "name": "a", "recurring_id": "r1", "token_id": 1, "path": "lab"}


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One site for all calls, with a job, a node, a booking (called as the node) and a recurring job."""
    directory: Path = tmp_path_factory.mktemp("fuzz")
    site = Site(directory, token=TOKEN)
    site.node("a", slots=4)
    site.tick()
    with capture_logs(), site.served():
        site.client.headers["authorization"] = f"Bearer {TOKEN}"
        site.submit(min_workers=1, max_workers=4, data={"shards": 100, "epochs": 2})
        site.client.post("/v1/recurring", json={"cron": "0 0 1 1 *", "job": {"command": "true"}})
        site.client.post("/v1/bookings", json={"name": "a", "slots": 1, "duration_seconds": 600})
        site.client.post("/v1/queues", json={"path": "lab"})
        site.advance(1)
        yield site
    site.close()


def test_every_documented_call_is_fuzzed(fuzzed: Site) -> None:
    paths = fuzzed.client.get("/openapi.json").json()["paths"]
    assert sorted(CALLS) == sorted((method.upper(), path) for path, calls in paths.items() for method in calls)


#: Nothing can be wrong with these.
WITHOUT_INPUT = frozenset(
    {"/v1/nodes", "/v1/bookings", "/v1/recurring", "/v1/cluster", "/v1/explain", "/v1/history", "/v1/webhooks"}
    | {"/v1/queues", "/v1/whoami", "/v1/tokens"}
    | {"/healthz", "/readyz", "/metrics"}
)
#: Jobs inside of other bodies take long to generate, and go the way of single ones; the last takes no body.
NESTED = frozenset({"/v1/jobs/batch", "/v1/recurring", "/v1/page-codes"})

CASES = [
    (method, path, mode)
    for method, path in CALLS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or not (path in NESTED or (method == "GET" and path in WITHOUT_INPUT))
]


def _may_last(seconds: object) -> bool:
    """Whether a stream may be asked for with this, and would not end soon."""
    try:
        return 0 < float(str(seconds)) <= 86400
    except ValueError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_answers_are_documented_and_no_defect_shows(fuzzed: Site, method: str, path: str, mode: GenerationMode) -> None:
    document = fuzzed.client.get("/openapi.json").json()
    document["paths"][path][method.lower()].pop("security", None)  # every call has a token
    operation = schemathesis.openapi.from_dict(document)[path][method]

    @settings(
        max_examples=EXAMPLES_PER_CALL,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def call(case: Any, known: bool) -> None:
        if mode is GenerationMode.POSITIVE and known:
            case.path_parameters = {name: KNOWN[name] for name in case.path_parameters or {}}
        if isinstance((case.query or {}).get("wait"), int | float) and mode is GenerationMode.POSITIVE:
            case.query["wait"] = 0
        if path == "/v1/live" and _may_last((case.query or {}).get("wait", 1)):
            case.query = {**(case.query or {}), "wait": 0}
        user = {"authorization": f"Bearer {TOKEN}"}
        headers = fuzzed.worker_header(JobId(1)) if "worker_id" in path else user
        answer = case.call(base_url=fuzzed.url, headers=headers, timeout=SECONDS_MAX)
        assert answer.status_code < 500 or answer.status_code == UNAVAILABLE, answer.text
        case.validate_response(answer, checks=CHECKS)

    try:
        call()
    finally:
        # What was accepted must not upset the engine.
        assert fuzzed.engine.tick().error is None
