"""The world as a program sees it: its output and its files.

A back end calls `Host.print` for `print`, and `Host.effect` for any other effect, with the values of its arguments and
what was known when it was compiled; the results come back as the effect binds them. Every refusal is a `RunError`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dlang.runtime import saved, stored, table
from dlang.runtime.contents import Form, decoded
from dlang.runtime.errors import RunError
from dlang.runtime.progress import Progress

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray

    Array = NDArray[Any]

CANNOT_READ, CANNOT_WRITE, NO_MEMBER = "E0821", "E0822", "E0823"


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

    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]:
        """The results of an effect of the program.

        read_npz (path, member), read_npy (path) and read_csv (path, whether there is a header), static (dtype, rank):
        the sizes, then the array, a number where the rank is 0. read_value (path), static (form): as `saved.read`.
        read_text (path): a text. read_clock: a number. progress (done, total, label): as `Progress.report`. write_value
        (path, leaves…), static (form); write_row (path, values…), static their
        names; write_npy (path, value), write_csv (path, header, value) and write_text (path,
        text): nothing.
        """
        name = name.removeprefix("io.")
        path = str(args[0]) if args else ""
        match name:
            case "read_npz":
                return _converted(_member(path, str(args[1])), str(args[1]), *static)
            case "read_npy":
                return _converted(_array(path), path, *static)
            case "read_csv":
                return table.read(path, bool(args[1]), *static)
            case "read_text":
                return [table.text(path)]
            case "progress":
                return [self.progress.report(int(args[0]), int(args[1]), str(args[2]))]
            case "read_clock":
                return [time.perf_counter()]
            case "read_value":
                return _value(path, decoded(static[0]))
            case "write_value":
                _write(path, lambda out: saved.write(out, decoded(static[0]), args[1:]))
            case "write_npy":
                _write(path, lambda out: _save_array(out, args[1]))
            case "write_csv":
                _write(path, lambda out: out.write(table.written(str(args[1]), args[2]).encode()))
            case "write_row":
                table.append(path, static, args[1:])
            case "write_text":
                _write(path, lambda out: out.write(str(args[1]).encode()))
            case _:
                raise AssertionError(f"an effect that no host knows: {name}")
        return []


# ---- reading ---------------------------------------------------------------------------------------------------------
def _load(path: str) -> Any:
    import zipfile

    import numpy as np

    try:
        return np.load(Path(path), allow_pickle=False)
    except OSError as e:
        raise RunError(CANNOT_READ, f"cannot read `{path}`: {e.strerror or e}") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise RunError(CANNOT_READ, f"cannot read `{path}`: not a file of NumPy arrays") from None


def _member(path: str, member: str) -> Array:
    from numpy.lib.npyio import NpzFile

    archive = _load(path)
    if not isinstance(archive, NpzFile):
        raise RunError(CANNOT_READ, f"cannot read `{path}`: it holds one array without a name; use `io.npy`")
    with archive:
        return _held(archive, member, path)


def _held(archive: NpzFile, member: str, path: str) -> Array:
    if member not in archive.files:
        held = ", ".join(f"`{n}`" for n in archive.files) or "nothing"
        raise RunError(NO_MEMBER, f"`{path}` has no array `{member}`; it holds {held}")
    return _decoded(lambda: archive[member], path)


def _value(path: str, form: Form) -> list[Any]:
    """The sizes and the leaves of a value in an archive."""
    from numpy.lib.npyio import NpzFile

    archive = _load(path)
    if not isinstance(archive, NpzFile):
        raise RunError(CANNOT_READ, f"cannot read `{path}`: it holds one array without a name; use `io.npy`")
    with archive:
        said = saved.said(archive.zip.comment if archive.zip is not None else b"")

        def member(name: str) -> Array:
            return _held(archive, name, path)

        return saved.read(form, member, said)


def _array(path: str) -> Array:
    import numpy as np

    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise RunError(CANNOT_READ, f"cannot read `{path}`: it holds several arrays; use `io.npz`")
    return loaded


def _decoded(read: Callable[[], Any], path: str) -> Array:
    import zipfile
    import zlib

    import numpy as np

    try:
        return np.asarray(read())
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error):
        raise RunError(CANNOT_READ, f"cannot read `{path}`: the file is damaged, or holds Python objects") from None
    except RuntimeError:  # the archive is encrypted, or compressed in a way that this Python was built without
        raise RunError(CANNOT_READ, f"cannot read `{path}`: NumPy does not write such archives") from None


def _converted(array: Array, what: str, dtype: str, rank: str) -> list[Any]:
    """The sizes and the array with the dtype that the program wants."""
    found = stored.taken(stored.ranked(array, int(rank), what), dtype, what)
    return [*found.shape, found] if found.ndim else [found[()]]


# ---- writing ---------------------------------------------------------------------------------------------------------
def _write(path: str, save: Callable[[IO[bytes]], object]) -> None:
    """Writes beside the file and then replaces it, so that an interrupted run leaves no half of one."""
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    try:
        with draft.open("wb") as out:
            save(out)
        draft.replace(target)
    except OSError as e:
        raise RunError(CANNOT_WRITE, f"cannot write `{path}`: {e.strerror or e}") from None
    finally:
        draft.unlink(missing_ok=True)


def _save_array(out: IO[bytes], value: Any) -> None:
    import numpy as np

    np.lib.format.write_array(out, stored.written(value), allow_pickle=False)
