"""Parts of JSON texts, taken only as what they must be: what somebody else wrote there is no value of the model."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

from scheduler.bounds import Bound

V = TypeVar("V")


class BrokenText(ValueError):
    """A text of the database is not what the store writes."""


def text(value: object) -> str:
    if not isinstance(value, str):
        raise BrokenText(f"must be a text, not {type(value).__name__}")
    return value


def whole(value: object, low: int = 0, high: int = 2**62) -> int:
    """A whole number of this range."""
    if type(value) is not int or not low <= value <= high:
        shown = f"{value!r:.60}" if isinstance(value, int | float) else type(value).__name__
        raise BrokenText(f"must be a whole number from {low} to {high}, not {shown}")
    return value


def flag(value: object) -> bool:
    if type(value) is not bool:
        raise BrokenText(f"must be true or false, not {type(value).__name__}")
    return value


def number(value: object, bound: Bound) -> float:
    """A finite number, brought inside the bound: earlier versions took others."""
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        shown = f"{value!r:.60}" if isinstance(value, int | float) else type(value).__name__
        raise BrokenText(f"must be a finite number, not {shown}")
    return bound.nearest(value)  # type: ignore[arg-type]


def items(value: object, length: int | None = None) -> list[Any]:
    """A list of the given length."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        wanted = "a list" if length is None else f"a list of {length}"
        raise BrokenText(f"must be {wanted}, not {type(value).__name__}")
    return value


def two(value: object) -> Iterator[list[Any]]:
    """The items of a list, each a list of two."""
    return (items(each, 2) for each in items(value))


def fields(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BrokenText(f"must be a mapping, not {type(value).__name__}")
    return value


def texts(value: object) -> tuple[str, ...]:
    found = items(value)
    if not _are_texts(found):
        found = [text(each) for each in found]
    return tuple(found)


def pairs(value: object) -> tuple[tuple[str, str], ...]:
    """A list of pairs of texts."""
    found = items(value)
    if not ({*map(type, found)} <= {list} and {*map(len, found)} <= {2} and _are_texts(chain.from_iterable(found))):
        found = [(text(key), text(item)) for key, item in two(value)]
    return tuple(map(tuple, found))


def _are_texts(values: Iterable[Any]) -> bool:
    """Told quickly, since hundreds of thousands are read at a start."""
    try:
        "".join(values)
    except TypeError:
        return False
    return True


def maybe(value: object, read: Callable[[object], V]) -> V | None:
    """None, or what else it must be."""
    return None if value is None else read(value)


def ascending(numbers: Iterable[int]) -> None:
    """Raise `BrokenText` for numbers that do not ascend."""
    before = -1
    for each in numbers:
        if each <= before:
            raise BrokenText("must be in ascending order")
        before = each
