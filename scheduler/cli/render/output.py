"""What reaches the terminal: JSON or tables on stdout, everything said to a person on stderr."""

import html
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Wide enough that nothing is folded where lines are read by programs.
_PIPE_WIDTH = 10_000


class Format(StrEnum):
    """How a command prints its result."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Column:
    """`fold` lets a long text go on in the next line; everything else is printed whole."""

    title: str
    right: bool = False
    fold: bool = False


#: A cell of a spreadsheet that begins with one of these is a formula; tabs and ends of lines are written out anyway.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")

#: A cell's text, or text and style.
Cell = str | tuple[str, str]


def emit_json(document: Any) -> None:
    """The document on stdout, indented for people only where they read it directly."""
    indent = 2 if sys.stdout.isatty() else None
    ascii_only = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only, allow_nan=False)
    # Within strings, and there alone can they be, JSON may write any character as its number.
    print(_escaped(text, "\n", lambda odd: json.dumps(odd)[1:-1]), flush=True)


def say(line: str) -> None:
    """One result line on stdout."""
    print(printable(line), flush=True)


def note(line: str) -> None:
    """One line for the person at the terminal, on stderr."""
    sys.stdout.flush()
    print(printable(line), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with what a terminal would obey, or not show, written out: names and messages come from other users.

    So it is one line, in one direction, and breaks no table.
    """
    return _escaped(text, "", lambda odd: ascii(odd)[1:-1])


def markup(text: str) -> str:
    """The text for a document in HTML or SVG, as `printable` gives it."""
    return html.escape(printable(text))


def csv_cell(text: str) -> str:
    """The text for a cell of CSV, as `printable` gives it, and behind an apostrophe where it would be a formula.

    See https://owasp.org/www-community/attacks/CSV_Injection.
    """
    cell = printable(text)
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _escaped(text: str, kept: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else escape(c) for c in text)


def console() -> "Console":
    """Stdout as wide as the terminal; a pipe gets plain, unfolded lines."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def show(*renderables: "RenderableType") -> None:
    """Print them; a pipe gets lines without the blanks that fill up a table."""
    target = console()
    with target.capture() as captured:
        for renderable in renderables:
            target.print(renderable)
    text = captured.get()
    if not sys.stdout.isatty():
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    sys.stdout.write(text)


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> "RenderableType":
    """A plain table without lines, so that it can be cut and searched."""
    from rich.table import Table
    from rich.text import Text

    result = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        result.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.fold,
            min_width=8 if column.fold else None,
        )
    for row in rows:
        result.add_row(*(Text(printable(cell)) if isinstance(cell, str) else _styled(*cell) for cell in row))
    return result


def fields(rows: Iterable[tuple[str, Cell]]) -> "RenderableType":
    """Names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    result = Table(box=None, pad_edge=False, show_header=False)
    result.add_column(style="bold", no_wrap=True)
    result.add_column(overflow="fold")
    for name, cell in rows:
        result.add_row(name, Text(printable(cell)) if isinstance(cell, str) else _styled(*cell))
    return result


def _styled(text: str, style: str) -> "RenderableType":
    from rich.text import Text

    return Text(printable(text), style=style)
