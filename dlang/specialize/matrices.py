"""Whole matrices: `jacobian` and `hessian`, row by row in reverse mode or column by column in forward mode.

A Jacobian has a row for each element of the result and a column for each element of the parameters. So forward mode
where these are no more, reverse mode where they are: decided here if the sizes say so, else when the program runs. A
Hessian is the Jacobian of a gradient, in forward mode. Of tuples they are tuples of matrices: outside those of the
result, inside those of the parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Size, Var, fresh, poly
from dlang.specialize.arith import elementwise
from dlang.specialize.comprehensions import collect
from dlang.specialize.derivatives import Differentiated, differentiated, pulled, pushed, recorded
from dlang.specialize.emitter import I64
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.joins import choice
from dlang.specialize.values import ArrayV, DerivativeV, Many, ScalarV, TupleV, Value, leaves, rebuild
from dlang.specialize.zeros import zeros

Shape = tuple[Size, ...]


def hessian(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    slope = replace(d, kind="grad")
    outer = replace(d, kind="jacobian", function=slope)
    call = differentiated(f, outer, args)
    return matrices(f, outer, call, result_of(f, outer, call), forward=True)


def jacobian(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    call = differentiated(f, d, args)
    result = result_of(f, d, call)
    rows, columns = elements(result), elements(TupleV(tuple(targets_of(call))))
    facts = f.emitter.facts
    if rows.constant == 1 and columns.constant != 1:
        return matrices(f, d, call, result, forward=False)
    if facts.proves_nonnegative(rows - columns):
        return matrices(f, d, call, result, forward=True)
    if facts.proves_nonnegative(columns - rows):
        return matrices(f, d, call, result, forward=False)
    few = f.emitter.prim("ge", f.emitter.atom(rows), f.emitter.atom(columns))

    def by(forward: bool) -> Callable[[], list[Value]]:
        return lambda: [matrices(f, d, call, result, forward)]

    return choice(f, few, by(True), by(False), [None])[0]


def targets_of(call: Differentiated) -> list[Value]:
    return [call.actual(k) for k in call.targets]


def elements(v: Value) -> Size:
    """How many floats there are in scalars, arrays, and tuples of these."""
    total = poly(0)
    for a in leaves(v):
        product = poly(1)
        for s in shape_of(a):
            product = product * s
        total = total + product
    return total


def shape_of(a: Atom) -> Shape:
    return a.type.shape if isinstance(a.type, anf.Array) else ()


def result_of(f: Frame, d: DerivativeV, call: Differentiated) -> Value:
    """What the result is like; its sizes may be known only when it is computed."""
    if call.instance.token:
        raise unsupported(f"an effect inside of a `{d.kind}`", d.span)
    results = f.instances.result_vars(f, call.use)
    if call.instance.extra:
        f.emitter.bind(anf.Call(call.instance.name, call.use.actuals), results)
    return f.instances.returned(f, call.use, results)


# ---- rows and columns ------------------------------------------------------------------------------------------------
def matrices(f: Frame, d: DerivativeV, call: Differentiated, result: Value, forward: bool) -> Value:
    """The matrices of every leaf of the result and every leaf of the parameters, as tuples like these."""
    outs, ins = list(leaves(result)), [a for t in targets_of(call) for a in leaves(t)]
    made = (columns_of if forward else rows_of)(f, d, call, result, outs, ins)
    targets = targets_of(call)
    inner = targets[0] if d.single else TupleV(tuple(targets))
    rows = iter(made)

    def outer(v: Value) -> Value:
        if isinstance(v, TupleV):
            return TupleV(tuple([outer(x) for x in v.items]))
        return rebuild_leaves(inner, next(rows))

    return outer(result)


def rebuild_leaves(v: Value, matrices: Sequence[Value]) -> Value:
    """The structure with matrices for its leaves."""
    rest = iter(matrices)

    def go(x: Value) -> Value:
        return TupleV(tuple([go(y) for y in x.items])) if isinstance(x, TupleV) else next(rest)

    return go(v)


def columns_of(
    f: Frame, d: DerivativeV, call: Differentiated, result: Value, outs: list[Atom], ins: list[Atom]
) -> list[list[Value]]:
    """Forward mode: for each element of the parameters the tangent of the result, a column of every matrix."""
    columns: list[list[Value]] = []
    for p, x in zip(call.positions, ins, strict=True):

        def tangent(index: Shape, p: int = p, x: Atom = x) -> Value:
            _, dy = pushed(f, d, call, {p: one_hot(f, x, index)})
            return TupleV(tuple([sized(f, a, like) for a, like in zip(leaves(dy), outs, strict=True)]))

        found = at_every(f, shape_of(x), tangent)
        columns.append([turned(f, v, len(shape_of(x))) for v in found])
    return [[column[k] for column in columns] for k in range(len(outs))]


def rows_of(
    f: Frame, d: DerivativeV, call: Differentiated, result: Value, outs: list[Atom], ins: list[Atom]
) -> list[list[Value]]:
    """Reverse mode: one forward pass, then for each element of the result the cotangents, a row of every matrix."""
    value, pull = recorded(f, replace(d, single=False), call)
    own = list(leaves(value))
    made: list[list[Value]] = []
    for k, y in enumerate(own):

        def cotangent(index: Shape, k: int = k) -> Value:
            seeds = [one_hot(f, a, index) if n == k else nothing(f, a) for n, a in enumerate(own)]
            found = pulled(f, pull, [rebuild(value, iter(seeds))])
            return TupleV(tuple([sized(f, a, like) for a, like in zip(leaves(found), ins, strict=True)]))

        rows = at_every(f, shape_of(y), cotangent)
        made.append([in_dtype(f, v, dtype_of(outs[k])) for v in rows])
    return made


def at_every(f: Frame, shape: Shape, function: Callable[[Shape], Value]) -> list[Value]:
    """The parts of a tuple at every index of a shape, as arrays with these axes in front."""
    e = f.emitter
    if not shape:
        value = function(())
    else:
        axes = tuple([e.axis(s) for s in shape])
        with f.block() as lets:
            value = function(tuple([poly(a.var) for a in axes]))
        many = collect(f, axes, lets, value)
        assert isinstance(many, Many)
        value = many.element
    assert isinstance(value, TupleV)
    return list(value.items)


def one_hot(f: Frame, like: Atom, index: Shape) -> Atom:
    """1 at an index, 0 elsewhere."""
    e, dtype, shape = f.emitter, dtype_of(like), shape_of(like)
    if not shape:
        return Lit(1.0, dtype)
    axes = tuple([e.axis(s, "j") for s in shape])
    with f.block() as lets:
        here: Atom = Lit(True, "bool")
        for a, i in zip(axes, index, strict=True):
            same = e.prim("eq", a.var, e.atom(i))
            here = same if isinstance(here, Lit) else e.prim("and", here, same)
        x = e.cast(dtype, here)
    keep = anf.Keep(shape, tuple([poly(a.var) for a in axes]), "set")
    return e.comp(axes, lets, (x,), (keep,), (dtype,), "seed")[0]


def nothing(f: Frame, like: Atom) -> Atom:
    return zeros(f, shape_of(like), dtype_of(like)) if shape_of(like) else Lit(0.0, dtype_of(like))


def dtype_of(a: Atom) -> str:
    assert not isinstance(a.type, anf.Token)
    return a.type.dtype


def sized(f: Frame, a: Atom, like: Atom) -> Value:
    """A scalar or an array, under the sizes of another."""
    if not isinstance(a, Var) or not isinstance(a.type, anf.Array):
        return ScalarV(a)
    return ArrayV(f.emitter.resized(a, shape_of(like)))


def turned(f: Frame, v: Value, front: int) -> Value:
    """An array with its first axes last."""
    if not isinstance(v, ArrayV) or not front or front == len(v.shape):
        return v
    shape = (*v.shape[front:], *v.shape[:front])
    axes = tuple([fresh("i", I64) for _ in shape])
    index = tuple([poly(a) for a in (*axes[len(shape) - front :], *axes[: len(shape) - front])])
    return ArrayV(f.emitter.view(v.var, axes, shape, index))


def in_dtype(f: Frame, v: Value, dtype: str) -> Value:
    """The elements in the dtype of the result."""
    if not isinstance(v, ScalarV | ArrayV) or v.dtype == dtype:
        return v
    return elementwise(f, lambda x: f.emitter.cast(dtype, x), v)
