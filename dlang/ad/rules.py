"""The derivatives of primitives: the texts of the primitive table, parsed once and turned into operations.

A text is an expression in x, y, z (the arguments), r (the result) and g (a cotangent, or a tangent in forward mode),
linear in g. `zero_safe_mul(c, d)` in it is c·d, but 0 where c is 0: no NaN arises where d is not finite but does not
matter.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dlang.ir.anf import FLOATS, Atom, Cast, Lit, Prim
from dlang.ir.builder import Builder
from dlang.ir.types import dtype_of
from dlang.ops.primitives import PRIMITIVES, operator, parsed


def contribution(b: Builder, primitive: str, args: Sequence[Atom], result: Atom, position: int, g: Atom) -> Atom | None:
    """Returns what the cotangent `g` of `result = primitive(args)` contributes to that of the argument at `position`.

    None if the derivative is zero everywhere.
    """
    text = _texts(primitive, args)[position]
    if text is None or dtype_of(args[position]) not in FLOATS:
        return None
    names: dict[str, Atom] = {"r": result, "g": g, **dict(zip("xyz", args, strict=False))}
    return _Emit(b, names, dtype_of(g)).atom(parsed(text))


def tangent(b: Builder, primitive: str, args: Sequence[Atom], result: Atom, dots: Sequence[Atom | None]) -> Atom | None:
    """The tangent of `result = primitive(args)` from those of the arguments; None is zero."""
    texts = _texts(primitive, args)
    given = [(text, dot) for text, dot in zip(texts, dots, strict=True) if text is not None and dot is not None]
    if not given:
        return None
    names: dict[str, Atom] = {"r": result, **dict(zip("xyz", args, strict=False))}
    choices = [_choice(parsed(text)) for text, _ in given]
    match choices:
        case [(first, True), (second, False)] if ast.dump(first) == ast.dump(second):
            # Each argument counts on one side of one condition: a single choice.
            (_, x), (_, y) = given
            return scalar(b, "select", _Emit(b, names, dtype_of(x)).atom(first), x, y)
    if primitive == "div" and len(given) == 2:
        # One quotient for both: the tangent of x / y is (ẋ - r ẏ) / y.
        (_, x), (_, y) = given
        change = b.prim("sub", x, b.prim("zero_safe_mul", y, result))
        return b.prim("zero_safe_mul", change, b.prim("div", Lit(1.0, dtype_of(x)), args[1]))
    total: Atom | None = None
    for text, dot in given:
        emit = _Emit(b, {**names, "g": dot}, dtype_of(dot))
        match parsed(text):
            case ast.UnaryOp(op=ast.USub(), operand=operand) if total is not None:
                total = b.prim("sub", total, emit.atom(operand))
            case whole:
                value = emit.atom(whole)
                total = value if total is None else scalar(b, "add", total, value)
    return total


def _texts(primitive: str, args: Sequence[Atom]) -> tuple[str | None, ...]:
    """Returns the derivatives in the table; a reciprocal r = 1 / y has -r², no second quotient, of the same range."""
    texts = PRIMITIVES[primitive].derivative
    if primitive == "div" and isinstance(args[0], Lit) and args[0].value == 1:
        return texts[0], "-zero_safe_mul(g, r * r)"
    return texts


def _choice(e: ast.expr) -> tuple[ast.expr, bool] | None:
    """The condition of `select(condition, g, 0.0)`, or of `select(condition, 0.0, g)`, and which it is."""
    match e:
        case ast.Call(func=ast.Name(id="select"), args=[condition, ast.Name(id="g"), ast.Constant()]):
            return condition, True
        case ast.Call(func=ast.Name(id="select"), args=[condition, ast.Constant(), ast.Name(id="g")]):
            return condition, False
    return None


class _Emit:
    """Turns a parsed text into operations; a constant takes the dtype of what it meets, else that of g."""

    def __init__(self, b: Builder, names: dict[str, Atom], dtype: str) -> None:
        self.b, self.names, self.dtype = b, names, dtype

    def atom(self, e: ast.expr, dtype: str | None = None) -> Atom:
        match e:
            case ast.Name(id=name):
                return self.names[name]
            case ast.Constant(value=bool() | int() | float() as value):
                wanted = dtype or self.dtype
                return Lit(float(value), wanted) if wanted in FLOATS else Lit(int(value), wanted)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return scalar(self.b, "neg", self.atom(operand, dtype))
            case ast.BinOp(left=left, right=right):
                return scalar(self.b, operator(e), *self.pair(left, right, dtype))
            case ast.Compare(left=left, comparators=[right]):
                return scalar(self.b, operator(e), *self.pair(left, right, None))
            case ast.Call(func=ast.Name(id="cast"), args=[arg]):
                return self.b.cast(self.dtype, self.atom(arg))
            case ast.Call(func=ast.Name(id="select"), args=[c, x, y]):
                return scalar(self.b, "select", self.atom(c), *self.pair(x, y, dtype))
            case ast.Call(func=ast.Name(id=name), args=args):
                return scalar(self.b, name, *[self.atom(a, dtype) for a in args])
            case _:
                raise ValueError(f"not a derivative: {ast.unparse(e)}")

    def pair(self, x: ast.expr, y: ast.expr, dtype: str | None) -> tuple[Atom, Atom]:
        """Two operands of one dtype, where one may be a constant."""
        if isinstance(x, ast.Constant):
            second = self.atom(y, dtype)
            return self.atom(x, dtype_of(second)), second
        first = self.atom(x, dtype)
        return first, self.atom(y, dtype_of(first))


def scalar(b: Builder, name: str, *args: Atom) -> Atom:
    """A primitive, without the operations that change nothing: x + 0, x · 1, the negative of a literal.

    A zero that is a literal here is a symbolic zero, so its sign means nothing and x + 0 is x.
    """
    match name, args:
        case "add", (x, Lit(value)) if value == 0:
            return x
        case "add", (Lit(value), x) if value == 0:
            return x
        case "mul", (x, Lit(value)) if value == 1:
            return x
        case "mul", (Lit(value), x) if value == 1:
            return x
        case "zero_safe_mul", (x, Lit(value)) if value == 1:
            return x
        case "neg", (Lit(value, dtype),) if not isinstance(value, bool | str):
            return Lit(-value, dtype)
        case "neg", (x,):
            match b.definition(x) if not isinstance(x, Lit) else None:
                case Prim("neg", (y,)):
                    return y
    return b.prim(name, *args)


def cast_contribution(b: Builder, op: Cast, g: Atom) -> Atom | None:
    """y = dtype(x): the cotangent goes back to the dtype of x; through an integer there is no derivative."""
    if op.dtype not in FLOATS or dtype_of(op.arg) not in FLOATS:
        return None
    return b.cast(dtype_of(op.arg), g)


def cast_tangent(b: Builder, op: Cast, dot: Atom | None) -> Atom | None:
    """y = dtype(x): the tangent is converted in the same way; through an integer there is none."""
    return None if dot is None or op.dtype not in FLOATS else b.cast(op.dtype, dot)
