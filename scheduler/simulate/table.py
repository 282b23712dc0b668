"""Tables that others wrote: CSV files, checked row by row so that an error names file, line and field."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from scheduler.errors import UserError, broken_rule

BYTES_MAX = 64 * 1024 * 1024
ROWS_MAX = 1_000_000


class Row(BaseModel):
    """One row: a field per column. Other columns of the file are passed over unless a subclass forbids them."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


AnyRow = TypeVar("AnyRow", bound=Row)


def read_text(path: Path) -> str:
    """The file as text. Raises `UserError` naming it."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory, not a file") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{str(path)!r}: {error}") from None
    if len(data) > BYTES_MAX:
        raise UserError(f"{path}: larger than {BYTES_MAX // 1024**2} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    if "\x00" in text:
        raise UserError(f"{path}: binary data, not text")
    return text


def header_of(text: str) -> tuple[str, ...]:
    """Names of the columns of a CSV text; empty where there are none."""
    try:
        return tuple(_names(next(csv.reader(io.StringIO(text)), [])))
    except csv.Error:
        return ()


def _names(cells: list[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def read_csv(path: Path, kind: type[AnyRow]) -> list[tuple[int, AnyRow]]:
    """Line number and row of each line below the header. Raises `UserError` for the first thing that is wrong."""
    return parse_csv(path, read_text(path), kind)


def parse_csv(path: Path, text: str, kind: type[AnyRow]) -> list[tuple[int, AnyRow]]:
    """The lines of `text`, which was read from `path`; see `read_csv`."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, AnyRow]] = []
    try:
        header = _names(next(reader, []))
        _check_header(path, header, kind)
        for cells in reader:
            line = reader.line_num
            if not cells:
                continue
            if len(cells) != len(header):
                raise UserError(f"{path}:{line}: has {len(cells)} fields, but the header has {len(header)}")
            if len(rows) == ROWS_MAX:
                raise UserError(f"{path}:{line}: more than {ROWS_MAX} rows")
            values = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if cell.strip()}
            rows.append((line, validated(kind, values, lambda _: f"{path}:{reader.line_num}")))
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: not valid CSV: {error}") from None
    if not rows:
        raise UserError(f"{path}: no rows after the header")
    return rows


def _check_header(path: Path, header: list[str], kind: type[Row]) -> None:
    if not header:
        raise UserError(f"{path}: the file is empty")
    fields = kind.model_fields
    missing = [name for name, field in fields.items() if field.is_required() and name not in header]
    if missing:
        needed = ",".join(name for name, field in fields.items() if field.is_required())
        raise UserError(f"{path}:1: {missing[0]}: missing column: the header must contain {needed}")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}:1: {twice}: duplicate column")
    unknown = [name for name in header if name not in fields]
    if unknown and kind.model_config.get("extra") == "forbid":
        what = unknown[0] or f"column {header.index('') + 1}, which has no name"
        raise UserError(f"{path}:1: {what}: unknown column: use {', '.join(fields)}")


def validated(
    kind: type[AnyRow], values: dict[str, Any], place: Callable[[str], str], *, strict: bool = False
) -> AnyRow:
    """The row that these values make. Raises `UserError`: where (`place` of a field), which field, what is right."""
    try:
        return kind.model_validate(values, strict=strict)
    except ValidationError as error:
        first = error.errors()[0]
        where = place(str(first["loc"][0]) if first["loc"] else "")
        field = ".".join(map(str, first["loc"]))
        raise UserError(": ".join(filter(None, (where, field, broken_rule(first))))) from None
