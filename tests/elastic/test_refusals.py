"""What the scheduler does not take of a worker's report is told once, and cuts the worker off from nothing."""

import json
import math
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from pydantic import create_model

from scheduler import elastic
from scheduler.elastic.environment import Environment
from scheduler.elastic.membership import agent, checkpoint_watch
from scheduler.elastic.membership.agent import Agent
from scheduler.elastic.membership.checkpoint_watch import watch_of
from scheduler.elastic.membership.client import Client, Published, Standing
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.session import Options, Session
from scheduler.http.routes import workers
from scheduler.http.schemas.fields import Request
from scheduler.http.schemas.requests import parse_request
from scheduler.http.schemas.worker_requests import ReportRequest
from scheduler.model.ids import WorkerId
from scheduler.model.observation import WorkerReport
from tests.daemon import ROOT
from tests.elastic.becoming import become_worker, served_site
from tests.http.site import Site

NAN, INFINITY = math.nan, math.inf
ENDPOINT = "127.0.0.1:4000"


class Worker:
    """The first worker of a job, in this process: its line to the scheduler, whose threads are not started."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
        self._site = site
        job_id = site.submit()
        site.advance(1)
        become_worker(monkeypatch, site, job_id)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        environment = Environment.read(os.environ)
        assert environment is not None
        self.environment = environment
        self.ended: list[bool] = []
        self.checkpoints = watch_of(environment)
        self.agent = Agent(environment, ENDPOINT, lambda: self.ended.append(True), self.checkpoints)

    def heard(self) -> WorkerReport:
        """The newest report that came."""
        report = self._site.reports.latest(WorkerId(self.environment.worker))
        assert report is not None
        return report


#: Ends with 0 where neither a forked process has the worker's pipe for signals, nor the worker has lost it.
FORKING = """
import os, signal, sys, warnings
from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.agent import Agent

Agent(Environment.read(os.environ), "127.0.0.1:9", lambda: None, None).start()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    os._exit(signal.set_wakeup_fd(-1) + 1)
inherited = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
os._exit(inherited or int(signal.set_wakeup_fd(-1) == -1))
"""


def test_a_signal_to_a_forked_process_is_none_to_the_worker(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    Worker(site, monkeypatch)
    assert subprocess.run([sys.executable, "-c", FORKING], cwd=ROOT, timeout=120, check=False).returncode == 0


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "scheduler.elastic"]


def test_a_number_that_is_not_finite_is_left_out_of_the_report_and_told_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(site, monkeypatch)
    state = elastic.State()
    session = Session(worker.agent, None, None, state, Options(60.0, None, None, None))
    session.join(Membership(1, (worker.environment.worker,), None))
    for loss in (NAN, INFINITY, NAN):
        state.report(loss=loss, accuracy=0.5)
        state.commit()
    worker.agent.flush()
    assert (worker.heard().metrics, worker.heard().step) == ((("accuracy", 0.5),), 3)
    assert told(caplog) == ["loss is nan: left out of reports while it is not finite"]
    state.report(loss=torch.tensor(0.25))
    worker.agent.flush()
    assert worker.heard().metrics == (("loss", 0.25),)
    session.close()


@pytest.mark.parametrize(
    ("metrics", "complaint"),
    [
        ({"loss": "0.5"}, r"report\(\) accepts numbers only: loss is '0.5'"),
        ({"loss": None}, r"report\(\) accepts numbers only: loss is None"),
        ({"loss": torch.zeros(2)}, r"report\(\) accepts numbers only: loss is tensor\(\[0., 0.\]\)"),
        ({"loss": 10**400}, r"report\(\) accepts numbers only: loss is 1000"),
        ({"top 5": 1.0}, r"names of 1 to 128 letters, digits and \. _ / -, not 'top 5'"),
        ({"": 1.0}, "names of 1 to 128 letters"),
        ({"x" * 129: 1.0}, "names of 1 to 128 letters"),
    ],
)
def test_what_can_never_be_reported_is_refused_where_it_is_said(metrics: dict[str, Any], complaint: str) -> None:
    with pytest.raises(elastic.UsageError, match=complaint):
        elastic.State().report(**metrics)


def test_names_as_the_scheduler_takes_them_are_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(site, monkeypatch)
    state = elastic.State()
    names = {"a": 1.0, "val/acc.top-5_x": 2.0, "x" * 128: 3.0}
    state.report(**names)
    with closing(Client(worker.environment)) as client:
        answer = client.report({"generation": 0, "metrics": state._all_metrics()})
    assert (answer.standing, answer.refusal) == (Standing.OK, "")
    assert dict(worker.heard().metrics) == names


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"samples_per_second": NAN}, "422: body: not valid JSON"),
        ({"metrics": {"top 5": 1.0}}, "422: metrics.top 5: must match the pattern"),
        ({"efficiency": 2.0}, "422: efficiency: must be at most 1"),
        ({"metrics": {f"{number}{'x' * 100}": 1.0 for number in range(700)}}, "413: the body exceeds 65536 bytes"),
    ],
)
def test_a_report_that_is_refused_for_a_number_keeps_the_worker_heard_and_its_checkpoints_confirmed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fields: dict[str, Any],
    words: str,
) -> None:
    peer = "127.0.0.1:4001"
    with served_site(tmp_path) as site:
        worker = Worker(site, monkeypatch)
        with closing(worker.agent) as agent:
            agent.update({"generation": 1, "peer": peer, "step": 3, **fields})
            assert agent.confirm(1, last=False)
            assert agent.confirm(1, last=False)
        heard = worker.heard()
    assert (heard.generation, heard.ready, heard.endpoint, heard.peer) == (1, True, ENDPOINT, peer)
    [line] = told(caplog)
    assert line.startswith(f"the scheduler rejected the report of this worker: {words}")


def saving(site: Site, monkeypatch: pytest.MonkeyPatch, directory: Path) -> Worker:
    """A worker of a job that wrote a checkpoint one minute ago, and has noticed it."""
    monkeypatch.setattr(checkpoint_watch, "COMPLETE_SECONDS", 0.0)
    checkpoint = directory / "model.pt"
    checkpoint.write_text("state")
    written_at = checkpoint.stat().st_mtime - 60.0
    os.utime(checkpoint, (written_at, written_at))
    worker = Worker(site, monkeypatch, SCHED_CHECKPOINT_DIR=str(directory))
    assert worker.checkpoints is not None
    worker.checkpoints.look()
    return worker


def test_how_long_ago_a_checkpoint_was_written_is_reported(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    worker = saving(site, monkeypatch, tmp_path_factory.mktemp("checkpoint"))
    with closing(worker.agent) as agent:
        agent.flush()
    heard = worker.heard()
    assert heard.last_checkpoint_at is not None
    assert 60.0 <= heard.received_at - heard.last_checkpoint_at < 90.0


def test_a_scheduler_that_does_not_know_of_checkpoints_is_told_of_everything_else(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fields = ReportRequest.model_fields.items()
    known: Any = {name: (field.annotation, field) for name, field in fields if name != checkpoint_watch.FIELD}
    earlier = create_model("ReportRequest", __base__=Request, **known)

    def parse_as_before(model: type[ReportRequest], body: bytes) -> ReportRequest:
        parse_request(earlier, body)
        return parse_request(model, body)

    monkeypatch.setattr(workers, "parse_request", parse_as_before)
    worker = saving(site, monkeypatch, tmp_path_factory.mktemp("checkpoint"))
    with closing(worker.agent) as agent:
        for step in (1, 2):
            agent.update({"generation": 1, "step": step})
            agent.flush()
    assert (worker.heard().generation, worker.heard().ready, worker.heard().step) == (1, True, 2)
    assert told(caplog) == []
    assert worker.ended == []


def test_a_worker_with_a_wrong_token_gets_no_checkpoint_confirmed_and_is_told_why_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(site, monkeypatch, SCHED_TOKEN="another")
    with closing(worker.agent) as agent:
        assert not agent.confirm(1, last=True)
        agent.flush()
    assert worker.ended == [], "whoever does not know its token does not know that it is fenced"
    refusal = "401: missing or invalid token: the worker token of this job is required"
    assert told(caplog) == [f"the scheduler rejected the report of this worker: {refusal}"]


class Restarting(BaseHTTPRequestHandler):
    """A scheduler that is not ready at the first reports."""

    answers: ClassVar[list[int]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status = self.answers.pop(0)
        body = json.dumps({"generation": 1, "leave": True} if status == 200 else {}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: tests have an output of their own."""


@pytest.mark.parametrize(
    ("asked", "last", "confirmed"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_last_checkpoint_is_asked_for_again_while_the_scheduler_restarts_and_the_grace_lasts(
    site: Site, monkeypatch: pytest.MonkeyPatch, asked: bool, last: bool, confirmed: bool
) -> None:
    Restarting.answers = [503, 503, 200]
    with ThreadingHTTPServer(("127.0.0.1", 0), Restarting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        worker = Worker(site, monkeypatch, SCHED_URL=f"http://127.0.0.1:{server.server_port}")
        with closing(worker.agent) as agent:
            agent._terminated_at = time.monotonic() if asked else None
            assert agent.confirm(1, last=last) is confirmed
        server.shutdown()
        thread.join()


def test_a_list_that_is_refused_is_no_absence_of_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_site(tmp_path) as site:
        worker = Worker(site, monkeypatch, SCHED_JOB_ID="99")
        with closing(Client(worker.environment)) as client:
            published = client.discover(0, 0)
            assert published.standing is Standing.REFUSED
            assert published.refusal.startswith("404: ")
    with closing(Client(worker.environment)) as client:
        assert client.discover(0, 0).standing is Standing.AWAY


def test_an_older_list_than_the_known_one_is_not_asked_for_again_without_a_pause(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(site, monkeypatch)
    site.settle()
    newer = Membership(9, (worker.environment.worker,), None)
    worker.agent.take_list(newer)
    happened: list[str] = []

    class Asking(Client):
        def discover(self, known_generation: int, wait_seconds: int) -> Published:
            happened.append("asked")
            assert len(happened) == 1
            return super().discover(known_generation, wait_seconds)

    def pause(_seconds: float) -> None:
        happened.append("paused")
        raise SystemExit

    monkeypatch.setattr(agent, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    with closing(Asking(worker.environment)) as client:
        monkeypatch.setattr(agent, "Client", lambda _environment: client)
        with pytest.raises(SystemExit):
            worker.agent._poll_forever()
    assert happened == ["asked", "paused"]
    assert worker.agent.membership() == newer


#: Ends with 0 once the worker has been heard twice, though its script has more files open than select() takes.
MANY_FILES = """
import os, resource
from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.agent import Agent

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
Agent(Environment.read(os.environ), "127.0.0.1:9", lambda: None, None).start()
os.read(0, 1)
"""


class Counting(Restarting):
    """A scheduler that answers each report, and tells of the third."""

    heard: ClassVar[threading.Semaphore]

    def do_POST(self) -> None:
        super().do_POST()
        self.heard.release()


def test_a_script_with_many_open_files_goes_on_being_heard(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    Counting.answers = [200] * 1000
    Counting.heard = threading.Semaphore(0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Worker(site, monkeypatch, SCHED_URL=f"http://127.0.0.1:{server.server_port}")
        with subprocess.Popen([sys.executable, "-c", MANY_FILES], cwd=ROOT, stdin=subprocess.PIPE) as process:
            heard = [Counting.heard.acquire(timeout=60) for _ in range(3)]
            process.kill()
        server.shutdown()
        thread.join()
    assert all(heard), "its reports have ended"
