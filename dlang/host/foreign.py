"""Functions of Python: called with Python's values, and what they give compared with the declared type.

Both sides get copies, so neither sees a later change of the other's values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dlang.host.errors import RunError
from dlang.ir.crossing import PythonFunction
from dlang.lazy_modules import lazy_module, np

if TYPE_CHECKING:
    from dlang.host import from_python, python_modules, to_python, values
else:
    from_python = lazy_module("dlang.host.from_python")
    to_python = lazy_module("dlang.host.to_python")
    python_modules = lazy_module("dlang.host.python_modules")
    values = lazy_module("dlang.host.values")


RAISED, MISMATCH = "E0809", "E0810"
LONGEST = 200  # characters of what an exception says


class Missing(Exception):
    """A foreign function that is not there. help: what a person can do about it."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


def forgotten(functions: Mapping[str, PythonFunction]) -> dict[str, PythonFunction]:
    """Functions as they are kept: without what they are in this process."""
    return {name: replace(f, function=cast(Any, None)) for name, f in functions.items()}


def found_again(name: str, f: PythonFunction) -> PythonFunction:
    """One that was kept, looked for by its name in the program: its target, perhaps with a number. Raises `Missing`."""
    target = name.removeprefix("python:").partition("#")[0]
    return replace(f, function=python_modules.find_python(target, Path(f.folder)))


def call_python(f: PythonFunction, leaves: Sequence[Any]) -> list[Any]:
    """The leaves of the result; an exception, or a result of another type, is a `RunError`."""
    rest = iter([np.array(x) if isinstance(x, np.ndarray) else x for x in leaves])
    sizes: list[int | None] = [int(next(rest)) for _ in range(f.given)]
    sizes += [None] * f.opened
    args = to_python.built(f.params, rest, f.trees)
    try:
        value = f.function(*args)
    except Exception as e:
        text = str(e).strip().partition("\n")[0]
        if len(text) > LONGEST:
            text = text[:LONGEST] + " …"
        what = type(e).__name__ + (f": {text}" if text else "")
        raise RunError(RAISED, f"`{f.label}` raised {what}{_place(e)}") from e
    out = from_python.flattened([(f.result, value)], sizes, f.trees)
    if out is None:
        raise RunError(MISMATCH, _mismatch(f, value, sizes))
    return [*[n or 0 for n in sizes[f.given :]], *[np.array(x) if isinstance(x, np.ndarray) else x for x in out]]


def _place(e: Exception) -> str:
    """Returns where in Python an exception was raised; empty if in the function itself, which is no Python code."""
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
    known = []
    for name, positions in f.names:
        text = positions if isinstance(positions, str) else ", ".join(str(sizes[k]) for k in positions)
        known.append(f"{name} = [{text}]" if name.startswith("..") else f"{name} = {text}")
    where = " with " + ", ".join(known) if known else ""
    return f"`{f.label}` returned {values.describe(value)}, its type says {f.type}{where}"
