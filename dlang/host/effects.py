"""The world as a program sees it: its output and its files.

A back end calls `Host.print` for `print`, and `Host.effect` for any other effect, with the values of its arguments and
what was known when it was compiled; the results come back as the effect binds them. Every refusal is a `RunError`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from dlang.drafts import draft
from dlang.host import numpy_files, saved, table
from dlang.host.contents import decoded
from dlang.host.errors import RunError
from dlang.host.progress import Progress

CANNOT_READ, CANNOT_WRITE = "E0821", "E0822"


class Host:
    """Prints to `out` (the standard output unless given); paths are relative to the working directory."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self.out = out
        self.progress = Progress()

    def print(self, text: str) -> None:
        """Writes one line."""
        self.progress.erase()
        out = self.out if self.out is not None else sys.stdout
        out.write(text + "\n")
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
        if name.startswith(("read_", "write_")) and args and (not path or "\0" in path):
            code, verb = (CANNOT_READ, "read") if name.startswith("read_") else (CANNOT_WRITE, "write")
            raise RunError(code, f"cannot {verb} `{path}`: that is no name of a file")
        match name:
            case "read_npz":
                return numpy_files.member(path, str(args[1]), *static)
            case "read_npy":
                return numpy_files.array(path, *static)
            case "read_csv":
                return table.read(path, bool(args[1]), *static)
            case "read_text":
                return [table.text(path)]
            case "progress":
                return [self.progress.report(int(args[0]), int(args[1]), str(args[2]))]
            case "read_clock":
                return [time.perf_counter()]
            case "read_value":
                return numpy_files.value(path, decoded(static[0]))
            case "write_value":
                with _draft(path, lasting=True) as out:
                    saved.write(out, decoded(static[0]), args[1:])
            case "write_npy":
                with _draft(path) as out:
                    saved.write_array(out, args[1])
            case "write_csv":
                with _draft(path) as out:
                    out.write(table.written(str(args[1]), args[2]).encode())
            case "write_row":
                table.append(path, static, args[1:])
            case "write_text":
                with _draft(path) as out:
                    out.write(str(args[1]).encode())
            case _:
                raise AssertionError(f"an effect that no host knows: {name}")
        return []


@contextmanager
def _draft(path: str, lasting: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file that takes the place of another one when it is complete. Raises `RunError`."""
    try:
        with draft(path, lasting) as out:
            yield out
    except OSError as e:
        raise RunError(CANNOT_WRITE, f"cannot write `{path}`: {e.strerror or e}") from None
