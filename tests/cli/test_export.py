"""What is taken of the caller's environment: by default, by --export, and of the Python that runs `sched`."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cli.input.export import export_request, exported_env, present_directory
from scheduler.cli.input.flags import Flags
from scheduler.cli.input.request import build_request
from scheduler.cli.input.source import Source
from scheduler.errors import InvalidInput, UserError
from scheduler.http.schemas.requests import JobRequest, check_request
from scheduler.model.export import in_default_export, is_schedulers, is_secret

SYSTEM = "/usr"
ENVIRON = {
    "PATH": "/opt/tool/bin:/usr/bin",
    "PYTHONPATH": "/src",
    "LD_LIBRARY_PATH": "/opt/cuda/lib64",
    "CONDA_EXE": "/opt/conda/bin/conda",
    "HOME": "/home/ann",
    "HF_HOME": "/data/hf",
    "HF_TOKEN": "hf_secret",
    "WANDB_API_KEY": "w",
    "https_proxy": "http://ann:pw@proxy:3128",
    "SCHED_TOKEN": "users-token",
    "SCHED_URL": "http://127.0.0.1:1",
    "PWD": "/home/ann",
    "RANK": "7",
    "BASH_FUNC_module%%": "() { :; }",
}
DEFAULT = {name: ENVIRON[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "CONDA_EXE")}


def taken(chosen: Any = None, environ: dict[str, str] | None = None, prefix: str = SYSTEM) -> dict[str, str]:
    return exported_env(chosen, ENVIRON if environ is None else environ, prefix, SYSTEM)


def test_by_default_a_job_takes_what_says_where_programs_are() -> None:
    assert taken() == DEFAULT


def test_none_takes_nothing() -> None:
    assert taken("NONE") == taken(["none"]) == taken([]) == {}


def test_all_takes_everything_but_secrets_and_what_is_the_callers_alone() -> None:
    everything = {**DEFAULT, **{name: ENVIRON[name] for name in ("HOME", "HF_HOME", "BASH_FUNC_module%%")}}
    assert taken("ALL") == everything
    assert taken(["ALL", "HF_TOKEN,https_proxy"]) == {
        **everything,
        "HF_TOKEN": "hf_secret",
        "https_proxy": "http://ann:pw@proxy:3128",
    }


def test_names_take_these_alone_with_values_from_here_or_their_own() -> None:
    assert taken("HF_TOKEN,HF_HOME, SEED=1") == {"HF_TOKEN": "hf_secret", "HF_HOME": "/data/hf", "SEED": "1"}
    assert taken(["A=b=c", "EMPTY="]) == {"A": "b=c", "EMPTY": ""}
    assert taken("ALL,HOME=/elsewhere")["HOME"] == "/elsewhere"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("", r"is empty: use NONE, ALL, or names such as HF_HOME,SEED=1"),
        ("A=1,,B=2", r"'' is not a variable: use NONE, ALL"),
        ("=1", r"'=1' is not a variable"),
        ("A\0B", r"is not a variable"),
        ("NOT_HERE", r"NOT_HERE is not set in this environment: remove it, or use NOT_HERE=VALUE"),
        ("NONE,HF_HOME", r"NONE stands alone"),
        ("SCHED_TOKEN", r"SCHED_TOKEN is the scheduler's own: leave it out"),
        ("sched_url=x", r"sched_url is the scheduler's own"),
        (True, r"must be a string or a list of strings: use NONE, ALL"),
        ({"A": "1"}, r"must be a string or a list of strings"),
        (["A=1", 2], r"must be a string or a list of strings"),
    ],
)
def test_what_can_not_be_taken_is_refused_in_a_line(chosen: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        taken(chosen)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """The virtual environment of `sched`."""
    return environment(tmp_path / "venv")


def environment(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    return root


def test_an_environment_that_is_not_activated_comes_first(venv: Path) -> None:
    env = taken(prefix=str(venv))
    assert env == {**DEFAULT, "PATH": f"{venv}/bin:/opt/tool/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}
    assert taken("ALL", prefix=str(venv)).items() >= env.items()
    assert taken("PATH", prefix=str(venv)) == {name: env[name] for name in ("PATH", "VIRTUAL_ENV")}
    assert taken("HF_HOME", prefix=str(venv)) == {"HF_HOME": "/data/hf"}
    assert taken("NONE", prefix=str(venv)) == {}


def test_without_a_path_programs_are_those_of_the_environment_and_the_system(venv: Path) -> None:
    assert taken(environ={}, prefix=str(venv)) == {"PATH": f"{venv}/bin:{os.defpath}", "VIRTUAL_ENV": str(venv)}
    assert taken(environ={}) == {}


def test_one_that_is_activated_is_taken_as_it_is(venv: Path) -> None:
    environ = {"PATH": f"/mine:{venv}/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}
    assert taken(environ=environ, prefix=str(venv)) == environ
    link = venv.parent / "link"
    link.symlink_to(venv)
    environ = {"PATH": f"{link}/bin:/usr/bin", "VIRTUAL_ENV": str(link)}
    assert taken(environ=environ, prefix=str(venv)) == environ


def test_one_that_was_activated_and_lost_its_path_comes_first_again(venv: Path) -> None:
    environ = {"PATH": "/usr/bin", "VIRTUAL_ENV": str(venv)}
    assert taken(environ=environ, prefix=str(venv))["PATH"] == f"{venv}/bin:/usr/bin"


def test_its_folder_is_listed_once(venv: Path) -> None:
    assert taken(environ={"PATH": f"/usr/bin:{venv}/bin"}, prefix=str(venv))["PATH"] == f"{venv}/bin:/usr/bin"


def test_another_environment_that_is_activated_stays_in_force(venv: Path, tmp_path: Path) -> None:
    other = environment(tmp_path / "other")
    activated = {"PATH": f"{other}/bin:/usr/bin", "VIRTUAL_ENV": str(other)}
    assert taken(environ=activated, prefix=str(venv)) == activated
    conda = {"PATH": f"{other}/bin:/usr/bin", "CONDA_PREFIX": str(other), "CONDA_DEFAULT_ENV": "train"}
    assert taken(environ=conda, prefix=str(venv)) == conda


def test_condas_base_and_what_a_stale_variable_names_are_not_in_force(venv: Path, tmp_path: Path) -> None:
    other = environment(tmp_path / "other")
    base = {"PATH": f"{other}/bin:/usr/bin", "CONDA_PREFIX": str(other), "CONDA_DEFAULT_ENV": "base"}
    own = {"PATH": f"{venv}/bin:{other}/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}
    assert taken(environ=base, prefix=str(venv)) == {**base, **own}
    stale = {"PATH": "/usr/bin", "VIRTUAL_ENV": str(other)}
    assert taken(environ=stale, prefix=str(venv)) == {"PATH": f"{venv}/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}


def test_what_is_not_text_is_left_out_folder_by_folder_and_refused_by_name(venv: Path) -> None:
    strange = os.fsdecode(b"/b\xff")
    environ = {"PATH": f"{strange}:/usr/bin", "CONDA_X": strange, "HF_HOME": strange, strange: "x", "SEED": "1"}
    assert taken(environ=environ) == {"PATH": "/usr/bin"}
    assert taken("ALL", environ=environ) == {"PATH": "/usr/bin", "SEED": "1"}
    assert taken(environ=environ, prefix=str(venv))["PATH"] == f"{venv}/bin:/usr/bin"
    with pytest.raises(InvalidInput, match="HF_HOME is not UTF-8 text: no job can take it"):
        taken("HF_HOME", environ=environ)


def test_an_interpreters_home_does_not_lead_past_the_environment(venv: Path) -> None:
    environ = {"PATH": "/usr/bin", "PYTHONHOME": "/opt/python"}
    assert "PYTHONHOME" not in taken("ALL", environ=environ, prefix=str(venv))
    assert taken("ALL", environ=environ)["PYTHONHOME"] == "/opt/python"


def test_the_directory_goes_with_it_where_the_job_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = export_request("NONE", ENVIRON, directory="/here")
    assert export == {"env": {}, "workdir": "/here", "host": socket.gethostname()}
    assert export_request("NONE", ENVIRON, directory=None) is None
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match=r"the present directory: No such file or directory: .* --workdir"):
        present_directory()


def built(flags: Flags, written: dict[str, Any] | None = None, path: str = "", line: int = 0) -> dict[str, Any]:
    lines = {"export": line} if line else {}
    return build_request(flags, written or {}, Source(path, {}, lines, frozenset(written or {})))[0]


def test_a_job_file_may_choose_and_the_option_wins_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/data/hf")
    file = {"command": "x", "export": ["HF_HOME", "SEED=1"], "env": {"SEED": "2"}}
    request = built(Flags(), file)
    assert request["export"]["env"] == {"HF_HOME": "/data/hf", "SEED": "1"}
    assert request["env"] == {"SEED": "2"}
    assert built(Flags(export=["NONE"]), file)["export"]["env"] == {}
    assert built(Flags(), {"command": "x", "export": "NONE", "workdir": "/w"}).keys() == {
        *("command", "workdir", "name")
    }


def test_a_complaint_names_the_option_or_the_line_of_the_file() -> None:
    with pytest.raises(UserError, match=r"^--export: NOT_HERE is not set in this environment"):
        built(Flags(command=["x"], export=["NOT_HERE"]))
    with pytest.raises(UserError, match=r"^job\.yaml:3: export: must be a string or a list of strings"):
        built(Flags(), {"command": "x", "export": {"A": "1"}}, "job.yaml", 3)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True) | st.sampled_from(sorted(ENVIRON))
NAMES |= st.builds("{}_{}".format, NAMES, st.sampled_from(["TOKEN", "KEY", "PASSWORD", "SECRET"]))
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)


@given(st.dictionaries(NAMES, VALUES, max_size=12), st.booleans(), st.data())
def test_secrets_are_taken_only_by_name_and_the_schedulers_variables_never(
    environ: dict[str, str], everything: bool, data: st.DataObject
) -> None:
    choosable = sorted(name for name in environ if not is_schedulers(name) and name.upper() not in ("ALL", "NONE"))
    named = data.draw(st.lists(st.sampled_from(choosable), max_size=3)) if choosable else []
    chosen = ["ALL", *named] if everything else named or None
    env = taken(chosen, environ, prefix="/venv")
    own = {"PATH", "VIRTUAL_ENV"}
    for name, value in env.items():
        assert not is_schedulers(name)
        assert name in named or name in own or not is_secret(name, value)
        assert name in own or environ[name] == value
        assert everything or name in named or name in own or (chosen is None and in_default_export(name))
    assert all(name in env for name in named)
    check_request(JobRequest, {"command": ["x"], "export": {"env": env}})


@given(st.lists(st.text(max_size=12), max_size=3))
def test_whatever_is_chosen_can_be_stored_or_is_refused(chosen: list[str]) -> None:
    with suppress(InvalidInput):
        env = taken([*chosen, "SEED=1"])
        assert env["SEED"] == "1"
        check_request(JobRequest, {"command": ["x"], "export": {"env": env}})
