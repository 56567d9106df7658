"""A program of loop nests with kernels: the outermost nests that can run on a device are launched there.

loop i in 0..n                    t = n
  t = &x[i]                       launch map 0 of t (&y, &x)
  &y[i] = t
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.captures import captures
from dlang.codegen.cuda.forms import NAME, kernel_text
from dlang.codegen.cuda.nests import Nest, nest_of
from dlang.codegen.loops import (
    Allocate,
    Body,
    Buffer,
    Compute,
    Evaluate,
    Free,
    Kernel,
    Launch,
    Load,
    Loop,
    Program,
    Slot,
    Stmt,
)
from dlang.codegen.traverse import map_inside
from dlang.ir.anf import Atom, Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of

PARAMETERS = 500
"""The most that a kernel has, each of 8 bytes: devices take 4 KiB."""


def with_kernels(program: Program) -> Program:
    """The program whose nests of independent trips are kernels. Its loops have one lane, and are in one piece."""
    kernels = Kernels()

    def statements(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in stmts:
            nest = nest_of(stmt) if isinstance(stmt, Loop) else None
            if nest is None or not fits(nest):
                out.append(map_inside(stmt, statements))
                continue
            sums = {var: Buffer(var.name, dtype_of(var)) for var in results_of(nest)}
            out += [Allocate(buffer, (poly(1),)) for buffer in sums.values()]
            out += kernels.launch(nest, sums)
            for var, buffer in sums.items():
                out += [Load(var, buffer, ZERO), Free(buffer)]
        return tuple(out)

    functions = {}
    for name, f in program.functions.items():
        functions[name] = replace(f, body=Body(statements(f.body.stmts), f.body.results))
    return replace(program, functions=functions, kernels=tuple(kernels.made))


def fits(nest: Nest, prelude: Sequence[Stmt] = ()) -> bool:
    """Whether a device takes as many parameters as the kernel of a nest has."""
    return len(_params(nest, prelude)) + len(results_of(nest)) <= PARAMETERS


def results_of(nest: Nest) -> list[Var]:
    """What a nest leaves in variables: the results of its reductions."""
    return [var for r in nest.reductions for var in (r.result, r.position) if var is not None]


@dataclass(slots=True)
class Kernels:
    """Those of a program. careful: whether something may fail in one, so that later ones must not run.

    made: in the order of their numbers. numbers: by their texts.
    """

    careful: bool = False
    made: list[Kernel] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def launch(self, nest: Nest, sums: Mapping[Var, Buffer], prelude: Sequence[Stmt] = ()) -> tuple[Stmt, ...]:
        """The statements of the host for a nest that fits: how many trips it has, and the launch.

        sums: where the results of its reductions go. prelude: what each thread computes before its trips.
        """
        params, outs = _params(nest, prelude), [sums[var] for var in results_of(nest)]
        written = kernel_text(nest, params, outs, prelude, self.careful)
        number = self.numbers.get(written.text)
        if number is None:
            number = self.numbers[written.text] = len(self.made)
            name = f"dl_{nest.form}_{number}"
            self.made.append(Kernel(name, nest.form, written.text.replace(NAME, name)))
        out: list[Stmt] = []
        trips = _trips(nest.levels, out)
        return (*out, Launch(number, trips, (*params, *outs), written.guards))


def _params(nest: Nest, prelude: Sequence[Stmt]) -> tuple[Slot, ...]:
    """What a kernel uses from outside; where its outermost loop ends, the number of trips says."""
    stmts = nest.stmts
    for level in reversed(nest.levels):
        highs = (ZERO,) if level is nest.levels[0] else level.highs
        reductions = nest.reductions if level is nest.levels[-1] else ()
        stmts = (Loop(level.var, level.lows, highs, stmts, reductions),)
    return captures((*prelude, *stmts), ())


def _trips(levels: Sequence[Loop], out: list[Stmt]) -> Atom:
    """How many trips a nest has, computed by the host."""
    total = poly(1)
    for level in levels:
        extent = _extreme("minimum", level.highs, out) - _extreme("maximum", level.lows, out)
        if extent.constant is not None:
            total = total * max(int(extent.constant), 0)
            continue
        most = fresh("extent", I64)
        out.append(Compute(most, "maximum", (_value(extent, out), Lit(0, "i64"))))
        total = total * poly(most)
    return _value(total, out)


def _extreme(name: str, sizes: Sequence[Size], out: list[Stmt]) -> Size:
    """The largest or the smallest of some sizes."""
    found = sizes[0]
    for size in sizes[1:]:
        var = fresh("bound", I64)
        out.append(Compute(var, name, (_value(found, out), _value(size, out))))
        found = poly(var)
    return found


def _value(size: Size, out: list[Stmt]) -> Atom:
    """The value of a polynomial."""
    if size.constant is not None:
        return Lit(int(size.constant), "i64")
    if size.atom is not None:
        return size.atom
    var = fresh("size", I64)
    out.append(Evaluate(var, size))
    return var
