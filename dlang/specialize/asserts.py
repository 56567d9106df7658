"""`assert`: a failed one shows its text, its message, and the values that its condition compared."""

from __future__ import annotations

from dlang.ir.anf import Atom, Lit
from dlang.specialize.arith import COMPARISONS, close, operator
from dlang.specialize.emitter import TRUE
from dlang.specialize.frame import Frame, contains_function
from dlang.specialize.text import hole, joined
from dlang.specialize.values import Value, leaves
from dlang.typecheck import core


def check_assert(f: Frame, s: core.Assert) -> None:
    """A failed assert shows its text, its message, and the values that its condition compared."""
    em = f.emitter
    with em.at(s.span):
        pieces: list[str | tuple[Atom, str]] = []
        condition, operands = observed(f, s.condition)
        if s.message is not None:
            pieces += [": ", *message(f, s.message)]
        for text, v in operands:
            pieces += [f"\n  {text} = ", *hole(v, "")]
        if condition == TRUE:
            return
        parts, values = joined([f"assertion failed: `{s.text}`", *pieces])
        em.check(condition, "E0800", parts, values)


def message(f: Frame, e: core.Expr) -> list[str | tuple[Atom, str]]:
    v = f.eval(e)
    atom = next(leaves(v))
    return [str(atom.value)] if isinstance(atom, Lit) else [(atom, "")]


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
    return [(" ".join(span.source.text[span.start : span.end].split()), v)] if not contains_function(v) else []
