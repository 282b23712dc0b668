"""A daemon of the whole machine, with real users: jobs are theirs, and nobody reaches what belongs to somebody else."""

import json
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.e2e.system_site import TOKEN, SystemSite, system_site
from tests.eventually import eventually
from tests.logins import Login, needs_logins, new_login

pytestmark = needs_logins

TELL = "id -u; id -g; id -G; pwd; exec sleep 600"


@pytest.fixture(scope="module")
def site() -> Iterator[SystemSite]:
    with system_site() as site:
        yield site


def running(site: SystemSite, login: Login, script: str, *options: str) -> int:
    """A job of this user that runs the script, whose last act is to wait."""
    job = site.submit(login, *options, "--", "sh", "-c", script)
    site.await_event(job, "JOB_RUNNING")
    return job


def output(site: SystemSite, job: int, lines: int) -> list[str]:
    return eventually(
        lambda: (said := site.root.get(f"/v1/jobs/{job}/logs").text.splitlines()) and len(said) >= lines and said,
        site.daemon.log,
    )


def test_jobs_of_two_logins_run_as_these_with_their_groups(site: SystemSite) -> None:
    for login in (site.ann, site.bob):
        job = running(site, login, TELL)
        uid, gid, groups, where = output(site, job, 4)
        assert (int(uid), int(gid)) == (login.uid, login.gid)
        assert {int(each) for each in groups.split()} == set(login.groups)
        assert where == str(login.home), "the directory in which it was submitted"
        assert site.sched(login, "cancel", str(job)).returncode == 0
        site.await_event(job, "JOB_CANCELLED")


def test_nobody_reads_or_changes_what_belongs_to_somebody_else(site: SystemSite) -> None:
    script = 'echo of-ann > "$SCHED_CHECKPOINT_DIR/state"; echo done; exec sleep 600'
    job = running(site, site.ann, script)
    output(site, job, 1)
    logs, checkpoints = site.directories_of(job)
    others = {path for each in ("logs", "jobs") for path in (site.daemon.state_dir / each).iterdir()} - {
        logs,
        checkpoints,
    }
    everything = [site.daemon.state_dir, *site.daemon.state_dir.rglob("*")]
    state = [path for path in everything if others.isdisjoint((path, *path.parents))]
    own = [str(path) for path in (logs, checkpoints, *logs.rglob("*"), *checkpoints.rglob("*"))]
    assert len(own) >= 5
    assert sorted(site.ann.may_read(state)) == sorted(own)
    assert site.bob.may_read(state) == []
    for words in (("cancel", str(job)), ("suspend", str(job)), ("priority", str(job), "-5"), ("logs", str(job))):
        refused = site.sched(site.bob, *words)
        assert refused.returncode != 0, words
        assert site.ann.name in refused.stderr, refused.stderr
    pid = next(each.pid for each in psutil.process_iter() if each.uids().real == site.ann.uid)
    for command in (("kill", "-9", str(pid)), ("cat", f"/proc/{pid}/environ")):
        assert site.bob.run(*command, check=False).returncode != 0
    assert "done" in site.sched(site.ann, "logs", str(job)).stdout
    assert site.root.get(f"/v1/jobs/{job}").json()["state"] == "RUNNING"
    assert site.sched(site.ann, "cancel", str(job)).returncode == 0
    site.await_event(job, "JOB_CANCELLED")


def test_nobody_makes_a_job_run_as_somebody_else(site: SystemSite) -> None:
    ann, bob = site.ann.name, site.bob.name
    told = site.sched(site.bob, "submit", "--user", ann, "--", "true")
    assert (told.returncode, "only root starts one as" in told.stderr) == (6, True), told.stderr
    assert "root" in site.sched(site.bob, "submit", "--user", "root", "--", "true").stderr
    with httpx.Client(base_url=site.daemon.url, timeout=60) as stranger:
        assert stranger.post("/v1/jobs", json={"command": "true"}).status_code == 401
        configured = {"Authorization": f"Bearer {TOKEN}"}
        refused = stranger.post("/v1/jobs", json={"command": "true", "user": ann}, headers=configured)
        assert (refused.status_code, refused.json()["error"]["field"]) == (403, "user")
        forged = {**configured, "X-Sched-Login": ann}
        assert stranger.post("/v1/jobs", json={"command": "true"}, headers=forged).status_code == 403
        for role in ("user", "operator", "admin"):
            made = site.root.post("/v1/tokens", json={"user": bob, "role": role}).json()
            headers = {"Authorization": f"Bearer {made['token']}"}
            for path, body in (
                ("/v1/jobs", {"command": "true", "user": ann}),
                ("/v1/jobs/batch", {"jobs": [{"command": "true"}, {"command": "true", "user": ann}]}),
                ("/v1/recurring", {"cron": "0 3 * * *", "job": {"command": "true", "user": ann}}),
            ):
                refused = stranger.post(path, json=body, headers=headers)
                assert (refused.status_code, ann in refused.json()["error"]["message"]) == (403, True), refused.text
            job = stranger.post("/v1/jobs", json={"command": ["id", "-un"]}, headers=headers).json()["id"]
            site.await_event(job, "JOB_SUCCEEDED")
            assert output(site, job, 1) == [bob]


def test_who_has_no_account_or_may_have_no_jobs_is_refused_at_submission(site: SystemSite) -> None:
    for user, why in (("root", "never run as root"), ("daemon", "system account"), ("no-such", "no account")):
        for path, body in (
            ("/v1/jobs", {"command": "true", "user": user}),
            ("/v1/jobs/batch", {"jobs": [{"command": "true", "user": user}]}),
            ("/v1/recurring", {"cron": "0 3 * * *", "job": {"command": "true", "user": user}}),
            ("/v1/tokens", {"user": user, "role": "user"}),
        ):
            refused = site.root.post(path, json=body)
            error = refused.json()["error"]
            assert (refused.status_code, error["field"].rpartition(".")[2]) == (422, "user"), refused.text
            assert why in error["message"], error
    mine = site.root.post("/v1/jobs", json={"command": "true"})
    assert "never run as root" in mine.json()["error"]["message"], "root's own, too"


def test_whoami_says_as_whom_jobs_run(site: SystemSite) -> None:
    told = site.sched(site.ann, "whoami").stdout
    assert f"jobs run as  {site.ann.name}" in told, told
    assert site.root.get("/v1/whoami").json()["jobs_run_as"] is None
    assert '"jobs run as their users"' in site.daemon.log()


def test_workers_outlive_the_daemon_and_are_stopped_by_the_next_one(site: SystemSite) -> None:
    job = running(site, site.ann, "trap '' TERM; echo $$; while :; do sleep 0.1; done", "--grace", "0.2")
    [pid] = output(site, job, 1)
    site.daemon.restart()
    assert psutil.Process(int(pid)).uids().real == site.ann.uid
    assert site.sched(site.ann, "cancel", str(job)).returncode == 0
    site.await_event(job, "JOB_CANCELLED")
    assert not psutil.pid_exists(int(pid))


def test_a_job_whose_user_has_gone_is_held_back_until_the_account_is_there(site: SystemSite) -> None:
    assert site.root.post("/v1/nodes/local/cordon").status_code == 202
    with new_login(site.directory) as carl:
        carl.join(site.ann.group)
        job = site.submit(carl, "--workdir", "/", "--", "id", "-un")
    assert site.root.post("/v1/nodes/local/uncordon").status_code == 202
    site.await_event(job, "JOB_SUSPENDED")
    view = site.root.get(f"/v1/jobs/{job}").json()
    assert view["state"] == "SUSPENDED"
    explained = site.root.get(f"/v1/jobs/{job}/explain").json()
    assert f"user {carl.name} has no account on this machine" in json.dumps(explained), explained
    with new_login(site.directory, carl.name):
        assert site.root.post(f"/v1/jobs/{job}/resume").status_code == 202
        site.await_event(job, "JOB_SUCCEEDED")
        assert output(site, job, 1) == [carl.name]


def test_only_root_serves_a_machine(site: SystemSite) -> None:
    done = site.sched(site.ann, "serve", "--system")
    told = (
        "sched: sched serve --system starts each job as its user, which only root may do, and you are "
        f"{site.ann.name}: use sudo sched serve --system, or leave --system out, and all jobs run as you"
    )
    assert (done.returncode, done.stderr.splitlines()) == (2, [told])
