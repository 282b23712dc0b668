"""The TrainingJob objects of one namespace, kept in step with the API, and what is written into them."""

import random
import threading
from collections.abc import Callable, Iterable

from scheduler.clusters.kubernetes.connection import Connection, Document, PacedClock
from scheduler.clusters.kubernetes.custom_resource import PLURAL
from scheduler.clusters.kubernetes.reflector import Reflector
from scheduler.config import KubernetesSettings

#: Namespace and name.
ObjectKey = tuple[str, str]


class TrainingJobObjects:
    """What was last seen of each. Writing goes to the API, whose answer comes back by the watch."""

    def __init__(self, settings: KubernetesSettings, clock: PacedClock, randomness: random.Random) -> None:
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
        self._connection.patch_training_job(item["metadata"]["name"], body, self._until(), status=True)

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        """Replace the finalizers. Raises `ClusterError`, also if the object changed since it was seen."""
        metadata = item["metadata"]
        kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**kept, "finalizers": list(finalizers)}}
        self._connection.patch_training_job(metadata["name"], body, self._until(), status=False)

    def _until(self) -> float:
        return self._clock.now() + self._settings.request_seconds

    # what the reflector writes

    def begin(self) -> None:
        self._listed = set()

    def put(self, item: Document) -> bool:
        key = key_of(item)
        with self._lock:
            before = self._items.get(key)
            self._items[key] = item
        self._listed.add(key)
        news = before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]
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


def key_of(item: Document) -> ObjectKey:
    return (item["metadata"]["namespace"], item["metadata"]["name"])
