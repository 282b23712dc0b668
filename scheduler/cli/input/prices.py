"""A file of prices: that of a slot for an hour, by GPU type."""

import math
from pathlib import Path
from typing import Any

from scheduler.cli.input.mapping_file import Kind, read_mapping
from scheduler.errors import UserError

_PRICES = Kind("file of prices", "GPU types and their prices, such as `H100: 2.5`", 'prices such as "H100": 2.5')


def read_prices(path: Path) -> dict[str, float]:
    """Prices by GPU type, `*` for the types that are not named, in TOML, YAML or JSON. Raises `UserError`."""
    try:
        document, lines = read_mapping(path, _PRICES)
    except UserError as error:
        raise UserError(f"--prices: {error}") from None
    if not document:
        raise UserError(f"--prices: {path}: must name GPU types and their prices, such as H100 = 2.5")
    prices = {}
    for name, value in document.items():
        prices[name] = _number(value)
        if not (math.isfinite(prices[name]) and prices[name] >= 0):
            where = f"{path}:{lines[name]}" if name in lines else str(path)
            shown = "one that large" if prices[name] == math.inf else repr(value)
            raise UserError(f"--prices: {where}: the price of {name!r} must be a number from 0 on, not {shown}")
    return prices


def _number(value: Any) -> float:
    """The value as a number: infinite where it is too large, none where it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
