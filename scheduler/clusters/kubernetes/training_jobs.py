"""The TrainingJob objects of one namespace, kept in step with the API, and what is written into them."""

import random
import threading
from collections.abc import Callable, Iterable

from scheduler.clusters.kubernetes.answers import NOT_FOUND, RefusedError
from scheduler.clusters.kubernetes.connection import Connection, Document
from scheduler.clusters.kubernetes.custom_resource import PLURAL, ObjectKey
from scheduler.clusters.kubernetes.reflector import Reflector
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import Clock


class TrainingJobObjects:
    """What was last seen of each, by list, watch, or the answer to a request."""

    def __init__(self, settings: KubernetesSettings, clock: Clock, randomness: random.Random) -> None:
        """Nothing is read before `follow`."""
        self._settings = settings
        self._clock = clock
        self._connection = Connection(settings, clock)
        self._lock = threading.Lock()
        self._items: dict[ObjectKey, Document] = {}
        self._listed: set[ObjectKey] = set()
        self._changed: Callable[[ObjectKey], None] = lambda key: None
        self._reflector = Reflector(PLURAL, self._connection, self, lambda: None, clock, randomness)

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        """Call `changed`, from a thread of its own, for each object that is new, changed or gone."""
        self._changed = changed
        self._reflector.start()

    def close(self) -> None:
        """Let go; objects stay as they are."""
        self._connection.close()
        self._reflector.close()

    def get(self, key: ObjectKey) -> Document | None:
        """The object as it was last seen; None: there is none."""
        with self._lock:
            return self._items.get(key)

    def keys(self) -> list[ObjectKey]:
        with self._lock:
            return list(self._items)

    def write_status(self, item: Document, status: Document) -> None:
        """Put these fields into the status. Raises `ClusterError`, also if the object is another by now."""
        body = {"metadata": {"uid": item["metadata"]["uid"]}, "status": status}
        self._patch(item, body, status=True)

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        """Replace the finalizers. Raises `ClusterError`, also if the object changed since it was seen."""
        metadata = item["metadata"]
        kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        self._patch(item, {"metadata": {**kept, "finalizers": list(finalizers)}}, status=False)

    def _patch(self, item: Document, body: Document, *, status: bool) -> None:
        until = self._clock.now() + self._settings.request_seconds
        try:
            answer = self._connection.patch_training_job(item["metadata"]["name"], body, until, status=status)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            self.remove(item)
            return
        if answer["metadata"].get("deletionTimestamp") is None:  # else it may be gone by now
            self.put(answer)

    # what the reflector writes

    def begin(self) -> None:
        with self._lock:
            self._listed = set()

    def put(self, item: Document) -> bool:
        key = key_of(item)
        with self._lock:
            self._listed.add(key)
            news = _is_newer(item, self._items.get(key))
            if news:
                self._items[key] = item
        if news:
            self._changed(key)
        return news

    def remove(self, item: Document) -> bool:
        key = key_of(item)
        with self._lock:
            gone = self._items.pop(key, None)
        self._changed(key)
        return gone is not None

    def keep_only(self, items: Iterable[tuple[str, str]]) -> bool:
        with self._lock:
            gone = self._items.keys() - self._listed
            for key in gone:
                del self._items[key]
        for key in gone:
            self._changed(key)
        return bool(gone)


def _is_newer(item: Document, known: Document | None) -> bool:
    """Whether it is a later version than the one that is known; a watch may lag behind an answer."""
    if known is None or known["metadata"]["uid"] != item["metadata"]["uid"]:
        return True
    return int(item["metadata"]["resourceVersion"]) > int(known["metadata"]["resourceVersion"])


def key_of(item: Document) -> ObjectKey:
    return (item["metadata"]["namespace"], item["metadata"]["name"])
