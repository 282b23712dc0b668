"""Shell completion asks the daemon, and is silent without one."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cli.calls import Call
from tests.cli.test_jobs import submitted, until
from tests.daemon import ROOT, Daemon
from tests.eventually import becomes, eventually

Sched = Callable[..., Call]


def completed(words: str, state_dir: str, **variables: str) -> list[str]:
    """What bash would offer after these words; nothing where the daemon does not answer at once."""
    environment = {
        **os.environ,
        "SCHED_STATE_DIR": state_dir,
        "_SCHED_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.cli"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_jobs_nodes_and_commands_are_offered(sched: Sched, daemon: Daemon) -> None:
    job = submitted(sched, "offered", "--node-selector", "zone=nowhere")
    [node] = sched("nodes", "-o", "json").ok().document["nodes"]
    state = str(daemon.state_dir)
    becomes(lambda: completed("sched show off", state), ["offered"])
    eventually(lambda: str(job) in completed("sched cancel ", state), f"job {job} is not offered")
    becomes(lambda: completed(f"sched drain {node['name'][:2]}", state), [node["name"]])
    assert completed("sched unc", state) == ["uncordon"]
    sched("cancel", "offered").ok()
    until(daemon, job, "CANCELLED")
    assert completed("sched show off", state) == []


def test_nothing_is_offered_or_said_without_a_daemon() -> None:
    assert completed("sched show ", "/nonexistent", SCHED_URL="http://127.0.0.1:9") == []


def test_the_script_is_printed_and_that_is_success() -> None:
    command = f"{sys.executable} -m scheduler.cli --show-completion bash; exit $?"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_SCHED_COMPLETE=complete_bash" in done.stdout


@pytest.mark.parametrize(("words", "status"), [("sched sho", 0), ("sched nowhere", 2)])
def test_fish_is_told_by_the_status_whether_there_are_words(
    alone: Sched, monkeypatch: pytest.MonkeyPatch, words: str, status: int
) -> None:
    monkeypatch.setenv("_SCHED_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words)
    assert alone().status == status
