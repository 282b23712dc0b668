"""A member's part in the agreement: what wrong peers say neither ends it nor leads it astray."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.elastic.environment import Environment
from scheduler.elastic.group.rendezvous_store import worth_meeting
from scheduler.elastic.membership import agent as agent_module
from scheduler.elastic.membership.agent import Agent, Order
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


def test_a_list_of_a_peer_that_the_scheduler_does_not_know_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    void = threading.Event()
    agent = member()
    agent.take_published(Membership(5, ("1-1", "1-2"), None))
    false, true = Membership(2**40, ("1-1", "1-2"), None), Membership(6, ("1-1", "1-3"), None)
    agent.take_list(false)
    agent.watch(false, void.set, any_change=True)
    agent.take_published(true)
    assert agent.membership() == false, "a replica of the scheduler may lag behind for a moment"
    assert agent.order(2**40) is Order.CONTINUE
    monkeypatch.setattr(agent_module, "_LAG_SECONDS_MAX", 0.0)
    agent.take_published(true)
    assert agent.membership() == true
    assert agent.order(2**40) is Order.MOVE
    assert agent.order(5) is Order.MOVE
    assert agent.order(6) is Order.CONTINUE
    assert void.is_set()
    assert not worth_meeting(agent, false, 1, "h:1", lambda: None)()


def test_what_workers_agreed_on_and_what_the_scheduler_confirmed_is_not_given_up_for_an_older_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_module, "_LAG_SECONDS_MAX", 0.0)
    agent = member()
    newest = Membership(5, ("1-1", "1-2", "1-3"), None)
    agent.take_list(newest)
    agreed = newest.after((("1-1", "1-2"),))
    agent.take_list(agreed)
    agent.take_published(newest)
    agent.take_published(Membership(4, ("1-1",), None))
    assert agent.membership() == agreed


def test_a_list_with_a_number_that_no_job_reaches_is_none() -> None:
    data = Membership(2**40, ("1-1",), None).to_data()
    assert Membership.decode(data).generation == 2**40
    with pytest.raises(ValueError, match="generation: must be from 0 to"):
        Membership.decode(data | {"generation": 2**40 + 1})
