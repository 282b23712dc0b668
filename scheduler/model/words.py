"""Words that messages of several layers share."""


def counted(count: int, word: str) -> str:
    """The number with its noun."""
    return f"{count} {word}{'' if count == 1 else 's'}"
