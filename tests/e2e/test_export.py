"""A daemon with a bare environment, and `sched` called in a virtual environment that nobody activated.

The daemon's PATH finds no Python with torch; the submitter's does.
"""

import json
import os
import subprocess
import sysconfig
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import ROOT, Daemon, running_daemon
from tests.eventually import eventually

BARE = "/usr/bin:/bin"
SECONDS_MAX = 120.0
#: What a worker finds, as a line of its output.
TELL = "import json, os, sys; print(json.dumps({'prefix': sys.prefix, 'cwd': os.getcwd(), 'env': dict(os.environ)}))"
WRITE = (
    "import os, sys; path = sys.argv[1]; sys.stdout = open(path + '.new', 'w'); "
    f"{TELL}; sys.stdout.close(); os.rename(path + '.new', path)"
)
#: `TELL`, run once a file is there.
TELL_AFTER = f"import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\n{TELL}"
#: Of torchrun's processes the first alone tells, so that lines are not mixed.
TELL_FROM_RANK_0 = f"import os\nimport torch\nif os.environ['RANK'] == '0':\n    {TELL}\n"


class Submitter:
    """Calls `sched` from a shell of its own: a directory, an environment, a virtual environment for `sched`."""

    def __init__(self, daemon: Daemon, root: Path) -> None:
        self.daemon = daemon
        self.prefix = root / "venv"
        venv.create(self.prefix, symlinks=True)
        (packages,) = self.prefix.glob("lib/python*/site-packages")
        # With all packages of these tests, among them this one.
        (packages / "tests.pth").write_text(
            f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n{ROOT}\n"
        )
        self.directory = root / "a directory"
        self.directory.mkdir()
        self.path = f"{self.prefix}/bin:{BARE}"

    def sched(self, *words: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        shell = {"PATH": BARE, "HOME": str(Path.home()), "SCHED_STATE_DIR": str(self.daemon.state_dir), **(env or {})}
        command = [str(self.prefix / "bin" / "python"), "-m", "scheduler.cli", *words]
        return subprocess.run(
            command, cwd=self.directory, env=shell, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
        )

    def submit(self, *words: str, env: Mapping[str, str] | None = None) -> int:
        """The job's number."""
        answer = self.sched("submit", "-o", "json", *words, env=env)
        assert answer.returncode == 0, answer.stderr
        return int(json.loads(answer.stdout)["id"])

    def told(self, *options: str, env: Mapping[str, str] | None = None, command: Sequence[str] = ()) -> dict[str, Any]:
        """What the worker of such a job finds."""
        program = command or ("--", "python", "-c", TELL)
        return self.output(self.submit(*options, *program, env=env))

    def output(self, number: int) -> dict[str, Any]:
        """What the job's workers told, once it has succeeded."""
        self.reach(number, "SUCCEEDED")
        workers = self.daemon.client.get(f"/v1/jobs/{number}/workers").json()["workers"]
        logs = [self.daemon.client.get(f"/v1/jobs/{number}/logs", params={"worker": each["id"]}) for each in workers]
        lines = [line for log in logs for line in log.text.splitlines()]
        assert any(line.startswith("{") for line in lines), lines
        found: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
        return found

    def view(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.daemon.client.get(f"/v1/jobs/{number}").json()
        return found

    def reach(self, number: int, state: str) -> None:
        def reached() -> bool:
            view = self.view(number)
            assert view["state"] not in {"FAILED", "SUCCEEDED", "CANCELLED"} - {state}, view
            return bool(view["state"] == state)

        eventually(reached, lambda: f"job {number} does not get to {state}: {self.view(number)}", SECONDS_MAX)


@pytest.fixture(scope="module")
def submitter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitter]:
    root = tmp_path_factory.mktemp("export")
    with pytest.MonkeyPatch.context() as patch:
        bare(patch)
        with running_daemon(root) as daemon:
            patch.undo()
            yield Submitter(daemon, root)


def bare(patch: pytest.MonkeyPatch) -> None:
    """What a daemon that is started now has: as under `env -i PATH=/usr/bin:/bin`."""
    for name in list(os.environ):
        patch.delenv(name)
    patch.setenv("PATH", BARE)


def test_a_worker_runs_the_python_of_the_environment_that_sched_is_called_in(submitter: Submitter) -> None:
    number = submitter.submit("--", "python", "-c", f"import torch; {TELL}")
    found = submitter.output(number)
    assert (found["prefix"], found["cwd"]) == (str(submitter.prefix), str(submitter.directory))
    taken = {"PATH": submitter.path, "VIRTUAL_ENV": str(submitter.prefix)}
    assert {name: found["env"].get(name) for name in taken} == taken
    view = json.loads(submitter.sched("show", "-o", "json", str(number)).stdout)
    assert view["export"]["env"] == taken
    assert view["workdir"] == view["export"]["workdir"] == str(submitter.directory)
    shown = submitter.sched("show", str(number)).stdout
    assert f"VIRTUAL_ENV={submitter.prefix}" in shown
    assert str(submitter.directory) in shown


def test_none_leaves_the_daemons_environment_and_keeps_the_directory(submitter: Submitter) -> None:
    script = 'printf "{\\"path\\": \\"%s\\", \\"cwd\\": \\"%s\\"}\\n" "$PATH" "$PWD"'
    number = submitter.submit("--export", "NONE", "--", "sh", "-c", script)
    assert submitter.output(number) == {"path": BARE, "cwd": str(submitter.directory)}
    assert submitter.view(number)["export"]["env"] == {}


def test_a_program_that_is_not_found_is_looked_up_where_the_submitter_would(submitter: Submitter) -> None:
    number = submitter.submit("--", "no-such-program")
    submitter.reach(number, "FAILED")
    said = f"cannot start: program no-such-program is not found in PATH, which is {submitter.path}"
    view = submitter.view(number)
    assert said in view["detail"]
    assert (view["attempt"], view["retries_used"]) == (1, 0)


SHELL = {"SEED": "1", "HF_TOKEN": "hf_x", "https_proxy": "http://ann:pw@proxy", "SCHED_DEBUG": "", "PYTHONPATH": "/src"}


def test_secrets_are_taken_only_by_name_and_never_shown(submitter: Submitter) -> None:
    seen = submitter.told(env=SHELL)["env"]
    assert "PYTHONPATH" in seen
    assert not {"SEED", "HF_TOKEN", "https_proxy", "SCHED_DEBUG"} & seen.keys()
    seen = submitter.told("--export", "ALL", env=SHELL)["env"]
    assert seen["SEED"] == "1"
    assert not {"HF_TOKEN", "https_proxy", "SCHED_DEBUG"} & seen.keys()
    number = submitter.submit("--export", "ALL,HF_TOKEN", "--", "python", "-c", TELL, env=SHELL)
    seen = submitter.output(number)["env"]
    assert seen["HF_TOKEN"] == "hf_x"
    assert not {"https_proxy", "SCHED_DEBUG", "SCHED_STATE_DIR"} & seen.keys()
    for shown in (submitter.sched("show", str(number)), submitter.sched("show", "-o", "json", str(number))):
        assert shown.returncode == 0, shown.stderr
        assert "***" in shown.stdout
        assert "hf_x" not in shown.stdout


def test_names_are_taken_alone(submitter: Submitter) -> None:
    options = ("--export", "SEED,LR=2")
    seen = submitter.told(*options, env=SHELL, command=["--", str(submitter.prefix / "bin" / "python"), "-c", TELL])[
        "env"
    ]
    assert (seen["SEED"], seen["LR"], seen["PATH"]) == ("1", "2", BARE)
    refused = submitter.sched("submit", "--export", "NOT_HERE", "--", "true")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (
        refused.stderr == "sched: --export: NOT_HERE is not set in this environment: remove it, or use NOT_HERE=VALUE\n"
    )
    refused = submitter.sched("submit", "--export", "ALL", "--", "true", env={"BIG": "x" * 70_000})
    assert refused.returncode == 2
    assert refused.stderr.startswith("sched: --export: export.env.BIG: ")
    assert len(refused.stderr.splitlines()) == 1


def test_what_a_job_file_says_itself_wins(submitter: Submitter) -> None:
    command = f"command: [python, -c, {json.dumps(TELL)}]"
    own = "env: {SEED: file, LD_LIBRARY_PATH: /mine}"
    (submitter.directory / "job.yaml").write_text(f"{command}\n{own}\nexport: [SEED, ALL, LR=3]\n")
    seen = submitter.told(env={**SHELL, "LD_LIBRARY_PATH": "/theirs"}, command=["job.yaml"])["env"]
    assert (seen["SEED"], seen["LD_LIBRARY_PATH"], seen["LR"]) == ("file", "/mine", "3")
    seen = submitter.told("--export", "ALL", env={**SHELL, "LR": "4"}, command=["job.yaml"])["env"]
    assert (seen["SEED"], seen["LR"]) == ("file", "4")


def test_an_environment_that_is_activated_is_the_one_that_is_taken(submitter: Submitter, tmp_path: Path) -> None:
    other = tmp_path / "other"
    venv.create(other, symlinks=True)
    activated = {"VIRTUAL_ENV": str(other), "PATH": f"{other}/bin:{BARE}"}
    assert submitter.told(env=activated)["prefix"] == str(other)


def test_a_fixed_group_has_the_same_environment(submitter: Submitter, tmp_path: Path) -> None:
    wrote = tmp_path / "fixed.json"
    server = {"replicas": 1, "command": ["python", "-c", WRITE, str(wrote)], "env": {"SEED": "fixed"}}
    # With its workers' end the group is stopped, whether it has written by then or not.
    command = ["python", "-c", TELL_AFTER, str(wrote)]
    job = {"command": command, "fixed": server, "grace_seconds": 1, "export": "ALL"}
    (submitter.directory / "fixed.json").write_text(json.dumps(job))
    seen = submitter.told(env=SHELL, command=["fixed.json"])
    found = json.loads(wrote.read_text())
    assert found["prefix"] == seen["prefix"] == str(submitter.prefix)
    assert found["cwd"] == seen["cwd"] == str(submitter.directory)
    assert (found["env"]["SEED"], seen["env"]["SEED"]) == ("fixed", "1")


def test_a_job_that_waits_keeps_it_over_the_death_of_the_daemon(submitter: Submitter) -> None:
    holder = submitter.submit("--workers", "4", "--", "sleep", "1000")
    submitter.reach(holder, "RUNNING")
    waiting = submitter.submit("--export", "ALL", "--", "python", "-c", TELL, env=SHELL)
    with pytest.MonkeyPatch.context() as patch:
        bare(patch)
        submitter.daemon.restart()
    assert submitter.view(waiting)["state"] == "QUEUED"
    submitter.daemon.client.post(f"/v1/jobs/{holder}/cancel").raise_for_status()
    found = submitter.output(waiting)
    assert (found["prefix"], found["env"]["SEED"]) == (str(submitter.prefix), "1")


def test_a_recurring_job_is_stored_with_it(submitter: Submitter) -> None:
    answer = submitter.sched("submit", "--cron", "0 3 * * *", "-o", "json", "--", "python", "-c", TELL)
    assert answer.returncode == 0, answer.stderr
    number = json.loads(answer.stdout)["id"]
    view = json.loads(submitter.sched("show", "-o", "json", number).stdout)
    assert view["export"]["env"]["PATH"] == submitter.path
    assert submitter.sched("cancel", number).returncode == 0


def test_whatif_takes_the_option_and_nothing_of_the_environment(submitter: Submitter) -> None:
    asked = submitter.sched("whatif", "--export", "ALL", "--", "python", "x.py", env={"BIG": "x" * 70_000})
    assert asked.returncode == 0, asked.stderr
    assert "would start" in asked.stdout


@pytest.mark.torch
def test_torchrun_is_that_of_the_submitters_environment(submitter: Submitter) -> None:
    (submitter.directory / "told.py").write_text(TELL_FROM_RANK_0)
    found = submitter.told("--runtime", "torchrun", "--workers", "2", command=["--", "python", "told.py"])
    assert (found["prefix"], found["cwd"]) == (str(submitter.prefix), str(submitter.directory))
    assert found["env"]["WORLD_SIZE"] == "2"
