"""Addresses of the exporters of GPU figures: pods of one namespace with certain labels."""

import threading
from collections.abc import Set

from scheduler.clusters.kubernetes.api.documents import Document
from scheduler.model.ids import NodeName


class Exporters:
    """Exporter pods by uid. A reflector writes them, other threads read them."""

    def __init__(self, pods: str | None) -> None:
        """`pods`: the setting `kubernetes.gpu_exporter`; None: there are none."""
        self._namespace, _, labels = (pods or "").partition("/")
        self._labels = dict(label.split("=", 1) for label in labels.split(",") if label)
        self._lock = threading.Lock()
        self._places: dict[str, tuple[NodeName, str]] = {}

    def put(self, pod: Document) -> None:
        uid, place = pod["metadata"]["uid"], self._place(pod)
        with self._lock:
            if place is None:
                self._places.pop(uid, None)
            else:
                self._places[uid] = place

    def drop(self, uid: str) -> None:
        """Drop a deleted pod."""
        with self._lock:
            self._places.pop(uid, None)

    def keep_only(self, uids: Set[str]) -> None:
        """Drop all pods but these."""
        with self._lock:
            self._places = {uid: place for uid, place in self._places.items() if uid in uids}

    def addresses(self) -> dict[NodeName, str]:
        """Address of the exporter of each node that has one."""
        with self._lock:
            return dict(place for _, place in sorted(self._places.items()))

    def _place(self, pod: Document) -> tuple[NodeName, str] | None:
        """Node and address of a running exporter; None for any other pod."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        labels = metadata.get("labels") or {}
        if not self._labels or metadata["namespace"] != self._namespace or not self._labels.items() <= labels.items():
            return None
        node, address = (pod.get("spec") or {}).get("nodeName"), status.get("podIP")
        if not node or not address or status.get("phase") != "Running" or metadata.get("deletionTimestamp"):
            return None
        return NodeName(node), str(address)
