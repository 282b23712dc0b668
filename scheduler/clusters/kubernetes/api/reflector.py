"""One kind of object kept in step with the API: a list, then the changes since, for ever, in a thread of its own."""

import random
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

import structlog

from scheduler.backoff import Backoff
from scheduler.clusters.kubernetes.api.connection import Collection, Connection, Watch
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.errors import GONE, RefusedError
from scheduler.engine.ports import Clock
from scheduler.errors import ClusterError

log = structlog.get_logger(__name__)

_BACKOFF = Backoff(0.5, 10.0)
#: A watch that the server ends sooner than this is not begun again at once.
_SHORT_SECONDS = 1.0


class Sink(Protocol):
    """Takes the objects that are read. Each method returns whether there was anything new."""

    def begin(self) -> None:
        """Begin a complete list."""
        ...

    def put(self, item: Document) -> bool: ...

    def remove(self, item: Document) -> bool: ...

    def keep_only(self, items: Iterable[tuple[str, str]]) -> bool:
        """End the list, which held these names and uids."""
        ...


class Reflector:
    """Reads a collection into a sink until it is closed."""

    def __init__(
        self,
        collection: Collection,
        connection: Connection,
        sink: Sink,
        changed: Callable[[], None],
        clock: Clock,
        randomness: random.Random,
    ) -> None:
        self.kind = collection.kind
        self._path = collection.path
        self._connection = connection
        self._sink = sink
        self._changed = changed
        self._clock = clock
        self._randomness = randomness
        self._lock = threading.Condition()
        self._synced = False
        self._problem: str | None = None
        #: Since when there is no news, on the monotonic clock; None while list and watch work.
        self._deaf_since: float | None = clock.monotonic()
        self._watch: Watch | None = None
        #: Resource version up to which everything was read; None: a list is needed.
        self._version: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kubernetes-{self.kind}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for it."""
        self._closed.set()
        with self._lock:
            watch = self._watch
        if watch is not None:
            with suppress(OSError, ValueError):  # it has ended by itself meanwhile
                watch.stop()
        self._thread.join(timeout=5.0)

    def wait(self, seconds: float) -> None:
        """Wait until everything was read once, or a problem is known."""
        with self._lock:
            self._lock.wait_for(lambda: self._synced or self._problem is not None, seconds)

    def trouble(self, stale_seconds: float) -> str | None:
        """Why the objects cannot be relied upon; None if they can."""
        with self._lock:
            if not self._synced:
                return self._problem or f"{self.kind} have not been listed yet"
            if self._deaf_since is None:
                return None
            if self._clock.monotonic() - self._deaf_since <= stale_seconds:
                return None
            # This text must not change while the trouble lasts, so that it is logged once.
            why = self._problem or "the watch ended"
            return f"no news of {self.kind} for more than {stale_seconds:g} s: {why}"

    def _run(self) -> None:
        failures = 0
        while not self._closed.is_set():
            begun = self._clock.monotonic()
            well = self._try()
            if self._clock.monotonic() - begun >= _SHORT_SECONDS:
                failures = 0
                if well:
                    continue
            failures += 1
            self._closed.wait(_BACKOFF.pause_seconds(failures) * self._randomness.uniform(0.5, 1.5))

    def _try(self) -> bool:
        """List if need be, and follow until the watch ends; return whether the server ended it in order."""
        try:
            if self._version is None:
                self._list()
            self._follow()
        except ClusterError as error:
            if isinstance(error, RefusedError) and error.status == GONE:
                self._version = None  # the server no longer has the changes since
            self._deaf(str(error))
            return False
        except Exception as error:
            log.exception("kubernetes: an object could not be read", kind=self.kind)
            self._version = None
            self._deaf(f"{type(error).__name__}: {error}")
            return False
        return True

    def _list(self) -> None:
        self._sink.begin()
        listed: list[tuple[str, str]] = []
        version, news = "", False
        for page in self._connection.pages(self._path):
            version = page["metadata"]["resourceVersion"]
            for item in page["items"]:
                listed.append((item["metadata"]["name"], item["metadata"]["uid"]))
                news = self._sink.put(item) or news
        news = self._sink.keep_only(listed) or news
        self._version = version
        with self._lock:
            news = news or not self._synced
            self._synced = True
            self._heard()
            self._lock.notify_all()
        log.info("kubernetes: listed", kind=self.kind, count=len(listed), url=self._connection.url)
        if news:
            self._changed()

    def _follow(self) -> None:
        assert self._version is not None, "there was a list"
        with self._connection.watch(self._path, self._version) as watch:
            with self._lock:
                self._watch = watch
                self._heard()
            try:
                if not self._closed.is_set():
                    for event in watch.events():
                        self._take(event)
            finally:
                with self._lock:
                    self._watch = None
                    self._deaf_since = self._clock.monotonic()

    def _take(self, event: Document) -> None:
        item = event["object"]
        match event["type"]:
            case "ERROR":
                self._version = None  # from here on there may never be any changes
                raise RefusedError(item.get("code", 0), item.get("reason", ""), item.get("message", ""))
            case "BOOKMARK":
                news = False
            case "DELETED":
                news = self._sink.remove(item)
            case _:
                news = self._sink.put(item)
        self._version = item["metadata"]["resourceVersion"]
        if news:
            self._changed()

    def _heard(self) -> None:
        self._deaf_since, self._problem = None, None

    def _deaf(self, problem: str) -> None:
        if self._closed.is_set():
            return
        with self._lock:
            if self._problem is None:
                log.warning("kubernetes: watch failed, retrying", kind=self.kind, error=problem)
            self._problem = problem
            if self._deaf_since is None:
                self._deaf_since = self._clock.monotonic()
            self._lock.notify_all()
