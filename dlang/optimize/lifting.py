"""What takes long at a point of a comprehension and depends on some of its axes only is to run once for each of these.

    [cumsum(x[i])[k[j]] for i, j]    becomes    s[i] = cumsum(x[i]) for i, and [s[i, k[j]] for i, j]

Loops, branches, calls and operations on whole arrays stay at their point in the normal form, unlike scalar code and
comprehensions of it. Here they are found with what they need (`liftable`), and written as a loop that stores what is
used of them (`stored_in_turn`). `distribute.py` says over which axes, and does what becomes of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from dlang.diagnostics import Span
from dlang.ir.affine import Knowledge
from dlang.ir.anf import (
    DTYPES,
    FLOATS,
    INTEGERS,
    Array,
    Atom,
    Axis,
    Call,
    Cast,
    Check,
    Comp,
    Compact,
    Concat,
    Contract,
    Copy,
    Derivative,
    Effect,
    Empty,
    For,
    Foreign,
    If,
    Keep,
    Let,
    Library,
    Lit,
    Op,
    Prim,
    Read,
    Reshape,
    Scalar,
    Scan,
    Size,
    SizeOf,
    Stop,
    Update,
    Var,
    View,
    While,
    fresh,
    poly,
)  # fmt: skip
from dlang.ir.builder import Builder, axis as fresh_axis
from dlang.ir.pruning import pruned
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import free_vars, op_blocks
from dlang.ir.types import I64, array_type, dtype_of
from dlang.optimize.fuse import CHEAP

_LONG = (Scan, Concat, Compact, Update, Contract, Library, For, While, Call, Comp, Foreign, Derivative)
_SEEN_THROUGH = (View, Reshape)  # of what is stored they cost nothing


def takes_long(op: Op) -> bool:
    """Whether an operation makes an array or costs more than to read what it gave."""
    match op:
        case If(_, then, otherwise):
            return any(_is_expensive(let.op) or takes_long(let.op) for b in (then, otherwise) for let in b.lets)
        case _:
            return isinstance(op, _LONG)


def _is_expensive(op: Op) -> bool:
    return isinstance(op, Prim) and op.name not in CHEAP


@dataclass(frozen=True, slots=True)
class Liftable:
    """Code of a body that depends on the axes `over` only. lets: it, with what it needs. stored: what is used of it."""

    over: frozenset[Var]
    lets: tuple[Let, ...]
    stored: tuple[Var, ...]


def liftable(
    body: Sequence[Let], used: Iterable[Var], depends: Mapping[Var, set[Var]], axes: Sequence[Axis]
) -> list[Liftable]:
    """What takes long in a body and depends on fewer axes than there are, by the axes that it depends on.

    used: what is used of the body outside of it.
    """
    everything = {a.var for a in axes}
    groups: dict[frozenset[Var], set[Var]] = {}  # what takes long, and what is computed from that over the same axes
    for let in body:
        over = frozenset(depends[let.vars[0]]) if let.vars else frozenset(everything)
        if over == everything or isinstance(let.op, _SEEN_THROUGH):
            continue
        known = groups.get(over, set())
        if takes_long(let.op) or any(v in known for v in free_vars(let.op)):
            groups.setdefault(over, set()).update(let.vars)
    out: list[Liftable] = []
    for over, made in sorted(groups.items(), key=lambda group: len(group[0])):
        wanted = {v for v in used if v in made}
        for let in body:
            if not let.vars or not set(let.vars) <= made:
                wanted |= {v for v in free_vars(let.op) if v in made}
        stored = tuple([v for let in body for v in let.vars if v in wanted])
        local = {v for let in body for v in let.vars} | everything
        if stored and all(_storable(v, local) for v in stored):
            out.append(Liftable(over, _with_checks(body, pruned(body, stored), depends, over, everything), stored))
    return out


def _with_checks(
    body: Sequence[Let], lets: Sequence[Let], depends: Mapping[Var, set[Var]], over: Set[Var], axes: Set[Var]
) -> tuple[Let, ...]:
    """Code that is to move, and before the checks in it those that stood before it: what fails first is to stay so."""
    failing = [k for k, let in enumerate(body) if may_matter(let) and any(let is x for x in lets)]
    before = body[: failing[-1]] if failing else ()
    more: list[Let] = []
    for let in before:
        found = [{v} & axes | depends.get(v, set()) for v in free_vars(let.op)]
        if isinstance(let.op, Check) and set[Var]().union(*found) <= over:
            more += [*pruned(before, free_vars(let.op)), let]
    return tuple([let for let in body if any(let is x for x in (*lets, *more))])


def _storable(v: Var, local: set[Var]) -> bool:
    """Whether an array can hold what a variable stands for at each point."""
    if isinstance(v.type, Array):
        return v.type.dtype in DTYPES and not any(s.mentions(local) for s in v.type.shape)
    return isinstance(v.type, Scalar) and v.type.dtype in DTYPES


# ---- where code may run ----------------------------------------------------------------------------------------------
def runs_anywhere(lets: Iterable[Let], known: Knowledge, local: set[Var]) -> bool:
    """Whether code may run where it did not before: it ends, fails nowhere, and its reads are proven in range.

    local: what is known of the variables of the code is that a check or the type of the data has established it.
    """
    lets = list(lets)
    local = local | {v for let in lets for v in let.vars}
    data = {v for let in lets for v in let.vars if isinstance(let.op, Read)}

    def inside(index: Sequence[Size], shape: Sequence[Size], known: Knowledge) -> bool:
        for entry, size in zip(index, shape, strict=True):
            if entry.mentions(local):
                if not all(v in data for v in entry.atoms() if v in local):
                    return False
            elif not known.inside((entry,), (size,)):
                return False
        return True

    def total(op: Op) -> bool:
        match op:
            case Prim("floordiv" | "mod" | "shift_left" | "shift_right", (x, by)) if dtype_of(x) in INTEGERS:
                return isinstance(by, Lit) and bool(by.value)
            case Prim() | Cast() | SizeOf() | Stop() | Scan() | Concat() | Compact() | Contract() | Library():
                return True
            case Copy() | Empty() | Reshape():
                return True
            case Read(array, index) | Update(array, index):
                return inside(index, array_type(array).shape, known)
            case View(array, axes, shape, index):
                at = known.within([Axis(a, (poly(0),), (n,)) for a, n in zip(axes, shape, strict=True)])
                return inside(index, array_type(array).shape, at)
            case Comp(axes, body):
                return runs_anywhere(body.lets, known.within(axes), local)
            case For(index, low, high) if not op.early:
                return runs_anywhere(op.body.lets, known.within([Axis(index, (low,), (high,))]), local)
            case If(_, then, otherwise):
                return all(runs_anywhere(b.lets, known, local) for b in (then, otherwise))
            case _:
                return False

    return all(total(let.op) for let in lets)


def may_go_first(body: Sequence[Let], code: Liftable) -> bool:
    """Whether nothing that may fail, not end, or be seen by the world stands in front of some code."""
    last = max(k for k, let in enumerate(body) if any(let is x for x in code.lets))
    return not any(may_matter(let) for let in body[:last] if not any(let is x for x in code.lets))


def may_matter(let: Let) -> bool:
    """Whether code may fail, not end, or be seen by the world."""
    if isinstance(let.op, Check | Effect | Call | Derivative | Foreign | While):
        return True
    return any(may_matter(inner) for b in op_blocks(let.op) for inner in b.lets)


# ---- what becomes of it ----------------------------------------------------------------------------------------------
def stored_in_turn(code: Liftable, axes: Sequence[Axis], shape: Sequence[Size], index: Sequence[Size]) -> list[Let]:
    """Loops over axes that store what is used of the code at each place; the last let binds the arrays.

    shape: of an array over the axes. index: of a place in it.
    """
    b = Builder(span=span_of(code))
    with b.scope() as lets:
        init = [_zeros(b, v, tuple(shape)) for v in code.stored]
        _nest(b, code, axes, tuple(index), init)
    renaming = Renaming({}, fresh=True)
    return [renaming.let(let) for let in lets]


def _nest(
    b: Builder, code: Liftable, axes: Sequence[Axis], index: tuple[Size, ...], state: Sequence[Var]
) -> tuple[Atom, ...]:
    """What the loops over the axes make of a state."""
    if not axes:
        for let in code.lets:
            b.append(let)
        return tuple([_put(b, array, index, v) for array, v in zip(state, code.stored, strict=True)])
    first = axes[0]
    low, high = _bound(b, first.lows, "maximum"), _bound(b, first.highs, "minimum")
    params = tuple([fresh(v.name, v.type) for v in state])
    block = b.block(lambda: _nest(b, code, axes[1:], index, params))
    return b.emit(For(first.var, low, high, params, tuple(state), block))


def _bound(b: Builder, sizes: Sequence[Size], name: str) -> Size:
    value = b.size(sizes[0])
    for size in sizes[1:]:
        value = b.prim(name, value, b.size(size))
    return sizes[0] if len(sizes) == 1 else poly(value)


def _put(b: Builder, array: Var, index: tuple[Size, ...], v: Var) -> Var:
    """The array with a value, which may be an array itself, at a place."""
    if not isinstance(v.type, Array):
        return b.one(Update(array, index, v))
    axes = [fresh_axis(n, name="j") for n in v.type.shape]
    inner = tuple([poly(a.var) for a in axes])
    keep = Keep(array_type(array).shape, (*index, *inner), "set", array)
    (out,) = b.comp(axes, lambda *_: b.one(Read(v, inner)), [keep])
    return out


def _zeros(b: Builder, v: Var, shape: tuple[Size, ...]) -> Var:
    """An array of zeros over a shape of what a variable stands for."""
    return b.full((*shape, *(v.type.shape if isinstance(v.type, Array) else ())), _zero(dtype_of(v)))


def _zero(dtype: str) -> Lit:
    return Lit(False if dtype == "bool" else "" if dtype == "str" else 0.0 if dtype in FLOATS else 0, dtype)


def run_if(code: Liftable, counts: Sequence[Size]) -> list[Let]:
    """A branch that runs the code if some numbers are positive, and binds what is used of it; otherwise zeros."""
    b = Builder(span=span_of(code))
    with b.scope() as lets:
        condition: Atom = Lit(True, "bool")
        for count in counts:
            condition = b.prim("and", condition, b.prim("gt", b.size(count), Lit(0, "i64")))

        def then() -> Sequence[Atom]:
            for let in code.lets:
                b.append(let)
            return code.stored

        def otherwise() -> Sequence[Atom]:
            return [_zeros(b, v, ()) if isinstance(v.type, Array) else _zero(dtype_of(v)) for v in code.stored]

        b.if_(condition, then, otherwise, results=[fresh(v.name, v.type) for v in code.stored])
    renaming = Renaming({}, fresh=True)
    return [renaming.let(let) for let in lets]


def from_store(v: Var, array: Var, index: tuple[Size, ...]) -> Op:
    """What a variable stands for at a place, as stored: an element, or a view of a row."""
    if not isinstance(v.type, Array):
        return Read(array, index)
    axes = tuple([fresh("j", I64) for _ in v.type.shape])
    return View(array, axes, v.type.shape, (*index, *[poly(a) for a in axes]))


def span_of(code: Liftable) -> Span | None:
    return next((let.span for let in reversed(code.lets) if let.span is not None), None)


def without(body: Sequence[Let], code: Liftable, by: Mapping[Var, Op], used: Iterable[Var]) -> list[Let]:
    """The body without code that was lifted, but for what is used elsewhere. by: what now gives what was stored."""
    stored, own = set(code.stored), {v for let in code.lets for v in let.vars}
    replaced: list[Let] = []
    for let in body:
        if stored.isdisjoint(let.vars):
            replaced.append(let)
        else:
            replaced += [Let((v,), by[v], let.span) for v in let.vars if v in by]
    wanted = set(used)
    out: list[Let] = []
    for let in reversed(replaced):
        moved = own.issuperset(let.vars) if let.vars else any(let is x for x in code.lets)
        if not moved or not wanted.isdisjoint(let.vars):
            out.append(let)
            wanted |= set(free_vars(let.op))
    return out[::-1]
