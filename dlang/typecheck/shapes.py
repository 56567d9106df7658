"""Rules of the constraints on shapes: broadcasting, products of axes, reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlang.diagnostics import Note
from dlang.lazy_modules import lazy_module
from dlang.typecheck.mismatches import AxisTwice, NoAxis, NoVector
from dlang.typecheck.sizes import bind_size, closed, constant, product, same, unify_size
from dlang.typecheck.state import Constraint, Inference, Mismatch
from dlang.typecheck.terms import I64, is_empty, number, of_var, variables, view
from dlang.typecheck.types import Shape, Size, SizeVar, TypeTuple, TypeVar, resolve, resolve_shape, resolve_size
from dlang.typecheck.unify import bind_row, unify, unify_shape

if TYPE_CHECKING:
    from dlang.typecheck import constraints
else:
    constraints = lazy_module("dlang.typecheck.constraints")


def state(st: Inference, c: Constraint) -> None:
    """A constraint that follows from another: kept for the next round if it can't be settled now."""
    constraints.constrain(st, c)


def broadcast(st: Inference, c: Constraint) -> bool:
    """shapes a, b and their broadcast r: trailing axes line up."""
    a, b, r = map(resolve_shape, c.shapes)
    if is_empty(r):
        unify_shape(st, a, r)
        unify_shape(st, b, r)
        return True
    if is_empty(a):
        unify_shape(st, b, r)
        return True
    if is_empty(b):
        unify_shape(st, a, r)
        return True
    rest_a, rest_b = (list(x.post if x.row is not None else x.pre) for x in (a, b))
    post: list[Size] = []
    while rest_a and rest_b:
        x, y, z = rest_a.pop(), rest_b.pop(), st.size()
        post.insert(0, z)
        state(st, Constraint("stretch", c.reason, sizes=(x, y, z)))
    a = Shape(a.pre, a.row, tuple(rest_a)) if a.row is not None else Shape(tuple(rest_a))
    b = Shape(b.pre, b.row, tuple(rest_b)) if b.row is not None else Shape(tuple(rest_b))
    tail = tuple(post)
    if is_empty(a) or is_empty(b):
        lead = b if is_empty(a) else a
        whole = Shape(lead.pre, lead.row, lead.post + tail) if lead.row is not None else Shape(lead.pre + tail)
        unify_shape(st, r, whole)
        return True
    if a.row is not None and a.row is b.row and not rest_a and not rest_b:  # m, ..s and ..s: the rows line up
        front = st.row()
        state(st, Constraint("bcast", c.reason, shapes=(Shape(a.pre), Shape(b.pre), front)))
        front = resolve_shape(front)
        if front.row is None:
            unify_shape(st, r, Shape(front.pre, a.row, tail))
            return True
        return False
    if tail:
        rest = st.row()
        unify_shape(st, r, Shape((), rest.row, tail))
        state(st, Constraint("bcast", c.reason, shapes=(a, b, rest)))
        return True
    return False


def stretch(st: Inference, c: Constraint) -> bool:
    """sizes a, b and r, that of the result: a literal 1 stretches, anything else is equal."""
    a, b, r = c.sizes
    if constant(a) == 1:
        unify_size(st, r, b)
        return True
    if constant(b) == 1 or same(a, b):
        unify_size(st, r, a)
        return True
    ground = (closed(a), closed(b))
    if all(ground):
        unify_size(st, a, b)
        return True
    if any(ground):
        unify_size(st, r, a if ground[0] else b)  # whether the open one is 1 or equal, the result is the known one
    return False


def matrix_shapes(st: Inference, c: Constraint) -> bool:
    """shapes a, b and r of a matrix product."""
    a, b, r = map(resolve_shape, c.shapes)
    if (a.row is not None and len(a.post) < 2) or (b.row is not None and len(b.post) < 2):
        return False
    x, y = (s.post if s.row is not None else s.pre for s in (a, b))
    if not x or not y:
        raise Mismatch(a, b, NoVector())
    unify_size(st, y[-2] if len(y) > 1 else y[0], x[-1])
    lead_a = Shape(a.pre, a.row, x[:-2]) if a.row is not None else Shape(x[:-2])
    lead_b = Shape(b.pre, b.row, y[:-2]) if b.row is not None else Shape(y[:-2])
    out = (x[-2:-1] if len(x) > 1 else ()) + (y[-1:] if len(y) > 1 else ())
    lead = st.row()
    unify_shape(st, r, Shape((), lead.row, out))
    state(st, Constraint("bcast", c.reason, shapes=(lead_a, lead_b, lead)))
    return True


def reduce(st: Inference, c: Constraint) -> bool:
    """shapes x and r: r is x without the axes `data`, or with the size 1 there; negative ones count from the end."""
    x, r = map(resolve_shape, c.shapes)
    axes = c.data
    assert isinstance(axes, tuple)
    if x.row is None:
        places = {a if a >= 0 else a + len(x.pre) for a in axes}
        for a in axes:
            if not -len(x.pre) <= a < len(x.pre):
                raise Mismatch(x, r, NoAxis(a, len(x.pre)))
        if len(places) < len(axes):
            raise Mismatch(x, r, AxisTwice())
        one = [number(1, Note("the axis that is kept", c.reason.span))] if c.kind == "reduce-keep" else []
        unify_shape(st, r, Shape(tuple([s for k, own in enumerate(x.pre) for s in (one if k in places else [own])])))
        return True
    front = [a for a in axes if a >= 0]
    if front and len(front) < len(axes):
        return False  # which axes these are depends on how many there are
    if not reached(st, x, max(axes) + 1 if front else -min(axes), bool(front)):
        return False
    x = resolve_shape(x)
    one = [number(1, Note("the axis that is kept", c.reason.span))] if c.kind == "reduce-keep" else []
    part = list(x.pre if front else x.post)
    for a in sorted(axes, reverse=bool(front)):  # so that none moves another
        at = a if front else len(part) + a
        part[at : at + 1] = one
    unify_shape(st, r, Shape(tuple(part), x.row, x.post) if front else Shape(x.pre, x.row, tuple(part)))
    return True


def reached(st: Inference, x: Shape, count: int, front: bool) -> bool:
    """Tells whether so many axes at an end of a shape stand before its row; an open row is taken apart for that."""
    part = x.pre if front else x.post
    if len(part) >= count:
        return True
    assert x.row is not None
    if x.row.rigid or (x.post if front else x.pre):
        return False
    new = tuple([st.size() for _ in range(count - len(part))])
    rest = st.row()
    bind_row(st, x.row, Shape(new, rest.row) if front else Shape((), rest.row, new))
    return True


def axis(st: Inference, c: Constraint) -> bool:
    """shapes x and r, a size n: x is r with an axis of n more, which is `data` of x."""
    x, r = map(resolve_shape, c.shapes)
    (size,), at = c.sizes, c.data
    assert isinstance(at, int)
    if x.row is None:
        if not -len(x.pre) <= at < len(x.pre):
            raise Mismatch(x, r, NoAxis(at, len(x.pre)))
        at %= len(x.pre)
        unify_size(st, size, x.pre[at])
        unify_shape(st, r, Shape(x.pre[:at] + x.pre[at + 1 :]))
        return True
    if r.row is None:
        count = len(r.pre) + 1
        if not -count <= at < count:
            raise Mismatch(x, r, NoAxis(at, count))
        at %= count
        unify_shape(st, x, Shape((*r.pre[:at], size, *r.pre[at:])))
        return True
    return False


def product_of(st: Inference, c: Constraint) -> bool:
    """The product of the axes of a shape is the size: nothing is lost in a reshape."""
    s = resolve_shape(c.shapes[0])
    if s.row is not None:
        return False
    unify_size(st, product(s.pre, Note("the number of elements before the reshape", c.reason.span)), c.sizes[0])
    return True


def rank(st: Inference, c: Constraint) -> bool:
    """The type is a tuple of as many integers as the shape has axes; of one axis an integer."""
    s = resolve_shape(c.shapes[0])
    if s.row is not None:
        return False
    unify(st, c.types[0], I64 if len(s.pre) == 1 else TypeTuple((I64,) * len(s.pre)))
    return True


def append(st: Inference, c: Constraint) -> bool:
    """shapes a, b and r: the axes of a, then those of b."""
    a, b, r = map(resolve_shape, c.shapes)
    if a.row is None:
        unify_shape(st, r, Shape(a.pre + b.pre, b.row, b.post))
        return True
    if b.row is None:
        unify_shape(st, r, Shape(a.pre, a.row, a.post + b.pre))
        return True
    return False


def external(st: Inference, c: Constraint) -> bool:
    """An array from outside: once its rank is known, each axis that is open is known only when it runs."""
    element, shape = view(c.types[0])
    element = resolve(element)
    if shape.row is not None or isinstance(element, TypeVar):
        return False
    for s in shape.pre:
        atom = resolve_size(s).poly.atom
        if isinstance(atom, SizeVar) and not atom.rigid:
            origin = s.origin or Note("a size of what is read", c.reason.span)
            fresh = st.open_size(origin)
            fresh.name = atom.name
            bind_size(st, atom, of_var(fresh, origin))
    return True


def external_value(st: Inference, c: Constraint) -> bool:
    """A whole value from outside: once its type is known, each size that is open is known only when it runs."""
    found = variables(c.types[0])
    if not all(isinstance(v, SizeVar) for v in found):
        return False
    for v in found:
        if isinstance(v, SizeVar) and not v.rigid:
            origin = v.origin or Note("a size of what is read", c.reason.span)
            fresh = st.open_size(origin)
            fresh.name = v.name
            bind_size(st, v, of_var(fresh, origin))
    return True
