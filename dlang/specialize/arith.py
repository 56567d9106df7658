"""Operators on values: dtypes and ranks are known here, so broadcasting becomes comprehensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from dlang.ir import anf
from dlang.ir.anf import Atom, Keep, Lit, Size, poly
from dlang.specialize.emitter import FALSE, TRUE, Emitter
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, ScalarV, TupleV, Value

COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
SIMPLE = {"+": "add", "-": "sub", "*": "mul", "/": "div"} | COMPARISONS
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
            return e.prim(name, x, nonzero(e, y, "division" if operator == "//" else "remainder"))
        case "**":
            if y.type.dtype in anf.FLOATS:
                return e.prim("pow", x, y)
            exponent = e.cast("i64", y)
            if integer and not (isinstance(exponent, Lit) and int(exponent.value) >= 0):
                ok = e.prim("ge", exponent, Lit(0, "i64"))
                parts = ("an integer to the negative power ", "", "")
                (exponent,) = e.check(ok, "E0804", parts, (exponent,), (exponent,))
            return e.prim("powi", x, exponent)
    raise AssertionError(operator)


def nonzero(e: Emitter, y: Atom, what: str) -> Atom:
    """A divisor, checked unless it is a literal."""
    if isinstance(y, Lit) and y.value != 0:
        return y
    assert isinstance(y.type, anf.Scalar)
    ok = e.prim("ne", y, Lit(0, y.type.dtype))
    return e.check(ok, "E0803", (f"integer {what} by zero",), (), (y,))[0]


def negate(f: Frame, v: Value) -> Value:
    return map_structure(f, v, lambda x: f.emitter.prim("neg", x))


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
            own = index[len(index) - len(v.shape) :]
            wide = shape[len(shape) - len(v.shape) :]
            stretched = [
                poly(0) if d.constant == 1 and w.constant != 1 else i
                for i, d, w in zip(own, v.shape, wide, strict=True)
            ]
            atoms.append(e.read(v.var, tuple(stretched)))
        result = function(*atoms)
    assert isinstance(result.type, anf.Scalar)
    (out,) = e.comp(axes, lets, (result,), (Keep(shape, index, "set"),), (result.type.dtype,))
    return ArrayV(out)


def map_structure(f: Frame, v: Value, function: Scalars, floats_only: bool = True) -> Value:
    """A function of one scalar at every float of a structure; what isn't a float is left (unless it is the whole)."""
    match v:
        case ScalarV() | ArrayV():
            return elementwise(f, function, v)
        case TupleV(items):
            return TupleV(tuple([_component(f, i, function) for i in items]))
        case DataV(decl, fields):
            return DataV(decl, tuple([_component(f, x, function) for x in fields]))
        case Many(shape, element):
            return Many(shape, _component(f, element, function))
    raise unsupported("arithmetic on functions", f.emitter.span)


def _component(f: Frame, v: Value, function: Scalars) -> Value:
    if isinstance(v, ScalarV | ArrayV) and v.dtype not in anf.FLOATS:
        return v
    return map_structure(f, v, function)


def zip_structures(f: Frame, function: Scalars, *values: Value) -> Value:
    """A function at the corresponding floats of structures of one type; other leaves are those of the first."""
    first = values[0]
    match first:
        case ScalarV() | ArrayV():
            return first if first.dtype not in anf.FLOATS else elementwise(f, function, *values)
        case TupleV(items):
            rows = zip(*[v.items for v in values if isinstance(v, TupleV)], strict=True)
            return TupleV(tuple([zip_structures(f, function, *row) for row in rows])) if items else first
        case DataV(decl, _):
            rows = zip(*[v.fields for v in values if isinstance(v, DataV)], strict=True)
            return DataV(decl, tuple([zip_structures(f, function, *row) for row in rows]))
        case Many(shape, _):
            return Many(shape, zip_structures(f, function, *[v.element for v in values if isinstance(v, Many)]))
    raise unsupported("arithmetic on functions", f.emitter.span)


def is_structure(v: Value) -> bool:
    return isinstance(v, TupleV | DataV | EnumV | Many)


def operator(f: Frame, name: str, a: Value, b: Value) -> Value:
    """`a name b`, broadcasting over arrays, component by component on structures."""
    e = f.emitter
    if name == "@":
        return matmul(f, a, b)
    if is_structure(a) or is_structure(b):
        if name in ("==", "!="):
            same = equal(f, a, b)
            return ScalarV(same if name == "==" else e.prim("not", same))
        if is_structure(a) and is_structure(b):
            return zip_structures(f, lambda x, y: scalar_operator(e, name, x, y), a, b)
        if is_structure(a):
            assert isinstance(b, ScalarV)
            y = b.atom
            return map_structure(f, a, lambda x: scalar_operator(e, name, x, cast_like(e, y, x)))
        assert isinstance(a, ScalarV)
        factor = a.atom
        return map_structure(f, b, lambda y: scalar_operator(e, name, cast_like(e, factor, y), y))
    return elementwise(f, lambda x, y: scalar_operator(e, name, x, y), a, b)


def cast_like(e: Emitter, x: Atom, like: Atom) -> Atom:
    """A scalar factor in the dtype of the component that it multiplies."""
    assert isinstance(like.type, anf.Scalar)
    return e.cast(like.type.dtype, x)


def equal(f: Frame, a: Value, b: Value) -> Atom:
    """Structural equality, one bool. Arrays of one type have the same sizes."""
    e = f.emitter
    match a, b:
        case ScalarV(x), ScalarV(y):
            return e.prim("eq", x, y)
        case ArrayV(), ArrayV():
            return all_of(f, elementwise(f, lambda x, y: e.prim("eq", x, y), a, b))
        case TupleV(xs), TupleV(ys):
            return conjunction(e, [equal(f, x, y) for x, y in zip(xs, ys, strict=True)])
        case DataV(_, xs), DataV(_, ys):
            return conjunction(e, [equal(f, x, y) for x, y in zip(xs, ys, strict=True)])
        case EnumV(), EnumV():
            same = [equal(f, a.tag, b.tag)]
            for x, y in zip(a.fields, b.fields, strict=True):  # those of other variants are zeros
                same.append(equal(f, x, y))
            return conjunction(e, same)
        case Many(_, x), Many(_, y):
            return equal(f, x, y)
    raise unsupported("`==` on functions", f.emitter.span)


def conjunction(e: Emitter, conditions: list[Atom]) -> Atom:
    out: Atom = TRUE
    for c in conditions:
        out = c if out == TRUE else e.prim("and", out, c)
    return out


def all_of(f: Frame, v: Value) -> Atom:
    """Whether every element is true."""
    if isinstance(v, ScalarV):
        return v.atom
    assert isinstance(v, ArrayV)
    (out,) = reduce_axes(f.emitter, v, range(len(v.shape)), ("all",))
    assert isinstance(out, ScalarV)
    return out.atom


def reduce_axes(e: Emitter, v: ArrayV, over: Sequence[int], monoids: tuple[str, ...]) -> list[Value]:
    """Reductions of an array over some of its axes, in one pass."""
    axes = tuple([e.axis(s) for s in v.shape])
    index = tuple([poly(a.var) for a in axes])
    with e.block() as lets:
        x = e.read(v.var, index)
    kept = [k for k in range(len(axes)) if k not in over]
    shape, where = tuple([v.shape[k] for k in kept]), tuple([index[k] for k in kept])
    dtypes = tuple(["i64" if m.startswith("arg") else v.dtype for m in monoids])
    # Kept axes outermost: the order of a row-major walk over the result.
    order = tuple([axes[k] for k in kept] + [axes[k] for k in range(len(axes)) if k in over])
    outs = e.comp(order, lets, (x,) * len(monoids), tuple([Keep(shape, where, m) for m in monoids]), dtypes, "r")
    return [ArrayV(o) if shape else ScalarV(o) for o in outs]


def matmul(f: Frame, a: Value, b: Value) -> Value:
    """a @ b: the last axis of a with the last but one of b (its only one for a vector); other axes broadcast."""
    e = f.emitter
    assert isinstance(a, ArrayV) and isinstance(b, ArrayV)
    rows, columns = len(a.shape) > 1, len(b.shape) > 1
    batch = broadcast([a.shape[:-2] if rows else (), b.shape[:-2] if columns else ()])
    axes = [e.axis(s, "b") for s in batch]
    i = [e.axis(a.shape[-2], "i")] if rows else []
    j = [e.axis(b.shape[-1], "j")] if columns else []
    p = e.axis(a.shape[-1], "p")

    def front(dims: tuple[Size, ...]) -> list[Size]:
        own = axes[len(axes) - len(dims) :]
        return [poly(0) if d.constant == 1 and w.highs[0].constant != 1 else poly(w.var) for d, w in zip(dims, own)]

    at_a = (*front(a.shape[:-2] if rows else ()), *[poly(x.var) for x in i], poly(p.var))
    at_b = (*front(b.shape[:-2] if columns else ()), poly(p.var), *[poly(x.var) for x in j])
    with e.block() as lets:
        product = e.prim("mul", e.read(a.var, at_a), e.read(b.var, at_b))
    kept = [*axes, *i, *j]
    shape = tuple([x.highs[0] for x in kept])
    destination = Keep(shape, tuple([poly(x.var) for x in kept]), "sum")
    (out,) = e.comp((*kept, p), lets, (product,), (destination,), (a.dtype,), "m")
    return ArrayV(out) if shape else ScalarV(out)


def close(f: Frame, a: Value, b: Value, tol: Atom) -> Atom:
    """|a - b| <= tol · max(1, |a|, |b|) at every float; other leaves are equal."""
    e = f.emitter

    def near(x: Atom, y: Atom) -> Atom:
        assert isinstance(x.type, anf.Scalar)
        dtype = x.type.dtype
        if dtype not in anf.FLOATS:
            return e.prim("eq", x, y)
        one = Lit(1.0, dtype)
        scale = e.prim("maximum", one, e.prim("maximum", e.prim("abs", x), e.prim("abs", y)))
        distance = e.prim("abs", e.prim("sub", x, y))
        within = e.prim("le", distance, e.prim("mul", e.cast(dtype, tol), scale))
        return e.prim("or", e.prim("eq", x, y), within)

    match a, b:
        case ((ScalarV() | ArrayV()), (ScalarV() | ArrayV())):
            return all_of(f, elementwise(f, near, a, b))
        case TupleV(xs), TupleV(ys):
            return conjunction(e, [close(f, x, y, tol) for x, y in zip(xs, ys, strict=True)])
        case DataV(_, xs), DataV(_, ys):
            return conjunction(e, [close(f, x, y, tol) for x, y in zip(xs, ys, strict=True)])
        case Many(_, x), Many(_, y):
            return close(f, x, y, tol)
    return FALSE
