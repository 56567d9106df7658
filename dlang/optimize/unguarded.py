"""Sums of guarded products as sums of plain ones, with a look at what comes out.

`zero_safe_mul(c, d)` is 0 where c is, though d may be infinite or NaN; a plain product is NaN there, and so is a sum
with such a term. One pass over the sum, which has fewer elements than there were products, finds out whether it has to
be computed again with its guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dlang.ir.anf import Array, Axis, Block, Comp, Destination, If, Let, Prim, Read, Reduce, Scalar, Var, fresh, poly
from dlang.ir.substitution import refresh
from dlang.ir.types import BOOL, I64, dtype_of
from dlang.ir.writes import missing
from dlang.ops import figures


def adds_many(op: Comp, destination: Destination | None) -> bool:
    """Tells whether many points meet in each element of a sum that is an array."""
    if not isinstance(destination, Reduce) or destination.monoid != "sum" or not destination.shape:
        return False
    points = 1
    for axis in missing(op.axes, destination.index):
        sizes = [high.constant for high in axis.highs if high.constant is not None]
        points *= int(min(sizes)) if sizes else figures.POINTS_FOR_ELEMENT
    return points >= figures.POINTS_FOR_ELEMENT


def checked(let: Let, op: Comp, k: int, code: Sequence[Let], products: Callable[[Var], Iterator[Let]]) -> Iterator[Let]:
    """The lets that bind a result of a comprehension which is a sum of guarded products.

    code: that of its value. products: gives the lets that bind a variable to the sum of plain products.
    """
    result = let.vars[k]
    destination = op.destinations[k]
    assert isinstance(destination, Reduce)
    plain = replace(destination, into=None)
    fast = fresh(result.name, result.type)
    yield from products(fast)
    axes = tuple([Axis(fresh("i", I64), (poly(0),), (size,)) for size in destination.shape])
    index = tuple([poly(a.var) for a in axes])
    value, nan, wrong = fresh("t", Scalar(dtype_of(result))), fresh("nan", BOOL), fresh("wrong", BOOL)
    test = Block((Let((value,), Read(fast, index)), Let((nan,), Prim("isnan", (value,)))), (nan,))
    yield Let((wrong,), Comp(axes, test, (Reduce((), (), "any"),)), let.span)
    slow, copied = fresh(result.name, result.type), fresh(result.name, result.type)
    product = Comp(op.axes, Block(tuple(code), (op.body.results[k],)), (plain,))
    body = refresh(Block((Let((slow,), product, let.span), _stored(slow, fast, copied)), (copied,)), {})
    right = result if destination.into is None else fresh(result.name, result.type)
    yield Let((right,), If(wrong, body, Block((), (fast,)), cold=True), let.span)
    if destination.into is not None:
        yield _stored(right, destination.into, result, "sum")


def _stored(array: Var, into: Var, result: Var, monoid: str = "set") -> Let:
    """The let of an array combined into another, in its place."""
    assert isinstance(array.type, Array)
    axes = tuple([Axis(fresh("i", I64), (poly(0),), (size,)) for size in array.type.shape])
    index = tuple([poly(a.var) for a in axes])
    value = fresh("t", Scalar(array.type.dtype))
    body = Block((Let((value,), Read(array, index)),), (value,))
    return Let((result,), Comp(axes, body, (Reduce(array.type.shape, index, monoid, into),)))
