"""The receiver that the documents show takes what is genuine, once, and nothing else."""

import json
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from random import Random

import httpx
import pytest
from structlog.testing import capture_logs

from examples.webhook_receiver import Receiver
from scheduler.clock import SystemClock
from scheduler.config import WebhookSettings
from scheduler.daemon.webhooks.sender import WebhookSender
from scheduler.engine.timing.steady_clock import SteadyClock
from tests.eventually import SECONDS_MAX
from tests.webhooks.receiver import SECRET
from tests.world import World


def test_the_example_takes_each_event_once_and_only_from_who_knows_the_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Example(Receiver):
        secret = SECRET
        newest = 0

    world = World(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Example) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            senders = [
                WebhookSender(name, settings, world.store, SteadyClock(SystemClock()), lambda: True, Random(1))
                for name, settings in (
                    ("first", WebhookSettings(url=url, secret=SECRET)),
                    ("second", WebhookSettings(url=url, secret=SECRET)),
                    ("stranger", WebhookSettings(url=url, secret="some other secret")),
                )
            ]
            for each in senders:
                each.step()
            world.job("told")
            with capture_logs():
                for each in senders:
                    while each.step() == 0.0:
                        pass
                    each.close()
            forged = httpx.post(url, content=json.dumps({"id": 99}), timeout=SECONDS_MAX)
            assert forged.status_code == httpx.codes.UNAUTHORIZED
        finally:
            server.shutdown()
            thread.join()
    assert capsys.readouterr().out.splitlines() == ["JOB_SUBMITTED job 1 told "]
    states = {state.name: (state.delivered, state.error) for state in world.store.list_deliveries()}
    assert states["stranger"] == (0, "the receiver responded with status 401")
    assert states["first"] == states["second"] == (1, None)
    world.close()
