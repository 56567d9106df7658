"""The world as a program sees it: its output and its files.

A back end calls `Host.print` for `print`, and `Host.effect` for any other effect, with the values of its arguments and
what was known when it was compiled; the results come back as the effect binds them. Every refusal is a `RunError`.

Files of text are tables of comma-separated values (RFC 4180) and plain text. Refusals name the path and the line.
"""

from __future__ import annotations

import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dlang.drafts import add, appending, draft
from dlang.host import saved
from dlang.host.errors import RunError
from dlang.host.half import from_memory, to_memory
from dlang.host.saved import CANNOT_READ, CANNOT_WRITE, WRONG_RANK, Form, decoded, listed, numpy_dtype, ranked, taken
from dlang.lazy_modules import csv, np

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Host:
    """Prints to `out` (the standard output unless given); paths are relative to the working directory."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self.out = out
        self.progress = Progress()

    def print(self, text: str) -> None:
        """Writes one line; a character that the output can't write is written by its number, as `\\u03b8`."""
        self.progress.erase()
        out = self.out if self.out is not None else sys.stdout
        try:
            out.write(text + "\n")
        except UnicodeEncodeError:
            encoding = getattr(out, "encoding", None) or "utf-8"
            out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        out.flush()

    def failed(self) -> None:
        """Forgets the loops of a run that has ended before it was through."""
        self.progress.abandon()

    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]:
        """The results of an effect of the program.

        read_npz (path, member), read_npy (path) and read_csv (path, whether there is a header), static (dtype, rank):
        the sizes, then the array, a number where the rank is 0. read_value (path), static (form): as `saved.read`.
        read_text (path): a text. read_exists (path): whether there is such. read_clock: a number. progress (done,
        total, label): as `Progress.report`.
        write_value (path, leaves…), static (form), write_row (path, values…), static their names, write_npy (path,
        value), write_csv (path, header, value) and write_text (path, text): nothing.
        """
        name = name.removeprefix("io.")
        path = str(args[0]) if args else ""
        if name == "read_exists":
            return [os.path.exists(path)]
        if name.startswith(("read_", "write_")) and args and not _is_name(path):
            code, verb = (CANNOT_READ, "read") if name.startswith("read_") else (CANNOT_WRITE, "write")
            raise RunError(code, f"cannot {verb} `{path}`: that is no name of a file")
        match name:
            case "read_npz":
                return member(path, str(args[1]), *static)
            case "read_npy":
                return array(path, *static)
            case "read_csv":
                return read(path, bool(args[1]), *static)
            case "read_text":
                return [text(path)]
            case "progress":
                return [self.progress.report(int(args[0]), int(args[1]), str(args[2]))]
            case "read_clock":
                return [time.perf_counter()]
            case "read_value":
                return value(path, decoded(static[0]))
            case "write_value":
                with _draft(path, lasting=True) as out:
                    saved.write(out, decoded(static[0]), args[1:])
            case "write_npy":
                with _draft(path) as out:
                    saved.write_array(out, args[1])
            case "write_csv":
                with _draft(path) as out:
                    out.write(written(str(args[1]), args[2]).encode())
            case "write_row":
                append(path, static, args[1:])
            case "write_text":
                with _draft(path) as out:
                    out.write(str(args[1]).encode())
            case _:
                raise AssertionError(f"an effect that no host knows: {name}")
        return []


def _is_name(path: str) -> bool:
    """Tells whether a file may have this name."""
    try:
        return bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@contextmanager
def _draft(path: str, lasting: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file that takes the place of another one when it is complete. Raises `RunError`."""
    with _writing(path), draft(path, lasting) as out:
        yield out


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Has what goes wrong with a file that is written end the run."""
    try:
        yield
    except OSError as e:
        raise RunError(CANNOT_WRITE, f"cannot write `{path}`: {e.strerror or e}") from None
    except UnicodeEncodeError as e:
        character = f"U+{ord(e.object[e.start]):04X}"
        raise RunError(CANNOT_WRITE, f"cannot write `{path}`: {character} is no character in UTF-8") from None


NO_MEMBER = "E0823"


def member(path: str, name: str, dtype: str, rank: str) -> list[Any]:
    """The sizes and the array of a member of an archive."""
    with _named(path), _archive(path) as archive:
        return _converted(_held(archive, name), name, dtype, int(rank))


def array(path: str, dtype: str, rank: str) -> list[Any]:
    """The sizes and the array of a file that has one."""
    with _named(path), _loaded(path) as loaded:
        if not isinstance(loaded, np.ndarray):
            raise RunError(CANNOT_READ, "it holds several arrays; use `io.npz`")
    return _converted(loaded, path, dtype, int(rank))


def value(path: str, form: Form) -> list[Any]:
    """The sizes and the leaves of a value in an archive."""
    with _named(path), _archive(path) as archive:
        said = saved.said(archive.zip.comment if archive.zip is not None else b"")
        return saved.read(saved.as_stored(form, archive.files), lambda name: _held(archive, name), said)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Has a refusal name the file."""
    try:
        yield
    except RunError as e:
        raise RunError(e.code, f"cannot read `{path}`: {e.message}") from None


# ---- what NumPy reads ------------------------------------------------------------------------------------------------
@contextmanager
def _archive(path: str) -> Iterator[NpzFile]:
    from numpy.lib.npyio import NpzFile

    with _loaded(path) as archive:
        if not isinstance(archive, NpzFile):
            raise RunError(CANNOT_READ, "it holds one array without a name; use `io.npy`")
        yield archive


@contextmanager
def _loaded(path: str) -> Iterator[Any]:
    """Loads a file, which is open meanwhile and no longer, whatever NumPy makes of it."""
    with ExitStack() as files:
        file = _read(lambda: files.enter_context(open(path, "rb")), "it is no file")
        why = "it is not a file of NumPy arrays, or was cut short"
        array = _read(lambda: np.load(file, allow_pickle=False), why)
        if not isinstance(array, np.ndarray):
            files.enter_context(array)
        yield array


def _held(archive: NpzFile, name: str) -> Array:
    if name not in archive.files:
        held = ", ".join(f"`{n}`" for n in archive.files) or "nothing"
        raise RunError(NO_MEMBER, f"it has no array `{name}`; it holds {held}")
    array = _read(lambda: archive[name], f"its `{name}` is damaged, or holds Python objects")
    if not isinstance(array, np.ndarray):
        raise RunError(CANNOT_READ, f"its `{name}` is no array of NumPy")
    return array


def _read(read: Callable[[], Any], otherwise: str) -> Any:
    """Returns what `read` returns; raises `RunError`. otherwise: the reason where the system gives none."""
    try:
        return read()
    except MemoryError:
        raise RunError(CANNOT_READ, "it does not fit into memory") from None
    except Exception as e:  # NumPy and its readers of archives and headers have a dozen exceptions for damage
        why = e.strerror if isinstance(e, OSError) else None
        raise RunError(CANNOT_READ, why or otherwise) from None


def _converted(array: Array, what: str, dtype: str, rank: int) -> list[Any]:
    """The sizes and the array with the dtype that the program wants."""
    converted = taken(ranked(array, rank, what), dtype, what)
    return [*converted.shape, converted] if converted.ndim else [converted[()]]


# ---- progress --------------------------------------------------------------------------------------------------------
# How far loops are, for a person who waits: a line on a terminal that is drawn anew, else a line now and then.

OFTEN, SELDOM = 0.1, 10.0
"""Seconds between two looks on a terminal, and between two lines elsewhere."""
WIDTHS = 24, 12, 6, 0
"""Characters of a bar: the first, or of those that fit on the line the widest."""
_ERASE = "\r\x1b[K"


@dataclass(slots=True)
class _Loop:
    label: str
    total: int
    start: float
    done: int = 0


@dataclass(slots=True)
class Progress:
    """The loops that run, the outermost first. clock: seconds. drawn: whether a line of ours is on the
    terminal. shown: when there was one last."""

    out: IO[str] | None = None
    clock: Callable[[], float] = time.perf_counter
    loops: list[_Loop] = field(default_factory=list)
    drawn: bool = False
    shown: float = float("-inf")

    def report(self, done: int, total: int, label: str) -> int:
        """A loop has done so many iterations of a total; gives the number at which it should say so again.

        total: -1 where the loop has ended, at whatever iteration.
        """
        now = self.clock()
        label = "".join(c if c.isprintable() else " " for c in label)
        if done == 0 and total >= 0:
            self.loops.append(_Loop(label, total, now))
            if len(self.loops) == 1:
                self.shown = now
            return 1
        while len(self.loops) > 1 and not self._is_last(total, label):
            self.loops.pop()  # left by a `return`
        loop = self.loops[-1]
        loop.done = done
        if total < 0:
            self._end(loop, now)
            return 0
        self._show(now)
        wait = OFTEN * done / max(now - loop.start, 1e-9)
        return done + max(1, min(int(wait), done))

    def erase(self) -> None:
        """Makes room for something else on the terminal."""
        if self.drawn:
            self._out.write(_ERASE)
            self._out.flush()
            self.drawn = False

    def abandon(self) -> None:
        """Forgets all loops: what they were in has failed."""
        self.erase()
        self.loops.clear()

    @property
    def _out(self) -> IO[str]:
        return sys.stderr if self.out is None else self.out

    def _is_last(self, total: int, label: str) -> bool:
        return self.loops[-1].label == label and total in (-1, self.loops[-1].total)

    def _show(self, now: float) -> None:
        terminal = self._out.isatty()
        if now - self.shown < (OFTEN if terminal else SELDOM):
            return
        texts = (
            " · ".join(described(x.label, x.done, x.total, now - x.start, width) for x in self.loops)
            for width in WIDTHS
        )
        if terminal:
            room = _columns(self._out) - 1
            text = min(texts, key=lambda t: max(len(t), room))
            self._out.write(_ERASE + text[:room])
        else:
            self._out.write(next(texts) + "\n")
        self._out.flush()
        self.shown, self.drawn = now, terminal

    def _end(self, loop: _Loop, now: float) -> None:
        self.loops.pop()
        self.erase()
        if not self.loops:
            name = f"{loop.label}: " if loop.label else ""
            iterations = f"{loop.done}" if loop.done == loop.total else f"{loop.done} of {loop.total}"
            self._out.write(f"{name}{iterations} in {duration(now - loop.start)}\n")
            self._out.flush()


def _columns(out: IO[str]) -> int:
    """The width of a terminal; 80 where it says nothing of that."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def described(label: str, done: int, total: int, seconds: float, width: int = WIDTHS[0]) -> str:
    """`training [######····] 60 % 6/10, 2.0/s, 2 s left`, with a bar of so many characters."""
    share = done / total if total else 1.0
    filled = int(share * width)
    name = f"{label} " if label else ""
    bar = f"[{'#' * filled}{'·' * (width - filled)}] " if width else ""
    text = f"{name}{bar}{int(100 * share)} % {done}/{total}"
    if not done or not seconds:
        return text
    rate = done / seconds
    speed = f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each"
    return f"{text}, {speed}, {duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """`0.53 s`, `42 s`, `3:07 min`, `2:05:00 h`."""
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    minutes, seconds_left = divmod(whole, 60)
    return (
        f"{minutes}:{seconds_left:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{seconds_left:02} h"
    )


# ---- files of text ---------------------------------------------------------------------------------------------------
WRONG_CELL, WRONG_LENGTH, OTHER_COLUMNS = "E0826", "E0827", "E0829"
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
    with _writing(path), appending(path) as file:
        file.seek(0)
        first = _first_line(file)
        end = b""
        if first:
            _check_columns(path, first, names)
            file.seek(-1, os.SEEK_END)
            end = b"" if file.read(1) == b"\n" else b"\n"
        add(file, end + _lines([values] if first else [names, values]).encode())


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
        raise RunError(OTHER_COLUMNS, f"`{path}` has the columns {listed(head)}, and the row has {listed(names)}")
