"""Operators on scalars and arrays, and zeros: dtypes and ranks are known here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Reduce, Scalar, Size, poly
from dlang.ops.monoids import result_dtype
from dlang.ops.primitives import OPERATORS, PARTIAL
from dlang.specialize.emitter import Emitter
from dlang.specialize.frame import Frame
from dlang.specialize.types import Mono
from dlang.specialize.values import ArrayV, ScalarV, Value, template

SIMPLE = {sign: name for sign, name in OPERATORS.items() if name not in PARTIAL}
Scalars = Callable[..., Atom]


# ---- scalars ---------------------------------------------------------------------------------------------------------
def scalar_operator(e: Emitter, operator: str, x: Atom, y: Atom) -> Atom:
    """An operator on two scalars, with the checks that make it total."""
    assert isinstance(x.type, anf.Scalar) and isinstance(y.type, anf.Scalar)
    dtype = x.type.dtype
    if operator in SIMPLE:
        return e.prim(SIMPLE[operator], x, y)
    integer = dtype in anf.INTEGERS
    match operator:
        case "//" | "%":
            name = "floordiv" if operator == "//" else "mod"
            if not integer:
                return e.prim(name, x, y)
            if dtype == "i64" and operator == "//" and isinstance(y, Lit) and int(y.value) > 0:
                return e.atom(e.floor(e.poly(x), poly(y)))
            if dtype == "i64" and operator == "//" and is_floor_of_sizes(e, e.poly(x), e.poly(y)):
                return e.atom(e.floor(e.poly(x), e.poly(y)))
            return e.prim(name, x, nonzero(e, y, "division" if operator == "//" else "remainder"))
        case "**":
            if y.type.dtype in anf.FLOATS:
                return e.prim("pow", x, y)
            return whole_power(e, x, y)
    raise AssertionError(operator)


def is_floor_of_sizes(e: Emitter, dividend: Size, divisor: Size) -> bool:
    """Tells whether a quotient is what it is in a type: of a size that is not negative and is compared with 0 there.

    An exact quotient, and one of a number that is known, is none in a type, and so is not compared there.
    """
    return divisor.constant is None and e.facts.proves_nonnegative(divisor) and dividend.quotient(divisor) is None


def whole_power(e: Emitter, x: Atom, k: Atom) -> Atom:
    """A power with an integer exponent; a negative one is refused where the base is an integer."""
    assert isinstance(x.type, anf.Scalar) and isinstance(k.type, anf.Scalar)
    if k.type.dtype == "u64":
        return _unsigned_power(e, x, k)
    exponent = e.cast("i64", k)
    never_negative = k.type.dtype in anf.UNSIGNED or (isinstance(exponent, Lit) and int(exponent.value) >= 0)
    if x.type.dtype in anf.INTEGERS and not never_negative:
        ok = e.prim("ge", exponent, Lit(0, "i64"))
        parts = ("an integer to the negative power ", "", "")
        (exponent,) = e.check(ok, "E0804", parts, (exponent,), (exponent,))
    return e.prim("powi", x, exponent)


def _unsigned_power(e: Emitter, x: Atom, k: Atom) -> Atom:
    """A power with a u64 as the exponent: one that is no i64 is twice its half, and perhaps 1 more."""
    with e.block() as plain:
        whole = e.prim("powi", x, e.cast("i64", k))
    with e.block() as halves:
        half, odd = e.prim("shift_right", k, Lit(1, "u64")), e.prim("bit_and", k, Lit(1, "u64"))
        root, odd_factor = [e.prim("powi", x, e.cast("i64", part)) for part in (half, odd)]
        product = e.prim("mul", e.prim("mul", root, root), odd_factor)
    is_i64 = e.prim("lt", k, Lit(1 << 63, "u64"))
    op = anf.If(is_i64, anf.Block(tuple(plain), (whole,)), anf.Block(tuple(halves), (product,)))
    return e.emit(op, x.type)[0]


def nonzero(e: Emitter, y: Atom, what: str) -> Atom:
    """A divisor, checked unless it is a literal."""
    if isinstance(y, Lit) and y.value != 0:
        return y
    assert isinstance(y.type, anf.Scalar)
    ok = e.prim("ne", y, Lit(0, y.type.dtype))
    return e.check(ok, "E0803", (f"integer {what} by zero",), (), (y,))[0]


# ---- elementwise -----------------------------------------------------------------------------------------------------
def broadcast(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The common shape: trailing axes line up, the literal size 1 stretches. The checker proved that they fit."""
    out: list[Size] = []
    for dims in zip_longest(*[s[::-1] for s in shapes]):
        known = [d for d in dims if d is not None]
        wide = [d for d in known if d.constant != 1]
        out.append(wide[0] if wide else known[0])
    return tuple(out[::-1])


def elementwise(f: Frame, function: Scalars, *values: Value) -> Value:
    """A function of scalars at every element of scalars and arrays that broadcast."""
    e = f.emitter
    if all(isinstance(v, ScalarV) for v in values):
        return ScalarV(function(*[v.atom for v in values if isinstance(v, ScalarV)]))
    arrays = [v for v in values if isinstance(v, ArrayV)]
    shape = broadcast([a.shape for a in arrays])
    axes = tuple([e.axis(s) for s in shape])
    index = tuple([poly(a.var) for a in axes])
    with e.block() as lets:
        atoms: list[Atom] = []
        for v in values:
            if isinstance(v, ScalarV):
                atoms.append(v.atom)
                continue
            assert isinstance(v, ArrayV)
            axes_of_operand = index[len(index) - len(v.shape) :]
            wide = shape[len(shape) - len(v.shape) :]
            stretched = [
                poly(0) if d.constant == 1 and w.constant != 1 else i
                for i, d, w in zip(axes_of_operand, v.shape, wide, strict=True)
            ]
            atoms.append(e.read(v.var, tuple(stretched)))
        result = function(*atoms)
    assert isinstance(result.type, anf.Scalar)
    (out,) = e.comp(axes, lets, (result,), (Reduce(shape, index, "set"),), (result.type.dtype,))
    return ArrayV(out)


def cast_like(e: Emitter, x: Atom, like: Atom) -> Atom:
    """A scalar factor in the dtype of the component that it multiplies."""
    assert isinstance(like.type, anf.Scalar)
    return e.cast(like.type.dtype, x)


def all_of(f: Frame, v: Value) -> Atom:
    """Emits the test whether every element is true."""
    if isinstance(v, ScalarV):
        return v.atom
    assert isinstance(v, ArrayV)
    (out,) = reduce_axes(f.emitter, v, range(len(v.shape)), ("all",))
    assert isinstance(out, ScalarV)
    return out.atom


def reduce_axes(
    e: Emitter,
    v: ArrayV,
    over: Sequence[int],
    monoids: tuple[str, ...],
    element: Callable[[Atom], Atom] = lambda x: x,
) -> list[Value]:
    """Reductions of a function of the elements of an array over some of its axes, in one pass."""
    axes = tuple([e.axis(s) for s in v.shape])
    index = tuple([poly(a.var) for a in axes])
    with e.block() as lets:
        x = element(e.read(v.var, index))
    kept = [k for k in range(len(axes)) if k not in over]
    shape, where = tuple([v.shape[k] for k in kept]), tuple([index[k] for k in kept])
    dtypes = tuple([result_dtype(m, v.dtype) for m in monoids])
    # Kept axes outermost: the order of a row-major walk over the result.
    order = tuple([axes[k] for k in kept] + [axes[k] for k in range(len(axes)) if k in over])
    outs = e.comp(order, lets, (x,) * len(monoids), tuple([Reduce(shape, where, m) for m in monoids]), dtypes, "r")
    return [ArrayV(o) if shape else ScalarV(o) for o in outs]


def matmul(f: Frame, a: Value, b: Value) -> Value:
    """a @ b: the last axis of a with the last but one of b (its only one for a vector); other axes broadcast.

    Of half precision, only the result is rounded to that.
    """
    e = f.emitter
    assert isinstance(a, ArrayV) and isinstance(b, ArrayV)
    rows, columns = len(a.shape) > 1, len(b.shape) > 1
    batch = broadcast([a.shape[:-2] if rows else (), b.shape[:-2] if columns else ()])
    axes = [e.axis(s, "b") for s in batch]
    i = [e.axis(a.shape[-2], "i")] if rows else []
    j = [e.axis(b.shape[-1], "j")] if columns else []
    p = e.axis(a.shape[-1], "p")

    def front(dims: tuple[Size, ...]) -> list[Size]:
        trailing_axes = axes[len(axes) - len(dims) :]
        return [
            poly(0) if d.constant == 1 and w.highs[0].constant != 1 else poly(w.var)
            for d, w in zip(dims, trailing_axes)
        ]

    at_a = (*front(a.shape[:-2] if rows else ()), *[poly(x.var) for x in i], poly(p.var))
    at_b = (*front(b.shape[:-2] if columns else ()), poly(p.var), *[poly(x.var) for x in j])
    wide = "f32" if a.dtype in anf.HALF else a.dtype
    with e.block() as lets:
        product = e.prim("mul", e.cast(wide, e.read(a.var, at_a)), e.cast(wide, e.read(b.var, at_b)))
    kept = [*axes, *i, *j]
    shape = tuple([x.highs[0] for x in kept])
    destination = Reduce(shape, tuple([poly(x.var) for x in kept]), "sum")
    (out,) = e.comp((*kept, p), lets, (product,), (destination,), (wide,), "m")
    whole = ArrayV(out) if shape else ScalarV(out)
    return whole if wide == a.dtype else elementwise(f, lambda x: e.cast(a.dtype, x), whole)


# ---- zeros -----------------------------------------------------------------------------------------------------------
# Zeros: of scalars, of arrays, of values of any type.


def zero(dtype: str) -> Lit:
    """The zero of a dtype; of a datatype it is null."""
    if dtype == "bool":
        return Lit(False, dtype)
    if dtype == "str":
        return Lit("", dtype)
    return Lit(0.0 if dtype in anf.FLOATS else 0, dtype)


def filled(f: Frame, shape: tuple[Size, ...], x: Atom) -> anf.Var:
    """An array of one element, again and again."""
    e = f.emitter
    assert isinstance(x.type, Scalar)
    axes = tuple([e.axis(s) for s in shape])
    keep = Reduce(shape, tuple([poly(a.var) for a in axes]), "set")
    return e.comp(axes, [], (x,), (keep,), (x.type.dtype,))[0]


def zeros(f: Frame, shape: tuple[Size, ...], dtype: str) -> anf.Var:
    return filled(f, shape, zero(dtype))


def zero_of(f: Frame, t: anf.Type) -> Atom:
    """The zero of a type of the IR."""
    assert not isinstance(t, anf.Token)
    return zeros(f, t.shape, t.dtype) if isinstance(t, anf.Array) else zero(t.dtype)


def nothing(f: Frame, t: Mono) -> Value:
    """Some value of a type, which is not looked at."""
    return template(t, lambda leaf: zero_of(f, leaf))
