"""Every way to fail ends in one line and the status that `sched --help` names."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scheduler.cli.exits import Exit, status_of
from scheduler.errors import ClusterError, Conflict, InvalidInput, NotFound, StoreUnavailable
from tests.cli.calls import Call
from tests.daemon import ROOT, Daemon, running_daemon
from tests.http.site import Site

Sched = Callable[..., Call]
TOKEN = "a-token-of-the-users"
#: A pipe of bash whose reader has gone.
GONE = "exec 3> >(true); wait $!;"


@contextmanager
def answering(status: int, body: bytes, content_type: str = "text/html") -> Iterator[str]:
    """The address of a server on this machine that is not a scheduler and always gives this answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("token", "create", "--user", ""), "--user: must not be empty"),
        (("token", "create", "--user", "ann", "--queue", "nosuch"), "--queue: queue 'nosuch' does not exist"),
        (("token", "create", "--user", "ann", "--expires", "0"), "--expires: must be at least"),
        (("token", "revoke", "9" * 30), "ID: must be at most"),
        (("list", "--queue", "lab/"), "--queue: each name must be 1 to 63 of"),
        (("usage", "--since", "2999-01-01"), "--since: must be in an earlier hour than the end of the range"),
        (("report", "--since", "2999-01-01"), "--since: must be at least one second before the end"),
        (("events", "--after", "9" * 30), "--after: must be at most"),
        (("priority", "1", "99999999"), "N: must be at most 1000000, not 99999999"),
        (("priority", "1", "99999999", "--dry-run"), "N: must be at most 1000000"),
        (("scale", "1", "--max", "99999999"), "--max: must be at most 100000, not 99999999"),
        (("submit", "--min", "3", "--max", "2", "--", "true"), "--min: 3 exceeds --max 2"),
        (("submit", "--workers", "3-2", "--", "true"), "--workers: 3 exceeds max_workers 2"),
        (("submit", "--cpus", "nan", "--", "true"), "--cpus: must be a finite number"),
        (("submit", "--speedup", "2=inf", "--", "true"), "--speedup: speedup.0.1: must be a finite number"),
        (("submit", "--slots-per-worker", "9" * 30, "--", "true"), "--slots-per-worker: must be at most 4096, not 999"),
        (("whatif", "--cpus", "inf", "--", "true"), "--cpus: must be a finite number"),
        (("book", "a", "--duration", "1h", "--slots", "1", "--cpus", "nan"), "--cpus: must be a finite number"),
        (("book", "a b", "--duration", "1h", "--slots", "1"), "NAME: must match the pattern"),
        (("book", "a", "--duration", "0", "--slots", "1"), "--duration: must be at least"),
        (("queue", "create", "a", "--limit", "H100=-1"), "--limit H100: must be at least 0, not -1"),
    ],
)
def test_a_field_that_the_daemon_refuses_is_named_as_the_option_that_sets_it(
    sched: Sched, command: tuple[str, ...], said: str
) -> None:
    sched(*command).failed(2, f"sched: {said}")


@pytest.mark.parametrize("name", ["", ".", "..", "../x"])
def test_a_name_that_would_be_another_address_is_not_found(sched: Sched, name: str) -> None:
    for command in ("cordon", "uncordon", "drain"):
        sched(command, name).failed(3, "node ", "not found")
    sched("unbook", name).failed(3, "booking ", "not found")


def test_a_name_that_nothing_can_have_is_one_line(sched: Sched) -> None:
    sched("drain", "\udcff").failed(3, "node ? not found")
    sched("unbook", "a b").failed(2, "NAME: must match the pattern")


def test_an_id_with_more_digits_than_any_has_is_not_found(sched: Sched) -> None:
    sched("priority", "0", "5").failed(3, "job '0' not found")
    for command in ("show", "cancel"):
        sched(command, "r" + "9" * 30).failed(3, "job 'r999", "not found")


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["show", "1"],
        ["show", "name"],
        ["priority", "1", "2"],
        ["scale", "1", "--min", "2"],
        ["cancel", "1", "2"],
        ["suspend", "1"],
        ["resume", "1"],
        ["explain", "1"],
        ["hosts", "1"],
        ["logs", "1"],
        ["events"],
        ["events", "-f"],
        ["top", "--once"],
        ["nodes"],
        ["cordon", "a"],
        ["uncordon", "a"],
        ["drain", "a"],
        ["submit", "--", "true"],
        ["submit", "--cron", "0 3 * * *", "--", "true"],
    ],
    ids=" ".join,
)
def test_without_a_daemon_every_command_says_what_to_do(alone: Sched, words: list[str]) -> None:
    call = alone(words[0], "--url", "http://127.0.0.1:9", *words[1:])
    call.failed(5, 'no daemon answers at http://127.0.0.1:9: start one with "sched serve", or set SCHED_URL')


def test_a_daemon_that_is_gone_is_named_with_the_file_that_says_where_it_was(
    alone: Sched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "daemon.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')
    monkeypatch.setenv("SCHED_STATE_DIR", str(tmp_path))
    alone("list").failed(5, f"no daemon answers at http://127.0.0.1:9 (from {tmp_path / 'daemon.json'})")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "is not a scheduler"),
        (404, b"<html>", "is not a scheduler (status 404 for /v1/nodes)"),
        (502, b"Bad Gateway", "failed with status 502"),
        (200, b"", "is not a scheduler"),
    ],
)
def test_what_is_no_scheduler_is_said_to_be_none(alone: Sched, status: int, body: bytes, said: str) -> None:
    with answering(status, body) as url:
        call = alone("nodes", "--url", url)
        assert call.status in (5, 7)
        call.failed(call.status, said, url)


def test_hosts_never_prints_what_is_no_list_of_hosts(alone: Sched, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200, b"a:1\n") as url:
        monkeypatch.setenv("SCHED_URL", url)
        alone("hosts", "12").failed(5, "is not a scheduler")


def test_a_token_is_needed_and_found(alone: Sched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_daemon(tmp_path, http={"token": TOKEN}) as daemon:
        alone("list", "--url", daemon.url).failed(6, "no token", "sched login")
        alone("list", "--url", daemon.url, "--token", "wrong").failed(6, "invalid token", "check SCHED_TOKEN")
        alone("list", "--url", daemon.url, "--token", TOKEN).ok()
        monkeypatch.setenv("SCHED_STATE_DIR", str(daemon.state_dir))
        alone("list").ok()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lst"], "Did you mean 'list'?"),
        (["list", "--bad"], "--bad"),
        (["list", "-o", "xml"], "'table', 'json'"),
        (["list", "--state", "SLEEPING"], "'queued'"),
        (["list", "--label", "x"], "--label: 'x' must have the form KEY=VALUE"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--url", "nowhere"], "--url: 'nowhere' is not a valid address"),
        (["list", "--url", "http://a..b"], "--url: 'http://a..b' is not a valid address"),
        (["list", "--url", f"http://{'a' * 64}.example"], "is not a valid address"),
        (["priority", "1"], "Missing argument 'N'"),
        (["priority", "1", "--url"], "--url"),
        (["scale", "1", "--min", "0"], "--min"),
        (["show"], "Missing argument 'JOB'"),
        (["show", ""], "JOB is empty"),
        (["db", "sideways"], "sideways"),
        (["serve", "--slots", "0", "--port", "0"], "local.slots"),
        (["serve", "--port", "70000"], "http.port"),
        (["serve", "--config", "no-such-file.toml"], "no-such-file.toml"),
        (["serve", "--token-file", "no-such-file"], "--token-file: no-such-file: No such file"),
        (["serve", "--host", "0.0.0.0", "--port", "0"], "token"),
        (["db", "check", "--database-url", "mysql://x"], "mysql"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_is_told_in_one_line(alone: Sched, words: list[str], said: str) -> None:
    alone(*words).failed(2, said)


def test_no_command_shows_the_help_and_counts_as_wrong_usage(alone: Sched) -> None:
    call = alone()
    assert call.status == 2
    assert "Usage: sched" in call.out + call.err


def test_help_explains_every_exit_status(alone: Sched) -> None:
    text = alone("--help").ok().out
    for status in Exit:
        assert f"{status.value}  {status.meaning}" in text


def test_every_error_of_the_tree_has_its_status() -> None:
    assert status_of(NotFound("x")) is Exit.NOT_FOUND
    assert status_of(Conflict("x")) is Exit.CONFLICT
    assert status_of(InvalidInput("x", "y")) is Exit.USAGE
    assert status_of(StoreUnavailable("x")) is Exit.UNAVAILABLE
    assert status_of(ClusterError("x")) is Exit.UNAVAILABLE


def test_a_reader_that_goes_away_ends_the_output_quietly(daemon: Daemon) -> None:
    top = f"{sys.executable} -m scheduler.cli top -o json --state-dir {daemon.state_dir}"
    command = f"{GONE} {top} >&3; echo $?"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SCHED_")}
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert (done.stdout.strip(), done.stderr) == ("141", "")


def test_so_does_one_that_goes_away_from_help() -> None:
    command = f"{GONE} {sys.executable} -m scheduler.cli simulate --help >&3; echo $?"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.stdout.strip(), done.stderr) == ("141", "")


@pytest.mark.parametrize("words", [["--version"], ["simulate", "poisson:jobs=1", "--nodes", "1x1", "-o", "json"]])
def test_a_full_disk_under_the_output_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "scheduler.cli", *words]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
    assert done.stderr == "sched: cannot write output: No space left on device\n"
    assert done.returncode == Exit.USAGE


@pytest.mark.parametrize(
    ("words", "status", "out", "err"),
    [
        ("--version >&-", 0, "", ""),
        ("lst 2>&-", 2, "", ""),
        ("lst >&-", 2, "", "Did you mean 'list'?"),
    ],
)
def test_output_that_is_closed_is_nowhere_and_not_elsewhere(words: str, status: int, out: str, err: str) -> None:
    command = f"{sys.executable} -m scheduler.cli {words}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (status, out)
    assert err in done.stderr
    assert len(done.stderr.splitlines()) == bool(err)


def test_what_the_terminal_cannot_show_is_written_out(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.served():
        job = site.submit(name="\u00fc4\u2192\U0001f600")
        for words, said in (
            (["show", str(job)], b"\xfc4\\u2192\\U0001f600"),
            (["list", "-o", "json"], rb'"\u00fc4\u2192\ud83d\ude00"'),
        ):
            command = [sys.executable, "-m", "scheduler.cli", *words, "--url", site.url]
            environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=240)
            assert (done.returncode, done.stderr) == (0, b"")
            assert said in done.stdout
    site.close()


def test_a_defect_is_one_line_unless_asked_for(alone: Sched, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200, b'{"nodes": [{}]}', "application/json") as url:
        alone("nodes", "--url", url).failed(70, "internal error: set SCHED_DEBUG=1 for a traceback")
        monkeypatch.setenv("SCHED_DEBUG", "1")
        with pytest.raises(KeyError):
            alone("nodes", "--url", url)
