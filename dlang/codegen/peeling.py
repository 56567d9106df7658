"""Loops whose first and last iterations are apart, so that the others need not ask where the ends are.

    for j in 0..n { … x[max(j - 1, 0)] … }    becomes    for j in 0..min(1, n) { … x[max(j - 1, 0)] … }
                                                          for j in 1..n { … x[j - 1] … }

A comparison of the loop's variable that is decided after a few first iterations, or up to a few last ones, is decided
in all between. What was gathered there, lies in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.loops import Compute, Convert, Evaluate, Load, Loop, Stmt, Store
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.ops import figures
from dlang.ops.primitives import GAPS

_STRAIGHT = (Load, Compute, Convert, Evaluate, Store)


def peeled(loop: Loop, sizes: Mapping[Var, Size]) -> tuple[list[Loop], Loop, list[Loop]] | None:
    """The first iterations of a loop, those between and the last; None if no comparison is decided by that.

    sizes: of variables around it that are names of polynomials.
    """
    if loop.short or loop.reductions or len(loop.stmts) > figures.PEELED_BODY or len(loop.lows) + len(loop.highs) > 2:
        return None
    if not all(isinstance(s, _STRAIGHT) for s in loop.stmts):
        return None
    ends = _Ends(loop, dict(sizes))
    ends.walk()
    if not ends.first and not ends.last:
        return None
    (low,), (high,) = loop.lows, loop.highs
    start, end = low + ends.first, high - ends.last
    between = _Copy(ends.holds).loop(loop, (start,), (end,))
    few = replace(loop, short=True)
    before = [_Copy({}).loop(few, (low,), (high, start))] if ends.first else []
    after = [_Copy({}).loop(few, (start, end), (high,))] if ends.last else []
    return before, between, after


def _gap(stmt: Stmt, sizes: Mapping[Var, Size]) -> Size | None:
    """Returns a size that is at least 0 where a comparison holds, or where the first of two numbers is chosen."""
    if not isinstance(stmt, Compute) or len(stmt.args) != 2 or any(a.type != I64 for a in stmt.args):
        return None
    x, y = (poly(a).substitute(sizes.get) for a in stmt.args)
    match stmt.name:
        case "maximum":
            return x - y
        case "minimum":
            return y - x
        case name if name in GAPS:
            sign, less = GAPS[name]
            return (y - x) * sign + less
        case _:
            return None


@dataclass(slots=True)
class _Ends:
    """first, last: how many iterations are apart at the ends. holds, sizes: what comparisons and numbers are
    between."""

    loop: Loop
    sizes: dict[Var, Size]
    first: int = 0
    last: int = 0
    holds: dict[Var, bool] = field(default_factory=dict)

    def walk(self) -> None:
        inside = {s.var for s in self.loop.stmts if isinstance(s, Load | Compute | Convert | Evaluate)}
        for stmt in self.loop.stmts:
            match stmt:
                case Evaluate(var, size):
                    self.sizes[var] = size.substitute(self.sizes.get)
                case Compute(var, "select", (Var() as condition, x, y)) if condition in self.holds and var.type == I64:
                    self.sizes[var] = poly(x if self.holds[condition] else y).substitute(self.sizes.get)
                case Compute(var, name, args):
                    gap = _gap(stmt, self.sizes)
                    holds = None if gap is None or gap.mentions(inside) else self.between(gap)
                    if holds is not None:
                        self.holds[var] = holds
                        if name in ("maximum", "minimum"):
                            self.sizes[var] = poly(args[0] if holds else args[1]).substitute(self.sizes.get)
                case _:
                    pass

    def between(self, gap: Size) -> bool | None:
        """Tells whether a number is at least 0 in all but a few iterations at one end; None if neither is so."""
        var = self.loop.var
        try:
            slope = gap.coefficient(var).constant
        except ValueError:
            return None
        if slope not in (1, -1):
            return None
        rest = gap.without(var)
        # of j + rest, the first that is at least 0 is -rest; of rest - j, the first that is not is rest + 1
        turn = -rest if slope == 1 else rest + 1
        (low,), (high,) = self.loop.lows, self.loop.highs
        count = (turn - low).constant
        if count is not None and count <= figures.END_ITERATIONS:
            self.first = max(self.first, int(count))
            return slope == 1
        count = (high - turn).constant
        if count is not None and count <= figures.END_ITERATIONS:
            self.last = max(self.last, int(count))
            return slope == -1
        return None


@dataclass(slots=True)
class _Copy:
    """Code of some of the iterations, in which it is known what some comparisons are."""

    holds: dict[Var, bool]
    atoms: dict[Var, Atom] = field(default_factory=dict)
    sizes: dict[Var, Size] = field(default_factory=dict)

    def loop(self, loop: Loop, lows: tuple[Size, ...], highs: tuple[Size, ...]) -> Loop:
        var = self.bound(loop.var)
        stmts = [new for s in loop.stmts if (new := self.stmt(s)) is not None]
        return replace(loop, var=var, lows=lows, highs=highs, stmts=_needed(stmts))

    def stmt(self, stmt: Stmt) -> Stmt | None:
        match stmt:
            case Load(var, buffer, offset):
                offset = self.size(offset)
                return Load(self.bound(var), buffer, offset)
            case Evaluate(var, size):
                return self.number(var, self.size(size))
            case Compute(var, "maximum" | "minimum", (x, y)) if var in self.holds:
                return self.number(var, self.size(poly(x if self.holds[var] else y)))
            case Compute(var) if var in self.holds:
                self.atoms[var] = Lit(self.holds[var], "bool")
                return None
            case Compute(var, name, args):
                args = tuple([self.atom(a) for a in args])
                if name == "select" and isinstance(args[0], Lit):
                    chosen = args[1] if args[0].value else args[2]
                    if var.type == I64:
                        return self.number(var, self.size(poly(chosen)))
                    self.atoms[var] = chosen
                    return None
                if name == "and" and Lit(True, "bool") in args:
                    self.atoms[var] = args[0] if args[1] == Lit(True, "bool") else args[1]
                    return None
                return Compute(self.bound(var), name, args)
            case Convert(var, arg):
                arg = self.atom(arg)
                return Convert(self.bound(var), arg)
            case Store(buffer, offset, value, monoid):
                return Store(buffer, self.size(offset), self.atom(value), monoid)
            case _:
                raise AssertionError("no statement of straight code")

    def number(self, var: Var, size: Size) -> Stmt:
        """A variable that is a polynomial, as which indices know it."""
        new = self.bound(var)
        self.sizes[new] = size
        return Evaluate(new, size)

    def atom(self, x: Atom) -> Atom:
        return self.atoms.get(x, x) if isinstance(x, Var) else x

    def size(self, size: Size) -> Size:
        def name(v: Var) -> Size | None:
            return poly(self.atoms[v]) if v in self.atoms else None

        return size.substitute(name).substitute(self.sizes.get)

    def bound(self, var: Var) -> Var:
        assert isinstance(var.type, Scalar)
        new = fresh(var.name, var.type)
        self.atoms[var] = new
        return new


def _needed(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Straight code without what nothing stores."""
    wanted: set[Atom] = set()
    out: list[Stmt] = []
    for stmt in reversed(stmts):
        match stmt:
            case Store(_, offset, value):
                wanted |= {value, *offset.atoms()}
            case Load(var, _, size) | Evaluate(var, size) if var in wanted:
                wanted.update(size.atoms())
            case Compute(var, _, args) if var in wanted:
                wanted.update(args)
            case Convert(var, arg) if var in wanted:
                wanted.add(arg)
            case _:
                continue
        out.append(stmt)
    return tuple(out[::-1])
