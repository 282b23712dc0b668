"""A file of prices: that of a slot for an hour, by GPU type."""

import math
import tomllib
from pathlib import Path

from scheduler.errors import UserError


def read_prices(path: Path) -> dict[str, float]:
    """Prices by GPU type, `*` for the types that are not named, in TOML, YAML or JSON. Raises `UserError`."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"--prices: {path}: {reason}") from None
    document = _parsed(path, text)
    if not isinstance(document, dict) or not document:
        raise UserError(f"--prices: {path}: must name GPU types and their prices, such as H100 = 2.5")
    for name, price in document.items():
        number = isinstance(price, int | float) and not isinstance(price, bool) and math.isfinite(price) and price >= 0
        if not isinstance(name, str) or not number:
            raise UserError(f"--prices: {path}: the price of {name!r} must be a number from 0 on, not {price!r}")
    return {name: float(price) for name, price in document.items()}


def _parsed(path: Path, text: str) -> object:
    if path.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"--prices: {path}: not valid TOML: {error}") from None
    import yaml

    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"--prices: {path}: not valid YAML: {' '.join(str(error).split())}") from None
    return document
