"""A thread for each webhook, so that a receiver that is slow or away keeps nobody else waiting, least the engine."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random

import structlog

from scheduler.config import WebhookSettings
from scheduler.daemon.webhooks.sender import LOOK_SECONDS, WebhookSender
from scheduler.engine.ports import EngineClock
from scheduler.errors import ConfigError, SchedulerError
from scheduler.model.event import EventKind
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

#: After a defect.
DEFECT_PAUSE_SECONDS = 30.0
#: Time for all threads to finish at shutdown; an event that a receiver accepts later may be delivered twice.
STOP_SECONDS = 3.0


def check_kinds(webhooks: Mapping[str, WebhookSettings]) -> None:
    """Raise `ConfigError` for a kind of event that there is not."""
    for name, settings in webhooks.items():
        for kind in settings.events:
            if kind not in EventKind.__members__:
                known = ", ".join(EventKind.__members__)
                raise ConfigError(f"setting webhooks.{name}.events: unknown event kind {kind[:50]!r}: use {known}")


class SenderThreads:
    """All webhooks of one daemon."""

    def __init__(
        self,
        webhooks: Mapping[str, WebhookSettings],
        store: SqlStore,
        clock: EngineClock,
        leading: Callable[[], bool],
        random: Random,
    ) -> None:
        self._clock = clock
        self._stopping = threading.Event()
        self._threads = [
            _SenderThread(name, WebhookSender(name, each, store, clock, leading, random), self._stopping)
            for name, each in webhooks.items()
        ]

    def tries(self, outcome: str) -> int:
        """Deliveries that this process tried and that ended so: one of `OUTCOMES`."""
        return sum(each.sender.tries[outcome] for each in self._threads)

    def failing(self) -> int:
        """Webhooks whose receiver has not taken the next event."""
        return sum(each.sender.failing for each in self._threads)

    def start(self) -> None:
        for each in self._threads:
            each.thread.start()

    def wake(self) -> None:
        """There are new events."""
        for each in self._threads:
            each.woken.set()

    def stop(self) -> None:
        """Begin no delivery any more, and wait a little for those under way."""
        self._stopping.set()
        self.wake()
        until = self._clock.monotonic() + STOP_SECONDS
        for each in self._threads:
            each.thread.join(max(until - self._clock.monotonic(), 0.0))


class _SenderThread:
    """The thread of one webhook."""

    def __init__(self, name: str, sender: WebhookSender, stopping: threading.Event) -> None:
        self._name = name
        self.sender = sender
        self._stopping = stopping
        self.woken = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"webhook-{name}", daemon=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.woken.clear()  # before the look: what happens during it is found by the next one
            wait_seconds = self._step()
            if wait_seconds > 0 and not self._stopping.is_set():
                self.woken.wait(wait_seconds)
        with suppress(SchedulerError):
            self.sender.close()

    def _step(self) -> float:
        try:
            return self.sender.step()
        except SchedulerError:
            return LOOK_SECONDS  # the store is away, which the engine tells
        except Exception:
            log.exception(
                "webhook hit an internal error, retrying", webhook=self._name, retry_seconds=DEFECT_PAUSE_SECONDS
            )
            self._stopping.wait(DEFECT_PAUSE_SECONDS)
            return 0.0
