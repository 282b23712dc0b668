"""A member's part in the agreement: what wrong peers say neither ends it nor leads it astray."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.elastic.environment import Environment
from scheduler.elastic.membership.agent import Agent
from scheduler.elastic.membership.membership import Membership
from scheduler.elastic.membership.peers import PeerServer
from scheduler.elastic.membership.quorum_runner import Agreement
from tests.eventually import SECONDS_MAX
from tests.ports import free_port

ANSWER: dict[str, Any] = {
    "generation": 3,
    "chain": [],
    "granted": False,
    "attended": False,
    "promised": None,
    "accepted": None,
}


def member() -> Agent:
    """A worker that the scheduler does not answer."""
    environment = Environment.read(
        {
            "SCHED_URL": f"http://127.0.0.1:{free_port()}",
            "SCHED_JOB_ID": "1",
            "SCHED_WORKER_ID": "1-1",
            "SCHED_TOKEN": "t",
        }
    )
    assert environment is not None
    return Agent(environment, "127.0.0.1:1")


@pytest.mark.parametrize(
    "answer",
    [
        {"generation": float("inf")},
        {"promised": [float("inf"), "1-2"]},
        {"promised": []},
        {"accepted": [[1, "1-2"]]},
        {"chain": 5},
    ],
)
def test_a_peer_that_answers_what_is_no_answer_is_asked_again(answer: dict[str, Any]) -> None:
    asked = threading.Semaphore(0)

    def evil(question: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.release()
        return {"list": question["list"], "answer": ANSWER | answer}

    peer = PeerServer("127.0.0.1", "t", evil)
    peer.start()
    agent = member()
    newest = Membership(3, ("1-1", "1-2", "1-3"), None, peers={"1-2": peer.contact})
    agent.take_list(newest)
    agent.watch(newest, lambda: None, any_change=True)
    Agreement(agent, "127.0.0.1", 0.0).start()
    for _ in range(2):
        assert asked.acquire(timeout=SECONDS_MAX)
    agent.unwatch()
