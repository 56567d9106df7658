"""Products of arrays: what NumPy has of these, as sums in the notation of Einstein."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from dlang.python.lazy.arrays import Lazy, applied, lazy, unknown
from dlang.python.lazy.elementwise import UFUNCS, common, converted
from dlang.python.lazy.reductions import axis_of


def matmul(x: Any, y: Any) -> Lazy:
    a, b = _operands((x, y))
    shape = np.matmul(np.broadcast_to(np.int8(0), a.shape), np.broadcast_to(np.int8(0), b.shape)).shape
    return applied("{0} @ {1}", (a, b), shape, a.dtype)


def _operands(args: Sequence[Any]) -> list[Lazy]:
    dtype = common([x if isinstance(x, Lazy) else np.asarray(x) for x in args])
    if dtype.kind == "b":
        raise unknown("a product of truth values")
    return converted(args, [dtype] * len(args))


def einsum(subscripts: str, *operands: Any, **settings: Any) -> Lazy:
    """As `numpy.einsum`, without `...`. More than two operands are multiplied one after another."""
    if not isinstance(subscripts, str) or "." in subscripts or settings.keys() - {"optimize"}:
        raise unknown("`einsum` of this form")
    left, _, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    np.einsum(subscripts, *[np.broadcast_to(np.int8(0), lazy(x).shape) for x in operands])  # raises ValueError
    if "->" not in subscripts:
        result = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    arrays = _operands(operands)
    while len(arrays) > 2:
        later = set(result).union(*terms[2:])
        kept = "".join(sorted(set(terms[0] + terms[1]) & later))
        arrays[:2] = [_contracted(terms[:2], arrays[:2], kept)]
        terms[:2] = [kept]
    return _contracted(terms, arrays, result)


def _contracted(terms: Sequence[str], arrays: Sequence[Lazy], result: str) -> Lazy:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        for c, n in zip(term, x.shape, strict=True):
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    names = {c: f"i{ascii_letters.index(c)}" for c in sizes}
    factors: list[str] = []
    for k, (term, x) in enumerate(zip(terms, arrays, strict=True)):
        index = ["0" if n == 1 else names[c] for c, n in zip(term, x.shape, strict=True)]
        factors.append(f"{{{k}}}[{', '.join(index)}]" if index else f"{{{k}}}")
    text = " * ".join(factors)
    shape = [sizes[c] for c in result]
    if 0 in sizes.values():
        return lazy(np.zeros(shape, arrays[0].dtype))
    if summed := [c for c in sizes if c not in result]:
        text = f"sum({text} for {', '.join(f'{names[c]} < {sizes[c]}' for c in summed)})"
    if result:
        text = f"[{text} for {', '.join(f'{names[c]} < {sizes[c]}' for c in result)}]"
    return applied(text, arrays, shape, arrays[0].dtype)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Lazy:
    x, y = lazy(a), lazy(b)
    if isinstance(axes, int):
        of_x, of_y = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        of_x, of_y = ([k] if isinstance(k, int) else list(k) for k in axes)
    first, second = ascii_letters[: x.ndim], list(ascii_letters[x.ndim : x.ndim + y.ndim])
    for p, q in zip(of_x, of_y, strict=True):
        p, q = axis_of(p, x.ndim), axis_of(q, y.ndim)
        if x.shape[p] != y.shape[q]:  # which `einsum` would repeat, were it 1
            raise ValueError(f"shape-mismatch for sum: {x.shape} along axis {p}, {y.shape} along axis {q}")
        second[q] = first[p]
    shared = set(first) & set(second)
    result = "".join(c for c in (*first, *second) if c not in shared)
    return einsum(f"{first},{''.join(second)}->{result}", x, y)


def dot(a: Any, b: Any) -> Any:
    x, y = lazy(a), lazy(b)
    if not x.ndim or not y.ndim:
        return UFUNCS[np.multiply](x, y)
    if max(x.ndim, y.ndim) <= 2:
        return matmul(x, y)
    return tensordot(x, y, (x.ndim - 1, max(y.ndim - 2, 0)))


def inner(a: Any, b: Any) -> Any:
    x, y = lazy(a), lazy(b)
    return UFUNCS[np.multiply](x, y) if not x.ndim or not y.ndim else tensordot(x, y, (-1, -1))


def outer(a: Any, b: Any) -> Lazy:
    return einsum("i,j->ij", lazy(a).reshape(-1), lazy(b).reshape(-1))


def vdot(a: Any, b: Any) -> Lazy:
    return einsum("i,i->", lazy(a).reshape(-1), lazy(b).reshape(-1))
