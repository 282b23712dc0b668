"""The driver of a Horovod job, with a program in the place of horovodrun."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from tests.elastic.processes import SECONDS_MAX, environment, python
from tests.eventually import becomes, eventually

#: Runs until a file is there.
UNTIL_OVER = "#!/bin/sh\nwhile [ ! -e {over} ]; do sleep 0.05; done\n"


class Replicas(BaseHTTPRequestHandler):
    """Answers each question for hosts with the next list, or status; after the last one there is none."""

    lists: ClassVar[list[dict[str, Any] | int]]
    asked_for_more: ClassVar[threading.Event]

    def do_GET(self) -> None:
        if not self.lists:
            self.asked_for_more.set()
        found = self.lists.pop(0) if self.lists else 503
        body = b"{}" if isinstance(found, int) else json.dumps(found).encode()
        self.send_response(found if isinstance(found, int) else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: tests have an output of their own."""


@contextmanager
def answering(*lists: dict[str, Any] | int) -> Iterator[str]:
    """The address of a scheduler that gives these lists."""
    Replicas.lists, Replicas.asked_for_more = list(lists), threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Replicas) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def published(generation: int, *workers: str, fewest: int) -> dict[str, Any]:
    members = [{"id": name, "rank": rank, "slots": 1, "endpoint": "a:1"} for rank, name in enumerate(workers)]
    return {"generation": generation, "workers": members, "min": fewest}


#: The driver, whose files have 4,096 bytes at most.
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
sys.argv[0] = "horovod"
runpy.run_module("scheduler.elastic.horovod", run_name="__main__", alter_sys=True)
"""


def test_a_disk_that_refuses_a_list_gets_it_again_while_horovodrun_goes_on(tmp_path: Path) -> None:
    launcher, over = tmp_path / "horovodrun", tmp_path / "over"
    launcher.write_text(UNTIL_OVER.format(over=over))
    launcher.chmod(0o700)

    def hosts() -> str:
        (written,) = tmp_path.glob("horovod-*/hosts")
        return written.read_text()

    with answering(published(5, "1-2", fewest=1)) as url:
        variables = environment(SCHED_URL=url, SCHED_JOB_ID="1", SCHED_WORKER_ID="1-1", TMPDIR=str(tmp_path))
        with python(["-c", LIMITED, "drive", str(launcher), "--", "python"], env=[variables]) as (driver,):
            eventually(lambda: len(list(tmp_path.glob("horovod-*/hosts"))), "no list is written")
            Replicas.lists.append(published(6, *(f"1-{ordinal}" for ordinal in range(2, 1000)), fewest=1))
            assert driver.stdout is not None
            told = driver.stdout.readline()
            assert hosts() == "1-2:1\n"
            Replicas.lists.append(published(7, "1-2", "1-3", fewest=1))
            becomes(hosts, "1-2:1\n1-3:1\n")
            over.touch()
            output, _ = driver.communicate(timeout=SECONDS_MAX)
    assert told == "driver: the list of workers cannot be written, trying again: [Errno 27] File too large\n"
    assert (driver.returncode, output) == (0, "")


def test_a_disk_that_takes_nothing_ends_the_driver_with_a_line_that_says_so(tmp_path: Path) -> None:
    launcher = tmp_path / "horovodrun"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o700)
    with answering(published(5, *(f"1-{ordinal}" for ordinal in range(2, 1000)), fewest=1)) as url:
        variables = environment(SCHED_URL=url, SCHED_JOB_ID="1", SCHED_WORKER_ID="1-1")
        with python(["-c", LIMITED, "drive", str(launcher), "--", "python"], env=[variables]) as (driver,):
            output, _ = driver.communicate(timeout=SECONDS_MAX)
    assert (driver.returncode, output) == (1, "driver: cannot run horovodrun: [Errno 27] File too large\n")


def test_a_driver_whose_log_takes_nothing_follows_the_list(tmp_path: Path) -> None:
    launcher, over = tmp_path / "horovodrun", tmp_path / "over"
    launcher.write_text(UNTIL_OVER.format(over=over))
    launcher.chmod(0o700)
    first, second = published(5, "1-2", fewest=1), published(6, "1-2", "1-3", fewest=1)
    command = [sys.executable, "-m", "scheduler.elastic.horovod", "drive", str(launcher), "--", "python"]
    with answering(first, 404, second) as url, open("/dev/full", "wb") as full:
        variables = environment(SCHED_URL=url, SCHED_JOB_ID="1", SCHED_WORKER_ID="1-1", TMPDIR=str(tmp_path))
        with subprocess.Popen(command, env=variables, stdout=full, stderr=full) as driver:
            try:
                assert Replicas.asked_for_more.wait(SECONDS_MAX), "it asks no more"
                becomes(lambda: [hosts.read_text() for hosts in tmp_path.glob("horovod-*/hosts")], ["1-2:1\n1-3:1\n"])
            finally:
                over.touch()
            assert driver.wait(SECONDS_MAX) == 0


def test_an_older_list_of_a_replica_that_lags_behind_changes_nothing(tmp_path: Path) -> None:
    launcher, over = tmp_path / "horovodrun", tmp_path / "over"
    launcher.write_text(UNTIL_OVER.format(over=over))
    launcher.chmod(0o700)
    newest, older = published(5, "1-2", "1-3", fewest=2), published(4, "1-2", fewest=1)
    with answering(newest, older) as url:
        variables = environment(SCHED_URL=url, SCHED_JOB_ID="1", SCHED_WORKER_ID="1-1")
        words = ["-m", "scheduler.elastic.horovod", "drive", str(launcher), "--", "python", "train.py"]
        with python(words, env=[variables]) as (driver,):
            assert Replicas.asked_for_more.wait(SECONDS_MAX)
            over.touch()
            output, _ = driver.communicate(timeout=SECONDS_MAX)
    assert (driver.returncode, output) == (0, "")
