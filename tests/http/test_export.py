"""What jobs take of their submitters' environments: what is stored, refused, left out, and who sees it."""

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import HttpSettings, KubernetesSettings, Settings
from scheduler.daemon.recurring import submit_due
from scheduler.errors import InvalidInput
from scheduler.http.admission.export import keep_export
from scheduler.http.schemas.requests import JobRequest, check_request
from scheduler.model.export import BYTES_MAX, MASK, VARIABLES_MAX, Export
from scheduler.model.ids import JobId
from scheduler.model.job import JobSpec
from tests.http.site import TOKEN, Site

ENV = {
    "PATH": "/venv/bin:/usr/bin",
    "HF_TOKEN": "hf_x",
    "https_proxy": "http://u:p@proxy",
    "BASH_FUNC_m%%": "() { :; }",
}
HERE = socket.gethostname()
EXPORT = {"env": ENV, "workdir": "/home/ann", "host": HERE}
SHOWN = {**EXPORT, "env": {**ENV, "HF_TOKEN": MASK, "https_proxy": MASK}}


def stored(site: Site, job_id: int) -> Export | None:
    job = site.store.get_job(JobId(job_id))
    assert job is not None
    return job.spec.export


def test_what_is_exported_reaches_the_job_and_is_shown_without_secrets(site: Site) -> None:
    job_id = site.submit(export=EXPORT, env={"API_KEY": "k", "LR": "1"}, fixed={"replicas": 1, "env": {"DB_PASS": "p"}})
    assert stored(site, job_id) == Export(tuple(sorted(ENV.items())), "/home/ann", HERE)
    shown = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (shown["export"], shown["workdir"]) == (SHOWN, "/home/ann")
    assert (shown["env"], shown["fixed_env"]) == ({"API_KEY": MASK, "LR": "1"}, {"DB_PASS": MASK})
    assert "export" not in site.client.get("/v1/jobs").json()["jobs"][0]


def test_a_job_may_export_nothing_or_a_directory_alone(site: Site) -> None:
    assert site.client.get(f"/v1/jobs/{site.submit()}").json()["export"] is None
    job_id = site.submit(export={"workdir": "/home/ann"}, workdir="/data")
    shown = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (shown["workdir"], shown["export"]) == ("/data", {"env": {}, "workdir": "/home/ann", "host": None})


def test_a_relative_directory_is_the_one_that_its_submitter_named(site: Site) -> None:
    job_id = site.submit(export={"workdir": "/home/ann/data", "host": HERE}, workdir="../data")
    shown = site.client.get(f"/v1/jobs/{job_id}").json()
    assert (shown["workdir"], shown["export"]["workdir"]) == ("/home/ann/data", "/home/ann/data")


def test_a_relative_directory_of_another_machine_is_refused(site: Site) -> None:
    job = {"command": ["true"], "workdir": "../data", "export": {"workdir": "/home/ann/data", "host": "laptop"}}
    rule = f"workdir: must be an absolute path on {HERE}, where the job runs, not '../data'"
    for path, body, prefix in (
        ("jobs", job, ""),
        ("jobs/batch", {"jobs": [{"command": ["true"]}, job]}, "jobs.1."),
        ("recurring", {"cron": "* * * * *", "job": job}, "job."),
    ):
        answer = site.client.post(f"/v1/{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, f"{prefix}workdir")
        assert answer.json()["error"]["message"] == prefix + rule
    assert site.client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("host", [None, HERE, "laptop"])
def test_pods_have_no_relative_directory_of_a_submitter(host: str | None) -> None:
    settings = Settings(cluster="kubernetes", kubernetes=KubernetesSettings())
    spec = JobSpec("j", ("x",), workdir="../data", export=Export(workdir="/home/ann/data", host=host))
    with pytest.raises(InvalidInput) as refused:
        keep_export(spec, settings)
    assert str(refused.value) == "workdir: must be an absolute path in the image of its pods, not '../data'"


def test_each_job_of_a_batch_has_its_own(site: Site) -> None:
    jobs = [{"command": ["a"], "export": {"env": {"A": str(number)}}} for number in range(3)]
    ids = site.client.post("/v1/jobs/batch", json={"jobs": [*jobs, {"command": ["b"]}]}).json()["ids"]
    found = [stored(site, number) for number in ids]
    assert [None if each is None else dict(each.env) for each in found] == [{"A": "0"}, {"A": "1"}, {"A": "2"}, None]


def test_all_runs_of_a_recurring_job_have_what_it_was_stored_with(site: Site) -> None:
    body = {"cron": "* * * * *", "job": {"command": ["true"], "export": EXPORT}}
    answer = site.client.post("/v1/recurring", json=body)
    assert answer.status_code == 201, answer.text
    assert site.client.get(f"/v1/recurring/{answer.json()['id']}").json()["export"] == SHOWN
    [entry] = site.store.list_recurring()
    job_id = submit_due(site.store, entry, site.clock.now() + 61, site.clock.now())
    assert job_id is not None
    assert stored(site, job_id) == Export(tuple(sorted(ENV.items())), "/home/ann", HERE)


def test_another_machine_takes_nothing_and_says_so(site: Site) -> None:
    body = {"command": ["true"], "export": {**EXPORT, "host": "laptop"}}
    answer = site.client.post("/v1/jobs", json=body).json()
    told = f"submitted on laptop, but runs on {HERE}: directory and environment were not passed on"
    assert answer["warnings"] == [f"{told}; use --workdir and --env"]
    assert stored(site, answer["id"]) is None
    recurring = site.client.post("/v1/recurring", json={"cron": "* * * * *", "job": body})
    assert site.client.get(f"/v1/recurring/{recurring.json()['id']}").json()["export"] is None
    ids = site.client.post("/v1/jobs/batch", json={"jobs": [body]}).json()["ids"]
    assert stored(site, ids[0]) is None


def test_pods_take_nothing_and_a_choice_that_is_left_out_is_named() -> None:
    settings = Settings(cluster="kubernetes", kubernetes=KubernetesSettings())
    default = Export((("CONDA_EXE", "/c"), ("PATH", "/laptop/bin")), "/home/ann", "laptop")
    assert keep_export(JobSpec("j", ("x",), export=default), settings) == (JobSpec("j", ("x",)), [])
    chosen = Export((*default.env, *((f"A{number}", "") for number in range(6))), "/home/ann", HERE)
    spec, warnings = keep_export(JobSpec("j", ("x",), workdir="/data", export=chosen), settings)
    assert spec == JobSpec("j", ("x",), workdir="/data")
    assert warnings == ["the environment of the submitter is not passed on to pods (A0, A1, A2, A3, A4, …): use --env"]


@pytest.mark.parametrize(
    ("export", "field", "rule"),
    [
        ({"env": {"": "x"}}, "export.env.", "the name of a variable must have 1 to 256 characters, without = and NUL"),
        ({"env": {"A=B": "x"}}, "export.env.A=B", "the name of a variable must have"),
        ({"env": {"A\0B": "x"}}, "export.env.A\0B", "the name of a variable must have"),
        ({"env": {"A" * 257: "x"}}, f"export.env.{'A' * 100}", "the name of a variable must have"),
        ({"env": {"A": "x\0"}}, "export.env.A", "must not contain NUL"),
        ({"env": {"A": 1}}, "export.env.A", "must be a string"),
        ({"env": {"A": "x" * 65537}}, "export.env.A", "at most 65536 characters"),
        ({"env": {"SCHED_TOKEN": "x"}}, "export.env.SCHED_TOKEN", "that start with SCHED_ are reserved"),
        ({"env": {f"A{n}": "" for n in range(VARIABLES_MAX + 1)}}, "export.env", "at most 1024 items"),
        ({"env": {f"A{n}": "é" * 30_000 for n in range(5)}}, "export.env", "has 292 KiB, more than 256 KiB"),
        ({"workdir": "relative"}, "export.workdir", "must be an absolute path"),
        ({"host": "a\nb"}, "export.host", "must not contain control characters"),
        ({"other": 1}, "export.other", "unknown field"),
        ("ALL", "export", "a mapping of fields"),
    ],
)
def test_what_no_process_could_be_given_is_refused_with_the_field(
    still_site: Site, export: Any, field: str, rule: str
) -> None:
    answer = still_site.client.post("/v1/jobs", json={"command": ["true"], "export": export})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["field"] == field
    assert rule in error["message"]
    assert "\n" not in error["message"]
    assert MASK not in error["message"]


def test_the_largest_that_is_taken_is_stored(site: Site) -> None:
    env = {f"A{number}": "x" * 65_000 for number in range(4)}
    job_id = site.submit(export={"env": env})
    export = stored(site, job_id)
    assert export is not None
    assert dict(export.env) == env
    assert sum(len(name) + len(value) for name, value in env.items()) < BYTES_MAX


def test_workers_do_not_read_what_jobs_were_given(guarded: Site) -> None:
    """Neither of their own job nor of another, and nothing that they may read holds it."""
    user = {"authorization": f"bearer {TOKEN}"}
    body = {"command": ["true"], "export": {"env": {"MARK": "seen-by-nobody", "HF_TOKEN": "hf_x"}}}
    job_id = JobId(guarded.client.post("/v1/jobs", json=body, headers=user).json()["id"])
    guarded.submitted.append(job_id)
    guarded.advance(1)
    document = guarded.client.get("/openapi.json", headers=user).json()
    worker = guarded.worker_header(job_id)
    assert guarded.client.get(f"/v1/jobs/{job_id}", headers=worker).status_code == 401
    opened = 0
    for path, calls in document["paths"].items():
        filled = path.format(job_id=job_id, worker_id=f"{job_id}-1", name="a", recurring_id="r1", token_id=1, path="q")
        for method in calls:
            answer = guarded.client.request(method, filled, json={} if method != "get" else None, headers=worker)
            opened += answer.status_code == 200
            assert "seen-by-nobody" not in answer.text, path
            assert "hf_x" not in answer.text, path
    assert opened > 0
    as_user = guarded.client.get(f"/v1/jobs/{job_id}", headers=user).text
    assert "seen-by-nobody" in as_user
    assert "hf_x" not in as_user


NAMES = st.text(st.characters(exclude_characters="=\0", exclude_categories=("Cs",)), min_size=1, max_size=20)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)
ANYTHING = st.text(max_size=20)


@given(st.dictionaries(NAMES, TEXTS, max_size=8))
def test_every_environment_that_a_process_can_have_is_taken(env: dict[str, str]) -> None:
    kept = {name: value for name, value in env.items() if not name.upper().startswith("SCHED_")}
    request = check_request(JobRequest, json.loads(json.dumps({"command": ["x"], "export": {"env": kept}})))
    export = request.spec().export
    assert export is not None
    assert dict(export.env) == kept


@given(st.dictionaries(ANYTHING, ANYTHING, max_size=4))
def test_any_other_is_refused_naming_the_variable(env: dict[str, str]) -> None:
    bad = any(not name or "=" in name or "\0" in name or "\0" in value for name, value in env.items())
    if bad or any(name.upper().startswith("SCHED_") for name in env):
        with pytest.raises(InvalidInput) as refused:
            check_request(JobRequest, {"command": ["x"], "export": {"env": env}})
        assert refused.value.field.startswith("export.env.")
    else:
        assert check_request(JobRequest, {"command": ["x"], "export": {"env": env}}).export is not None


def test_what_names_no_machine_is_taken_for_the_daemons() -> None:
    spec = JobSpec("j", ("x",), export=Export((("A", "1"),)))
    assert keep_export(spec, Settings(http=HttpSettings(port=0))) == (spec, [])
