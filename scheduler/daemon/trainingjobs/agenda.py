"""Which object is looked at next: namespaces in turn, so that many objects of one keep none of another waiting."""

from heapq import heappop, heappush
from itertools import count

from scheduler.clusters.kubernetes.api.custom_resource import ObjectKey


class Agenda:
    """Objects to be looked at, and when. Its user guards it with a lock."""

    def __init__(self) -> None:
        self._at: dict[ObjectKey, float] = {}
        #: By namespace, the one whose turn it is first: when, in which order, which. Of an object that was put again
        #: there are entries that no longer hold.
        self._entries: dict[str, list[tuple[float, int, ObjectKey]]] = {}
        self._order = count()

    def put(self, key: ObjectKey, at: float) -> None:
        """Look at the object at this time, unless it is looked at before."""
        if key not in self._at or at < self._at[key]:
            self._at[key] = at
            heappush(self._entries.setdefault(key[0], []), (at, next(self._order), key))

    def take(self, now: float) -> ObjectKey | None:
        """The first object that is due, of the namespace whose turn it is; None: none is."""
        for namespace in list(self._entries):
            first = self._first_of(namespace)
            if first is not None and first[0] <= now:
                key = first[2]
                del self._at[key]
                self._entries[namespace] = self._entries.pop(namespace)  # it is last now
                return key
        return None

    def next_at(self) -> float | None:
        """When the next object is due; None: there is none."""
        found = [self._first_of(namespace) for namespace in list(self._entries)]
        return min((first[0] for first in found if first is not None), default=None)

    def _first_of(self, namespace: str) -> tuple[float, int, ObjectKey] | None:
        entries = self._entries[namespace]
        while entries and self._at.get(entries[0][2]) != entries[0][0]:
            heappop(entries)
        if not entries:
            del self._entries[namespace]
            return None
        return entries[0]
