"""The compiler and the linker of the system, and what they put together."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dlang.aot.exports import Built
from dlang.aot.program import layout
from dlang.cache.store import digest, user_store
from dlang.codegen.llvm import jit, microkernel, objects, windows
from dlang.codegen.llvm.objects import LEVELS, NATIVE, USUAL, Processor
from dlang.diagnostics import DlangError, Note, error
from dlang.drafts import write
from dlang.host.platform.machine import library_file

NOT_LINKED = "E0988"
RUNTIME = Path(__file__).parent / "c"
HEADERS = tuple(sorted(p.name for p in RUNTIME.glob("*.h")))
SOURCES = tuple(sorted(p.name for p in RUNTIME.glob("*.c") if p.name != "options.c"))
"""The sources of every library and program; `options.c` is only in programs."""
COMPILER = "CC"
"""The environment variable that names a C compiler, perhaps with options."""
PATIENCE = 300.0  # seconds, for what takes one


@dataclass(frozen=True, slots=True)
class Libraries:
    """The libraries that a library or program needs beside libc. beside: those in its own folder."""

    options: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()


def processor_named(name: str) -> Processor:
    """A processor as the command line names it: `native`, or a level of x86-64."""
    return objects.this_processor() if name == NATIVE else LEVELS[name]


def usual_processor() -> str:
    """The name of the processor that code is made for unless something else is said."""
    return USUAL if platform.machine() in ("x86_64", "AMD64") else NATIVE


# ---- objects ---------------------------------------------------------------------------------------------------------
def refuse_other_systems() -> None:
    """Raises where there is neither a runtime without Python nor one without LLVM."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        message = f"libraries, programs and wheels are built on Linux for x86-64 alone, this is {platform.system()}"
        raise error(NOT_LINKED, message, None, help=("`dlc build` without more makes a file that `dlang.load` takes",))


@dataclass(frozen=True, slots=True)
class Shared:
    """A module that programs share: its text, and its machine code for a processor."""

    name: str
    text: str
    code: bytes


def shared_modules(built: Built) -> list[Shared]:
    """Compiles the modules that a program refers to: memory, threads and the rest, and its matrix products."""
    texts = {"support": jit.support_text()}
    for name in built.compiled.imports:
        for module, kind in ((microkernel, "product"), (windows, "windows")):
            of = module.module_of(name)
            if of is not None:
                texts[f"{kind}_{of[0]}"] = module.text(*of)
    return [Shared(name, text, objects.compile_shared(text, built.processor)) for name, text in texts.items()]


def libraries_of(built: Built, folder: Path) -> Libraries:
    """The libraries that a program calls; OpenBLAS is copied into the folder where what is built will be."""
    options: list[str] = []
    beside: list[Path] = []
    if any(name.startswith("scipy_") for name in built.compiled.imports):
        openblas = Path(library_file())
        beside.append(folder / openblas.name)
        write(beside[0], Path(openblas).read_bytes())
        options += [str(beside[0]), "-Wl,-rpath,$ORIGIN"]
    for _, target in built.compiled.foreign:
        place = target.removeprefix("c:").rpartition(":")[0]
        if "/" in place:
            options += [place, f"-Wl,-rpath,{Path(place).parent}"]
        elif place:
            options.append(f"-l:{place}")
    return Libraries(tuple(dict.fromkeys(options)), tuple(beside))


# ---- the compiler of the system --------------------------------------------------------------------------------------
def compiler() -> list[str]:
    """The command of a C compiler: what `CC` says, else `cc`, `gcc`, `clang`, or that of the package `ziglang`."""
    named = shlex.split(os.environ.get(COMPILER, ""))
    for command in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]):
            return command
    if not named:
        from importlib.util import find_spec

        if find_spec("ziglang") is not None:
            return [sys.executable, "-m", "ziglang", "cc"]
    what = f"`{named[0]}`, which `{COMPILER}` names, is no command" if named else "there is no C compiler here"
    help = (f"install gcc or clang, or `pip install ziglang`; `{COMPILER}` names another one",)
    raise error(NOT_LINKED, f"{what}, and linking takes one", None, help=help)


def link(
    built: Built, source: str, output: Path, options: Sequence[str], files: Sequence[str], visible: str = ""
) -> list[Path]:
    """Compiles a source of C with the runtime, and links all; gives what there is now.

    files: of the runtime that are needed. visible: a pattern of the names that a library shows; all others are its own.
    """
    command = compiler()
    libraries = libraries_of(built, output.parent)
    with TemporaryDirectory(prefix="dlang-") as name:
        folder = Path(name)
        for file in (*HEADERS, *files):
            write(folder / file, (RUNTIME / file).read_bytes())
        write(folder / "layout.h", layout(built))
        write(folder / "program.c", source)
        objects = {"code.o": built.compiled.code} | {f"{m.name}.o": m.code for m in shared_modules(built)}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = pool.map(lambda file: _runtime_object(command, folder, file), files)
            objects |= {f"{file}.o": code for file, code in zip(files, compiled, strict=True)}
        for file, code in objects.items():
            write(folder / file, code)
        more = [*options, *libraries.options, "-pthread", "-lm"]
        if visible:
            write(folder / "visible", f"{{ global: {visible}; local: *; }};\n")
            more.append(f"-Wl,--version-script={folder / 'visible'}")
        sources = [str(folder / "program.c"), *[str(folder / f) for f in objects]]
        _run(command, folder, ["-o", str(folder / "linked"), *sources, *more])
        write(output, (folder / "linked").read_bytes(), mode=0o777)
    return [output, *libraries.beside]


def _runtime_object(command: Sequence[str], folder: Path, file: str) -> bytes:
    """A file of the runtime, compiled: by an earlier process, if the compiler is the same."""
    compiler = shutil.which(command[0])
    said = os.stat(compiler) if compiler is not None else None
    identity = "" if said is None else f"{compiler} {said.st_size} {said.st_mtime_ns}"
    texts = [(folder / name).read_text(encoding="utf-8") for name in (*HEADERS, "layout.h", file)]
    key = digest("runtime", *command, identity, *texts)
    store = user_store()
    code = store.get("object", key)
    if code is None:
        output = folder / f"{file}.o"
        _run(command, folder, ["-c", "-o", str(output), str(folder / file)])
        code = output.read_bytes()
        store.put("object", key, code)
    return code


def _run(command: Sequence[str], folder: Path, arguments: Sequence[str]) -> None:
    """Runs the compiler; raises a `DlangError` with what it says if it fails."""
    run = [*command, "-std=gnu11", "-O2", "-w", "-fPIC", "-fvisibility=hidden", "-I", str(folder), *arguments]
    try:
        process = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as e:
        raise _failed(command, str(e)) from None
    if process.returncode:
        raise _failed(command, process.stderr)


def _failed(command: Sequence[str], said: str) -> DlangError:
    notes = tuple(Note(line) for line in said.strip().splitlines()[-8:])
    return error(NOT_LINKED, f"`{' '.join(command)}` could not compile and link what was built", None, notes=notes)
