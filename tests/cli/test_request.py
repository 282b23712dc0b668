"""A request put together from options and a file."""

import os
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.input.flags import OPTION_OF, Flags
from scheduler.cli.input.request import build_request, name_of
from scheduler.cli.input.source import Source
from scheduler.errors import UserError
from scheduler.http.schemas.requests import JobRequest, RecurringRequest


def built(flags: Flags, written: dict[str, Any] | None = None, path: str = "") -> dict[str, Any]:
    return build_request(flags, written or {}, Source(path, fields=frozenset(written or {})))[0]


def test_every_field_of_the_api_has_an_option() -> None:
    fields = set(JobRequest.model_fields) | set(RecurringRequest.model_fields) - {"job"}
    assert set(OPTION_OF) == fields
    assert all(option.startswith("--") for field, option in OPTION_OF.items() if field != "command")


def test_a_data_set_is_told_field_by_field_over_that_of_the_file() -> None:
    flags = Flags(command=["train"], data=["shards=1000", "shuffle=true"])
    assert built(flags, {"data": {"shards": 10, "epochs": 2}})["data"] == {"shards": 1000, "epochs": 2, "shuffle": True}
    with pytest.raises(UserError, match="--data: shards=\\[ must have the form shards=1000"):
        built(Flags(command=["train"], data=["shards=["]))
    with pytest.raises(UserError, match="--data: shards is given more than once"):
        built(Flags(command=["train"], data=["shards=10", "epochs=2", "shards=20"]))
    for wrong in ("2001-01-01", "[1]", ".inf", "{a: 1}"):
        with pytest.raises(UserError, match="--data: shards must be a number, true or false"):
            built(Flags(command=["train"], data=[f"shards={wrong}"]))
    for wrong in ("2001-99-99", "[" * 5000):
        with pytest.raises(UserError, match=r"--data: shards=.* must have the form shards=1000"):
            built(Flags(command=["train"], data=[f"shards={wrong}"]))


def test_defaults_are_the_name_and_what_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request = built(Flags(command=["python", "-u", "jobs/train.py", "--lr", "1"]))
    assert request.pop("export")["workdir"] == str(tmp_path)
    assert request == {
        "command": ["python", "-u", "jobs/train.py", "--lr", "1"],
        "name": "train",
    }


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/true"], "true"),
        (["python3.11", "-m", "pkg.train", "-x"], "pkg.train"),
        (["torchrun", "--nproc", "2", "a/b.py"], "b"),
        (["bash", "run.sh"], "run"),
        (["python"], "python"),
        ("python train.py && echo done", "train"),
        ("for i in 1 2; do echo $i; done", "shell"),
        ("", "job"),
        (7, "job"),
    ],
)
def test_a_name_comes_from_the_script_or_program(command: Any, name: str) -> None:
    assert name_of(command) == name


def test_options_win_over_the_file_and_mappings_are_merged() -> None:
    written = {"command": ["a"], "name": "file", "env": {"A": "1", "B": "1"}, "labels": {"x": "1"}, "priority": 3}
    request = built(Flags(name="flag", env=["B=2", "C=3"], priority=7), written, "job.yaml")
    assert request["name"] == "flag"
    assert request["env"] == {"A": "1", "B": "2", "C": "3"}
    assert request["labels"] == {"x": "1"}
    assert request["priority"] == 7


def test_one_bound_as_an_option_keeps_the_other_of_the_file() -> None:
    assert {"min_workers": 2, "max_workers": 8}.items() <= built(
        Flags(max_workers=8), {"command": "x", "workers": 2}, "job.yaml"
    ).items()
    request = built(Flags(workers="1-4"), {"command": "x", "min_workers": 7}, "job.yaml")
    assert (request["min_workers"], request["max_workers"]) == (1, 4)


def test_env_without_value_is_copied_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "x=y")
    monkeypatch.delenv("NOT_HERE", raising=False)
    assert built(Flags(command=["a"], env=["FROM_HERE", "B="]))["env"] == {"FROM_HERE": "x=y", "B": ""}
    with pytest.raises(UserError, match="--env: NOT_HERE is not set in this environment: use NOT_HERE=VALUE"):
        built(Flags(command=["a"], env=["NOT_HERE"]))
    monkeypatch.setenv("NO_TEXT", os.fsdecode(b"\xff"))
    with pytest.raises(UserError, match="--env: NO_TEXT is not UTF-8 text: no job can take it"):
        built(Flags(command=["a"], env=["NO_TEXT"]))


@pytest.mark.parametrize(
    ("option", "of_file", "workdir", "directory"),
    [
        (None, None, None, "."),
        (None, "../data", "../data", "data"),
        (None, ".", ".", "jobs"),
        (None, "~/data", "~/data", "home/data"),
        (None, "/data", "/data", None),
        ("here", "../data", "here", "here"),
        ("/here", "../data", "/here", None),
    ],
)
def test_a_relative_workdir_is_named_in_full_only_to_the_submitters_machine(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    of_file: str | None,
    workdir: str | None,
    directory: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    written = {"command": "x", **({"workdir": of_file} if of_file is not None else {})}
    flags = Flags(workdir=Path(option) if option is not None else None)
    request = built(flags, written, "jobs/job.yaml")
    assert request.get("workdir") == workdir
    assert request["export"].get("workdir") == (str(tmp_path / directory) if directory is not None else None)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (Flags(), "no command given: give a command after --"),
        (Flags(command=["a"], shell="b"), "--shell: cannot be combined"),
        (
            Flags(command=["a"], preemptible=False, surplus_preemptible=True),
            "--preemptible-surplus: cannot be combined",
        ),
        (Flags(command=["a"], workers="1", min_workers=1), "--workers: cannot be combined"),
        (Flags(command=["a"], workers="x"), "--workers: 'x' is not a valid number"),
        (Flags(command=["a"], grace_seconds="x"), "--grace: 'x' is not a valid duration"),
        (Flags(command=["a"], memory_mib_per_worker="x"), "--memory: 'x' is not a valid size"),
        (Flags(command=["a"], labels=["x"]), "--label: 'x' must have the form"),
    ],
)
def test_what_does_not_go_together_is_refused(flags: Flags, said: str) -> None:
    with pytest.raises(UserError) as caught:
        built(flags)
    assert str(caught.value).startswith(said)


def test_an_option_makes_only_the_surplus_preemptible() -> None:
    request = built(Flags(command=["a"], surplus_preemptible=True), {"preemptible": True}, "job.yaml")
    assert request["preemptible"] == "surplus"


def test_a_file_without_a_command_is_named() -> None:
    with pytest.raises(UserError, match=r"^job\.yaml: command: field required"):
        built(Flags(), {"name": "a"}, "job.yaml")


def test_a_complaint_names_the_option_that_set_the_field() -> None:
    flags = Flags(command=["a"], max_workers=1, grace_seconds="1h", env=["A=1"])
    _, source = build_request(
        flags, {"min_workers": 4}, Source("job.yaml", {}, {"min_workers": 3}, frozenset({"min_workers"}))
    )
    assert source.complaint("max_workers", "must be more") == "--max: must be more"
    assert source.complaint("job.grace_seconds", "too long") == "--grace: too long"
    assert source.complaint("env.A", "too long") == "--env: env.A: too long"
    assert source.complaint("min_workers", "too many") == "job.yaml:3: min_workers: too many"
    assert source.complaint("body", "min_workers 4 exceeds max_workers 1").startswith("job.yaml:3: min_workers 4")


def test_a_pod_template_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("spec:\n  containers: [{name: worker, image: torch}]\n")
    request = built(Flags(command=["train"], pod_template=path))
    assert request["pod_template"] == {"spec": {"containers": [{"name": "worker", "image": "torch"}]}}
    with pytest.raises(UserError, match=r"no\.yaml: No such file"):
        built(Flags(command=["train"], pod_template=tmp_path / "no.yaml"))
