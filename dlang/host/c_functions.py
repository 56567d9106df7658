"""Functions of C libraries: found, and called by the interpreter. Compiled code calls their addresses itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlang.host.foreign import Missing
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, WHOLE

if TYPE_CHECKING:
    from dlang.ir import anf
    from dlang.ir.anf import Type
else:
    anf = lazy_module("dlang.ir.anf")

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

        found = find_library(library)
        if found is None:
            raise Missing(
                f"there is no C library `{library}`",
                f"install it, or give the path of its file, relative to the program: `./lib{library}.so`",
            )
        place = found
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
