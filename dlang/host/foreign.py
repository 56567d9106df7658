"""Functions of Python: called with Python's values, and what they give compared with the declared type.

Both sides get copies, so neither sees a later change of the other's values.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dlang.cache.store import digest
from dlang.host.errors import RunError
from dlang.ir.crossing import PythonFunction
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, WHOLE

if TYPE_CHECKING:
    from dlang.host import conversion, values
    from dlang.ir import anf
    from dlang.ir.anf import Type
else:
    conversion = lazy_module("dlang.host.conversion")
    values = lazy_module("dlang.host.values")
    anf = lazy_module("dlang.ir.anf")


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
    return replace(f, function=find_python(target, Path(f.folder)))


def call_python(f: PythonFunction, leaves: Sequence[Any]) -> list[Any]:
    """The leaves of the result; an exception, or a result of another type, is a `RunError`."""
    arguments = iter([np.array(x) if isinstance(x, np.ndarray) else x for x in leaves])
    sizes: list[int | None] = [int(next(arguments)) for _ in range(f.given)]
    sizes += [None] * f.opened
    args = conversion.built(f.params, arguments, f.trees)
    try:
        value = f.function(*args)
    except Exception as e:
        text = str(e).strip().partition("\n")[0]
        if len(text) > LONGEST:
            text = text[:LONGEST] + " …"
        what = type(e).__name__ + (f": {text}" if text else "")
        raise RunError(RAISED, f"`{f.label}` raised {what}{_place(e)}") from e
    out = conversion.flattened([(f.result, value)], sizes, f.trees)
    if out is None:
        raise RunError(MISMATCH, _mismatch(f, value, sizes))
    return [*[n or 0 for n in sizes[f.given :]], *[np.array(x) if isinstance(x, np.ndarray) else x for x in out]]


def _place(e: Exception) -> str:
    """Returns where in Python an exception was raised; empty if in the function itself, which is no Python code."""
    ours = str(Path(__file__).parents[1])
    place = ""
    trace = e.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(ours):
            place = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _mismatch(f: PythonFunction, value: Any, sizes: Sequence[int | None]) -> str:
    known = []
    for name, positions in f.names:
        text = positions if isinstance(positions, str) else ", ".join(str(sizes[k]) for k in positions)
        known.append(f"{name} = [{text}]" if name.startswith("..") else f"{name} = {text}")
    where = " with " + ", ".join(known) if known else ""
    return f"`{f.label}` returned {values.describe(value)}, its type says {f.type}{where}"


# ---- Python ----------------------------------------------------------------------------------------------------------
# Finding functions of Python by name: where Python finds its modules, and in the folder of a program.


def find_python(path: str, folder: Path) -> Callable[..., Any]:
    """`package.module.function`, where Python finds it, or in a folder; raises `Missing`."""
    name, *attributes = path.split(".")
    installed = _is_known(name)
    with _reported(name), _searched(folder):
        value: Any = import_module(name) if installed else _beside(name, folder)
    known = name
    for part in attributes:
        inner = f"{known}.{part}"
        if not hasattr(value, part) and hasattr(value, "__path__"):
            _import_part(value, known, part, folder)
        if not hasattr(value, part):
            what = "the module" if hasattr(value, "__spec__") else "the object"
            raise Missing(f"{what} `{known}` of Python has no `{part}`", _alike(part, dir(value)))
        value = getattr(value, part)
        known = inner
    if not callable(value):
        raise Missing(f"`{path}` of Python is not a function", "name something that can be called")
    function: Callable[..., Any] = value
    return function


def _is_known(name: str) -> bool:
    """Tells whether Python itself finds a module."""
    return name in sys.modules or find_spec(name) is not None


def _beside(name: str, folder: Path) -> Any:
    """A module in a folder. It is its own, whatever other folder has a module of that name."""
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if path.is_file():
            place = str(path.resolve())
            unique = f"{name}_{digest(place)[:12]}"
            if unique in sys.modules:
                return sys.modules[unique]
            spec = spec_from_file_location(unique, place)
            assert spec is not None and spec.loader is not None
            sys.modules[unique] = module = module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[unique]
                raise
            return module
    help = f"install it in the environment of `{sys.executable}`, or put `{name}.py` beside the program"
    raise Missing(f"there is no Python module `{name}`", help)


def _import_part(package: Any, known: str, part: str, folder: Path) -> None:
    """Imports a module of a package, if it has one of that name."""
    name = f"{package.__name__}.{part}"
    if find_spec(name) is not None:
        with _reported(f"{known}.{part}"), _searched(folder):
            import_module(name)


@contextmanager
def _searched(folder: Path) -> Iterator[None]:
    """Lets imports inside find modules in the folder, too."""
    place = str(folder.resolve())
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)


@contextmanager
def _reported(name: str) -> Iterator[None]:
    """Whatever goes wrong while a module is imported says so."""
    try:
        yield
    except Missing:
        raise
    except ModuleNotFoundError as e:
        raise Missing(f"the Python module `{name}` needs `{e.name}`, which is not installed", "install it") from e
    except Exception as e:
        message = f"the Python module `{name}` cannot be imported: {type(e).__name__}: {e}"
        raise Missing(message, f"run `python -c 'import {name}'` to see more") from e


def _alike(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f"did you mean `{close[0]}`?" if close else "look up how it is spelt"


# ---- C ---------------------------------------------------------------------------------------------------------------
# Functions of C libraries: found, and called by the interpreter. Compiled code calls their addresses itself.

C_TYPES = {name: getattr(ctypes, f"c_{DTYPES[name].c.removesuffix('_t')}") for name in WHOLE}


def find_c(library: str, symbol: str, folder: Path) -> str:
    """The target `c:LIBRARY:SYMBOL` with a library that can be loaded; raises `Missing`.

    library: a path relative to `folder`, or a name as the linker has it (`m`), or empty: what the process has loaded.
    """
    if "/" in library or "\\" in library:
        path = (folder / library).resolve()
        if not path.is_file():
            raise Missing(f"there is no library `{path}`", "a path is relative to the file of the program")
        place = str(path)
    elif library:
        from ctypes.util import find_library

        library_path = find_library(library)
        if library_path is None:
            raise Missing(
                f"there is no C library `{library}`",
                f"install it, or give the path of its file, relative to the program: `./lib{library}.so`",
            )
        place = library_path
    else:
        place = ""
    try:
        loaded = _library(place)
    except OSError as e:
        raise Missing(f"the C library `{library}` cannot be loaded: {e}", "look at its file with `ldd`") from e
    if not hasattr(loaded, symbol):
        where = f"the C library `{library}`" if library else "this process"
        help = 'a symbol is spelt as in C; a function of C++ needs `extern "C"` there'
        raise Missing(f"{where} has no function `{symbol}`", help)
    return f"c:{place}:{symbol}"


@cache
def _library(place: str) -> ctypes.CDLL:
    return ctypes.CDLL(place or None)


@cache
def address_of(target: str) -> int:
    """The address of a C function that `find_c` has found."""
    place, _, symbol = target.removeprefix("c:").rpartition(":")
    return ctypes.cast(getattr(_library(place), symbol), ctypes.c_void_p).value or 0


def call_c(target: str, args: Sequence[Any], types: Sequence[Type], results: Sequence[tuple[str, Any]]) -> list[Any]:
    """The result of a C function. results: the dtype and the shape, None for a scalar, of its result, if it has one."""
    from dlang.host.values import NUMPY

    kinds: list[Any] = []
    values: list[Any] = []
    kept: list[Any] = []
    for value, type in zip(args, types, strict=True):
        if isinstance(type, anf.Scalar):
            kinds.append(C_TYPES[type.dtype])
            values.append(value.item() if hasattr(value, "item") else value)
        else:
            kept.append(np.array(value, order="C"))
            kinds.append(ctypes.c_void_p)
            values.append(kept[-1].ctypes.data)
    returned: Any = None
    outs = []
    for dtype, shape in results:
        if shape is None:
            returned = C_TYPES[dtype]
        else:
            outs.append(np.zeros(shape, NUMPY[dtype]))
            kinds.append(ctypes.c_void_p)
            values.append(outs[-1].ctypes.data)
    value = ctypes.CFUNCTYPE(returned, *kinds)(address_of(target))(*values)
    return outs if returned is None else [value]
