"""LLVM text to machine code for this processor. What has been compiled once is kept between processes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from dlang.cache.store import digest, user_store


@cache
def target() -> Any:
    """What LLVM compiles for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple()


def machine(level: int = 2) -> Any:
    """A target machine for this processor, as LLVM's code generator runs at a level from 0 to 3."""
    return _machine(level)


@cache
def _machine(level: int) -> Any:
    return target().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level, jit=True
    )


@cache
def vector_bits() -> int:
    """The width of this processor's vector registers."""
    target()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl"):
        return 512
    return 256 if features.get("avx2") else 128


@cache
def processor() -> str:
    """What machine code depends on beside its text: the processor, and the compiler behind this file."""
    features = llvm.get_host_cpu_features().flatten()
    made_by = Path(__file__).read_text(encoding="utf-8")
    return digest(llvm.get_process_triple(), llvm.get_host_cpu_name(), features, llvmlite.__version__, made_by)


def prepared(text: str, level: int = 2, optimize: int = 0) -> Any:
    """A module parsed, with mathematics inlined; `optimize` above 0 runs LLVM's own passes of that level.

    Without them what sizes that are known decide is decided, which is worth its time: of a loop whose trips fill whole
    vectors nothing is left but the vectors.
    """
    made_for = machine(level)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = llvm.get_process_triple(), str(made_for.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=optimize)
    builder = llvm.create_pass_builder(made_for, tuning)
    if optimize:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_sccp_pass()
    passes.run(module, builder)
    return module


def compile_object(text: str, level: int = 2, optimize: int = 0) -> bytes:
    """Machine code of a module, from the cache if it is there."""
    store = user_store()
    key = digest(text, processor(), f"{level} {optimize}")
    code = store.get("object", key)
    if code is None:
        code = bytes(machine(level).emit_object(prepared(text, level, optimize)))
        store.put("object", key, code)
    return code


def assembly(text: str, level: int = 2, optimize: int = 0) -> str:
    """Machine code of a module as assembly, to look at."""
    return str(machine(level).emit_assembly(prepared(text, level, optimize)))
