"""Files of NumPy arrays as they are read: each refusal names the file and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from dlang.host import saved
from dlang.host.contents import Form
from dlang.host.errors import RunError
from dlang.host.stored import CANNOT_READ, ranked, taken
from dlang.lazy_modules import np

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray

    Array = NDArray[Any]

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
        found = _read(lambda: np.load(file, allow_pickle=False), why)
        if not isinstance(found, np.ndarray):
            files.enter_context(found)
        yield found


def _held(archive: NpzFile, name: str) -> Array:
    if name not in archive.files:
        held = ", ".join(f"`{n}`" for n in archive.files) or "nothing"
        raise RunError(NO_MEMBER, f"it has no array `{name}`; it holds {held}")
    found = _read(lambda: archive[name], f"its `{name}` is damaged, or holds Python objects")
    if not isinstance(found, np.ndarray):
        raise RunError(CANNOT_READ, f"its `{name}` is no array of NumPy")
    return found


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
    found = taken(ranked(array, rank, what), dtype, what)
    return [*found.shape, found] if found.ndim else [found[()]]
