"""Every route with every role, cell by cell, over the document by which the API describes itself."""

from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from scheduler.http.app import routes
from scheduler.http.auth.rules import CHANGE, RULES
from scheduler.model.identity import Role
from scheduler.model.ids import JobId
from tests.http.site import TOKEN, Site

CALLS = [(method.upper(), path) for path, calls in routes().openapi()["paths"].items() for method in calls]
ADMIN = {"authorization": f"Bearer {TOKEN}"}
#: A body that no route takes: whoever may call the route is told so, and nothing changes.
WRONG = {"no such field": 1}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of several users."""
    site = Site(tmp_path_factory.mktemp("roles"), token=TOKEN)
    site.node("a", slots=4)
    site.tick()
    with capture_logs(), site.served():
        yield site
    site.close()


@pytest.fixture(scope="module")
def headers(shared: Site) -> dict[Role, dict[str, str]]:
    """Of ann, who has a token with each role."""
    return {role: shared.user_header("ann", role) for role in Role}


def called(site: Site, method: str, path: str, owner: str, headers: dict[str, str]) -> httpx.Response:
    """The route, about what belongs to this user where it changes anything of users."""
    job_id: int = 1
    recurring_id = "r99"
    if RULES[method, path] == CHANGE:
        body = {"command": ["true"], "user": owner}
        job_id = site.client.post("/v1/jobs", json=body, headers=ADMIN).json()["id"]
        site.submitted.append(JobId(job_id))
        nightly = {"cron": "0 0 1 1 *", "job": body}
        recurring_id = site.client.post("/v1/recurring", json=nightly, headers=ADMIN).json()["id"]
    others = {"recurring_id": recurring_id, "token_id": 99, "path": "nowhere"}
    filled = path.format(job_id=job_id, worker_id=f"{job_id}-1", name="nowhere", **others)
    if path == "/v1/live":
        filled += "?wait=0"
    json = {"priority": 1} if method == "PATCH" else WRONG if method in ("POST", "PUT") else None
    return site.client.request(method, filled, headers=headers, json=json)


def test_every_route_of_the_api_has_a_rule_and_every_rule_a_route() -> None:
    assert sorted(RULES) == sorted(CALLS)


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_role_opens_what_its_rule_says_and_nothing_else(
    shared: Site, headers: dict[Role, dict[str, str]], method: str, path: str
) -> None:
    rule = RULES[method, path]
    for role in Role:
        answer = called(shared, method, path, "ann", headers[role])
        if rule.workers and not role.includes(rule.role or Role.VIEWER):
            assert answer.status_code == 401, (role, answer.text)
        elif rule.role is None or role.includes(rule.role):
            assert answer.status_code not in (401, 403), (role, answer.text)
        else:
            assert answer.status_code == 403, (role, answer.text)
            assert answer.json()["error"] == {
                "code": "forbidden",
                "message": f"this needs the role {rule.role}, and you are ann ({role})",
                "field": None,
            }


@pytest.mark.parametrize(("method", "path"), [call for call in CALLS if RULES[call] == CHANGE])
def test_what_belongs_to_somebody_else_is_changed_by_operators_only(
    shared: Site, headers: dict[Role, dict[str, str]], method: str, path: str
) -> None:
    for role in (Role.USER, Role.OPERATOR, Role.ADMIN):
        answer = called(shared, method, path, "bob", headers[role])
        if role is Role.USER:
            assert answer.status_code == 403
            assert "belongs to bob: only bob or an operator may change it, and you are ann (user)" in answer.text
        else:
            assert answer.status_code in (200, 202), answer.text


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_workers_open_the_calls_of_workers_only(shared: Site, method: str, path: str) -> None:
    job_id = JobId(shared.client.post("/v1/jobs", json={"command": ["true"]}, headers=ADMIN).json()["id"])
    shared.submitted.append(job_id)
    filled = path.format(job_id=job_id, worker_id=f"{job_id}-1", name="nowhere", recurring_id="r99", token_id=99)
    answer = shared.client.request(
        method, filled, headers=shared.worker_header(job_id), json=WRONG if method in ("POST", "PATCH") else None
    )
    rule = RULES[method, path]
    assert (answer.status_code == 401) == (rule.role is not None and not rule.workers), answer.text
