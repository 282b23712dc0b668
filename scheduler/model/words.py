"""Words that messages of several layers share."""


def counted(count: int, word: str) -> str:
    """The number with its noun."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def rate_text(per_second: float) -> str:
    """`0.01235`, `12.35`, `123,456`."""
    return f"{per_second:,.0f}" if per_second >= 1000 else f"{per_second:.4g}"
