"""Operators in expressions: arithmetic, comparisons, `and` and `or`, products, and calls by `|>`."""

from __future__ import annotations

from dlang.diagnostics import Span, error
from dlang.grammar import syntax as s
from dlang.ops.primitives import COMPARISONS
from dlang.typecheck import calls, core, patterns
from dlang.typecheck.constraints import has_axes
from dlang.typecheck.context import Checker
from dlang.typecheck.printing import show
from dlang.typecheck.scope import Scope
from dlang.typecheck.state import Reason
from dlang.typecheck.terms import BOOL, I64
from dlang.typecheck.types import FLOATS, INTS, Type, TypeCon, TypeVar, resolve


def unary(cx: Checker, scope: Scope, e: s.Unary) -> core.Expr:
    written = e.operand
    if e.operator == "-" and isinstance(written, s.Number):
        operand = patterns.number(cx, scope, written, negative=True)
    else:
        operand = cx.infer(scope, written)
    if e.operator == "not":
        cx.expect(BOOL, operand.type, e.operand.span, "`not` needs a bool: ")
        return core.Not(BOOL, e.span, operand)
    t = resolve(operand.type)
    if (isinstance(t, TypeCon) and t.name in FLOATS | INTS) or (isinstance(t, TypeVar) and t.literal):
        return core.Negate(t, e.span, operand)
    result = cx.st.type_var()
    cx.constrain("arith", Reason(e.span, "-", (t,)), types=(t, t, result), data="-")
    return core.Negate(result, e.span, operand)


def binary(cx: Checker, scope: Scope, e: s.Binary) -> core.Expr:
    """An operator on two operands: arithmetic, a comparison, `and` and `or`, a product, or a call by `|>`."""
    op = e.operator
    if op == "|>":
        return calls.infer_call(cx, scope, piped(e))
    left = cx.infer(scope, e.left)
    right = cx.infer(scope, e.right)
    if op in ("and", "or"):
        for side, node in ((left, e.left), (right, e.right)):
            t = cx.settled(side.type)
            if has_axes(t):
                raise error(
                    "E0301",
                    f"`{op}` takes scalars, found `{show(t)}`",
                    node.span,
                    help=(f"for masks write `bit_{op}(x, y)`",),
                )
            cx.expect(BOOL, t, node.span, f"`{op}`: ")
        return core.Logic(BOOL, e.span, op, left, right)
    if op == "**" and is_integer(e.right):
        cx.expect(I64, right.type, e.right.span)
    result = operator_type(cx, op, left.type, right.type, e.span, (e.left.span, e.right.span))
    return core.Arith(result, e.span, op, left, right)


def is_integer(e: s.Expr) -> bool:
    if isinstance(e, s.Unary) and e.operator == "-":
        return is_integer(e.operand)
    return isinstance(e, s.Number) and isinstance(e.value, int) and e.dtype is None


_SAME = {
    "+": FLOATS | INTS,
    "-": FLOATS | INTS,
    "*": FLOATS | INTS,
    "/": FLOATS,
    "//": FLOATS | INTS,
    "%": FLOATS | INTS,
}


def operator_type(cx: Checker, op: str, a: Type, b: Type, span: Span, parts: tuple[Span, ...] = ()) -> Type:
    """The type of a binary operator's result, now or by a constraint. parts: the operands."""
    a, b = resolve(a), resolve(b)
    if isinstance(a, TypeCon) and isinstance(b, TypeCon):
        if a.name == b.name:
            if op in COMPARISONS:
                if a.name != "bool" or op in ("==", "!="):
                    return BOOL
            elif a.name in _SAME.get(op, ()):
                return a
        elif op == "**" and a.name in FLOATS | INTS and b.name in INTS:
            return a
    result = cx.st.type_var()
    kind = "matmul" if op == "@" else "power" if op == "**" else "arith"
    cx.constrain(kind, Reason(span, op, (a, b), parts=parts), types=(a, b, result), data=op)
    return result


def piped(e: s.Binary) -> s.Call:
    """`x |> f` is `f(x)`, `x |> f(y)` is `f(x, y)`."""
    first = s.Argument(e.left.span, e.left)
    if isinstance(e.right, s.Call):
        return s.Call(e.span, e.right.function, (first, *e.right.arguments))
    return s.Call(e.span, e.right, (first,))
