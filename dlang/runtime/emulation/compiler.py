"""Kernels as a library of this processor, made by the C++ compiler of the system. What was made once is kept."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlang.cache.store import digest, user_store
from dlang.codegen.cuda.printing import source
from dlang.codegen.kernel import Kernel
from dlang.diagnostics import error
from dlang.host.platform import portable
from dlang.lazy_modules import subprocess
from dlang.runtime.devices import Misbehaviour, does_not_compile

FOLDER = Path(__file__).parent
DRIVER = FOLDER / "driver.cpp"
NO_COMPILER = "E0902"
COMPILERS = ("c++", "g++", "clang++")
# products and sums stay two operations, as in the interpreter; memory is read as other types by what packs words
OPTIONS = (
    "-std=c++17", "-fPIC", "-shared", "-w", "-fno-exceptions", "-ffp-contract=off", "-fno-strict-aliasing",
    f"-I{FOLDER}",
)  # fmt: skip
VARIABLE = "CXX"
"""The environment variable that names the compiler, if it is another one."""


def kernel_library(kernels: Sequence[Kernel], wide: bool = False) -> Any:
    """The kernels as records (`Kernel` in `device.h`), `dl_kernel_` before their names; wide: if their indices are.

    Raises `DlangError` where there is no compiler, and Misbehaviour.
    """
    options = [*(["-DDL_PORTABLE"] if portable() else []), *(["-DDL_WIDE"] if wide else [])]
    return _library(full_source(kernels), ["-Og", *options])


def driver_library() -> Any:
    """The functions of `driver.cpp`; raises `DlangError` where there is no compiler."""
    return _library(DRIVER.read_text(encoding="utf-8"), ["-O2"])


def _library(text: str, more: Sequence[str]) -> Any:
    options = [*OPTIONS, *more]
    headers = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.h"))]
    key = digest(text, *headers, compiler(), platform.machine(), *options)
    code = user_store().get("emulation", key)
    if code is None:
        code = _compiled(text, options)
        user_store().put("emulation", key, code)
    return _loaded(code)


def full_source(kernels: Sequence[Kernel]) -> str:
    """Returns the source to compile: the emulation, the very text of the kernels, and how each is started."""
    starts = "\n".join([f"DL_KERNEL({kernel.name})" for kernel in kernels])
    return f'#include "words.h"\n#line 1 "kernels.cu"\n{source(tuple(kernels))}\n{starts}\n'


def foreign_library(kernel: Kernel) -> Any:
    """The same for a kernel that a program brings along. Raises `DlangError` if its text is wrong."""
    text = f'#include "words.h"\n#line 1 "{kernel.name}.cu"\n{kernel.text}\nDL_KERNEL({kernel.name})\n'
    try:
        return _library(text, ["-Og"])
    except Misbehaviour as e:
        raise does_not_compile(kernel, str(e)) from None


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
    """A library in memory, of which no file is left."""
    handle, path = tempfile.mkstemp(prefix="dlang-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        return ctypes.CDLL(path)
    finally:
        os.unlink(path)
