"""Compiles a program of the core IR to machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlang.codegen import loops
from dlang.codegen.abi import EntryPoint, Header, Out
from dlang.codegen.costs import work
from dlang.codegen.cuda.placement import is_repeatable
from dlang.codegen.llvm import modules, objects
from dlang.codegen.llvm.mathematics import operations
from dlang.codegen.llvm.objects import Processor
from dlang.codegen.regions import makers_of, takes_references
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as statements
from dlang.codegen.vectorize import Lanes
from dlang.ir import anf
from dlang.ir.traverse import reachable, recursive_functions
from dlang.lazy_modules import lazy_module
from dlang.ops.figures import GRAIN
from dlang.runtime.compiled import Compiled, Draft
from dlang.timings import timed

if TYPE_CHECKING:
    from dlang.codegen.cuda import placement
else:
    placement = lazy_module("dlang.codegen.cuda.placement")


def build(
    program: anf.Program,
    entries: Sequence[str],
    level: int | None = 2,
    grain: int | None = None,
    profile: bool = False,
    debug: bool = False,
    device: bool = False,
    deterministic: bool = False,
    made_for: Processor | None = None,
    sanitizes: bool = False,
) -> Compiled:
    """Machine code for the functions that the entries reach. level: of LLVM's code generator, from 0 to 3; None for a
    text that is compiled when it is first called.

    grain: the least work of a piece of a loop, in picoseconds, or None for what is usual; 0 for loops in one piece.
    profile: has the code measure itself. debug: has it know the lines of its sources. device: makes loops kernels of
    one; deterministic: whose floats are the same in every run. made_for: another processor than this one, and for the
    linker of the system. sanitizes: has the code check what it touches of memory.
    """
    reached = reachable(program, entries)
    with timed("loops"):
        if device:
            nests = placement.placed(reached, operations if profile else None, deterministic)
        else:
            bits = objects.vector_bits() if made_for is None else made_for.bits
            lanes, least = Lanes(bits), GRAIN if grain is None else grain
            nests = schedule(reached, lanes, least, places=debug or sanitizes, profile=operations if profile else None)
    with timed("text for LLVM"):
        processor = objects.this_processor() if made_for is None else made_for
        text = modules.emit(nests, entries, processor, debug, sanitizes)
    recursive = recursive_functions(reached)
    points = {}
    for name in entries:
        deep = bool(recursive) and not recursive.isdisjoint(reachable(reached, [name]).functions)
        points[name] = _point(program.functions[name], nests, deep)
    code = b""
    if level is not None:
        with timed("LLVM"):
            code = objects.compile_object(text.llvm, level, made_for=made_for)
    arena = bool(makers_of(reached)) or any(takes_references(reached.functions[name]) for name in entries)
    return Compiled(
        code,
        points,
        text.sites,
        text.imports,
        text.foreign,
        dict(reached.datatypes),
        arena,
        nests.nests,
        Draft.of(text.llvm) if level is None else None,
        nests.kernels,
        nests.careful,
        any(map(multiplies, nests.functions.values())),
    )


def _point(function: anf.Function, program: loops.Program, recursive: bool) -> EntryPoint:
    nests = program.functions[function.name]
    header = Header(function.name, function.params, function.results, function.label, function.span)
    outs = tuple([Out(out.buffer.dtype, out.shape) for out in nests.outs])
    count = len(nests.body.results)
    if not nests.device:
        return EntryPoint(header, outs, nests.order, count, recursive, work(program, nests))
    given = [
        (formal.type, order[1]) for formal, order in zip(function.results, nests.order) if order and order[0] != "out"
    ]
    there = [k for type, k in given if isinstance(type, anf.Scalar) and isinstance(nests.body.results[k], loops.Buffer)]
    repeatable = is_repeatable(program, function.name) and not any(isinstance(type, anf.Array) for type, _ in given)
    params = zip([p for p in function.params if not isinstance(p.type, anf.Token)], nests.params, strict=True)
    numbers = [k for k, (p, s) in enumerate(params) if isinstance(p.type, anf.Scalar) and isinstance(s, loops.Buffer)]
    return EntryPoint(
        header, outs, nests.order, count, recursive, None, True, frozenset(there), frozenset(numbers), repeatable
    )


def multiplies(f: loops.Function) -> bool:
    """Tells whether a function has matrix products on a device."""
    stmts = statements(f.body.stmts)
    return any(isinstance(s, loops.OnDevice) and isinstance(s.stmt, loops.Product) for s in stmts)
