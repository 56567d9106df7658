"""Comparisons of indices that the bounds of the axes and loops around decide.

The check of an index that a function is given is proven where the function has been inlined: `i < n` at a point of an
axis that ends at n. What is left reads by the axis itself, so it can be fused, distributed and differentiated as such.
"""

from __future__ import annotations

from dlang.ir.affine import Knowledge
from dlang.ir.anf import (
    Atom,
    Block,
    Check,
    Comp,
    For,
    Function,
    Let,
    Lit,
    Op,
    Prim,
    Program,
    Size,
    SizeOf,
    Var,
    poly,
)
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_functions, rebuild, with_body, with_lets, with_op
from dlang.ir.types import I64
from dlang.polynomials import Poly

ORDERS = ("lt", "le", "gt", "ge")


def bounds(program: Program) -> Program:
    """The program without comparisons of which the outcome is known."""
    return map_functions(program, _function)


def _function(function: Function) -> Function:
    known = Knowledge()
    known.saw(p.type for p in function.params)
    return with_body(function, _Walk().block(function.body, known))


class _Walk:
    def __init__(self) -> None:
        self.renaming = Renaming({})
        self.sizes: dict[Var, Size] = {}  # the i64 variables that are names of polynomials

    def block(self, block: Block, known: Knowledge) -> Block:
        known = known.copy()
        lets: list[Let] = []
        for let in block.lets:
            outcome = self.outcome(let.op, known)
            if outcome is not None:
                self.renaming.env[let.vars[0]] = Lit(outcome, "bool")
                continue
            arithmetic = self.arithmetic(let.op, known)
            match arithmetic:
                case SizeOf(size):
                    self.sizes[let.vars[0]] = size.substitute(self.sizes.get)
                case Check(subjects=subjects):
                    for v, s in zip(let.vars, subjects, strict=True):
                        if v.type == I64:
                            self.sizes[v] = self.polynomial(s)
                case _:
                    pass
            op = self.op(arithmetic, known)
            vars = tuple([self.renaming.bind(v) for v in let.vars])
            known.saw(v.type for v in vars)
            lets.append(with_op(let, vars, op))
        return with_lets(block, lets, [self.renaming.atom(a) for a in block.results])

    def op(self, op: Op, known: Knowledge) -> Op:
        match op:
            case Comp():
                inside = known.within(op.axes)
            case For():
                inside = known.copy()
                inside.facts.between(op.index, (op.low,), (op.high,))
            case _:
                inside = known
        r = self.renaming
        return rebuild(op, atom=r.atom, size=r.size, block=lambda b: self.block(b, inside), bind=r.bind)

    def arithmetic(self, op: Op, known: Knowledge) -> Op:
        """An operation, or as the polynomial that it is: of sizes and of axes and indices, none of which is near the
        greatest number, so that it wraps nowhere.
        """
        match op:
            case Prim("add" | "sub" | "mul" as name, (x, y)) if x.type == I64:
                a, b = self.polynomial(x), self.polynomial(y)
                size = a + b if name == "add" else a - b if name == "sub" else a * b
                facts = known.facts
                if size.constant is None and all(v in facts.bounds or v in facts.sizes for v in size.atoms()):
                    return SizeOf(size)
        return op

    def polynomial(self, atom: Atom) -> Size:
        return poly(atom).substitute(self.sizes.get)

    def outcome(self, op: Op, known: Knowledge) -> bool | None:
        """Whether a comparison holds; None if that is not known, or the operation is another one."""
        match op:
            case Prim(name, (x, y)) if (
                name in ORDERS and x.type == I64 and not (isinstance(x, Lit) and isinstance(y, Lit))
            ):
                least: Size = self.polynomial(y) - self.polynomial(x)
                if name in ("gt", "ge"):
                    least = Poly({}) - least
                strict = 1 if name in ("lt", "gt") else 0
                if known.at_least_zero(least - strict):
                    return True
                if known.at_least_zero(Poly({}) - least - (1 - strict)):
                    return False
        return None
