"""LLVM text to callable addresses in this process."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from dlang.codegen.llvm import collector, support
from dlang.codegen.llvm.modules import Text, entry_symbol
from dlang.runtime import c_functions
from dlang.runtime.platform.openblas import openblas
from dlang.runtime.platform.stack import has_switch

_names = count(1)


@cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple()


def machine(level: int = 2) -> Any:
    """A target machine for this processor, as LLVM's code generator runs at a level from 0 to 3."""
    return _machine(level)


@cache
def _machine(level: int) -> Any:
    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level, jit=True
    )


@cache
def vector_bits() -> int:
    """The width of this processor's vector registers."""
    _target()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl"):
        return 512
    return 256 if features.get("avx2") else 128


@cache
def _jit() -> Any:
    _target()
    return llvm.create_lljit_compiler()


@cache
def _support() -> Any:
    """The shared functions: one library for the process."""
    shared = support.TEXT + support.switch_text(has_switch()) + collector.TEXT
    builder = llvm.JITLibraryBuilder().add_object_img(compile_object(shared, level=2))
    for name in ("aligned_alloc", "free", "madvise", "memcpy", "memmove"):
        builder.import_symbol(name, address_of(name))
    for name in (*support.NAMES, *collector.NAMES):
        builder.export_symbol(name)
    return builder.link(_jit(), "dlang.support")


def support_address(name: str) -> int:
    """Where a function of `support` is."""
    return int(_support()[name])


@cache
def address_of(name: str) -> int:
    """The address of a function of the C library, its mathematics, or BLAS."""
    if name.startswith("scipy_"):
        library = openblas()
    else:
        library = _mathematics() if hasattr(_mathematics(), name) else _process()
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


@cache
def _mathematics() -> Any:
    return ctypes.CDLL(ctypes.util.find_library("m"))


@cache
def _process() -> Any:
    return ctypes.CDLL(None)


def prepared(text: str, level: int = 2, optimize: int = 0) -> Any:
    """A module parsed, with mathematics inlined; `optimize` above 0 runs LLVM's own passes of that level."""
    target = machine(level)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = llvm.get_process_triple(), str(target.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=optimize)
    builder = llvm.create_pass_builder(target, tuning)
    if optimize:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return module


def compile_object(text: str, level: int = 2, optimize: int = 0) -> bytes:
    """Machine code of a module."""
    return bytes(machine(level).emit_object(prepared(text, level, optimize)))


def assembly(text: str, level: int = 2, optimize: int = 0) -> str:
    """Machine code of a module as assembly, to look at."""
    return str(machine(level).emit_assembly(prepared(text, level, optimize)))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module in memory; it lives as long as this does."""

    tracker: Any
    entries: dict[str, int]


def load(text: Text, code: bytes, entries: Sequence[str]) -> Loaded:
    """Links machine code into the process; gives the addresses of the entries."""
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    for name in (*support.NAMES, *collector.NAMES):
        builder.import_symbol(name, support_address(name))
    for name in (*text.imports, *RUNTIME_LIBRARY):
        builder.import_symbol(name, address_of(name))
    for name, target in text.foreign:
        builder.import_symbol(name, c_functions.address_of(target))
    for name in entries:
        builder.export_symbol(entry_symbol(name))
    tracker = builder.link(_jit(), f"dlang.{next(_names)}")
    return Loaded(tracker, {name: int(tracker[entry_symbol(name)]) for name in entries})


RUNTIME_LIBRARY = (
    "memcpy", "memset", "memmove", "fmod", "fmodf", "sin", "cos", "sinf", "cosf", "floor", "ceil", "roundeven",
    "floorf", "ceilf", "roundevenf", "fma", "fmaf", "sincos", "sincosf",
)  # fmt: skip
"""What LLVM calls on its own account."""
