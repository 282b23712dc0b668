"""Fixed groups on the command line."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until, view
from tests.daemon import Daemon

Sched = Callable[..., Call]


def test_a_fixed_group_comes_from_a_file_of_its_own_or_from_the_job_file(
    sched: Sched, daemon: Daemon, tmp_path: Path
) -> None:
    group = tmp_path / "servers.yaml"
    group.write_text("replicas: 2\ncommand: exec sleep 60\n")
    job = submitted(sched, "served", "--fixed", str(group))
    until(daemon, job, "RUNNING")
    shown = sched("show", str(job)).ok().out
    assert "2 of 2, each 0 slots: 127.0.0.1:" in shown
    assert "fixed 1" in shown
    sched("cancel", str(job)).ok()
    until(daemon, job, "CANCELLED")
    file = tmp_path / "job.yaml"
    file.write_text('command: ["true"]\nfixed:\n  replicas: 1\n  command: exec sleep 60\n')
    number = sched("submit", "-o", "json", str(file)).ok().document["id"]
    until(daemon, number, "SUCCEEDED")
    assert view(sched, number)["fixed"]["command"] == ["/bin/sh", "-c", "exec sleep 60"]


def test_a_mistake_is_shown_where_it_stands(sched: Sched, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text('command: ["true"]\nfixed:\n  replicas: 0\n')
    sched("submit", str(file)).failed(2, f"{file}:3: fixed.replicas:")
    group = tmp_path / "servers.toml"
    group.write_text("replicas = 0\n")
    sched("submit", "--fixed", str(group), "true").failed(2, "--fixed: ")
