"""Functions of Python: called with Python's values, and what they give compared with the declared type.

Both sides get copies, so neither sees a later change of the other's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlang.runtime.errors import RunError

RAISED, MISMATCH = "E0809", "E0810"


class Missing(Exception):
    """A foreign function that is not there. help: what a person can do about it."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


# ---- how values of Python are made of leaves -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or an array. `shape`: for each axis the position of its size among the sizes of the call."""

    dtype: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple; None if it has no items."""

    items: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct: an object of a dataclass."""

    type: type
    items: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """An array of structures: a list of them, nested for several axes. Each of its leaves has the axes in front."""

    shape: tuple[int, ...]
    element: Part


Part = Leaf | Items | Fields | Rows


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function of Python at one type.

    Its leaves are `given` sizes, then those of the arguments; it gives `opened` sizes that only it knows, then the
    leaves of the result. A position below `given` in a shape is one of the former, the others follow. type: of the
    result, as a person wrote it; names: what the variables in it stand for, dtypes or the positions of sizes.
    """

    label: str
    function: Callable[..., Any]
    params: tuple[Part, ...]
    result: Part
    given: int
    opened: int
    type: str
    names: tuple[tuple[str, tuple[int, ...] | str], ...]


def call_python(f: PythonFunction, leaves: Sequence[Any]) -> list[Any]:
    """The leaves of the result; an exception, or a result of another type, is a `RunError`."""
    rest = iter(leaves)
    sizes: list[int | None] = [int(next(rest)) for _ in range(f.given)]
    sizes += [None] * f.opened
    args = [_built(part, rest) for part in f.params]
    try:
        value = f.function(*args)
    except Exception as e:
        text = str(e).strip().partition("\n")[0]
        what = type(e).__name__ + (f": {text}" if text else "")
        raise RunError(RAISED, f"`{f.label}` raised {what}{_place(e)}") from e
    out: list[Any] = []
    if not _flatten(f.result, value, sizes, out):
        raise RunError(MISMATCH, _mismatch(f, value, sizes))
    return [*[n or 0 for n in sizes[f.given :]], *out]


def _place(e: Exception) -> str:
    """Where in Python an exception was raised; nothing if that was in the function itself, which is no Python code."""
    ours = str(Path(__file__).parents[1])
    found = ""
    trace = e.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(ours):
            found = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _mismatch(f: PythonFunction, value: Any, sizes: Sequence[int | None]) -> str:
    from dlang.runtime.values import describe

    known = []
    for name, positions in f.names:
        text = positions if isinstance(positions, str) else ", ".join(str(sizes[k]) for k in positions)
        known.append(f"{name} = [{text}]" if name.startswith("..") else f"{name} = {text}")
    where = " with " + ", ".join(known) if known else ""
    return f"`{f.label}` returned {describe(value)}, its type says {f.type}{where}"


def _built(part: Part, leaves: Iterator[Any]) -> Any:
    """A value of Python from its leaves: `f64`, `i64`, `bool` and `str` are Python's own, other scalars NumPy's."""
    import numpy as np

    match part:
        case Leaf(dtype, ()):
            leaf = next(leaves)
            return leaf.item() if dtype in ("f64", "i64", "bool") and hasattr(leaf, "item") else leaf
        case Leaf():
            return np.array(next(leaves))
        case Items(()):
            return None
        case Items(items):
            return tuple([_built(i, leaves) for i in items])
        case Fields(type, items):
            return type(*[_built(i, leaves) for i in items])
        case Rows(shape, element):
            return _rows(element, [np.array(next(leaves)) for _ in range(leaf_count(element))], len(shape))


def _rows(element: Part, columns: Sequence[Any], depth: int) -> Any:
    if not depth:
        return _built(element, iter(columns))
    return [_rows(element, [c[k] for c in columns], depth - 1) for k in range(len(columns[0]) if columns else 0)]


def leaf_count(part: Part) -> int:
    match part:
        case Leaf():
            return 1
        case Rows(_, element):
            return leaf_count(element)
        case Items(items) | Fields(_, items):
            return sum(map(leaf_count, items))


def _flatten(part: Part, value: Any, sizes: list[int | None], out: list[Any]) -> bool:
    """Appends the leaves of a value, and learns the sizes that are open; False if it is of another type."""
    match part:
        case Leaf():
            leaf = _leaf(part, value, sizes)
            out.append(leaf)
            return leaf is not None
        case Items(()):
            return value is None
        case Items(items):
            if not isinstance(value, tuple) or len(value) != len(items):
                return False
            return all(_flatten(i, v, sizes, out) for i, v in zip(items, value, strict=True))
        case Fields(wanted, items):
            if not _same_class(type(value), wanted):
                return False
            fields: Any = wanted
            names = fields.__dataclass_fields__
            return all(_flatten(i, getattr(value, n), sizes, out) for i, n in zip(items, names, strict=True))
        case Rows(shape, element):
            rows: list[list[Any]] = []
            if not _gather(element, value, shape, sizes, rows):
                return False
            out += _columns(element, rows, shape, sizes)
            return True


def _leaf(part: Leaf, value: Any, sizes: list[int | None]) -> Any:
    """A scalar or array of just the dtype and sizes, or None."""
    import numpy as np

    from dlang.runtime.values import NUMPY, as_array, number

    if not part.shape:
        if part.dtype == "str":
            return str(value) if isinstance(value, str) else None
        return number(value, part.dtype)
    if part.dtype == "str":
        array = np.array(value, object) if isinstance(value, list | np.ndarray) else None
        if array is None or not all(isinstance(x, str) for x in array.reshape(-1)):
            return None
    else:
        array = as_array(value, part.dtype)
        if array is None or array.dtype != NUMPY[part.dtype]:
            return None
    if array.ndim != len(part.shape) or not all(_agree(sizes, *pair) for pair in zip(part.shape, array.shape)):
        return None
    return np.array(array)


def _agree(sizes: list[int | None], position: int, actual: int) -> bool:
    if sizes[position] is None:
        sizes[position] = actual
    return sizes[position] == actual


def _same_class(given: type, wanted: type) -> bool:
    """Whether a class is that of a struct, perhaps as another program made it."""
    if given is wanted:
        return True
    fields = getattr(given, "__dataclass_fields__", None)
    same = given.__module__ == wanted.__module__ and given.__qualname__ == wanted.__qualname__
    return same and fields is not None and list(fields) == list(getattr(wanted, "__dataclass_fields__", ()))


def _gather(element: Part, value: Any, shape: tuple[int, ...], sizes: list[int | None], rows: list[list[Any]]) -> bool:
    """The leaves of each structure in a nested list."""
    if not shape:
        rows.append([])
        return _flatten(element, value, sizes, rows[-1])
    if not isinstance(value, list) or not _agree(sizes, shape[0], len(value)):
        return False
    return all(_gather(element, v, shape[1:], sizes, rows) for v in value)


def _columns(element: Part, rows: list[list[Any]], shape: tuple[int, ...], sizes: list[int | None]) -> list[Any]:
    import numpy as np

    from dlang.runtime.values import NUMPY

    front = tuple([sizes[k] or 0 for k in shape])
    out = []
    for k, leaf in enumerate(_leaves(element)):
        dtype = NUMPY.get(leaf.dtype, object)
        whole = np.array([row[k] for row in rows], dtype)
        out.append(whole.reshape(*front, *[sizes[n] or 0 for n in leaf.shape]))
    return out


def _leaves(part: Part) -> Iterator[Leaf]:
    match part:
        case Leaf():
            yield part
        case Items(items) | Fields(_, items):
            for item in items:
                yield from _leaves(item)
        case Rows(shape, element):
            for leaf in _leaves(element):
                yield Leaf(leaf.dtype, shape + leaf.shape)
