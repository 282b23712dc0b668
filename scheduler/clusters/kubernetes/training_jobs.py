"""The TrainingJob objects of the workers' namespaces: kept in step with the API, and written to."""

import random
import threading
from collections.abc import Callable, Iterable, Set

from scheduler.clusters.kubernetes.api.connection import Connection, training_jobs_in
from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey
from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.clusters.kubernetes.api.errors import NOT_FOUND, RefusedError
from scheduler.clusters.kubernetes.api.reflector import Reflector
from scheduler.config import KubernetesSettings
from scheduler.engine.ports import Clock


class TrainingJobObjects:
    """The last seen version of each object, from list, watch, or the answer to a request."""

    def __init__(self, settings: KubernetesSettings, clock: Clock, randomness: random.Random) -> None:
        """Nothing is read before `follow`."""
        self._settings = settings
        self._clock = clock
        self._connection = Connection(settings, clock)
        self._lock = threading.Lock()
        self._items: dict[ObjectKey, Document] = {}
        self._changed: Callable[[ObjectKey], None] = lambda key: None
        self._reflectors = [
            Reflector(
                training_jobs_in(namespace),
                self._connection,
                _InNamespace(self, namespace),
                lambda: None,
                clock,
                randomness,
            )
            for namespace in settings.worker_namespaces
        ]

    def follow(self, changed: Callable[[ObjectKey], None]) -> None:
        """Call `changed`, from a thread of its own, for each object that is new, changed or gone."""
        self._changed = changed
        for reflector in self._reflectors:
            reflector.start()

    def close(self) -> None:
        """Stop reading; objects stay as they are."""
        self._connection.close()
        for reflector in self._reflectors:
            reflector.close()

    def get(self, key: ObjectKey) -> Document | None:
        """The object as it was last seen; None: there is none."""
        with self._lock:
            return self._items.get(key)

    def keys(self) -> list[ObjectKey]:
        with self._lock:
            return list(self._items)

    def write_status(self, item: Document, status: Document) -> None:
        """Put these fields into the status. Raises `ClusterError`, also if the object was replaced meanwhile."""
        body = {"metadata": {"uid": item["metadata"]["uid"]}, "status": status}
        self._patch(item, body, status=True)

    def write_finalizers(self, item: Document, finalizers: Iterable[str]) -> None:
        """Replace the finalizers. Raises `ClusterError`, also if the object changed since it was seen."""
        metadata = item["metadata"]
        kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        self._patch(item, {"metadata": {**kept, "finalizers": list(finalizers)}}, status=False)

    def _patch(self, item: Document, body: Document, *, status: bool) -> None:
        until = self._clock.now() + self._settings.request_seconds
        namespace, name = key_of(item)
        path = f"{training_jobs_in(namespace).path}/{name}{'/status' if status else ''}"
        try:
            answer = self._connection.patch(path, body, until)
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
            self.remove(item)
            return
        if answer["metadata"].get("deletionTimestamp") is None:  # else it may be gone by now
            self.put(answer)

    # what the reflectors write

    def put(self, item: Document) -> bool:
        """Store a version of an object; return whether it is newer than the known one."""
        key = key_of(item)
        with self._lock:
            news = _is_newer(item, self._items.get(key))
            if news:
                self._items[key] = item
        if news:
            self._changed(key)
        return news

    def remove(self, item: Document) -> bool:
        """Drop an object, and not another that has its name by now; return whether it was known."""
        key = key_of(item)
        with self._lock:
            known = self._items.get(key)
            gone = known is not None and known["metadata"]["uid"] == item["metadata"]["uid"]
            if gone:
                del self._items[key]
        self._changed(key)
        return gone

    def keep_only(self, namespace: str, names: Set[str]) -> bool:
        """Drop all objects of the namespace but these; return whether any was dropped."""
        with self._lock:
            gone = [key for key in self._items if key[0] == namespace and key[1] not in names]
            for key in gone:
                del self._items[key]
        for key in gone:
            self._changed(key)
        return bool(gone)


class _InNamespace:
    """Sink of the reflector of one namespace."""

    def __init__(self, objects: TrainingJobObjects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def begin(self) -> None:
        """Nothing to do: `keep_only` drops what a list does not have."""

    def put(self, item: Document) -> bool:
        return self._objects.put(item)

    def remove(self, item: Document) -> bool:
        return self._objects.remove(item)

    def keep_only(self, items: Iterable[tuple[str, str]]) -> bool:
        return self._objects.keep_only(self._namespace, {name for name, _ in items})


def _is_newer(item: Document, known: Document | None) -> bool:
    """Whether it is a later version than the one that is known; a watch may lag behind an answer."""
    if known is None or known["metadata"]["uid"] != item["metadata"]["uid"]:
        return True
    return int(item["metadata"]["resourceVersion"]) > int(known["metadata"]["resourceVersion"])


def key_of(item: Document) -> ObjectKey:
    return (item["metadata"]["namespace"], item["metadata"]["name"])
