"""Functions as text after a stage of the compiler, for `dlc ir` and from Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import error
from dlang.driver import Request, is_deterministic, lower
from dlang.lazy_modules import lazy_module
from dlang.ops import figures
from dlang.typecheck import core, types as ty

if TYPE_CHECKING:
    from dlang import pipeline
    from dlang.ad import residuals
    from dlang.ad.residuals import Residuals
    from dlang.codegen import loops, printing, schedule, vectorize
    from dlang.codegen.cuda import placement, printing as cuda_printing
    from dlang.codegen.llvm import modules, objects
    from dlang.codegen.schedule import LoopStep
    from dlang.ir import anf, printer, traverse
    from dlang.passes import Pass
    from dlang.specialize.types import Bindings
else:
    residuals = lazy_module("dlang.ad.residuals")
    placement = lazy_module("dlang.codegen.cuda.placement")
    cuda_printing = lazy_module("dlang.codegen.cuda.printing")
    modules = lazy_module("dlang.codegen.llvm.modules")
    objects = lazy_module("dlang.codegen.llvm.objects")
    loops = lazy_module("dlang.codegen.loops")
    printing = lazy_module("dlang.codegen.printing")
    schedule = lazy_module("dlang.codegen.schedule")
    vectorize = lazy_module("dlang.codegen.vectorize")
    anf = lazy_module("dlang.ir.anf")
    traverse = lazy_module("dlang.ir.traverse")
    printer = lazy_module("dlang.ir.printer")
    pipeline = lazy_module("dlang.pipeline")

STAGES = ("mono", "normal", "ad", "opt", "loops", "llvm", "asm", "cuda")


def listing(
    decls: Sequence[core.FnDecl],
    stage: str,
    costs: bool = False,
    why: bool = False,
    bound: Sequence[int] = (),
    deterministic: bool = False,
) -> str:
    """The program that functions need, after one of `STAGES`; raises `DlangError` where it does not compile.

    costs: with what derivatives save, in bytes, below it. why: the same, and above loops the decisions on them. bound:
    the parameters of the last that are given early.
    deterministic: as in `Engine`.
    """
    seen: dict[str, anf.Program] = {}
    saved: list[Residuals] = []
    program, entries = lower(
        [request(d) for d in decls], observe=seen.__setitem__, residuals=saved, bound=bound, device=stage == "cuda"
    )
    if stage in seen:
        text = printer.print_program(seen[stage])
    else:
        names = [e.name for e in entries]
        names += [anf.early_name(names[-1])] if bound else []
        text = _generated(program, names, stage, is_deterministic(deterministic), why)
    if not costs and not why:
        return text

    return "\n".join([text, *map(residuals.written, saved)])


def _generated(program: anf.Program, entries: list[str], stage: str, deterministic: bool, why: bool) -> str:
    """Prints the code that a back end generates: loop nests, LLVM IR or assembly for the CPU, or kernels."""
    reached = traverse.reachable(program, entries)
    if stage == "llvm":
        return modules.print_llvm(reached, entries)
    if stage == "asm":
        return objects.assembly(modules.print_llvm(reached, entries))
    if stage == "cuda":
        return cuda_printing.print_cuda(placement.placed(reached, deterministic=deterministic))
    return printing.print_program(nests_of(program, entries), why)


def nests_of(program: anf.Program, entries: Sequence[str]) -> loops.Program:
    """The loop nests of native code for what the entries reach."""
    return deque(_loop_steps(program, entries), maxlen=1).pop().program


def _loop_steps(program: anf.Program, entries: Sequence[str]) -> Iterator[LoopStep]:
    return schedule.loop_steps(
        traverse.reachable(program, entries), vectorize.Lanes(objects.vector_bits()), figures.GRAIN
    )


# ---- after each pass -------------------------------------------------------------------------------------------------
Trace = Sequence[tuple[str, "anf.Program | loops.Program"]]
"""The program after each pass, and after each stage of the core IR, in order; `mono` comes first."""


def passes() -> dict[str, Pass[Any, Any]]:
    """The passes of both IRs by name, each as it is where it comes first; those for a device come last."""
    every: list[Pass[Any, Any]] = [*pipeline.PASSES, *schedule.LOOP_PASSES, *placement.DEVICE_PASSES]
    listed: dict[str, Pass[Any, Any]] = {}
    for p in every:
        listed.setdefault(p.name, p)
    return listed


def traced(decls: Sequence[core.FnDecl], device: bool = False) -> Trace:
    """The program that functions need after each pass, for this processor or for a device."""
    trace: list[tuple[str, anf.Program | loops.Program]] = []
    program, entries = lower(
        [request(d) for d in decls], observe=lambda name, program: trace.append((name, program)), device=device
    )
    names = [e.name for e in entries]
    if device:
        steps = placement.device_steps(traverse.reachable(program, names), deterministic=is_deterministic())
    else:
        steps = _loop_steps(program, names)
    return [*trace, *[(step.name, step.program) for step in steps]]


def after(trace: Trace, name: str, time: int) -> str:
    """The program after a pass has run for the first, second … time. E0950 if it does not run so often."""
    programs = [program for passed, program in trace if passed == name]
    if time > len(programs):
        often = "does not run" if not programs else "runs once" if len(programs) == 1 else f"runs {len(programs)} times"
        help = ("`--changed` shows the passes that change something",)
        raise error("E0950", f"the pass `{name}` {often} here", None, help=help)
    return printed(programs[time - 1])


def through(program: loops.Program, names: Sequence[str]) -> loops.Program:
    """Loop nests after some passes, all of them for native code or all for a device."""
    native = {p.name: p for p in schedule.LOOP_PASSES}
    if all(name in native for name in names):
        return schedule.run_loop_passes(program, [native[name] for name in names], schedule.Target(figures.GRAIN))
    device = {p.name: p for p in placement.DEVICE_PASSES}
    return schedule.run_loop_passes(program, [device[name] for name in names], placement.Measured())


def printed(program: anf.Program | loops.Program) -> str:
    """The text of a program of either IR, without its kernels."""
    return printing.print_program(program) if isinstance(program, loops.Program) else printer.print_program(program)


def changes(trace: Trace) -> Iterator[tuple[str, str]]:
    """Each pass that changes a function, with its time as in `simplify:2`, and the changes as a unified diff.

    A variable has one name in all of them, so what a pass leaves alone looks the same before and after it.
    """
    printers: dict[str, printer.Printer] = {}
    loop_printers: dict[str, printing.LoopPrinter] = {}
    times: dict[str, int] = {}

    def lines(function: anf.Function | loops.Function | None) -> list[str]:
        match function:
            case None:
                return []
            case loops.Function():
                loop_printers[function.name] = printing.LoopPrinter.of(function, loop_printers.get(function.name))
                return loop_printers[function.name].lines
            case _:
                printers[function.name] = printer.Printer.of(function, printers.get(function.name))
                return printers[function.name].lines

    for (_, before), (name, program) in pairwise(trace):
        times[name] = times.get(name, 0) + 1
        if type(before) is not type(program):
            continue  # from the one IR to the other nothing stays
        label = f"{name}:{times[name]}"
        old: Mapping[str, anf.Function | loops.Function] = before.functions
        new: Mapping[str, anf.Function | loops.Function] = program.functions
        changed = [f for f in {**old, **new} if old.get(f) is not new.get(f)]
        diffs = ["\n".join(unified_diff(lines(old.get(f)), lines(new.get(f)), f, f, lineterm="")) for f in changed]
        if text := "\n".join(filter(None, diffs)):
            yield label, text


# ---- requests --------------------------------------------------------------------------------------------------------
def open_variable(decl: core.FnDecl) -> str | None:
    """A variable of the scheme that a use must choose, such as a number of axes."""
    for v in decl.variables:
        if isinstance(v, ty.RowVar) or (isinstance(v, ty.TypeVar) and not v.classes & {"Float", "Num", "Int"}):
            return v.name or "?"
    return None


def request(decl: core.FnDecl) -> Request:
    """A function at its declared types; a dtype that is open is f64, or i64 among integers."""
    if (name := open_variable(decl)) is not None:
        help = ("look at a function that uses it",)
        raise error(
            "E0956", f"`{decl.name}` has no code of its own: a use of it decides `{name}`", decl.span, help=help
        )
    bindings: Bindings = {}
    for v in decl.variables:
        if isinstance(v, ty.TypeVar):
            bindings[v] = anf.Scalar("i64" if "Int" in v.classes else "f64")
        elif v not in decl.opened:
            bindings[v] = anf.poly(0)  # any size
    return Request(decl, bindings)
