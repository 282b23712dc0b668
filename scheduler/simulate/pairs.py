"""`key=value` pairs in one cell of a table: labels of nodes, node selectors."""

from typing import Any


def parse_pairs(value: Any) -> Any:
    """`a=1 b=2` as a mapping; anything but text is left as it is. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    pairs = [word.partition("=") for word in value.split()]
    wrong = next((key or value for key, equals, text in pairs if not (key and equals and text)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} must have the form KEY=VALUE, separated by blanks")
    return {key: text for key, _, text in pairs}
