"""One webhook's deliveries: the next event again and again until it is taken, then the one after it.

Where it has got to is stored after the receiver's answer, so whoever goes on after a crash or as the next leader may
send an event twice, but leaves none out.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

import structlog

from scheduler.backoff import Backoff
from scheduler.config import WebhookSettings
from scheduler.daemon.webhooks.message import body_of, headers_of
from scheduler.daemon.webhooks.poster import Poster
from scheduler.engine.ports import EngineClock
from scheduler.store.records import Delivery
from scheduler.store.requests.webhooks import Outgoing
from scheduler.store.sqlstore import SqlStore

log = structlog.get_logger(__name__)

#: Events looked at together.
STRETCH = 500
#: Without news, history is looked at this often.
LOOK_SECONDS = 1.0
#: While events flow, and while those that come are of no concern, the place is stored this often.
SAVE_SECONDS, IDLE_SAVE_SECONDS = 0.5, 60.0
#: Of a try.
OUTCOMES = ("ok", "error")


def pause_seconds(attempts: int, settings: WebhookSettings, random: Random) -> float:
    """Pause after `attempts` failed tries: doubles each time, with jitter so that receivers do not fall into step."""
    whole = Backoff(settings.backoff_seconds, settings.backoff_max_seconds).pause_seconds(attempts)
    return whole * random.uniform(0.5, 1.0)


class WebhookSender:
    """`step` does the next thing that is due. Called by one thread at a time."""

    def __init__(
        self,
        name: str,
        settings: WebhookSettings,
        store: SqlStore,
        clock: EngineClock,
        leading: Callable[[], bool],
        random: Random,
    ) -> None:
        self._name = name
        self._settings = settings
        self._store = store
        self._clock = clock
        self._leading = leading
        self._random = random
        self._poster = Poster(settings.url, settings.timeout_seconds)
        #: None: to be read from the store, where another leader may have got further.
        self._delivery: Delivery | None = None
        self._waiting: deque[Outgoing] = deque()
        #: History has been looked at up to this event.
        self._seen = 0
        self._saved_at = 0.0
        #: Tries of this process by outcome.
        self.tries = dict.fromkeys(OUTCOMES, 0)
        #: Whether delivery of the next event has failed.
        self.failing = False

    def step(self) -> float:
        """Deliver one event if there is one and it is time to; seconds until the next step at the latest.

        Raises `SchedulerError` where the store is away; then it begins anew with what is stored.
        """
        if not self._leading():
            self._delivery = None
            self.failing = False
            return LOOK_SECONDS
        delivery, self._delivery = self._delivery, None  # stays so if the store fails
        if delivery is None:
            delivery = self._begin()
        self._delivery, wait_seconds = self._advance(delivery)
        return wait_seconds

    def close(self) -> None:
        """Store the place, as far as that can be done, and let go of the receiver."""
        if self._delivery is not None:
            self._store.save_delivery(self._delivery)
        self._poster.close()

    def _begin(self) -> Delivery:
        delivery = self._store.begin_webhook(self._name)
        self.failing = delivery.attempts > 0
        self._waiting.clear()
        self._seen = delivery.position
        self._saved_at = self._clock.now()
        return delivery

    def _advance(self, delivery: Delivery) -> tuple[Delivery, float]:
        now = self._clock.now()
        left_seconds = 0.0 if delivery.next_try_at is None else delivery.next_try_at - now
        if left_seconds > 0:
            return delivery, left_seconds
        if not self._waiting and not self._look():
            return self._idle(delivery, now), LOOK_SECONDS
        if not self._waiting:
            return self._idle(delivery, now), 0.0
        error = self._post(self._waiting[0], now)
        self.failing = error is not None
        self.tries["error" if self.failing else "ok"] += 1
        if error is None:
            return self._delivered(delivery, now), 0.0
        return self._failed(delivery, error, now)

    def _look(self) -> bool:
        """Read on in the history; whether there was anything."""
        found = self._store.scan_events(self._seen, self._settings.events, STRETCH)
        if found.missed:
            log.error(
                "webhook: events were removed before delivery: increase retention.events_seconds",
                webhook=self._name,
                events=found.missed,
            )
        anything = found.seen > self._seen
        self._waiting.extend(found.events)
        self._seen = found.seen
        return anything

    def _idle(self, delivery: Delivery, now: float) -> Delivery:
        """Nothing of concern up to where was looked."""
        passed = replace(delivery, position=self._seen)
        if passed != delivery and now - self._saved_at >= IDLE_SAVE_SECONDS:
            self._save(passed, now)
        return passed

    def _delivered(self, delivery: Delivery, now: float) -> Delivery:
        sent = self._waiting.popleft()
        if delivery.attempts:
            since = delivery.failing_since or now
            log.info("webhook delivers again", webhook=self._name, failed_seconds=round(now - since, 1))
        done = Delivery(self._name, sent.id if self._waiting else self._seen, delivery.delivered + 1, delivered_at=now)
        if delivery.attempts or not self._waiting or now - self._saved_at >= SAVE_SECONDS:
            self._save(done, now)
        return done

    def _failed(self, delivery: Delivery, error: str, now: float) -> tuple[Delivery, float]:
        attempts = delivery.attempts + 1
        pause = pause_seconds(attempts, self._settings, self._random)
        if attempts == 1:
            log.warning(
                "webhook delivery failed, retrying",
                webhook=self._name,
                reason=error,
                event_id=self._waiting[0].id,
                retry_seconds=round(pause, 1),
            )
        failed = replace(
            delivery,
            attempts=attempts,
            failing_since=now if delivery.failing_since is None else delivery.failing_since,
            next_try_at=now + pause,
            error=error,
        )
        self._save(failed, now)
        return failed, pause

    def _save(self, delivery: Delivery, now: float) -> None:
        self._store.save_delivery(delivery)
        self._saved_at = now

    def _post(self, outgoing: Outgoing, now: float) -> str | None:
        """Why the receiver has not taken it; None: it has."""
        wall = self._clock.wall()
        body = body_of(outgoing, wall - now)
        headers = headers_of(self._name, outgoing, body, self._settings.secret, wall)
        return self._poster.post(body, headers)
