"""One webhook's deliveries, step by step, with the world's clock and a real receiver."""

import base64
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import standardwebhooks
from pydantic import ValidationError
from structlog.testing import capture_logs

from examples.webhook_receiver import AGE_SECONDS_MAX, verified
from scheduler.config import WebhookSettings, load_settings
from scheduler.daemon.webhooks.message import body_of, headers_of
from scheduler.daemon.webhooks.sender import LOOK_SECONDS, WebhookSender, pause_seconds
from scheduler.daemon.webhooks.sender_threads import SenderThreads, check_kinds
from scheduler.errors import ConfigError
from scheduler.model.event import Event, EventKind
from scheduler.model.job_state import JobState
from scheduler.store.requests.webhooks import Outgoing
from tests.eventually import becomes
from tests.ports import free_port
from tests.webhooks.receiver import SECRET, Receiver
from tests.world import World

STEPS_MAX = 10_000
#: Senders that are closed with the world.
OPENED: list[WebhookSender] = []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.node("a", slots=4)
    world.tick()
    yield world
    while OPENED:
        OPENED.pop().close()
    world.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as listening:
        yield listening


def sender(
    world: World, url: str, *kinds: str, leading: bool = True, name: str = "hook", **fields: Any
) -> WebhookSender:
    pauses = {"backoff_seconds": 1.0, "backoff_max_seconds": 60.0}
    settings = WebhookSettings(url=url, secret=SECRET, events=kinds, **pauses, **fields)
    OPENED.append(WebhookSender(name, settings, world.store, world.clock, lambda: leading, Random(7)))
    return OPENED[-1]


def run(sender: WebhookSender) -> None:
    """Steps until nothing is due at once."""
    for _ in range(STEPS_MAX):
        if sender.step() > 0:
            return
    raise AssertionError("there is always something to do")


def finished(world: World, count: int) -> list[int]:
    jobs = [world.job(f"job-{n}", expected_seconds=None) for n in range(count)]
    for job in jobs:
        world.ask_cancel(job)
    world.advance(3)
    assert world.get(jobs[0]).state is JobState.CANCELLED
    return [int(job) for job in jobs]


def test_events_come_signed_in_their_order_and_only_those_of_its_kinds(world: World, receiver: Receiver) -> None:
    finished(world, 1)
    telling = sender(world, receiver.url, "JOB_CANCELLED", "JOB_SUBMITTED")
    run(telling)
    assert receiver.taken == [], "what was before the webhook is not told"
    jobs = finished(world, 3)
    run(telling)
    kinds = [event["kind"] for event in receiver.events]
    assert kinds == ["JOB_SUBMITTED"] * 3 + ["JOB_CANCELLED"] * 3
    assert receiver.ids == sorted(receiver.ids)
    assert [event["job_id"] for event in receiver.events[:3]] == jobs
    assert receiver.events[0]["job_name"] == "job-0"
    for headers, body in receiver.taken:
        now = world.clock.now()
        assert verified(SECRET, headers, body, now)
        assert not verified(SECRET, headers, body + b" ", now)
        assert not verified(SECRET, {**headers, "webhook-timestamp": str(int(now) + 1)}, body, now)
        assert not verified(SECRET, {**headers, "webhook-id": "1" + headers["webhook-id"]}, body, now)
        assert not verified("another secret, as long", headers, body, now)
        assert not verified(SECRET, headers, body, now + AGE_SECONDS_MAX + 2)
        assert headers["webhook-id"] == str(receiver.ids[receiver.taken.index((headers, body))])


@pytest.mark.parametrize("secret", [SECRET, "whsec_" + base64.b64encode(bytes(range(24))).decode()])
def test_the_library_of_standard_webhooks_takes_a_message(secret: str) -> None:
    event = Event(1.0, EventKind.JOB_FAILED, detail="sixty ünits")
    outgoing = Outgoing(7, event, "train", "ada")
    body = body_of(outgoing, 0.0)
    headers = headers_of("hook", outgoing, body, secret, time.time())
    webhook = standardwebhooks.Webhook(secret if secret.startswith("whsec_") else secret.encode())
    assert webhook.verify(body, headers)["detail"] == "sixty ünits"
    assert verified(secret, headers, body, time.time())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        webhook.verify(body + b" ", headers)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("whsec_not base64, but long enough", "not base64"),
        ("whsec_" + base64.b64encode(b"too short").decode(), "at least 16 bytes"),
        ("too short", "at least 16 characters"),
    ],
)
def test_a_secret_that_holds_no_key_is_refused(secret: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        WebhookSettings(url="http://a", secret=secret)


def test_pauses_grow_to_their_maximum_and_vary_by_up_to_half() -> None:
    settings = WebhookSettings(url="http://a", secret=SECRET, backoff_seconds=1.0, backoff_max_seconds=60.0)
    for attempts, whole in ((1, 1.0), (2, 2.0), (4, 8.0), (7, 60.0), (10_000, 60.0)):
        pauses = [pause_seconds(attempts, settings, Random(seed)) for seed in range(200)]
        assert whole / 2 <= min(pauses) < whole * 0.55
        assert whole * 0.95 < max(pauses) <= whole


def test_a_refused_event_is_tried_again_after_growing_pauses_before_those_behind_it(
    world: World, receiver: Receiver
) -> None:
    telling = sender(world, receiver.url, "JOB_CANCELLED")
    run(telling)
    finished(world, 2)
    receiver.statuses = [500, 429, 302, 404]
    began = world.clock.now()
    with capture_logs() as lines:
        for attempt in range(4):
            wait = 0.0
            while wait == 0.0:
                wait = telling.step()
            assert len(receiver.refused) == attempt + 1
            assert 0.5 * 2**attempt <= wait <= 2**attempt
            assert telling.step() == pytest.approx(wait), "it is not tried before"
            assert len(receiver.refused) == attempt + 1
            (state,) = world.store.list_deliveries()
            assert (state.attempts, state.failing_since) == (attempt + 1, began)
            assert telling.failing
            world.clock.advance(wait)
        run(telling)
    assert len({body for _, body in receiver.refused}) == 1
    assert receiver.taken[0][1] == receiver.refused[0][1]
    assert len(receiver.taken) == 2
    said = [(line["log_level"], line["event"]) for line in lines]
    assert said == [
        ("warning", "webhook delivery failed, retrying"),
        ("info", "webhook delivers again"),
    ]
    (state,) = world.store.list_deliveries()
    assert (state.attempts, state.error, state.failing_since, state.delivered) == (0, None, None, 2)
    assert (telling.tries, telling.failing) == ({"ok": 2, "error": 4}, False)


def test_another_daemon_goes_on_where_the_last_one_was(world: World, receiver: Receiver) -> None:
    first = sender(world, receiver.url, "JOB_CANCELLED")
    run(first)
    finished(world, 3)
    receiver.statuses = [204, 503]
    run(first)
    assert (len(receiver.taken), len(receiver.refused)) == (1, 1)
    second = sender(world, receiver.url, "JOB_CANCELLED")
    assert second.step() > 0, "the pause outlives whoever began it"
    assert second.failing
    assert len(receiver.refused) == 1
    world.clock.advance(1.0)
    run(second)
    assert len(receiver.taken) == 3
    assert receiver.ids == sorted(set(receiver.ids))


def test_who_dies_before_it_has_stored_its_place_sends_twice_but_leaves_nothing_out(
    world: World, receiver: Receiver
) -> None:
    first = sender(world, receiver.url, "JOB_CANCELLED")
    run(first)
    finished(world, 3)
    while len(receiver.taken) < 2:
        first.step()
    run(sender(world, receiver.url, "JOB_CANCELLED"))
    first_id, second_id, third_id = sorted(set(receiver.ids))
    assert receiver.ids == [first_id, second_id, second_id, third_id]


def test_a_receiver_that_is_away_loses_nothing(world: World) -> None:
    receiver = Receiver(free_port())
    telling = sender(world, receiver.url, "JOB_CANCELLED")
    run(telling)
    finished(world, 4)
    for _ in range(12):
        wait = telling.step()
        world.clock.advance(wait)
    (state,) = world.store.list_deliveries()
    assert state.attempts >= 10
    assert state.error is not None
    assert "refused" in state.error
    with receiver.listening():
        world.clock.advance(60.0)
        run(telling)
    assert len(receiver.ids) == 4


def test_only_who_leads_tells(world: World, receiver: Receiver) -> None:
    run(sender(world, receiver.url))
    finished(world, 1)
    follower = sender(world, receiver.url, leading=False)
    assert follower.step() == LOOK_SECONDS
    assert receiver.taken == []


def test_events_that_were_removed_first_are_told_of_in_the_log(world: World, receiver: Receiver) -> None:
    telling = sender(world, receiver.url, "JOB_CANCELLED")
    run(telling)
    finished(world, 2)
    world.store.purge(0.0, world.clock.now() + 1)
    finished(world, 1)
    with capture_logs() as lines:
        run(sender(world, receiver.url, "JOB_CANCELLED"))
    assert [line["event"][:28] for line in lines] == ["webhook: events were removed"]
    assert lines[0]["events"] > 0
    assert len(receiver.taken) == 1


def test_a_receiver_that_does_not_answer_keeps_no_other_waiting(world: World, receiver: Receiver) -> None:
    with Receiver().listening() as stuck:
        blocked = threading.Event()
        stuck.take = lambda *_: blocked.wait(120) and 204  # type: ignore[method-assign]
        settings = {
            "a": WebhookSettings(url=stuck.url, secret=SECRET),
            "b": WebhookSettings(url=receiver.url, secret=SECRET),
        }
        for name in settings:
            world.store.begin_webhook(name)
        senders = SenderThreads(settings, world.store, world.clock, lambda: True, Random(1))
        senders.start()
        try:
            jobs = finished(world, 2)
            senders.wake()
            receiver.until(lambda: "JOB_CANCELLED" in {event["kind"] for event in receiver.events})
            assert receiver.events[0]["job_id"] == jobs[0]
        finally:
            blocked.set()
            senders.stop()
            # They store their places after that, which is done before the store is closed.
            becomes(lambda: [thread for thread in threading.enumerate() if thread.name.startswith("webhook-")], [])


@contextmanager
def answering(*parts: bytes, every_seconds: float = 0.0) -> Iterator[str]:
    """The address of a receiver that answers the first message with these parts, and then says nothing more."""

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(65536)
            for part in parts:
                connection.sendall(part)
                time.sleep(every_seconds)
            connection.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        answered = pool.submit(answer, server)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        answered.result(120)


def told_once(world: World, url: str) -> WebhookSender:
    """A sender after its first try, for which it has a second."""
    telling = sender(world, url, "JOB_CANCELLED", timeout_seconds=1.0)
    run(telling)
    finished(world, 1)
    with capture_logs():
        while not sum(telling.tries.values()):
            telling.step()
    telling.close()
    return telling


def test_a_success_counts_though_the_rest_of_the_answer_never_comes(world: World) -> None:
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n") as url:
        assert told_once(world, url).tries == {"ok": 1, "error": 0}


def test_an_answer_that_drips_is_left_alone(world: World) -> None:
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n", *[b"."] * 50, every_seconds=0.1) as url:
        began = time.monotonic()
        assert told_once(world, url).tries == {"ok": 1, "error": 0}
        assert time.monotonic() - began < 4


def test_a_receiver_whose_headers_drip_has_no_longer_than_others(world: World) -> None:
    drops = [b"x-%d: y\r\n" % n for n in range(50)]
    with answering(b"HTTP/1.1 200 OK\r\n", *drops, b"content-length: 0\r\n\r\n", every_seconds=0.1) as url:
        assert told_once(world, url).tries == {"ok": 0, "error": 1}
    (state,) = world.store.list_deliveries()
    assert state.error == "no answer within 1 s"


@pytest.mark.parametrize("url", ["http://host:99999/hook", "http://host:port/hook", "http://[::1/hook", "http://:80/"])
def test_an_address_that_cannot_be_is_refused_without_its_path(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__URL", url)
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__SECRET", SECRET)
    with pytest.raises(ConfigError, match=r"webhooks\.chat\.url: .*invalid host or port") as refused:
        load_settings()
    assert "hook" not in str(refused.value).removeprefix("setting webhooks")


def test_an_address_that_nobody_can_ask_fails_as_others_do(world: World) -> None:
    telling = sender(world, "http://\u2603-.example/hook", "JOB_CANCELLED")
    run(telling)
    finished(world, 1)
    with capture_logs():
        assert telling.step() >= 0
        while not telling.failing:
            telling.step()
    assert telling.tries == {"ok": 0, "error": 1}


def test_the_state_of_webhooks_is_stored_by_name_and_never_goes_back(world: World) -> None:
    begun = world.store.begin_webhook("x")
    finished(world, 1)
    assert world.store.begin_webhook("x") == begun
    ahead = world.store.begin_webhook("y")
    assert ahead.position > begun.position
    assert world.store.count_events_after(begun.position, ("JOB_CANCELLED",), 10) == 1
    assert world.store.count_events_after(begun.position, (), 2) == 2


def test_settings_come_from_variables_too_and_name_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__URL", "https://chat.example/hook")
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__SECRET", SECRET)
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__EVENTS", "JOB_FAILED, NODE_DOWN")
    settings = load_settings()
    assert settings.webhooks["chat"].events == ("JOB_FAILED", "NODE_DOWN")
    assert SECRET not in repr(settings)
    check_kinds(settings.webhooks)
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__EVENTS", "JOB_EXPLODED")
    with pytest.raises(ConfigError, match=r"webhooks\.chat\.events: unknown event kind 'JOB_EXPLODED'"):
        check_kinds(load_settings().webhooks)
    monkeypatch.setenv("SCHED_WEBHOOKS__CHAT__SECRET", "short")
    with pytest.raises(ConfigError, match=r"webhooks\.chat\.secret"):
        load_settings()
