"""A large mapping that differs in a few entries from the one that it was made of, and shares the rest with it."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

#: A mapping of so few entries is copied whole.
COPIED_MAX = 4096
#: Entries in which a mapping may differ from the one that it shares the rest with.
CHANGES_MAX = 512


def changed(before: Mapping[K, V], gone: set[K], come: dict[K, V]) -> Mapping[K, V]:
    """The mapping without some of its entries, and with others behind all that stay."""
    base, left, added = before, gone, come
    if isinstance(before, Layered):
        base, left = before.base, before.gone | {key for key in gone if key in before.base}
        added = {key: value for key, value in before.come.items() if key not in gone} | come
    if len(base) > COPIED_MAX and len(left) + len(added) <= CHANGES_MAX:
        return Layered(base, left, added)
    after = dict(base)
    for key in left:
        del after[key]
    after.update(added)
    return after


class Layered(Mapping[K, V]):
    """The entries of `base` but for those that are `gone`, then those that have `come`."""

    __slots__ = ("base", "come", "gone")

    def __init__(self, base: Mapping[K, V], gone: set[K], come: dict[K, V]) -> None:
        """`gone` are keys of the base; none that has come is there and has not gone."""
        self.base = base
        self.gone = gone
        self.come = come

    def __getitem__(self, key: K) -> V:
        if key in self.come:
            return self.come[key]
        if key in self.gone:
            raise KeyError(key)
        return self.base[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: T | None = None) -> V | T | None:
        """As of any mapping; without an exception on the way."""
        if key in self.come:
            return self.come[key]
        return default if key in self.gone else self.base.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.come or (key in self.base and key not in self.gone)

    def __len__(self) -> int:
        return len(self.base) - len(self.gone) + len(self.come)

    def __iter__(self) -> Iterator[K]:
        return chain((key for key in self.base if key not in self.gone), self.come)

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)


class _Items(ItemsView[K, V]):
    """Faster than to look up each."""

    _mapping: Layered[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        mine = self._mapping
        return chain((item for item in mine.base.items() if item[0] not in mine.gone), mine.come.items())


class _Values(ValuesView[V]):
    """Faster than to look up each."""

    _mapping: Layered[object, V]

    def __iter__(self) -> Iterator[V]:
        mine = self._mapping
        return chain((value for key, value in mine.base.items() if key not in mine.gone), mine.come.values())
