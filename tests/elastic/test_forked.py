"""What a script forks ends by SIGTERM, as anywhere, and is not told to leave with its worker."""

import os

import pytest

from tests.elastic.becoming import become_worker, running
from tests.elastic.processes import SECONDS_MAX, environment, python
from tests.http.site import Site

#: Each takes SIGTERM over; the script's own handler, if it has one, was there before.
TAKERS = {
    "worker": """
from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.agent import Agent
taker = Agent(Environment.read(os.environ), "127.0.0.1:9")
taker.start()
""",
    "alone": """
from scheduler.elastic.membership.standalone import Alone
taker = Alone(os.environ)
taker.start()
""",
    "queue": """
from scheduler import elastic
taker = elastic.ShardQueue(ahead=1)
taker.take()
""",
}
DAEMON = """
import multiprocessing, os, signal, time
{taker}
def serve(ready):
    ready.set()
    time.sleep(3600)
context = multiprocessing.get_context("fork")
ready = context.Event()
process = context.Process(target=serve, args=(ready,), daemon=True)
process.start()
ready.wait()
print(os.getsid(process.pid) == process.pid, flush=True)
taker.close()
"""


@pytest.mark.parametrize(("taker", "apart"), [("worker", True), ("alone", False), ("queue", False)])
def test_a_daemon_process_of_the_script_does_not_outlast_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, taker: str, apart: bool
) -> None:
    become_worker(monkeypatch, site, running(site))
    variables = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    with python(["-c", DAEMON.format(taker=TAKERS[taker])], env=[environment(**variables)]) as (script,):
        output, _ = script.communicate(timeout=SECONDS_MAX)
    assert (script.returncode, output.splitlines()[-1]) == (0, str(apart))


OWN = """
import os, signal, sys
def bye(*_):
    print("bye", flush=True)
    os._exit(7)
signal.signal(signal.SIGTERM, bye)
{taker}
if os.fork() == 0:
    signal.raise_signal(signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
taker.close()
signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.parametrize("taker", TAKERS)
def test_a_handler_of_the_script_is_that_of_what_it_forks_and_comes_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, taker: str
) -> None:
    become_worker(monkeypatch, site, running(site))
    variables = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    with python(["-c", OWN.format(taker=TAKERS[taker])], env=[environment(**variables)]) as (script,):
        output, _ = script.communicate(timeout=SECONDS_MAX)
    told = [line for line in output.splitlines() if line in ("bye", "7")]
    assert (script.returncode, told) == (7, ["bye", "7", "bye"])


CLOSED_WITHIN = """
import os, signal
{queue}
queue = taker
{worker}
queue.close()
os.kill(os.getpid(), signal.SIGTERM)
while not taker.asked_to_leave():
    taker.wait(0.1)
print("asked", flush=True)
"""


def test_a_queue_that_is_closed_leaves_the_signal_to_who_has_it_now(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_worker(monkeypatch, site, running(site))
    variables = {name: value for name, value in os.environ.items() if name.startswith("SCHED_")}
    with python(["-c", CLOSED_WITHIN.format(**TAKERS)], env=[environment(**variables)]) as (script,):
        output, _ = script.communicate(timeout=SECONDS_MAX)
    assert (script.returncode, output.splitlines()[-1]) == (0, "asked")
