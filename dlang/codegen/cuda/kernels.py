"""A program of loop nests with kernels: the outermost nests that can run on a device are launched there.

loop i in 0..n                    t = n
  t = &x[i]                       launch map 0 of t (&y, &x)
  &y[i] = t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.captures import captures
from dlang.codegen.cuda.forms import NAME, kernel_text
from dlang.codegen.cuda.nests import nest_of
from dlang.codegen.loops import Body, Compute, Evaluate, Kernel, Launch, Loop, Program, Reduction, Stmt
from dlang.codegen.traverse import map_inside
from dlang.ir.anf import Atom, Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

PARAMETERS = 500
"""The most that a kernel has, each of 8 bytes: devices take 4 KiB."""


def with_kernels(program: Program) -> Program:
    """The program whose nests of independent trips are kernels. Its loops have one lane, and are in one piece."""
    maker = _Maker()
    functions = {}
    for name, f in program.functions.items():
        functions[name] = replace(f, body=Body(maker.statements(f.body.stmts), f.body.results))
    return replace(program, functions=functions, kernels=tuple(maker.kernels))


@dataclass(slots=True)
class _Maker:
    """The kernels so far. numbers: by their texts."""

    kernels: list[Kernel] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def statements(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in stmts:
            launched = self.loop(stmt) if isinstance(stmt, Loop) else None
            out += [map_inside(stmt, self.statements)] if launched is None else launched
        return tuple(out)

    def loop(self, loop: Loop) -> list[Stmt] | None:
        """The statements of the host for a loop: how many trips it has, and the launch; None if it is no kernel."""
        nest = nest_of(loop)
        if nest is None:
            return None
        # where the outermost loop ends, the number of trips says
        params = captures((replace(loop, highs=(ZERO,)) if nest.levels[0] is loop else loop,), ())
        if len(params) > PARAMETERS:
            return None
        written = kernel_text(nest, params)
        number = self.numbers.get(written.text)
        if number is None:
            number = self.numbers[written.text] = len(self.kernels)
            name = f"dl_{nest.form}_{number}"
            self.kernels.append(Kernel(name, nest.form, written.text.replace(NAME, name)))
        out: list[Stmt] = []
        trips = _trips(nest.levels, out)
        results = tuple([slot for r in loop.reductions for slot in _made(r)])
        out.append(Launch(number, trips, params, results, written.guards))
        return out


def _made(r: Reduction) -> list[Var]:
    return [r.result] if r.position is None else [r.result, r.position]


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
