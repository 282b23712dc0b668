"""What a local worker finds in its environment: its job's own, then its submitter's, then the daemon's."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from pydantic import ValidationError

from scheduler.clusters.local.env import InheritedEnv, inherited_env
from scheduler.config import LocalSettings, load_settings
from scheduler.model.export import Export
from scheduler.model.observation import Phase
from tests.clusters.local_world import LocalWorld

DAEMONS = {
    "PATH": "/daemon/bin:/usr/bin:/bin",
    "VIRTUAL_ENV": "/daemon",
    "CONDA_PREFIX": "/daemon/conda",
    "PYTHONPATH": "/daemon/lib",
    "HOME": "/home/daemon",
    "HF_HOME": "/daemon/hf",
}
WRITE = "import json, os, sys; json.dump([dict(os.environ), os.getcwd()], open(sys.argv[1], 'w'))"
Seen = tuple[dict[str, str], str]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalWorld]:
    """A daemon with an environment of its own."""
    for name in ("LD_LIBRARY_PATH", "PYTHONHOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in DAEMONS.items():
        monkeypatch.setenv(name, value)
    world = LocalWorld(tmp_path / "state")
    monkeypatch.undo()
    yield world
    world.tear_down()


@pytest.fixture
def run(world: LocalWorld, tmp_path: Path) -> Callable[..., Seen]:
    """`run(export, env=…, workdir=…)`: environment and directory of a worker that was started so."""

    numbers = count(1)

    def one(export: Export | None = None, env: dict[str, str] | None = None, workdir: str | None = None) -> Seen:
        out = tmp_path / "seen.json"
        worker = f"1-{next(numbers)}"  # no id is used twice
        action = world.action(worker, sys.executable, "-S", "-c", WRITE, str(out), env=env, workdir=workdir)
        assert not world.apply([replace(action, export=export)])
        assert world.ended(worker).exit_code == 0
        env_seen, directory = json.loads(out.read_text())
        return env_seen, directory

    return one


def test_with_a_submitters_path_nothing_is_left_that_finds_the_daemons_programs(
    run: Callable[..., Seen], tmp_path: Path
) -> None:
    env, directory = run(Export((("PATH", "/usr/bin:/bin"), ("SEED", "1")), str(tmp_path)))
    assert (env["PATH"], env["SEED"], directory) == ("/usr/bin:/bin", "1", str(tmp_path))
    assert not {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"} & env.keys()
    assert env["HF_HOME"] == "/daemon/hf"


def test_without_one_the_worker_has_the_daemons(run: Callable[..., Seen]) -> None:
    for export in (None, Export(), Export((("SEED", "1"),))):
        env, _ = run(export, workdir="/")
        assert {name: env.get(name) for name in DAEMONS} == DAEMONS
        assert env.get("SEED") == (dict(export.env).get("SEED") if export else None)


def test_a_jobs_own_variables_and_directory_win(run: Callable[..., Seen], tmp_path: Path) -> None:
    export = Export((("PATH", "/usr/bin:/bin"), ("SEED", "1"), ("LR", "2")), "/no/such/directory")
    env, directory = run(export, env={"SEED": "own", "PATH": "/own:/bin"}, workdir=str(tmp_path))
    assert (env["SEED"], env["LR"], env["PATH"], directory) == ("own", "2", "/own:/bin", str(tmp_path))


def test_the_path_that_was_searched_is_named_in_one_line_of_bounded_length(world: LocalWorld) -> None:
    cases = (
        ("/a/bin:/b/bin", "program no-such is not found in PATH, which is /a/bin:/b/bin"),
        ("/a\n/b", "program no-such is not found in PATH, which is /a /b"),
        (os.fsdecode(b"/a/\xff:/b\x01"), r"program no-such is not found in PATH, which is /a/\udcff:/b "),
        (":".join(["/folder/of/many"] * 200), "(200 folders)"),
    )
    for number, (path, said) in enumerate(cases, 1):
        action = world.action(f"1-{number}", "no-such")
        assert not world.apply([replace(action, export=Export((("PATH", path),), "/"))])
        worker = world.ended(action.worker_id)
        assert worker.phase is Phase.LAUNCH_FAILED
        assert said in worker.detail
        assert "\n" not in worker.detail
        assert len(worker.detail) < 600


def test_a_program_is_found_on_the_submitters_path_seen_from_its_directory(world: LocalWorld, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mine").symlink_to("/bin/true")
    export = Export((("PATH", "bin"),), str(tmp_path))
    assert not world.apply([replace(world.action("1-1", "mine"), export=export)])
    assert world.ended("1-1").exit_code == 0


#: What a daemon's environment may hold that is nobody else's.
SECRETS = {
    "HF_TOKEN": "hf_x",
    "HUGGING_FACE_HUB_TOKEN": "hf_x",
    "AWS_SECRET_ACCESS_KEY": "k",
    "WANDB_API_KEY": "w",
    "http_proxy": "http://proxy:3128",
    "https_proxy": "http://ann:pw@proxy:3128",
    "HTTP_PROXY": "http://proxy:3128",
    "HTTPS_PROXY": "http://ann:pw@proxy:3128",
    "ALL_PROXY": "socks5h://token@proxy",
    "NO_PROXY": "localhost",
    "PGPASSWORD": "p",
    "SSH_AUTH_SOCK": "/run/agent",
    "CONDA_TOKEN": "t",
    "TORCH_HUB_TOKEN": "t",
    "PYTHON_KEYRING_PASSWORD": "p",
    "LC_SECRET": "s",
    "PYTHONPATH": "https://ann:pw@index/",
    "SCHED_HTTP__TOKEN": "0123456789abcdef",
    "SCHED_DATABASE_URL": "postgresql://sched:pw@db/sched",
    "SECRET": "s",
}


def passed(environ: dict[str, str], *patterns: str) -> set[str]:
    """Names of what a worker has of such a daemon."""
    inherited = InheritedEnv(environ, patterns)
    return {**inherited.common, **inherited.of_worker({}, {})}.keys() & environ.keys()


def test_no_secret_of_the_daemon_reaches_a_worker_unless_a_setting_names_it() -> None:
    assert passed(SECRETS) == set()
    assert passed({**SECRETS, **DAEMONS}) == DAEMONS.keys()
    assert passed(SECRETS, "HF_*", "https_proxy") == {"HF_TOKEN", "https_proxy"}
    assert passed(SECRETS, "*_PROXY") == {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    assert passed(SECRETS, "hf_token", "*token") == set(), "as they are written"
    assert passed(SECRETS, "*", "SCHED_*") == SECRETS.keys() - {"SCHED_HTTP__TOKEN", "SCHED_DATABASE_URL"}


def test_a_worker_finds_what_the_settings_name_and_no_other_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SCHED_LOCAL__PASS_ENVIRONMENT", "HF_*, WANDB_API_KEY")
    world = LocalWorld(tmp_path / "state", settings=load_settings().local)
    try:
        out = tmp_path / "seen.json"
        assert not world.apply([world.action("1-1", sys.executable, "-S", "-c", WRITE, str(out))])
        assert world.ended("1-1").exit_code == 0
    finally:
        world.tear_down()
    seen = json.loads(out.read_text())[0]
    assert {name: value for name, value in seen.items() if name in SECRETS} == {
        name: SECRETS[name] for name in ("HF_TOKEN", "WANDB_API_KEY")
    }


@pytest.mark.parametrize("pattern", ["", "A B", "A=1", "[A-Z]", "A?", "é", "1A", "-"])
def test_a_pattern_that_names_no_variable_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match="pass_environment"):
        LocalSettings(pass_environment=(pattern,))


def test_nothing_of_the_daemons_that_workers_may_not_have_comes_in() -> None:
    inherited = InheritedEnv({**DAEMONS, "SCHED_HTTP__TOKEN": "t", "SECRET": "s"})
    for exported in ({}, {"PATH": "/x"}):
        worker = {**inherited.common, **inherited.of_worker(exported, {})}
        assert not {"SCHED_HTTP__TOKEN", "SECRET"} & worker.keys()
    assert {**inherited.common, **inherited.of_worker({}, {})} == inherited_env(DAEMONS)
