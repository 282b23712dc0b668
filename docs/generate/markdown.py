"""The few forms of Markdown that generated pages are made of."""

from collections.abc import Iterable, Iterator, Sequence

COMMAND = "python -m docs.generate"


def heading(title: str) -> str:
    """The beginning of a page: where it comes from, and its title."""
    return f"<!-- made by {COMMAND} -->\n# {title}\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; an empty cell stays empty."""
    yield f"| {' | '.join(titles)} |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield f"| {' | '.join(cell(text) for text in row)} |"


def cell(text: str) -> str:
    """One line that a cell of a table can hold."""
    return " ".join(text.split()).replace("|", "\\|")


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?", ":")) else ".")
