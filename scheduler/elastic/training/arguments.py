"""Checks of what a script gives to this library. Standard library only."""

import math
import operator
import reprlib
from contextlib import suppress
from typing import Any

from scheduler.elastic.errors import UsageError


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as an int. Raises `UsageError`, by this name, for what is no whole number within the bounds."""
    number = None
    if not isinstance(value, bool):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None or number < least or (most is not None and number > most):
        bounds = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
        raise UsageError(f"{name} must be an integer, {bounds}, not {shown(value)}")
    return number


def amount(name: str, value: Any, *, zero: bool = False, endless: bool = False) -> float:
    """The value as a float. Raises `UsageError`, by this name, for what is no number greater than 0.

    `zero` and `endless`: whether it may be 0, and infinite.
    """
    number = math.nan
    if not isinstance(value, str | bytes | bytearray | bool):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not (0 < number < math.inf or (zero and number == 0) or (endless and number == math.inf)):
        least = "0 or more" if zero else "greater than 0"
        raise UsageError(f"{name} must be {least}, not {shown(value)}")
    return number


def shown(value: Any) -> str:
    """For an error message: one short line."""
    return " ".join(reprlib.repr(value).split())
