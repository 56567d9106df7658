"""Whether a call takes long, as far as its sizes say it: other threads of Python then go on while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen.costs import CALL, LIGHT_OP, MOVED, PRODUCT, PRODUCT_CALL, ROOM, ZERO, poly_of
from dlang.codegen.loops import (
    Allocate,
    Branch,
    Compute,
    Convert,
    Evaluate,
    For,
    Free,
    Function,
    Guard,
    Invoke,
    Load,
    LoadField,
    LoadTag,
    Loop,
    Move,
    Pack,
    Parallel,
    Pieces,
    Product,
    Program,
    Slice,
    Stmt,
    Store,
)
from dlang.ir.anf import Lit, Size, Var

LONG = 50_000_000
"""Picoseconds from which on a call is long."""

_STRAIGHT = (Compute, Convert, Evaluate, Load, LoadField, LoadTag, Store, Slice, Guard)


def work(program: Program, f: Function) -> Size | None:
    """About how many picoseconds a call of a function takes, over its parameters; None if they don't say it."""
    return _Walk(program, {p for p in f.params if isinstance(p, Var)}, {f.name: None}).block(f.body.stmts)


@dataclass(slots=True)
class _Walk:
    """known: the variables that an estimate may mention. functions: what is known of others; None while one is under
    way, and for ever if it calls itself."""

    program: Program
    known: set[Var]
    functions: dict[str, Size | None]
    lanes: list[int] = field(default_factory=lambda: [1])

    def block(self, stmts: Sequence[Stmt]) -> Size | None:
        total = ZERO
        for s in stmts:
            own = self.statement(s)
            if own is None:
                return None
            total = total + own
        return total

    def statement(self, s: Stmt) -> Size | None:
        match s:
            case Branch(_, then, otherwise):
                arms = self.block(then.stmts), self.block(otherwise.stmts)
                return None if arms[0] is None or arms[1] is None else arms[0] + arms[1] + LIGHT_OP
            case Pieces():
                return self.over(s.work)
            case Parallel():
                return ZERO  # said by its pieces
            case Loop():
                self.lanes.append(s.lanes)
                inside = self.block(s.stmts)
                self.lanes.pop()
                return None if inside is None else self.over((s.highs[0] - s.lows[0]) * (inside + LIGHT_OP))
            case For():
                inside = self.block(s.body.stmts)
                return None if inside is None else self.over((s.high - s.low) * (inside + LIGHT_OP))
            case Product():
                each = PRODUCT[s.c.buffer.dtype]
                return self.over(s.rows * s.columns * s.inner * poly_of(each) + PRODUCT_CALL)
            case Pack():
                return self.over(s.rows * s.columns * poly_of(MOVED))
            case Move():
                return self.over(s.count * poly_of(MOVED))
            case Allocate() | Free():
                return poly_of(ROOM)
            case Invoke():
                return self.call(s)
            case _ if isinstance(s, _STRAIGHT):
                return poly_of(LIGHT_OP // self.lanes[-1])
            case _:  # work of the host, a loop with a condition, nodes
                return None

    def over(self, size: Size) -> Size | None:
        return size if self.known.issuperset(size.atoms()) else None

    def call(self, s: Invoke) -> Size | None:
        callee = self.program.functions[s.function]
        if s.function not in self.functions:
            self.functions[s.function] = None
            params = {p for p in callee.params if isinstance(p, Var)}
            self.functions[s.function] = _Walk(self.program, params, self.functions).block(callee.body.stmts)
        inside = self.functions[s.function]
        if inside is None:
            return None
        given: dict[Var, Size] = {}
        for p, a in zip(callee.params, s.args, strict=True):
            if isinstance(p, Var) and isinstance(a, Var):
                given[p] = Size.of(a)
            elif isinstance(p, Var) and isinstance(a, Lit) and isinstance(a.value, int):
                given[p] = poly_of(int(a.value))
        if not given.keys() >= set(inside.atoms()):
            return None
        return self.over(inside.substitute(given.get) + CALL)
