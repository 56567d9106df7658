"""Comprehensions: over sizes, the elements of arrays, pairs of them; with conditions."""

from __future__ import annotations

from tests.fuzz.types import BOOL, F64, Size, Type, vector
from tests.fuzz.writer import EACH, Writer


def comprehension(w: Writer, element: Type, size: Size, depth: int) -> str:
    return f"[{comprehended(w, element, (size,), depth)}]"


def comprehended(w: Writer, element: Type, shape: tuple[Size, ...], depth: int, form: str = "{}") -> str:
    """`e for i < n, v in x`: without brackets. form: what to write around the element."""
    binders = []
    with w.inner(mutable=False, iterations=EACH ** len(shape)):
        for s in shape:
            binders.append(binder(w, s, depth, last=len(shape) == 1))
        body = w.expr(element, depth - 1)
    return f"{form.format(body)} for {', '.join(binders)}"


def binder(w: Writer, size: Size, depth: int, last: bool) -> str:
    """A binder of as many iterations as a size; what it binds is in reach afterwards."""
    kind = w.random.randrange(12)
    if kind > 3 or depth < 2:
        i = w.fresh("i")
        w.scope.indices.append((i, size))
        return f"{i} < {size}"
    source = w.expr(vector(size), depth - 2)
    v = w.fresh("v")
    if kind == 0:
        i = w.fresh("i")
        w.scope.indices.append((i, size))
        w.bind(v, F64)
        return f"({i}, {v}) in enumerate({source})"
    if kind == 1 and last:
        u = w.fresh("v")
        other = w.expr(vector(size), depth - 2)
        w.bind(u, F64)
        w.bind(v, F64)
        return f"({v}, {u}) in zip({source}, {other})"
    w.bind(v, F64)
    return f"{v} in {source}"


def filtered(w: Writer, depth: int) -> str:
    size = w.size()
    with w.inner(mutable=False, iterations=EACH):
        bound = binder(w, size, depth, last=True)
        body, condition = w.expr(F64, depth - 1), w.expr(BOOL, depth - 1)
    return f"[{body} for {bound} if {condition}]"
