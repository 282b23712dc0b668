"""Who gets in: the address decides whether a token is needed, and a page of another site never gets in."""

import pytest

from scheduler.config import HttpSettings, OidcSettings
from scheduler.errors import ConfigError
from scheduler.http.auth.access import Access, check_exposure
from scheduler.model.ids import JobId
from tests.http.site import TOKEN, Site

PUBLIC = frozenset({"/healthz", "/readyz"})
#: Opened by a code in its body.
BY_CODE = "/v1/page-tokens"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    check_exposure(HttpSettings(host=host), OidcSettings())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_any_other_address_needs_one(host: str) -> None:
    with pytest.raises(ConfigError, match=r"http\.token"):
        check_exposure(HttpSettings(host=host), OidcSettings())
    check_exposure(HttpSettings(host=host, token=TOKEN), OidcSettings())
    check_exposure(HttpSettings(host=host), OidcSettings(issuer="https://login.example.org", audience="sched"))


def test_with_a_token_every_route_of_users_needs_it(guarded: Site) -> None:
    document = guarded.client.get("/openapi.json").json()
    for path, calls in document["paths"].items():
        filled = path.format(job_id=1, worker_id="1-1", name="a", recurring_id="r1", token_id=1, path="q")
        for method in calls:
            body = {"code": "a guess"} if path == BY_CODE else {} if method in ("post", "put", "patch") else None
            answer = guarded.client.request(method, filled, json=body)
            if path in PUBLIC:
                assert answer.status_code in (200, 503), path
            else:
                assert answer.status_code == 401, f"{method} {path}: {answer.status_code}"
                assert answer.json()["error"]["code"] == "unauthorized"
            wrong = guarded.client.request(method, filled, json=body, headers={"authorization": f"Bearer {TOKEN}x"})
            assert wrong.status_code == (answer.status_code if path in PUBLIC else 401), path


def test_there_are_no_pages_that_load_scripts_from_elsewhere(still_site: Site) -> None:
    assert still_site.client.get("/docs").status_code == 404
    assert still_site.client.get("/openapi.json").status_code == 200


def test_users_and_the_jobs_own_workers_read_its_hosts(guarded: Site) -> None:
    user = {"authorization": f"bearer {TOKEN}"}
    job_id = JobId(guarded.client.post("/v1/jobs", json={"command": ["true"]}, headers=user).json()["id"])
    guarded.submitted.append(job_id)
    guarded.advance(1)
    for query in ("", "?wait=0"):
        path = f"/v1/jobs/{job_id}/discover_hosts{query}"
        assert guarded.client.get(path).status_code == 401
        assert guarded.client.get(path, headers=guarded.worker_header(JobId(job_id + 1))).status_code == 401
        assert guarded.client.get(path, headers=guarded.worker_header(job_id)).text == "host-a:1\n"
        assert guarded.client.get(path, headers=user).text == "host-a:1\n"


def test_a_worker_token_opens_nothing_of_users(guarded: Site) -> None:
    headers = guarded.worker_header(JobId(1))
    assert guarded.client.get("/v1/jobs", headers=headers).status_code == 401
    assert guarded.client.post("/v1/jobs", json={"command": ["true"]}, headers=headers).status_code == 401


def test_tokens_of_workers_come_from_the_secret() -> None:
    def token(secret: bytes, job_id: int, nonce: str) -> str:
        return Access(None, secret, lambda _: None).worker_token(JobId(job_id), nonce)

    different = (
        token(b"a", 1, "x"),
        token(b"b", 1, "x"),
        token(b"a", 11, "x"),
        token(b"a", 1, "y"),
        token(b"a", 1, ""),
    )
    assert len(set(different)) == len(different)


def test_a_token_of_another_life_of_the_database_opens_nothing(site: Site) -> None:
    """A restored backup gives the id of a job again: the former one's workers know the same secret's token."""
    job_id = site.submit()
    job = site.store.get_job(job_id)
    assert job is not None
    own = site.access.worker_token(job_id, job.nonce)
    site.advance(1)
    report = f"/v1/jobs/{job_id}/workers/{job_id}-1"
    assert site.client.post(report, json={}, headers={"authorization": f"Bearer {own}"}).status_code == 200
    for other in (
        site.access.worker_token(job_id, "0123456789"),
        site.access.worker_token(job_id, ""),
        own.partition(".")[2],
        f"0123456789.{own.partition('.')[2]}",
        "é.ü",
    ):
        headers = {"authorization": f"Bearer {other}".encode("latin-1")}
        assert site.client.post(report, json={}, headers=headers).status_code == 401, other
        assert site.client.post(f"{report}/shards", json={}, headers=headers).status_code == 401, other


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8470"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
    ],
)
def test_pages_of_other_sites_get_nothing(still_site: Site, headers: dict[str, str]) -> None:
    for method, path in (
        ("GET", "/v1/jobs"),
        ("POST", "/v1/jobs/1/cancel"),
        ("GET", "/v1/events"),
        ("GET", "/v1/jobs/1/discover_hosts"),
    ):
        answer = still_site.client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "unauthorized")


def test_a_page_of_the_daemon_itself_is_answered(still_site: Site) -> None:
    assert still_site.client.get("/v1/jobs", headers={"origin": still_site.url}).status_code == 200
    assert still_site.client.get("/v1/jobs", headers={"host": "localhost"}).status_code == 200
    assert still_site.client.get("/v1/jobs", headers={"host": "[::1]:8470"}).status_code == 200
