"""Whole matrices: `jacobian` and `hessian`, row by row in reverse mode or column by column in forward mode.

A Jacobian has a row for each element of the result and a column for each element of the parameters. So forward mode
where these are no more, reverse mode where they are: decided here if the sizes say so, else when the program runs. A
Hessian is the Jacobian of a gradient, in forward mode. Of tuples they are tuples of matrices: outside those of the
result, inside those of the parameter. Where the parameter is a structure each element of the result has a gradient, a
structure like it, by reverse mode; where the result is one each element of the parameter has a tangent of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Size, Var, fresh, is_handle, poly
from dlang.ir.types import I64
from dlang.specialize.arith import elementwise
from dlang.specialize.arrangement import repeated
from dlang.specialize.derivatives import Differentiated, differentiated, pulled, pushed, recorded
from dlang.specialize.elements import collect, gathered
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.joins import choice
from dlang.specialize.values import ArrayV, DerivativeV, Many, ScalarV, TupleV, Value, leaves, rebuild
from dlang.specialize.zeros import zeros

Shape = tuple[Size, ...]


def hessian(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    slope = replace(d, kind="grad")
    outer = replace(d, kind="jacobian", function=slope)
    call = differentiated(f, outer, args)
    return columns_of(f, outer, call, result_of(f, call)) if not call.instance.token else rows_of(f, outer, call)


def jacobian(f: Frame, d: DerivativeV, args: Sequence[Value]) -> Value:
    """The Jacobian of a function: by columns in forward mode, or by rows in reverse, whichever are fewer."""
    call = differentiated(f, d, args)
    if call.instance.token:  # what has effects runs once
        return rows_of(f, d, call)
    result = result_of(f, call)
    outs, ins = units(result), inputs_of(call)
    if not all(map(is_plain, outs)):
        return columns_of(f, d, call, result)
    if not all(map(is_plain, ins)):
        return rows_of(f, d, call)
    rows, columns = elements(outs), elements(ins)
    facts = f.emitter.facts
    if rows.constant == 1 and columns.constant != 1:
        return rows_of(f, d, call)
    if facts.proves_nonnegative(rows - columns):
        return columns_of(f, d, call, result)
    if facts.proves_nonnegative(columns - rows):
        return rows_of(f, d, call)
    few = f.emitter.prim("ge", f.emitter.atom(rows), f.emitter.atom(columns))
    by_columns, by_rows = lambda: [columns_of(f, d, call, result)], lambda: [rows_of(f, d, call)]
    return choice(f, few, by_columns, by_rows, [None])[0]


def targets_of(call: Differentiated) -> list[Value]:
    return [call.actual(k) for k in call.targets]


def units(v: Value) -> list[Value]:
    """Lists the leaves of tuples of tuples."""
    return [u for x in v.items for u in units(x)] if isinstance(v, TupleV) else [v]


def inputs_of(call: Differentiated) -> list[Value]:
    return [u for t in targets_of(call) for u in units(t)]


def is_plain(v: Value) -> bool:
    """Tells whether a value is a scalar or an array of scalars, and no structure."""
    return isinstance(v, ScalarV | ArrayV)


def elements(values: Sequence[Value]) -> Size:
    """How many floats there are in scalars and arrays."""
    total = poly(0)
    for v in values:
        product = poly(1)
        for s in shape_of(v):
            product = product * s
        total = total + product
    return total


def shape_of(v: Value) -> Shape:
    """The axes of a scalar or an array, also of structures."""
    return v.shape if isinstance(v, ArrayV | Many) else ()


def result_of(f: Frame, call: Differentiated) -> Value:
    """Returns the form of the result; its sizes may be known only when it is computed."""
    results = f.instances.result_vars(call.use)
    if call.instance.extra:
        f.emitter.bind(anf.Call(call.instance.name, call.use.actuals), results)
    return f.instances.returned(f, call.use, results)


# ---- rows and columns ------------------------------------------------------------------------------------------------
def structured(d: DerivativeV, call: Differentiated, result: Value, made: list[list[Value]]) -> Value:
    """The matrices of every unit of the result and every unit of the parameters, as tuples like these."""
    targets = targets_of(call)
    inner = targets[0] if d.single else TupleV(tuple(targets))
    rows = iter(made)

    def outer(v: Value) -> Value:
        if isinstance(v, TupleV):
            return TupleV(tuple([outer(x) for x in v.items]))
        return with_units(inner, iter(next(rows)))

    return outer(result)


def with_units(v: Value, new: Iterator[Value]) -> Value:
    """Tuples like these of other units."""
    return TupleV(tuple([with_units(x, new) for x in v.items])) if isinstance(v, TupleV) else next(new)


def columns_of(f: Frame, d: DerivativeV, call: Differentiated, result: Value) -> Value:
    """Forward mode: for each element of the parameters the tangent of the result, a column of every matrix."""
    outs = units(result)
    columns: list[list[Value]] = []
    for p, x in zip(call.positions, inputs_of(call), strict=True):

        def tangent(index: Shape, p: int = p, x: Value = x) -> list[Value]:
            _, dy = pushed(f, d, call, {p: one_hot(f, x, index)})
            return [sized(f, u, like) for u, like in zip(units(dy), outs, strict=True)]

        found = at_every(f, shape_of(x), tangent)
        columns.append([turned(f, v, len(shape_of(x))) for v in found])
    return structured(d, call, result, [[column[k] for column in columns] for k in range(len(outs))])


def rows_of(f: Frame, d: DerivativeV, call: Differentiated) -> Value:
    """Reverse mode: one forward pass, then for each element of the result the cotangents, a row of every matrix."""
    value, pull = recorded(f, replace(d, single=False), call)
    flat, ins = list(map(alone, leaves(value))), inputs_of(call)
    if any(is_handle(dtype_of(y)) for y in flat):
        raise unsupported(f"a `{d.kind}` of a function that has effects and gives data that contains itself", d.span)

    def slopes(k: int) -> list[Value]:
        def cotangent(index: Shape) -> list[Value]:
            seeds = [one_hot(f, y, index) if n == k else unmoved(f, y) for n, y in enumerate(flat)]
            found = pulled(f, pull, [rebuild(value, iter(seeds))])
            return [sized(f, u, like) for u, like in zip(units(found), ins, strict=True)]

        return [in_dtype(f, v, dtype_of(flat[k])) for v in at_every(f, shape_of(flat[k]), cotangent)]

    found = [slopes(k) if dtype_of(y) in anf.FLOATS else None for k, y in enumerate(flat)]
    made: list[list[Value]] = []
    first = 0
    for y in units(value):
        count = len(list(leaves(y)))
        own = slice(first, first + count)
        first += count
        whole = found[own.start]
        if whole is not None and is_plain(y):
            made.append(whole)
            continue
        columns = [[None if rows is None else rows[j] for rows in found[own]] for j in range(len(ins))]
        made.append([as_columns(f, y, x, flat[own], column) for x, column in zip(ins, columns, strict=True)])
    return structured(d, call, value, made)


def as_columns(f: Frame, y: Value, x: Value, flat: Sequence[Value], rows: Sequence[Value | None]) -> Value:
    """For each element of a parameter the tangent of a structure, from the rows for each of its floats.

    flat: the leaves of the structure; one that is no float has no rows, and is what it is.
    """
    shape = shape_of(x)
    atoms: list[Atom] = []
    for own, row in zip(flat, rows, strict=True):
        if row is not None:
            atoms += leaves(turned(f, row, len(shape_of(own))))
        else:
            (a,) = leaves(own)
            atoms.append(repeated(f, shape, a) if shape else a)
    return gathered(y, [a for a in atoms if isinstance(a, Var)], shape) if shape else rebuild(y, iter(atoms))


def at_every(f: Frame, shape: Shape, function: Callable[[Shape], list[Value]]) -> list[Value]:
    """Several values at every index of a shape, as arrays with these axes in front."""
    e = f.emitter
    if not shape:
        return function(())
    axes = tuple([e.axis(s) for s in shape])
    with f.block() as lets:
        values = function(tuple([poly(a.var) for a in axes]))
    many = collect(f, axes, lets, TupleV(tuple(values)))
    assert isinstance(many, Many) and isinstance(many.element, TupleV)
    return [fronted(shape, v) for v in many.element.items]


def fronted(shape: Shape, v: Value) -> Value:
    """The array of a shape, of values whose leaves have its axes in front."""
    match v:
        case ScalarV() | ArrayV():
            return v
        case Many(own, element):
            return Many((*shape, *own), element)
        case _:
            return Many(shape, v)


def one_hot(f: Frame, like: Value, index: Shape) -> Atom:
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
    keep = anf.Reduce(shape, tuple([poly(a.var) for a in axes]), "set")
    return e.comp(axes, lets, (x,), (keep,), (dtype,), "seed")[0]


def unmoved(f: Frame, like: Value) -> Atom:
    """A cotangent that is 0; what is no float is what it is."""
    if dtype_of(like) not in anf.FLOATS:
        (a,) = leaves(like)
        return a
    return zeros(f, shape_of(like), dtype_of(like)) if shape_of(like) else Lit(0.0, dtype_of(like))


def alone(a: Atom) -> Value:
    """A leaf as a value."""
    return ArrayV(a) if isinstance(a, Var) and isinstance(a.type, anf.Array) else ScalarV(a)


def dtype_of(v: Value) -> str:
    assert isinstance(v, ScalarV | ArrayV)
    return v.dtype


def sized(f: Frame, v: Value, like: Value) -> Value:
    """A value under the sizes of another of the same structure."""

    def leaf(a: Atom, b: Atom) -> Atom:
        return f.emitter.resized(a, b.type.shape) if isinstance(a, Var) and isinstance(b.type, anf.Array) else a

    return rebuild(like, iter([leaf(a, b) for a, b in zip(leaves(v), leaves(like), strict=True)]))


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
