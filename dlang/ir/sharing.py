"""The law of sharing: what takes long runs once for each point of the axes that it depends on.

In the normal form, and behind every pass after it that keeps nests perfect, no operation that takes long stands in the
body of a comprehension of which it does not depend on all axes. It may where it can't be otherwise: in an arm of a
branch, which may not run; where an array can't hold what it gives, as its size is known at the point only; and where it
may fail, and only a run knows whether there is a point. `liftable` finds what stands so in a body, for the pass that
moves it (`optimize/lifting.py`), and `verify_sharing` what is left in a program. Numbers that an arm computes without
a chance to fail move as well, which nothing verifies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.affine import Knowledge, at_most_one, dependencies, hull, shadow
from dlang.ir.errors import IRError
from dlang.ir.traverse import needed, op_blocks, used_by
from dlang.ir.types import array_type, dtype_of
from dlang.ops import figures
from dlang.ops.primitives import COST


def takes_long(op: anf.Op) -> bool:
    """Tells whether an operation makes an array or costs more than to read its result."""
    match op:
        case anf.If(_, then, otherwise):
            return any(is_slow(let.op) or takes_long(let.op) for b in (then, otherwise) for let in b.lets)
        case anf.Comp(axes, body, destinations):  # numbers that are not read are filled in as quickly as they are read
            filled = all(all(any(e.mentions((a.var,)) for e in d.index) for a in axes) for d in destinations)
            simple = all(let.op.IS.scalar and not is_slow(let.op) for let in body.lets)
            return not (filled and simple)
        case _:
            return op.IS.long


@dataclass(frozen=True, slots=True)
class Liftable:
    """Code of a body that depends on the axes `over` only. places: of its lets, it and what it needs, in the body.

    stored: what is used of it, which is nothing where it only may fail.
    """

    over: frozenset[anf.Var]
    lets: tuple[anf.Let, ...]
    places: frozenset[int]
    stored: tuple[anf.Var, ...]


def liftable(
    body: Sequence[anf.Let], used: Iterable[anf.Var], depends: Mapping[anf.Var, set[anf.Var]], axes: Iterable[anf.Var]
) -> list[Liftable]:
    """Finds expensive code of a body that depends on fewer axes than there are, by the axes that it depends on.

    used: what is used of the body outside of it. depends: the axes that what is bound in it, or around, depends on.
    """
    everything = set(axes)
    groups: dict[
        frozenset[anf.Var], set[int]
    ] = {}  # what takes long, and what is computed from that over the same axes
    by_axes: dict[frozenset[anf.Var], set[anf.Var]] = {}
    for k, let in enumerate(body):
        over = _axes_of(let, depends, everything)
        if over == everything or let.op.IS.view:
            continue
        long = takes_long(let.op) and (bool(let.vars) or may_matter(let))
        if long or (let.vars and any(v in by_axes.get(over, ()) for v in used_by(let))):
            groups.setdefault(over, set()).add(k)
            by_axes.setdefault(over, set()).update(let.vars)
    out: list[Liftable] = []
    for over, members in sorted(groups.items(), key=lambda group: len(group[0])):
        in_group = by_axes[over]
        wanted = {v for v in used if v in in_group}
        for k, let in enumerate(body):
            if k not in members:
                wanted |= {v for v in used_by(let) if v in in_group}
        stored = tuple([v for let in body for v in let.vars if v in wanted])
        failing = {k for k in members if may_matter(body[k])}
        local = {v for let in body for v in let.vars} | everything | depends.keys()
        if (stored or failing) and all(_storable(v, local) for v in stored):
            places = _with_checks(body, needed(body, stored, stay=failing), depends, over, everything)
            out.append(Liftable(over, tuple([body[k] for k in places]), frozenset(places), stored))
    return out


def _axes_of(let: anf.Let, depends: Mapping[anf.Var, set[anf.Var]], axes: Set[anf.Var]) -> frozenset[anf.Var]:
    """The axes that a let of a body depends on."""
    if let.vars:
        return frozenset(depends[let.vars[0]])
    return frozenset(set[anf.Var]().union(*[{v} & axes | depends.get(v, set()) for v in used_by(let)]))


def _with_checks(
    body: Sequence[anf.Let],
    places: Sequence[int],
    depends: Mapping[anf.Var, set[anf.Var]],
    over: Set[anf.Var],
    axes: Set[anf.Var],
) -> list[int]:
    """Code that is to move, and before the checks in it those that stood before it: what fails first is to stay so."""
    failing = [k for k in places if may_matter(body[k])]
    checks: list[int] = []
    for k, let in enumerate(body[: failing[-1]] if failing else ()):
        if isinstance(let.op, anf.Assert) and _axes_of(let, depends, axes) <= over:
            checks.append(k)
    if not checks:
        return [*places]
    named = [v for k in checks for v in used_by(body[k])]
    return sorted({*places, *checks, *needed(body[: failing[-1]], named)})


def _storable(v: anf.Var, local: set[anf.Var]) -> bool:
    """Tells whether an array can hold the values of a variable at all points."""
    if isinstance(v.type, anf.Array):
        return v.type.dtype in anf.DTYPES and not any(s.mentions(local) for s in v.type.shape)
    return isinstance(v.type, anf.Scalar) and v.type.dtype in anf.DTYPES


# ---- where code may run ----------------------------------------------------------------------------------------------
def runs_anywhere(
    lets: Iterable[anf.Let], known: Knowledge, local: set[anf.Var], below: Mapping[anf.Var, anf.Size] | None = None
) -> bool:
    """Tells whether code may run where it did not before: it ends, fails nowhere, and its reads are proven in range.

    local: variables around the code of which that is known only where it ran before, as those of the code itself.
    below: those of them that are positions, and arrays of positions, wherever they are computed; each is below a size.
    """
    lets = list(lets)
    local = local | {v for let in lets for v in let.vars}
    below = {**(below or {}), **_positions(lets, below or {})}

    def inside(index: Sequence[anf.Size], shape: Sequence[anf.Size], known: Knowledge) -> bool:
        for entry, size in zip(index, shape, strict=False):  # that of a row leaves the last axes out
            position = below.get(entry.atom) if entry.atom is not None else None
            if position is not None and known.at_least_zero(size - position):
                continue
            if entry.mentions(local) or not known.inside((entry,), (size,)):
                return False
        return True

    def total(op: anf.Op) -> bool:
        match op:
            case anf.Prim("floordiv" | "mod" | "shift_left" | "shift_right", (x, by)) if dtype_of(x) in anf.INTEGERS:
                return isinstance(by, anf.Lit) and bool(by.value)
            case anf.Read(array, index) | anf.Update(array, index):
                return inside(index, array_type(array).shape, known)
            case anf.View(array, axes, shape, index):
                at = known.within([anf.Axis(a, (anf.poly(0),), (n,)) for a, n in zip(axes, shape, strict=True)])
                return inside(index, array_type(array).shape, at)
            case anf.Comp(axes, body, destinations):
                at = known.within(axes)
                return runs_anywhere(body.lets, at, local, below) and all(
                    inside(d.index, d.shape, at) for d in destinations
                )
            case anf.For(index, low, high) if not op.early:
                return runs_anywhere(op.body.lets, known.within([anf.Axis(index, (low,), (high,))]), local, below)
            case anf.If(_, then, otherwise):
                return all(runs_anywhere(b.lets, known, local, below) for b in (then, otherwise))
            case _:
                return op.IS.total

    return all(total(let.op) for let in lets)


def _positions(lets: Iterable[anf.Let], known: Mapping[anf.Var, anf.Size]) -> dict[anf.Var, anf.Size]:
    """The positions that a library finds, in arrays and read of these, and what they are below wherever they are made:
    no check certifies them. known: those of the code around."""
    found: dict[anf.Var, anf.Size] = {}
    for let in lets:
        match let.op:
            case anf.LinalgOp("argsort", (array,)):
                found[let.vars[0]] = array_type(array).shape[0]
            case anf.Read(array) if (size := found.get(array, known.get(array))) is not None:
                found[let.vars[0]] = size
            case _:
                pass
    return found


def may_go_first(body: Sequence[anf.Let], code: Liftable) -> bool:
    """Tells whether nothing that may fail, not end, or be seen by the world stands in front of some code."""
    last = max(code.places)
    return not any(may_matter(let) for k, let in enumerate(body[:last]) if k not in code.places)


def may_matter(let: anf.Let) -> bool:
    """Tells whether code may fail, not end, or be seen by the world."""
    known = let.op.IS
    return (
        known.fails
        or known.endless
        or known.stays
        or any(may_matter(inner) for b in op_blocks(let.op) for inner in b.lets)
    )


# ---- the law ---------------------------------------------------------------------------------------------------------
def verify_sharing(program: anf.Program, since: anf.Program | None = None) -> None:
    """Raises IRError where a program in the normal form, or behind it, breaks the law.

    since: a program that keeps it; functions that are its own are not looked at again.
    """
    kept = {} if since is None else since.functions
    for function in program.functions.values():
        if kept.get(function.name) is function:
            continue
        known = Knowledge.of(function)
        for code in _unshared(function.body, known):
            names = ", ".join(str(v) for v in code.stored) or "what may fail"
            axes = ", ".join(str(v) for v in code.over) or "no axis"
            raise IRError(
                f"{function.name}: {names} is computed at more points than those of {axes}, which it depends on"
            )


def _unshared(block: anf.Block, known: Knowledge) -> Iterator[Liftable]:
    """Finds code of a block that should move out of comprehensions."""
    if _is_tight(block):
        return
    known = known.copy()
    for let in block.lets:
        op, inside = let.op, known
        match op:
            case anf.Comp(axes, body):
                inside = known.within(axes)
                local = {v for inner in body.lets for v in inner.vars}
                for code in _liftable_of(op):
                    if _movable(code, axes, known, local):
                        yield code
            case anf.For(index, low, high):
                inside = known.copy()
                inside.facts.between(index, (low,), (high,))
            case _:
                pass
        for inner in op_blocks(op):
            yield from _unshared(inner, inside)
        known.note_made(let.vars)


def _is_tight(block: anf.Block) -> bool:
    """Tells whether nothing in a block could move out of a comprehension, whatever is known; looks at a block once."""
    if block.tight is None:
        object.__setattr__(block, "tight", all(_is_tight_in(let.op) for let in block.lets))
    return block.tight is True


def _is_tight_in(op: anf.Op) -> bool:
    return not (isinstance(op, anf.Comp) and _liftable_of(op)) and all(map(_is_tight, op_blocks(op)))


def repeated(op: anf.Op) -> int:
    """How many operations that take long stand in an operation under axes that they do not depend on.

    Of bounds and indices nothing is known, so some may have to stand there.
    """
    count = 0
    if isinstance(op, anf.Comp) and any(takes_long(let.op) for let in op.body.lets):
        count = sum(takes_long(let.op) for code in _liftable_of(op) for let in code.lets)
    return count + sum(repeated(let.op) for b in op_blocks(op) for let in b.lets)


def _liftable_of(op: anf.Comp) -> list[Liftable]:
    """Finds what takes long in the body of a comprehension and depends on fewer axes of several points than it has."""
    used = [v for v in op.body.results if isinstance(v, anf.Var)]
    used += [v for d in op.destinations for e in d.index for v in e.atoms()]
    several = {a.var for a in op.axes if not at_most_one(a)}
    depends = {a.var: {a.var} for a in op.axes} | dependencies(op.body.lets, op.axes)
    depends = {v: over & several for v, over in depends.items()}
    return liftable(op.body.lets, used, depends, several)


def _movable(code: Liftable, axes: Sequence[anf.Axis], known: Knowledge, local: set[anf.Var]) -> bool:
    """Tells whether code may run over only the axes that it depends on."""
    kept = [a for a in axes if a.var in code.over]
    return hull(axes, known.within(axes)) is not None and (
        runs_anywhere(code.lets, known.within(kept), local) or shadow(axes, code.over, known) is not None
    )


# ---- costs -----------------------------------------------------------------------------------------------------------
def additions(op: anf.Op) -> int:
    """The time of an operation on scalars, in additions: an access, a conversion or a size takes as long as one."""
    match op:
        case anf.Prim(name):
            return COST[name]
        case anf.If(_, then, otherwise):
            arms = [sum([additions(let.op) for let in b.lets]) for b in (then, otherwise)]
            return max(figures.ADDITION, *arms)
        case _:
            return figures.ADDITION


def is_scalar_code(op: anf.Op) -> bool:
    """Tells whether an operation is one on scalars, or a branch that chooses among numbers by such operations."""
    if not isinstance(op, anf.If):
        return op.IS.point
    arms = (op.then, op.otherwise)
    numbers = all(isinstance(a.type, anf.Scalar) for arm in arms for a in arm.results if isinstance(a, anf.Var))
    return numbers and all(is_scalar_code(let.op) for arm in arms for let in arm.lets)


def is_slow(op: anf.Op) -> bool:
    """Tells whether an operation is a primitive that takes longer than to store its result and read it."""
    return isinstance(op, anf.Prim) and COST[op.name] >= figures.ROOT
