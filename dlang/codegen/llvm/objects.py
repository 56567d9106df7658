"""LLVM text to machine code for this processor, or ahead of time for another. What has been compiled once is kept
between processes.

LLVM's library is loaded when something is compiled, and not for what is found.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlang.cache.store import digest, user_store
from dlang.diagnostics import error
from dlang.host.platform.machine import features as features_by_the_system, lacking
from dlang.lazy_modules import llvm
from dlang.passes import verifying

# ---- processors ------------------------------------------------------------------------------------------------------
NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Processor:
    """name: as a person chooses it. cpu, features: as LLVM calls it and what it has beyond that. needs: what a machine
    that is to run its code must have, as LLVM calls it. bits: of a vector register; fma: whether it multiplies and adds
    in one operation; avx512: whether it has AVX-512 on registers of each width; gathers: whether it reads elements
    that are not adjacent sooner by one instruction than one by one.
    """

    name: str
    cpu: str
    features: str
    needs: tuple[str, ...]
    bits: int
    fma: bool
    avx512: bool
    gathers: bool

    @property
    def target_features(self) -> str:
        """The features as LLVM is told them."""
        return self.features if self.gathers else f"{self.features},{_ONE_BY_ONE}".removeprefix(",")


_ONE_BY_ONE = "+prefer-no-gather,+prefer-no-scatter"

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

LEVELS = {
    name: Processor(name, name, "", needs, bits, "fma" in needs, "avx512vl" in needs, False)
    for name, needs, bits in (
        ("x86-64", (), 128),
        ("x86-64-v2", _V2, 128),
        ("x86-64-v3", _V3, 256),
        ("x86-64-v4", _V4, 512),
    )
}
"""The levels that the ABI of System V defines for x86-64; most processors since 2013 are of the third."""
USUAL = "x86-64-v3"


VARIABLE = "DLANG_CPU"
"""The environment variable that has code made for a level of x86-64 below the processor here."""
NO_PROCESSOR = "E0959"


@cache
def target() -> Any:
    """Returns the target that LLVM compiles for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_default_triple()


def machine(level: int = 2, made_for: Processor | None = None) -> Any:
    """A target machine for this processor, or another, as LLVM's code generator runs at a level from 0 to 3."""
    return _machine(level, made_for)


@cache
def _machine(level: int, made_for: Processor | None) -> Any:
    return _new_machine(level) if made_for is None else _machine_ahead(level, made_for)


def _machine_ahead(level: int, made_for: Processor) -> Any:
    """For code that a linker of the system puts together."""
    return target().create_target_machine(
        cpu=made_for.cpu, features=made_for.target_features, opt=level, reloc="pic", codemodel="small"
    )


def _new_machine(level: int) -> Any:
    # an object is one mapping, so it refers to itself by short distances, where the linker makes jumps to all else
    near = sys.platform == "linux" and platform.machine() == "x86_64"
    model = {"reloc": "pic", "codemodel": "small"} if near else {}
    processor = this_processor()
    return target().create_target_machine(
        cpu=processor.cpu, features=processor.target_features, opt=level, jit=True, **model
    )


def vector_bits() -> int:
    """The width of the vector registers that code for this process uses."""
    return this_processor().bits


@cache
def this_processor() -> Processor:
    """The processor that code for this process is made for: the one that it runs on, or a level that is asked for.

    Raises `DlangError` where `DLANG_CPU` names no level, or one that this processor does not reach.
    """
    asked = _asked_for()
    if asked in ("", NATIVE):
        return _the_one_here()
    if asked not in LEVELS:
        named = ", ".join(f"`{name}`" for name in LEVELS)
        raise error(
            NO_PROCESSOR, f"{VARIABLE} is `{asked}`, not a processor", None, help=(f"it is {named} or `native`",)
        )
    lacks = lacking(LEVELS[asked].needs)
    if lacks is not None:
        message = f"{VARIABLE} is `{asked}`, but this processor has no `{lacks}`"
        raise error(NO_PROCESSOR, message, None, help=("leave the variable out: code is made for the processor here",))
    return LEVELS[asked]


def _asked_for() -> str:
    return os.environ.get(VARIABLE, "")


def _the_one_here() -> Processor:
    target()
    features = llvm.get_host_cpu_features()
    names = tuple(sorted(name for name, there in features.items() if there and lacking([name]) is None))
    avx512 = bool(features.get("avx512f") and features.get("avx512vl"))
    bits = 512 if avx512 else 256 if features.get("avx2") else 128
    # of the processors in use only those of the x86 family may multiply and add in two operations alone
    x86 = platform.machine() in ("x86_64", "AMD64", "i686", "x86")
    fma = not x86 or bool(features.get("fma"))
    cpu = llvm.get_host_cpu_name()
    gathers = not (x86 and cpu.startswith("znver"))  # which are microcode there, and wait for each other
    return Processor(NATIVE, cpu, features.flatten(), names, bits, fma, avx512, gathers)


@cache
def processor() -> str:
    """Identifies what machine code depends on beside its text: the processor, and the compiler behind this file."""
    return digest(_features(), _asked_for(), _library(), Path(__file__).read_text(encoding="utf-8"))


def _features() -> str:
    """The processor with its features, which LLVM need not be asked for where the system says them."""
    known = features_by_the_system()
    if known is not None:
        return known
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def _library() -> str:
    """Identifies the version of LLVM, by its file, since asking it would load it."""
    spec = find_spec("llvmlite")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec is not None else "") / "binding"
    try:
        files = [e for e in os.scandir(folder) if e.name.startswith(("libllvmlite.", "llvmlite."))]
    except OSError:
        files = []
    if files:
        return " ".join(f"{e.path} {e.stat().st_size} {e.stat().st_mtime_ns}" for e in files)
    import llvmlite

    return str(llvmlite.__version__)


def prepared(text: str, level: int = 2, optimize: int = 0) -> Any:
    """A module parsed, with mathematics inlined; `optimize` above 0 runs LLVM's own passes of that level.

    Without them what sizes that are known decide is decided, which is worth its time: of a loop whose iterations fill
    whole vectors nothing is left but the vectors.
    """
    return _prepared(text, machine(level), optimize)


def _prepared(text: str, made_for: Any, optimize: int = 0, context: Any = None) -> Any:
    module = llvm.parse_assembly(text, context)
    if verifying():
        module.verify()
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


_PROVIDED: dict[str, bytes] = {}


def provide(code_by_key: Mapping[str, bytes]) -> None:
    """Has the process use machine code that came with a file, and not compile it. code_by_key: by `provided_key`."""
    _PROVIDED.update(code_by_key)


def provided_key(text: str) -> str:
    """How the machine code of a module is found."""
    return digest(text)


def compile_object(text: str, level: int = 2, optimize: int = 0, made_for: Processor | None = None) -> bytes:
    """Machine code of a module, from the cache if it is there: for this process, or for a processor and a linker."""
    if _PROVIDED and made_for is None and (given := _PROVIDED.get(provided_key(text))) is not None:
        return given
    key = _key(text, level, optimize, made_for)
    code = user_store().get("object", key)
    if code is None:
        used = machine(level, made_for)
        code = bytes(used.emit_object(_prepared(text, used, optimize)))
        user_store().put("object", key, code)
    return code


def compile_shared(text: str, made_for: Processor | None = None) -> bytes:
    """Machine code of a module that programs share, where a product and a sum are two operations if the processor has
    none for both: a call of the C library would take its place, many times as slow."""
    if _PROVIDED and made_for is None and (given := _PROVIDED.get(provided_key(text))) is not None:
        return given
    if not (made_for or this_processor()).fma:
        text = text.replace("@llvm.fma.", "@llvm.fmuladd.")
    return compile_object(text, made_for=made_for)


def assembly(text: str, level: int = 2) -> str:
    """The instructions that a module becomes, as text."""
    return str(machine(level).emit_assembly(prepared(text, level)))


def compile_apart(text: str, level: int) -> bytes:
    """Does as `compile_object` while other threads compile too: llvmlite itself lets one thread in at a time.

    Raises RuntimeError.
    """
    code = kept_object(text, level)
    if code is None:
        target()
        made_for = _new_machine(level)
        code = _emitted(made_for, _prepared(text, made_for, context=llvm.create_context()))
        user_store().put("object", _key(text, level, 0), code)
    return code


def _emitted(made_for: Any, module: Any) -> bytes:
    """Machine code of a module. Nothing else may use it meanwhile, nor its context, nor the machine that it is for."""
    library, message = _bare_library(), ctypes.c_char_p()
    buffer = library.LLVMPY_TargetMachineEmitToMemory(made_for, module, 1, ctypes.byref(message))
    if not buffer:
        raise RuntimeError((message.value or b"").decode(errors="replace"))
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def _bare_library() -> Any:
    """llvmlite's library, without the lock that it is used under."""
    from llvmlite.utils import get_library_name

    library = ctypes.CDLL(str(Path(llvm.__file__).with_name(get_library_name())))
    library.LLVMPY_TargetMachineEmitToMemory.restype = ctypes.c_void_p
    for name, result in (("GetBufferStart", ctypes.c_void_p), ("GetBufferSize", ctypes.c_size_t)):
        function = getattr(library, f"LLVMPY_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], result
    library.LLVMPY_DisposeMemoryBuffer.argtypes = [ctypes.c_void_p]
    return library


def kept_object(text: str, level: int = 2, optimize: int = 0) -> bytes | None:
    """Machine code of a module, if it is in the cache."""
    return user_store().get("object", _key(text, level, optimize))


def _key(text: str, level: int, optimize: int, made_for: Processor | None = None) -> str:
    ahead = "" if made_for is None else f" for {made_for}"
    return digest(text, processor(), f"{level} {optimize}{ahead}")
