"""Values that differ in a few fields: a hundred thousand of them are made when the engine starts."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Stencil(Generic[V]):
    """Makes values of a frozen dataclass with slots from one of them, in a third of the time of its `__init__`.

    What `__post_init__` checks must not be among the fields in which they differ: it is not called.
    """

    def __init__(self, of: type[V], differing: Sequence[str]) -> None:
        names = [each.name for each in fields(of)]  # type: ignore[arg-type]
        alike = [name for name in names if name not in differing]
        self._of = of
        self._put_alike = [getattr(of, name).__set__ for name in alike]
        self._put_differing = [getattr(of, name).__set__ for name in differing]
        #: The fields in which the values are alike, of one of them.
        self.alike = attrgetter(*alike)

    def value(self, alike: Sequence[Any], differing: Sequence[Any]) -> V:
        """A value of these fields."""
        made = object.__new__(self._of)
        for put, each in zip(self._put_alike, alike, strict=True):
            put(made, each)
        for put, each in zip(self._put_differing, differing, strict=True):
            put(made, each)
        return made
