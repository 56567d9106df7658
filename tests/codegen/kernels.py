"""Loops over arrays that call one mathematical routine, compiled for this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from dlang.codegen.llvm.mathematics import Routine, declarations, routine
from dlang.codegen.llvm.scalars import Module, Scalars
from dlang.ops.primitives import PRIMITIVES

Floats = NDArray[np.floating]
DTYPES: dict[str, type[np.float64] | type[np.float32]] = {"f64": np.float64, "f32": np.float32}


def written(name: str, dtype: str, width: int, avx512: bool = False) -> Routine:
    """A function that does a primitive: its routine, or one of its instructions."""
    found = routine(name, dtype, width, avx512)
    if found is not None:
        return found
    module, args = Module(), ["%x", "%y"][: PRIMITIVES[name].arity]
    scalars = Scalars(module, [], width)
    type_ = scalars.type(dtype)
    result = scalars.primitive(name, (dtype,) * len(args), args)
    symbol = f"{name}_{dtype}_{width}"
    head = f"define internal {type_} @{symbol}({', '.join(f'{type_} {a}' for a in args)}) alwaysinline"
    text = "\n".join([f"{head} {{", *scalars.lines, f"  ret {type_} {result}", "}"]) + "\n"
    return Routine(symbol, type_, text, module.declared, 0)


def loop(name: str, dtype: str, width: int, avx512: bool) -> tuple[str, Routine]:
    """`void loop_…(inputs…, out, blocks)`: out = f(inputs), `width` elements an iteration. And the routine that it
    calls."""
    found = written(name, dtype, width, avx512)
    symbol = found.symbol
    scalar = "double" if dtype == "f64" else "float"
    type_ = scalar if width == 1 else f"<{width} x {scalar}>"
    arrays = ["%x", "%y"][: PRIMITIVES[name].arity]
    lines = [f"define void @loop_{symbol}({', '.join(f'ptr {a}' for a in [*arrays, '%out'])}, i64 %n) {{"]
    lines += ["entry:", "  br label %iteration", "iteration:", "  %i = phi i64 [ 0, %entry ], [ %next, %iteration ]"]
    for a in [*arrays, "%out"]:
        lines.append(f"  {a}p = getelementptr {type_}, ptr {a}, i64 %i")
    for a in arrays:
        lines.append(f"  {a}v = load {type_}, ptr {a}p, align 4")
    lines.append(f"  %r = call {type_} @{symbol}({', '.join(f'{type_} {a}v' for a in arrays)})")
    lines += [f"  store {type_} %r, ptr %outp, align 4", "  %next = add i64 %i, 1", "  %more = icmp ult i64 %next, %n"]
    lines += ["  br i1 %more, label %iteration, label %done", "done:", "  ret void", "}"]
    return "\n".join(lines) + "\n", found


@dataclass(frozen=True, slots=True)
class Kernels:
    """Compiled loops by (name, dtype, width); keeps their code alive."""

    calls: Mapping[tuple[str, str, int], Callable[..., None]]
    alive: tuple[object, ...]

    def __call__(self, name: str, dtype: str, width: int, *args: Floats) -> Floats:
        """f applied to arrays of any equal length."""
        count = args[0].size
        blocks = -(-count // width)
        padded = []
        for a in args:
            p = np.ones(blocks * width, DTYPES[dtype])
            p[:count] = a
            padded.append(p)
        out = np.empty_like(padded[0])
        self.calls[name, dtype, width](*(p.ctypes.data for p in [*padded, out]), blocks)
        return out[:count]


def compiled(wanted: Iterable[tuple[str, str, int]], avx512: bool = False) -> Kernels:
    """avx512: of the routines with instructions of AVX-512."""
    keys = list(wanted)
    parts = [loop(*key, avx512) for key in keys]
    routines = [found for _, found in parts]
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    module = llvm.parse_assembly(
        "\n".join([*declarations(*routines), *[r.text for r in routines], *(main for main, _ in parts)])
    )
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_lljit_compiler(machine)
    library = llvm.JITLibraryBuilder().add_ir(str(module)).add_current_process()
    symbols = {}
    for key in keys:
        symbols[key] = f"loop_{written(*key).symbol}"
        library = library.export_symbol(symbols[key])
    tracker = library.link(engine, "kernels")
    calls = {}
    for key in keys:
        signature = [ctypes.c_void_p] * (PRIMITIVES[key[0]].arity + 1) + [ctypes.c_int64]
        calls[key] = ctypes.CFUNCTYPE(None, *signature)(tracker[symbols[key]])
    return Kernels(calls, (engine, tracker))
