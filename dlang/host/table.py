"""Files of text: tables of comma-separated values (RFC 4180) and plain text. Refusals name the path and the line."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from dlang.drafts import add, appending
from dlang.host.errors import RunError
from dlang.host.half import from_memory, to_memory
from dlang.host.saved import numpy_dtype
from dlang.lazy_modules import csv, np

CANNOT_READ, CANNOT_WRITE, WRONG_RANK, WRONG_CELL, WRONG_LENGTH = "E0821", "E0822", "E0824", "E0826", "E0827"
OTHER_COLUMNS = "E0829"
LONGEST_HEAD = 1 << 16
"""Bytes of the first line of a table; what has more before the end of a line is no table, but a device perhaps."""

Cell = int | float | bool | str


def text(path: str) -> str:
    """The whole of a file of text in UTF-8, its line ends as they are."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as e:
        raise RunError(CANNOT_READ, f"cannot read `{path}`: {e.strerror or e}") from None
    except UnicodeDecodeError:
        raise RunError(CANNOT_READ, f"cannot read `{path}`: it is not text in UTF-8") from None


def read(path: str, header: bool, dtype: str, rank: str) -> list[Any]:
    """The sizes and the array of a table; a header is left out, and so are empty lines.

    A table has two axes, or one if it has one column. An empty cell is NaN where floats are wanted.
    """
    if int(rank) not in (1, 2):
        raise RunError(WRONG_RANK, f"`{path}` is a table and has 2 axes (1 if it is a column), not {rank}")
    cell = _cell_of(dtype)
    reader = csv.reader(io.StringIO(text(path).removeprefix("\ufeff"), newline=""), skipinitialspace=True)
    rows: list[list[Cell]] = []
    width = first = -1
    try:
        for fields in reader:
            if not fields:
                continue
            line = reader.line_num
            if width < 0:
                width, first = len(fields), line
            elif len(fields) != width:
                raise RunError(
                    WRONG_LENGTH,
                    f"line {line} of `{path}` has {_cells(len(fields))}, line {first} has {_cells(width)}",
                )
            if header and line == first:
                continue
            rows.append([_value(cell, c, k, path, line, dtype) for k, c in enumerate(fields)])
    except csv.Error as e:
        raise RunError(CANNOT_READ, f"cannot read `{path}`: line {reader.line_num}: {e}") from None
    array = np.array(rows, dtype=numpy_dtype(dtype)).reshape(len(rows), max(width, 0))
    array = from_memory(to_memory(array, dtype), dtype)  # which rounds it
    if rank == "2":
        return [*array.shape, array]
    if width > 1:
        raise RunError(WRONG_RANK, f"`{path}` has {width} columns, the program asks for 1 axis")
    return [len(rows), array.reshape(len(rows))]


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _value(cell: Callable[[str], Cell], written: str, column: int, path: str, line: int, dtype: str) -> Cell:
    try:
        return cell(written if dtype == "str" else written.strip())
    except (ValueError, KeyError):
        raise RunError(
            WRONG_CELL, f"line {line} of `{path}`, column {column + 1}: `{written.strip()}` is not a number of {dtype}"
        ) from None


def _cell_of(dtype: str) -> Callable[[str], Cell]:
    """Returns a reader of cells as a dtype; it raises ValueError or KeyError where a cell means nothing."""
    if dtype == "str":
        return str
    if dtype == "bool":
        return lambda c: {"true": True, "false": False, "1": True, "0": False}[c.lower()]
    if dtype.startswith(("f", "bf")):
        return lambda c: float(c.replace("_", "?")) if c else float("nan")
    width = int(dtype[1:])
    low, high = (0, 2**width - 1) if dtype.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)

    def whole(c: str) -> int:
        value = int(c.replace("_", "?"))
        if not low <= value <= high:
            raise ValueError
        return value

    return whole


def written(header: str, value: Any) -> str:
    """An array as a table of the shortest numbers that read back as they were, under a header that isn't empty."""
    array = np.asarray(value)
    rows = array.reshape(len(array), math.prod(array.shape[1:])) if array.ndim else array.reshape(1, 1)
    return (header + "\n" if header else "") + _lines(rows)


def _lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows of cells."""
    written = [[_cell(v) for v in row] for row in rows]
    return "".join(['""\n' if row == [""] else ",".join(row) + "\n" for row in written])  # an empty line is no row


def _cell(v: Any) -> str:
    """A text as it stands, or in quotes if it needs them."""
    text = str(v)
    if not isinstance(v, str):
        return text.lower() if text in ("True", "False") else text
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text


def append(path: str, names: Sequence[str], values: Sequence[Any]) -> None:
    """A row at the end of a table, which begins with these names: of a new one they are written too.

    A last line without an end, as an editor may leave it, is ended first. A row is written as a whole or not at all.
    """
    try:
        with appending(path) as file:
            file.seek(0)
            first = _first_line(file)
            end = b""
            if first:
                _check_columns(path, first, names)
                file.seek(-1, os.SEEK_END)
                end = b"" if file.read(1) == b"\n" else b"\n"
            add(file, end + _lines([values] if first else [names, values]).encode())
    except OSError as e:
        raise RunError(CANNOT_WRITE, f"cannot write `{path}`: {e.strerror or e}") from None


def _first_line(file: IO[bytes]) -> bytes:
    """The bytes up to the first end of a line, or `LONGEST_HEAD` of them."""
    head = b""
    while b"\n" not in head and len(head) < LONGEST_HEAD and (more := file.read(min(4096, LONGEST_HEAD - len(head)))):
        head += more
    return head[: head.find(b"\n") + 1 or len(head)]


def _check_columns(path: str, first: bytes, names: Sequence[str]) -> None:
    try:
        head = next(csv.reader([first.decode("utf-8-sig")], skipinitialspace=True))
    except (UnicodeDecodeError, csv.Error):
        head = None
    if head is None or len(first) == LONGEST_HEAD:
        raise RunError(OTHER_COLUMNS, f"`{path}` is no table, so no row can be added to it") from None
    if head != list(names):
        raise RunError(OTHER_COLUMNS, f"`{path}` has the columns {_listed(head)}, and the row has {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{n}`" for n in names) or "none"
