"""Calls of functions on every back end and in what is built ahead of time, and the codes of their refusals."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dlang
from dlang.tools.dlc import main

Outcome = Any
"""The numbers that a call gives, as lists, or the code with which it is refused."""
BACKENDS = ("interp", "cpu", "cuda-emulated")
ANY_RESULT = 64  # words, more than any result of these programs has in C


def outcome(function: Callable[..., Any], *args: Any) -> Outcome:
    """Gives the result of a call, or the code of its refusal."""
    try:
        return plain(function(*args))
    except dlang.DlangError as e:
        return e.diagnostics[0].code


def plain(value: Any) -> Any:
    """A value without NumPy in it."""
    if isinstance(value, tuple):
        return tuple([plain(v) for v in value])
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


class Everywhere:
    """The functions of a program on all back ends, in a file that `dlc build` makes, and in a library for C."""

    def __init__(self, text: str, folder: Path, ahead: bool = True) -> None:
        self.modules = {b: dlang.compile(text, backend=b) for b in BACKENDS}
        self.library: ctypes.CDLL | None = None
        if ahead:
            file = folder / "program.dl"
            file.write_text(text, encoding="utf-8")
            assert main(["build", str(file), "-o", str(folder)]) == 0
            self.modules["built"] = dlang.load(folder / "program.dlo")
            if shutil.which("cc") is not None:
                assert main(["build", "--shared", str(file), "-o", str(folder)]) == 0
                self.library = ctypes.CDLL(str(folder / "libprogram.so"))
                self.library.program_error_code.restype = ctypes.c_char_p

    def outcomes(self, name: str, *args: Any) -> Mapping[str, Outcome]:
        """Calls each; the second of two calls, which takes the short way, must give the same. Of C only codes."""
        found: dict[str, Outcome] = {}
        for backend, module in self.modules.items():
            first, found[backend] = [outcome(getattr(module, name), *args) for _ in range(2)]
            assert repr(first) == repr(found[backend]), (backend, name, args)
        if self.library is not None and (code := self._code_in_c(name, args)) is not None:
            found["C"] = code
        return found

    def agreed(self, name: str, *args: Any) -> Outcome:
        """Gives the outcome that all agree on; fails where one of them differs."""
        found = self.outcomes(name, *args)
        one = found["interp"]
        same = {where for where, other in found.items() if repr(other) == repr(one)}
        refused = isinstance(one, str) and one.startswith("E0")
        assert same == set(found) and refused == ("C" in found or (refused and self.library is None)), (
            name,
            args,
            found,
        )
        return one

    def _code_in_c(self, name: str, args: tuple[Any, ...]) -> str | None:
        """The code with which a function of the library refuses arguments; None if it does not."""
        assert self.library is not None
        kept: list[Any] = []
        result = (ctypes.c_int64 * ANY_RESULT)()
        if not getattr(self.library, f"program_{name}")(*[_in_c(a, kept) for a in args], ctypes.byref(result)):
            return None
        code: bytes = self.library.program_error_code()
        return code.decode()


def _in_c(value: Any, kept: list[Any]) -> Any:
    """An argument as C takes it. kept: arrays whose memory it is in."""
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    array = np.ascontiguousarray(value)
    kept.append(array)
    fields = [("data", ctypes.c_void_p), ("size", ctypes.c_int64 * array.ndim)]
    return type("Array", (ctypes.Structure,), {"_fields_": fields})(array.ctypes.data, array.shape)
