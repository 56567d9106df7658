"""Functions as text after a stage of the compiler, for `dlc ir` and from Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import error
from dlang.driver import Request, is_deterministic, lower
from dlang.typecheck import core, types as ty

if TYPE_CHECKING:
    from dlang.ad.residuals import Residuals
    from dlang.codegen import loops
    from dlang.codegen.schedule import LoopStep
    from dlang.ir import anf
    from dlang.passes import Pass
    from dlang.specialize.types import Bindings

STAGES = ("mono", "normal", "ad", "opt", "loops", "llvm", "asm", "cuda")


def listing(
    decls: Sequence[core.FnDecl],
    stage: str,
    costs: bool = False,
    bound: Sequence[int] = (),
    deterministic: bool = False,
) -> str:
    """The program that functions need, after one of `STAGES`; raises `DlangError` where it does not compile.

    costs: with what derivatives save, in bytes, below it. bound: the parameters of the last that are given early.
    deterministic: as in `Engine`.
    """
    from dlang.ir.anf import early_name

    seen: dict[str, anf.Program] = {}
    saved: list[Residuals] = []
    program, entries = lower(
        [request(d) for d in decls], observe=seen.__setitem__, residuals=saved, bound=bound, device=stage == "cuda"
    )
    if stage in seen:
        from dlang.ir.printer import print_program

        text = print_program(seen[stage])
    else:
        names = [e.name for e in entries]
        names += [early_name(names[-1])] if bound else []
        text = _generated(program, names, stage, is_deterministic(deterministic))
    if not costs:
        return text
    from dlang.ad.residuals import written

    return "\n".join([text, *map(written, saved)])


def _generated(program: anf.Program, entries: list[str], stage: str, deterministic: bool) -> str:
    """Prints the code that a back end generates: loop nests, LLVM IR or assembly for the CPU, or kernels."""
    from dlang.codegen.llvm import modules, objects
    from dlang.codegen.printing import print_program
    from dlang.ir.call_graph import reachable

    reached = reachable(program, entries)
    if stage == "llvm":
        return modules.print_llvm(reached, entries)
    if stage == "asm":
        return objects.assembly(modules.print_llvm(reached, entries))
    if stage == "cuda":
        from dlang.codegen.cuda.placement import placed
        from dlang.codegen.cuda.printing import print_cuda

        return print_cuda(placed(reached, deterministic=deterministic))
    return print_program(nests_of(program, entries))


def nests_of(program: anf.Program, entries: Sequence[str]) -> loops.Program:
    """The loop nests of native code for what the entries reach."""
    return deque(_loop_steps(program, entries), maxlen=1).pop().program


def _loop_steps(program: anf.Program, entries: Sequence[str]) -> Iterator[LoopStep]:
    from dlang.codegen.llvm import objects
    from dlang.codegen.parallel import GRAIN
    from dlang.codegen.schedule import loop_steps
    from dlang.codegen.vectorize import Lanes
    from dlang.ir.call_graph import reachable

    return loop_steps(reachable(program, entries), Lanes(objects.vector_bits()), GRAIN)


# ---- after each pass -------------------------------------------------------------------------------------------------
Trace = Sequence[tuple[str, "anf.Program | loops.Program"]]
"""The program after each pass, and after each stage of the core IR, in order; `mono` comes first."""


def passes() -> dict[str, Pass[Any, Any]]:
    """The passes of both IRs by name, each as it is where it comes first; those for a device come last."""
    from dlang.codegen.cuda.placement import DEVICE_PASSES
    from dlang.codegen.schedule import LOOP_PASSES
    from dlang.pipeline import PASSES

    every: list[Pass[Any, Any]] = [*PASSES, *LOOP_PASSES, *DEVICE_PASSES]
    listed: dict[str, Pass[Any, Any]] = {}
    for p in every:
        listed.setdefault(p.name, p)
    return listed


def traced(decls: Sequence[core.FnDecl], device: bool = False) -> Trace:
    """The program that functions need after each pass, for this processor or for a device."""
    from dlang.ir.call_graph import reachable

    trace: list[tuple[str, anf.Program | loops.Program]] = []
    program, entries = lower(
        [request(d) for d in decls], observe=lambda name, program: trace.append((name, program)), device=device
    )
    names = [e.name for e in entries]
    if device:
        from dlang.codegen.cuda.placement import device_steps

        steps = device_steps(reachable(program, names), deterministic=is_deterministic())
    else:
        steps = _loop_steps(program, names)
    return [*trace, *[(step.name, step.program) for step in steps]]


def after(trace: Trace, name: str, time: int) -> str:
    """The program after a pass has run for the first, second … time. E0950 if it does not run so often."""
    made = [program for found, program in trace if found == name]
    if time > len(made):
        often = "does not run" if not made else "runs once" if len(made) == 1 else f"runs {len(made)} times"
        help = ("`--changed` shows the passes that change something",)
        raise error("E0950", f"the pass `{name}` {often} here", None, help=help)
    return _printed(made[time - 1])


def _printed(program: anf.Program | loops.Program) -> str:
    from dlang.codegen import loops, printing
    from dlang.ir import printer

    return printing.print_program(program) if isinstance(program, loops.Program) else printer.print_program(program)


def changes(trace: Trace) -> Iterator[tuple[str, str]]:
    """Each pass that changes a function, with its time as in `simplify:2`, and the changes as a unified diff.

    A variable has one name in all of them, so what a pass leaves alone looks the same before and after it.
    """
    from dlang.codegen.loops import Function as Nests
    from dlang.codegen.printing import print_function
    from dlang.ir.printer import Printer

    printers: dict[str, Printer] = {}
    times: dict[str, int] = {}

    def lines(function: anf.Function | Nests | None) -> list[str]:
        match function:
            case None:
                return []
            case Nests():
                return print_function(function).splitlines()
            case _:
                printers[function.name] = Printer.of(function, printers.get(function.name))
                return printers[function.name].lines

    for (_, before), (name, program) in pairwise(trace):
        times[name] = times.get(name, 0) + 1
        if type(before) is not type(program):
            continue  # from the one IR to the other nothing stays
        label = f"{name}:{times[name]}"
        old: Mapping[str, anf.Function | Nests] = before.functions
        new: Mapping[str, anf.Function | Nests] = program.functions
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
    from dlang.ir import anf

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
