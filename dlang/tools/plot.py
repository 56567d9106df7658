"""`dlc plot`: the columns of tables, such as `io.log` writes, as curves; drawn anew while a run goes on."""

from __future__ import annotations

import argparse
import csv
import io
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import DlangError, error, shown
from dlang.lazy_modules import lazy_module, np
from dlang.spelling import closest
from dlang.tools.arguments import Parser
from dlang.tools.report import CLEARED, coloured, report
from dlang.typecheck.modules import unreadable

if TYPE_CHECKING:
    from dlang.tools import pictures
    from dlang.tools.pictures import Picture
else:
    pictures = lazy_module("dlang.tools.pictures")

WIDEST = 120
INTERVAL = 0.5  # seconds


def options(parser: Parser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE.csv", help="tables of comma-separated values, the first line names"
    )
    parser.add_argument(
        "-x", metavar="COLUMN", help="what is on the horizontal axis; the first column of numbers if not given"
    )
    parser.add_argument(
        "-y", metavar="COLUMN", action="append", default=[], help="a curve; all other columns if none is given"
    )
    parser.add_argument("--log", action="store_true", help="logarithms of the curves, to the base 10")
    parser.add_argument("--points", action="store_true", help="points, and no lines between them")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="FILE", help="a picture in a file, by matplotlib: png, svg, pdf")
    where.add_argument("--follow", action="store_true", help="draw again when a file grows, until Ctrl-C")


def main(args: argparse.Namespace) -> int:
    """0 if it was drawn; 1 if a file can't be read or holds nothing to draw."""
    wanted = PlotOptions(args.files, args.x, tuple(args.y), args.log, args.points)
    try:
        if args.follow:
            return _follow(wanted)
        picture = picture_of(wanted)
        if args.output is None:
            print(drawn(picture))
        else:
            pictures.written(picture, args.output)
            print(shown(f"written to {args.output}"))
    except DlangError as e:
        report(e.diagnostics, False)
        return 1
    return 0


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """The plot that the options ask for."""

    files: Sequence[str]
    x: str | None
    y: tuple[str, ...]
    log: bool
    points: bool


# ---- tables ----------------------------------------------------------------------------------------------------------
def columns(path: str) -> dict[str, Any]:
    """The columns of numbers in a table by their names, which are numbers too where the first line has none.

    An empty cell is NaN, and so is one that is cut off. Columns that begin with something else are left out. Raises
    `DlangError`.
    """
    rows = _rows(path)
    if rows and all(_number(cell) is not None for cell in rows[0][1]):
        names = [str(k + 1) for k in range(len(rows[0][1]))]
    else:
        names = rows.pop(0)[1] if rows else []
    if not rows:
        raise error("E0997", f"`{path}` has no rows yet", None)
    by_name = {}
    for k, name in enumerate(names):
        cells = [(line, row[k] if k < len(row) else "") for line, row in rows]
        if _number(next((c for _, c in cells if c), "")) is not None:
            by_name[name] = np.array([_certain(path, line, name, cell) for line, cell in cells])
    return by_name


def _rows(path: str) -> list[tuple[int, list[str]]]:
    """The rows with the numbers of their lines; the last is left out if it is not all there yet."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read()
        first = text.partition("\n")[0]
        delimiter = next((d for d in ",;\t" if d in first), ",")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, row) for row in reader if row]
    except OSError as e:
        raise unreadable(path, e) from None
    except (UnicodeDecodeError, csv.Error):
        raise error("E0997", f"`{path}` is no table of comma-separated values", None) from None
    if rows and not text.endswith("\n") and any(_number(c) is None for c in rows[-1][1]) and len(rows) > 1:
        rows.pop()
    return rows


def _number(cell: str) -> float | None:
    """Returns the number in a cell, None if it is no number; an empty one is NaN."""
    try:
        return _TRUTH[cell] if cell in _TRUTH else float(cell) if cell else float("nan")
    except ValueError:
        return None


def _certain(path: str, line: int, name: str, cell: str) -> float:
    number = _number(cell)
    if number is None:
        raise error("E0997", f"line {line} of `{path}`, column `{name}`: `{cell}` is not a number", None)
    return number


_TRUTH = {"true": 1.0, "false": 0.0}


# ---- pictures --------------------------------------------------------------------------------------------------------
def picture_of(wanted: PlotOptions) -> Picture:
    """The curves of all files. Raises `DlangError`."""
    from dlang.tools.pictures import Picture

    curves: list[tuple[Any, Any]] = []
    names: list[str] = []
    across: set[str] = set()
    for path in wanted.files:
        held = columns(path)
        if not held:
            help = ("the first line names the columns, and numbers follow, as `io.log` writes them",)
            raise error("E0997", f"`{path}` has no column of numbers", None, help=help)
        x = wanted.x if wanted.x is not None else next(iter(held)) if len(held) > 1 else None
        for name in (*([x] if x is not None else []), *wanted.y):
            if name not in held:
                raise _no_column(path, name, list(held))
        across.add(x or "row")
        for name in wanted.y or [n for n in held if n != x]:
            y = held[name]
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn_y = np.log10(y) if wanted.log else y
            curves.append((np.arange(len(y)) if x is None else held[x], drawn_y))
            label = f"log10({name})" if wanted.log else name
            names.append(label if len(wanted.files) == 1 else f"{label} in {os.path.basename(path)}")
    return Picture(
        "points" if wanted.points else "lines",
        tuple(curves),
        None,
        tuple(map(shown, names)),
        shown(" or ".join(sorted(across))),
    )


def _no_column(path: str, name: str, held: list[str]) -> DlangError:
    near = closest(name, held)
    help = (f"did you mean `{near}`?",) if near else (f"it has {', '.join(f'`{n}`' for n in held)}",)
    return error("E0997", f"`{path}` has no column of numbers `{name}`", None, help=help)


def drawn(picture: Picture) -> str:
    """The picture as lines of text, as wide as the terminal."""
    text = picture.in_characters(min(shutil.get_terminal_size().columns, WIDEST) - 1, colour=coloured(sys.stdout))
    return text if len(picture.names) > 1 else f"{picture.names[0]}\n{text}"


def _follow(wanted: PlotOptions) -> int:
    """Draws whenever a file has changed, until Ctrl-C; a file may be missing, or empty, for now."""
    seen: object = None
    try:
        while True:
            state = [_state(path) for path in wanted.files]
            if state != seen:
                seen = state
                print(f"{CLEARED if sys.stdout.isatty() else ''}{_drawn_or_why_not(wanted)}", flush=True)
            time.sleep(INTERVAL)
    except KeyboardInterrupt:
        return 0


def _drawn_or_why_not(wanted: PlotOptions) -> str:
    try:
        return drawn(picture_of(wanted))
    except DlangError as e:
        return "\n".join(d.message for d in e.diagnostics)


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
