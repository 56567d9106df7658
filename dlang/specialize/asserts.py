"""`assert`: a failed one shows its text, its message, and the values that its condition compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit
from dlang.ops.primitives import COMPARISONS
from dlang.specialize.emitter import TRUE
from dlang.specialize.frame import Frame, scalar
from dlang.specialize.operators import close, operator
from dlang.specialize.text import Piece, hole, joined, whole
from dlang.specialize.values import Value, contains_function, leaves
from dlang.typecheck import core


def check_assert(f: Frame, s: core.Assert) -> None:
    """A failed assert shows its text, its message, and the values that its condition compared."""
    em = f.emitter
    with em.at(s.span):
        pieces: list[Piece] = []
        condition, operands = observed(f, s.condition)
        if condition == TRUE:
            return
        if s.message is not None:
            expression = s.message
            pieces += [": ", *if_failed(f, condition, lambda: [(f.atom(expression), "")])]
        for text, v in operands:
            pieces += [f"\n  {text} = ", *if_failed(f, condition, partial(hole, f, v, ""))]
        parts, values = joined([f"assertion failed: `{s.text}`", *pieces])
        em.check(condition, "E0800", parts, values)


def if_failed(f: Frame, condition: Atom, pieces: Callable[[], list[Piece]]) -> list[Piece]:
    """Text that is made only for an assert that failed, unless it costs nothing."""
    e = f.emitter
    with f.block() as lets:
        found = pieces()
        made = None if not lets else scalar(whole(f, found))
    if made is None:
        return found
    op = anf.If(condition, anf.Block((), (Lit("", "str"),)), anf.Block(tuple(lets), (made,)))
    return [(e.emit(op, anf.Scalar("str"))[0], "")]


def observed(f: Frame, e: core.Expr) -> tuple[Atom, list[tuple[str, Value]]]:
    """A condition and the operands worth showing when it fails."""
    em = f.emitter
    match e:
        case core.Arith(_, span, name, left, right) if name in COMPARISONS:
            with em.at(span):
                a, b = f.eval(left), f.eval(right)
                result = operator(f, name, a, b)
            (atom,) = leaves(result)
            return atom, [*shown(left, a), *shown(right, b)]
        case core.Builtin(name="close", args=args):
            with em.at(e.span):
                x, y, *tol = [f.eval(a) for a in args]
                t = next(leaves(tol[0])) if tol else Lit(1e-9, "f64")
                return close(f, x, y, t), [*shown(args[0], x), *shown(args[1], y)]
        case core.Not(_, span, operand):
            condition, operands = observed(f, operand)
            return em.prim("not", condition), operands
    return f.bool(e), []


def shown(e: core.Expr, v: Value) -> list[tuple[str, Value]]:
    """An operand with its text; what is written as a literal needs no showing."""
    if isinstance(e, core.Literal) or (isinstance(e, core.Negate) and isinstance(e.operand, core.Literal)):
        return []
    span = e.span
    return [(" ".join(span.text.split()), v)] if not contains_function(v) else []
