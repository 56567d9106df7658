"""Lifts expensive code of a comprehension that depends on some axes only: it runs once for each of their points.

    [cumsum(x[i])[k[j]] for i, j]    becomes    s[i] = cumsum(x[i]) for i, and [s[i, k[j]] for i, j]

Loops, branches, calls and operations on whole arrays stay at their point in the normal form, unlike scalar code and
comprehensions of it. `ir/sharing.py` finds them with what they need; here they are written as a loop that stores what
is used of them. `distribute.py` says over which axes, and does what becomes of the loop.

An arm of a branch may not run. Numbers that it computes from fewer axes than there are come to stand in front of the
branch all the same, where they depend on no more than its condition, under that, and where they fail nowhere:

    [if k[i, j] { x[j] * sqrt(v[i]) } else { 0 } for i, j]    becomes    s = sqrt(v[i]) and if k[i, j] { x[j] * s } …
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import cast

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.axes import at_point
from dlang.ir.builder import Builder, axis as fresh_axis
from dlang.ir.marks import is_mark
from dlang.ir.sharing import Liftable, is_scalar_code, is_slow, may_matter, runs_anywhere, takes_long
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import pruned, used_by
from dlang.ir.types import array_type, dtype_of, is_float


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


# ---- what arms compute -----------------------------------------------------------------------------------------------
def ahead_of_arms(
    let: anf.Let, axes: Set[anf.Var], depends: Mapping[anf.Var, Set[anf.Var]], known: Knowledge
) -> list[anf.Let]:
    """A let of a comprehension's body; in front of it, if it is a branch, the expensive numbers that its arms compute
    from fewer axes than all.

    axes: of the comprehension. depends: the axes that what is bound around the let depends on. known: inside of them.
    """
    if not isinstance(op := let.op, anf.If):
        return [let]
    condition = _over([op.condition], axes, depends)
    ahead: list[anf.Let] = []
    arms: list[anf.Block] = []
    for arm in (op.then, op.otherwise):
        inner = ChainMap[anf.Var, Set[anf.Var]]({}, cast("dict[anf.Var, Set[anf.Var]]", depends))
        lets: list[anf.Let] = []
        for new in (new for one in arm.lets for new in ahead_of_arms(one, axes, inner, known)):
            inner.update(dict.fromkeys(new.vars, _over(used_by(new), axes, inner)))
            lets.append(new)
        local = {v for new in lets for v in new.vars}
        roots = [
            v
            for v in _expensive_numbers(lets, arm.results, axes, inner)
            if runs_anywhere(pruned(lets, [v]), known, {*local, *depends})
        ]
        under = [v for v in roots if condition <= inner[v]]
        if under:
            values = Renaming({}, renew=True).block(anf.Block(tuple(pruned(lets, under)), tuple(under)))
            zeros = anf.Block((), tuple(map(zero, under)))
            blocks = (values, zeros) if arm is op.then else (zeros, values)
            ahead.append(anf.Let(tuple(under), anf.If(op.condition, *blocks), let.span))
        first = pruned([new for new in lets if new.vars[:1] not in [(v,) for v in under]], set(roots).difference(under))
        ahead += first
        moved = {*under, *(v for new in first for v in new.vars)}
        arms.append(anf.Block(tuple([new for new in lets if moved.isdisjoint(new.vars)]), arm.results))
    if not ahead and all(len(a.lets) == len(b.lets) for a, b in zip(arms, (op.then, op.otherwise), strict=True)):
        return [let]
    return [*ahead, anf.Let(let.vars, replace(op, then=arms[0], otherwise=arms[1]), let.span)]


def _over(used: Iterable[anf.Atom], axes: Set[anf.Var], depends: Mapping[anf.Var, Set[anf.Var]]) -> frozenset[anf.Var]:
    """The axes that what uses variables depends on."""
    vars = [v for v in used if isinstance(v, anf.Var)]
    return frozenset[anf.Var]().union(*[{v} if v in axes else depends.get(v, ()) for v in vars])


def _expensive_numbers(
    lets: Sequence[anf.Let],
    results: Iterable[anf.Atom],
    axes: Set[anf.Var],
    depends: Mapping[anf.Var, Set[anf.Var]],
) -> list[anf.Var]:
    """The floats of an arm that scalar code computes from fewer axes than all, by a primitive that takes long among
    others, and that what depends on more uses."""
    slow: dict[anf.Var, bool] = {}
    used = {r for r in results if isinstance(r, anf.Var)}
    local = {v for let in lets for v in let.vars}
    for let in lets:
        named = [v for v in used_by(let) if v in local]
        if (
            is_scalar_code(let.op)
            and len(let.vars) == 1
            and depends[let.vars[0]] < axes
            and all(v in slow for v in named)
        ):
            slow[let.vars[0]] = is_slow(let.op) or takes_long(let.op) or any(slow[v] for v in named)
            used.update([v for v in named if depends[v] != depends[let.vars[0]]])
        else:
            used.update(named)
    return [v for v, is_one in slow.items() if is_one and v in used and is_float(v.type)]
