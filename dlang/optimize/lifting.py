"""Lifts expensive code of a comprehension that depends on some axes only: it runs once for each of their points.

    [cumsum(x[i])[k[j]] for i, j]    becomes    s[i] = cumsum(x[i]) for i, and [s[i, k[j]] for i, j]

Loops, branches, calls and operations on whole arrays stay at their point in the normal form, unlike scalar code and
comprehensions of it. `ir/sharing.py` finds them with what they need; here they are written as a loop that stores what
is used of them. `distribute.py` says over which axes, and does what becomes of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.axes import at_point
from dlang.ir.builder import Builder, axis as fresh_axis
from dlang.ir.marks import is_mark
from dlang.ir.sharing import Liftable, may_matter
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import used_by
from dlang.ir.types import array_type, dtype_of


def stored_in_turn(
    code: Liftable, axes: Sequence[anf.Axis], shape: Sequence[anf.Size], index: Sequence[anf.Size]
) -> list[anf.Let]:
    """Loops over axes that store what is used of the code at each place; the last let binds the arrays.

    shape: of an array over the axes. index: of a place in it.
    """
    b = Builder(span=span_of(code))
    with b.scope() as lets:
        init = [_zeros(b, v, tuple(shape)) for v in code.stored]
        _nest(b, code, axes, tuple(index), init)
    renaming = Renaming({}, renew=True)
    return [renaming.let(let) for let in lets]


def _nest(
    b: Builder, code: Liftable, axes: Sequence[anf.Axis], index: tuple[anf.Size, ...], state: Sequence[anf.Var]
) -> tuple[anf.Atom, ...]:
    """Emits the loops over the axes; returns the state after them."""
    if not axes:
        for let in code.lets:
            b.append(let)
        return tuple([_put(b, array, index, v) for array, v in zip(state, code.stored, strict=True)])
    first = axes[0]
    low, high = b.bound(first.lows, "maximum"), b.bound(first.highs, "minimum")
    params = tuple([anf.fresh(v.name, v.type) for v in state])
    block = b.block(lambda: _nest(b, code, axes[1:], index, params))
    return b.emit(anf.For(first.var, low, high, params, tuple(state), block))


def _put(b: Builder, array: anf.Var, index: tuple[anf.Size, ...], v: anf.Var) -> anf.Var:
    """The array with a value, which may be an array itself, at a place."""
    if not isinstance(v.type, anf.Array):
        return b.one(anf.Update(array, index, v))
    axes = [fresh_axis(n, name="j") for n in v.type.shape]
    inner = tuple([anf.poly(a.var) for a in axes])
    keep = anf.Reduce(array_type(array).shape, (*index, *inner), "set", array)
    (out,) = b.comp(axes, lambda *_: b.one(anf.Read(v, inner)), [keep])
    return out


def _zeros(b: Builder, v: anf.Var, shape: tuple[anf.Size, ...]) -> anf.Var:
    """An array of zeros over a shape of what a variable stands for."""
    return b.full((*shape, *(v.type.shape if isinstance(v.type, anf.Array) else ())), zero(v))


def zero(v: anf.Var) -> anf.Lit:
    """Zero, false or an empty text, of the dtype of a variable."""
    dtype = dtype_of(v)
    return anf.Lit(False if dtype == "bool" else "" if dtype == "str" else 0.0 if dtype in anf.FLOATS else 0, dtype)


def run_if(code: Liftable, counts: Sequence[anf.Size]) -> tuple[list[anf.Let], list[anf.Atom]]:
    """The code, in a branch if it is to run only where some numbers are positive, and what is used of it."""
    renaming = Renaming({}, renew=True)
    if not counts:
        return [renaming.let(let) for let in code.lets], [renaming.atom(v) for v in code.stored]
    b = Builder(span=span_of(code))
    with b.scope() as lets:
        condition: anf.Atom = anf.Lit(True, "bool")
        for count in counts:
            condition = b.prim("and", condition, b.prim("gt", b.size(count), anf.Lit(0, "i64")))

        def then() -> Sequence[anf.Atom]:
            for let in code.lets:
                b.append(let)
            return code.stored

        def otherwise() -> Sequence[anf.Atom]:
            return [nothing(b, v) for v in code.stored]

        out = b.if_(condition, then, otherwise, results=[anf.fresh(v.name, v.type) for v in code.stored])
    return [renaming.let(let) for let in lets], [renaming.atom(v) for v in out]


def nothing(b: Builder, v: anf.Var) -> anf.Atom:
    """Emits the stand-in for a value that nothing reads: of an array, one zero seen everywhere."""
    return b.spread(v.type.shape, zero(v)) if isinstance(v.type, anf.Array) else zero(v)


def from_store(v: anf.Var, array: anf.Var, index: tuple[anf.Size, ...]) -> anf.Op:
    """Returns the operation that loads a variable's stored value at a point: an element, or a view of a row."""
    return at_point(array, index) if isinstance(v.type, anf.Array) else anf.Read(array, index)


def span_of(code: Liftable) -> Span | None:
    return next((let.span for let in reversed(code.lets) if let.span is not None), None)


def without(
    body: Sequence[anf.Let], code: Liftable, by: Mapping[anf.Var, anf.Op], used: Iterable[anf.Var]
) -> list[anf.Let]:
    """The body without code that was lifted, but for what is used elsewhere. by: what now gives what was stored."""
    stored, lifted = set(code.stored), {v for let in code.lets for v in let.vars}
    replaced: list[tuple[anf.Let, bool]] = []  # with whether it has moved
    for k, let in enumerate(body):
        if stored.isdisjoint(let.vars):
            replaced.append((let, lifted.issuperset(let.vars) if let.vars else k in code.places))
        else:
            replaced += [(anf.Let((v,), by[v], let.span), True) for v in let.vars if v in by]
    wanted = set(used)
    out: list[anf.Let] = []
    for let, moved in reversed(replaced):  # what nothing uses any more must not keep what has moved
        if not wanted.isdisjoint(let.vars) or (not moved and may_matter(let)):
            out.append(let)
            wanted |= set(used_by(let))
    return out[::-1]


# ---- checks that are the same in every iteration ---------------------------------------------------------------------
def asks(let: anf.Let, check: anf.Assert) -> bool:
    """Tells whether a check asks something, and certifies numbers alone: an array has other sizes behind it."""
    plain = isinstance(check.condition, anf.Var) and not is_mark(check)
    return plain and all(isinstance(v.type, anf.Scalar) for v in let.vars)


def asked_before(let: anf.Let, check: anf.Assert, iterations: anf.Size, some: bool) -> list[anf.Let]:
    """The check of each iteration before all of them; it holds if there is none. some: whether there surely is one."""
    b = Builder(span=let.span)
    with b.scope() as lets:
        if not some:
            none = b.prim("le", b.size(iterations), anf.Lit(0, "i64"), name="none")
            check = replace(check, condition=b.prim("or", check.condition, none, name="holds"))
        b.emit_as(let.vars, check)
    return lets
