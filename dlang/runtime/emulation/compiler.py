"""Kernels as a library of this processor, made by the C++ compiler of the system. What was made once is kept."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlang.cache.store import digest, user_store
from dlang.codegen.cuda.printing import source
from dlang.codegen.loops import Kernel
from dlang.diagnostics import error
from dlang.runtime.platform import portable

HEADER = Path(__file__).with_name("cuda.h")
NO_COMPILER = "E0902"
COMPILERS = ("c++", "g++", "clang++")
# products and sums stay two operations, as in the interpreter; memory is read as other types by what packs words
OPTIONS = (
    "-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-fno-exceptions", "-ffp-contract=off", "-fno-strict-aliasing",
)  # fmt: skip
VARIABLE = "CXX"
"""The environment variable that names the compiler, if it is another one."""


class Misbehaviour(Exception):
    """A kernel that is wrong, or that the compiler of the system does not take: a mistake of this compiler."""


def library(kernels: Sequence[Kernel]) -> Any:
    """The kernels as functions that can be called, `launch_` before their names.

    Raises `DlangError` where there is no compiler, and Misbehaviour.
    """
    text, options = full_source(kernels), [*OPTIONS, *(["-DDL_PORTABLE"] if portable() else [])]
    key = digest(text, compiler(), platform.machine(), *options)
    code = user_store().get("emulation", key)
    if code is None:
        code = _compiled(text, options)
        user_store().put("emulation", key, code)
    return _loaded(code)


def full_source(kernels: Sequence[Kernel]) -> str:
    """What is compiled: the emulation, the very text of the kernels, and how each is started."""
    starts = "\n".join([f"DL_KERNEL({kernel.name})" for kernel in kernels])
    header = HEADER.read_text(encoding="utf-8")
    return f'{header}\n#line 1 "kernels.cu"\n{source(tuple(kernels))}\n{starts}\n'


def compiler() -> str:
    """The C++ compiler of the system; raises `DlangError` if there is none."""
    named = os.environ.get(VARIABLE)
    for name in (named,) if named else COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    help = (f"install one, such as g++ or clang++, or say in ${VARIABLE} which one to use",)
    raise error(NO_COMPILER, "there is no C++ compiler, which the emulation of a GPU needs", None, help=help)


def _compiled(text: str, options: Sequence[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="dlang-") as folder:
        made = Path(folder) / "kernels.so"
        command = [compiler(), *options, "-x", "c++", "-", "-o", str(made)]
        run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        if run.returncode:
            raise Misbehaviour(f"the kernels do not compile:\n{run.stderr.decode(errors='replace')}")
        return made.read_bytes()


def _loaded(code: bytes) -> Any:
    """A library in memory, of which no file is left. What it runs keeps Python's lock: it runs one launch at a time."""
    handle, path = tempfile.mkstemp(prefix="dlang-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        return ctypes.PyDLL(path)
    finally:
        os.unlink(path)
