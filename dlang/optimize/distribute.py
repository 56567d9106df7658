"""The normal form of comprehensions: every one a perfect nest of scalar code.

    [exp(x[i, j]) / sum(exp(x[i, k]) for k) for i, j]    becomes    s[i] = sum(exp(x[i, k])) and [exp(x[i, j]) / s[i]]

Every inner reduction becomes an array of its own over just the axes that it depends on, and so does every maximal float
that is computed, or gathered by data, from fewer axes than its comprehension has. What depends on an operation that
is no scalar code (loops, calls, operations on arrays, branches with such) stays with it; what of that depends on fewer
axes than there are runs in a loop over just these, and so do expensive numbers of arms (`lifting.py`). A check moves to
just the axes that it depends on, and runs if and only if it ran before. A read may leave an axis only if it is proven
in range without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.affine import Box, Knowledge, at_most_one, dependencies, extent, hull, projected, shadow
from dlang.ir.axes import Location, Relocation, stacked
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import filled, sizes_named, taken_apart
from dlang.ir.rewriting import Rewriter
from dlang.ir.sharing import additions, is_scalar_code, liftable, may_go_first, runs_anywhere, takes_long
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    free_vars,
    map_blocks,
    map_functions,
    mentioned,
    own_consumed,
    parts,
    pruned,
    type_vars,
    used_by,
    walk,
    with_body,
)
from dlang.ir.types import I64, dtype_of, is_float, type_of
from dlang.ops import figures
from dlang.ops.monoids import identity
from dlang.optimize.algebra import same
from dlang.optimize.effects import consumed_by
from dlang.optimize.lifting import ahead_of_arms, from_store, run_if, span_of, stored_in_turn, without
from dlang.optimize.plain_axes import straightened, with_plain_bounds, without_idle_axes, without_repeats
from dlang.optimize.repeats import Repeats
from dlang.optimize.vectorise_loops import vectorised

_DEEPEST = 32  # nested reductions


def distribute(program: anf.Program) -> anf.Program:
    """The program in normal form."""
    return map_functions(program, distribute_function)


def distribute_function(function: anf.Function) -> anf.Function:
    """The function with every comprehension in normal form."""
    known = Knowledge.of(function)
    repeats = Repeats({v for let in walk(function.body) for v in own_consumed(let.op)})
    body = _block(function.body, known, repeats)
    return with_body(function, body)


def _block(block: anf.Block, known: Knowledge, repeats: Repeats) -> anf.Block:
    known = known.copy()
    lets: list[anf.Let] = []
    fills: dict[anf.Atom, anf.Atom] = {}
    changed = False
    for original in block.lets:
        let = repeats.rewritten(_with_values(_from_identities(original, fills), fills))
        new = _let(let, known, repeats)
        changed |= len(new) != 1 or new[0] is not original
        lets += new
        for n in new:
            if isinstance(n.op, anf.Comp):
                fills.update(filled(n.op, n.vars))
            known.note_made(n.vars)
            repeats.note(n)
    return anf.Block(tuple(lets), block.results) if changed else block


class _Values(Rewriter):
    """Reads of arrays of which all elements are one value become that value, which may depend on fewer axes."""

    def __init__(self, fills: Mapping[anf.Atom, anf.Atom]) -> None:
        super().__init__()
        self.fills = fills

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Read(array) if array in self.fills:
                self.env[let.vars[0]] = self.fills[array]
            case _:
                super().rule(let)


def _with_values(let: anf.Let, fills: Mapping[anf.Atom, anf.Atom]) -> anf.Let:
    """The let, with the values of the arrays of one value that are read in it."""
    if not fills or isinstance(let.op, anf.Read) or fills.keys().isdisjoint(mentioned(let.op)):
        return let
    op = _Values(fills).op(let.op)
    return let if op is let.op else replace(let, op=op)


def _from_identities(let: anf.Let, fills: Mapping[anf.Atom, anf.Atom]) -> anf.Let:
    """The let, where it adds to an array of nothing but the identity of its monoid, without that array."""
    if not isinstance(op := let.op, anf.Comp) or not fills:
        return let

    def started(d: anf.Destination) -> anf.Destination:
        fill = None if d.into is None else fills.get(d.into)
        if not isinstance(d, anf.Reduce) or d.monoid == "set" or not isinstance(fill, anf.Lit):
            return d
        unit = anf.Lit(identity(d.monoid, fill.dtype), fill.dtype)
        return replace(d, into=None) if same(fill, unit) else d

    destinations = tuple(map(started, op.destinations))
    kept = all(a is b for a, b in zip(destinations, op.destinations, strict=True))
    return let if kept else replace(let, op=replace(op, destinations=destinations))


def _let(let: anf.Let, known: Knowledge, repeats: Repeats) -> list[anf.Let]:
    op = let.op
    match op:
        case anf.Comp():
            around = known.copy()
            around.note_made(let.vars)  # what is split off stands where these are about to be made
            return _split(let, op, around, repeats, 0)
        case anf.For():
            inner = known.copy()
            inner.facts.between(op.index, (op.low,), (op.high,))
            new = map_blocks(op, lambda b: _block(b, inner, repeats))
            return _without_invariants(let if new is op else anf.Let(let.vars, new, let.span), known, repeats)
        case anf.While():
            new = map_blocks(op, lambda b: _block(b, known, repeats))
            return _without_invariants(let if new is op else anf.Let(let.vars, new, let.span), known, repeats)
        case _:
            new = map_blocks(op, lambda b: _block(b, known, repeats))
    return [let if new is op else anf.Let(let.vars, new, let.span)]


@dataclass(slots=True)
class _Split:
    """A comprehension being taken apart: `before` is what goes in front of it, `body` what is left of its body."""

    axes: tuple[anf.Axis, ...]
    known: Knowledge  # outside of it
    box: Box
    repeats: Repeats
    before: list[anf.Let] = field(default_factory=list)
    body: list[anf.Let] = field(default_factory=list)
    depends: dict[anf.Var, set[anf.Var]] = field(default_factory=dict)
    pinned: set[anf.Var] = field(default_factory=set)  # what must stay at its point, and what depends on it
    checked: set[anf.Var] = field(default_factory=set)  # what depends on a check that stands in the body
    moved: Relocation = field(default_factory=lambda: Relocation({}, {}))  # scalars and arrays, to the front

    def rewritten(self, let: anf.Let) -> anf.Let:
        """A let of the body in terms of what moved to the front."""
        moved = self.moved.let(let) if self.moved.env or self.moved.locations else let
        return self.repeats.rewritten(moved)

    def put_before(self, lets: Iterable[anf.Let]) -> None:
        """Puts lets, in their normal form, in front of the comprehension."""
        for let in lets:
            self.before.append(let)
            self.repeats.note(let)


def _split(let: anf.Let, op: anf.Comp, known: Knowledge, repeats: Repeats, depth: int) -> list[anf.Let]:
    """Splits a comprehension: returns those in front of it, and the rest of it."""
    straight = straightened(with_plain_bounds(op))
    if straight is not op:
        let, op = anf.Let(let.vars, straight, let.span), straight
    if (counted := without_repeats(let, op, known)) is not None:
        let, op = counted
    if (narrow := without_idle_axes(let, op, known)) is not None:
        once, spread = narrow
        assert isinstance(once.op, anf.Comp)
        return [*_split(once, once.op, known, repeats, depth), spread]
    inside = known.within(op.axes)
    box = hull(op.axes, inside)
    if not op.axes:
        # Just one point: the body runs once, so it may as well stand in front.
        body = _block(op.body, inside, repeats)
        return [*body.lets, anf.Let(let.vars, anf.Comp((), anf.Block((), body.results), op.destinations), let.span)]
    if box is None or depth > _DEEPEST:
        body = _block(op.body, inside, repeats)
        return [let if body is op.body else anf.Let(let.vars, anf.Comp(op.axes, body, op.destinations), let.span)]
    s = _Split(op.axes, known.copy(), box, repeats)
    whole = _used_whole(op.body)
    names = {a.var for a in s.axes}
    lets = (new for original in op.body.lets for new in _begun_apart(original))
    branches = (part for new in lets for part in ahead_of_arms(s.rewritten(new), names, s.depends, inside))
    for inner in (part for new in branches for part in _apart(new, s)):
        s.depends |= _dependence(inner, s)
        if inner.op.IS.view and not s.depends[inner.vars[0]] and _sees_all(inner, s):
            moved = Renaming({}, renew=True).let(inner)
            s.put_before([moved])
            s.moved.env[inner.vars[0]] = moved.vars[0]
            continue
        if _stays(inner.op, s, s.depends):
            s.pinned |= set(inner.vars)
        if isinstance(inner.op, anf.Comp) and not s.pinned & set(inner.vars):
            _certify(s, inner.op, depth)
            s.depends |= _dependence(inner, s)  # what is certified may be stored over more axes than it needs
            if _moved(s, inner, inner.op, whole, depth):
                continue
            s.pinned |= set(inner.vars)
        for new in _let(inner, inside, repeats):
            s.body.append(new)
            s.depends |= _dependence(new, s)
            if s.pinned.intersection(inner.vars):
                s.pinned |= set(new.vars)
            if isinstance(new.op, anf.Assert) or any(v in s.checked for v in used_by(new)):
                s.checked |= set(new.vars)
    results = tuple(s.moved.atom(a) for a in op.body.results)
    index_vars = {v for d in op.destinations for e in d.index for v in e.atoms()}
    lifted = _lift(s, {v for v in (*results, *index_vars) if isinstance(v, anf.Var)}, depth)
    results = tuple(s.moved.atom(a) for a in results)
    if lifted and any(isinstance(inner.op, anf.Comp) for inner in s.body):  # what stayed for that may move now
        remaining = anf.Comp(op.axes, anf.Block(tuple(s.body), results), _renamed(s, op.destinations))
        return [*s.before, *_split(anf.Let(let.vars, remaining, let.span), remaining, s.known, repeats, depth + 1)]
    s.depends = dependencies(s.body, s.axes)
    _certify(s, None, depth)
    index_vars = {v for d in op.destinations for e in d.index for v in s.moved.size(e).atoms()}
    _hoist(s, {*results, *index_vars}, depth)
    results = tuple(s.moved.atom(a) for a in results)
    destinations = _renamed(s, op.destinations)
    left = _needed(s.body, {*results, *(v for d in destinations for e in d.index for v in e.atoms())})
    if (
        not s.before
        and all(a is b for a, b in zip(left, op.body.lets, strict=False))
        and len(left) == len(op.body.lets)
    ):
        return [let]
    remaining = anf.Comp(op.axes, anf.Block(tuple(left), results), destinations)
    last = anf.Let(let.vars, remaining, let.span)
    if (counted := without_repeats(last, remaining, s.known)) is not None:  # what depended on an axis did so no more
        return [*s.before, *_split(*counted, s.known, repeats, depth + 1)]
    return [*s.before, last]


def _renamed(s: _Split, destinations: Sequence[anf.Destination]) -> tuple[anf.Destination, ...]:
    """Destinations in terms of what moved to the front."""
    return tuple([replace(d, index=tuple(map(s.moved.size, d.index))) for d in destinations])


def _begun_apart(let: anf.Let) -> list[anf.Let]:
    """A sum that begins with the elements of an array as that sum, which no longer changes the array, and an addition.

    So what points of a comprehension add to copies of one array, each point to its own, is a sum over all of them.
    """
    match let.op:
        case anf.Comp(destinations=(anf.Reduce(monoid="sum", into=anf.Var() as first, after=None) as d,)) as op if all(
            isinstance(e.type, anf.Scalar) for e in op.body.results if isinstance(e, anf.Var)
        ) and first not in mentioned(op.body):
            b = Builder(span=let.span)
            with b.scope() as lets:
                total = b.one(replace(op, destinations=(replace(d, into=None),)), let.vars[0].name)
                both = b.map(d.shape, lambda *i: b.add(b.read(first, i), b.read(total, i)))
            assert lets[-1].vars == (both,)
            return [*lets[:-1], anf.Let(let.vars, lets[-1].op, let.span)]
        case _:
            return [let]


def _apart(let: anf.Let, s: _Split) -> list[anf.Let]:
    """An inner comprehension whose results depend on different axes, taken apart.

    So a value that shares its comprehension with its derivatives along many directions is computed once.
    """
    op = let.op
    if not isinstance(op, anf.Comp) or len(let.vars) < 2:
        return [let]
    if not all(
        isinstance(inner.op, anf.Prim | anf.Cast | anf.IndexExpr | anf.Read | anf.StopGradient)
        for inner in op.body.lets
    ):
        return [let]
    names = {a.var for a in s.axes}
    local: dict[anf.Var, set[anf.Var]] = {}

    def found(vars: Iterable[anf.Atom]) -> set[anf.Var]:
        atoms = [v for v in vars if isinstance(v, anf.Var)]
        return {a for v in atoms for a in ({v} if v in names else local.get(v, s.depends.get(v, set())))}

    for inner in op.body.lets:
        local.update(dict.fromkeys(inner.vars, found(used_by(inner))))
    shared = found(v for a in op.axes for b in (*a.lows, *a.highs) for v in b.atoms())
    needs = [
        {result, *([] if d.into is None else [d.into]), *(v for e in (*d.shape, *d.index) for v in e.atoms())}
        for result, d in zip(op.body.results, op.destinations, strict=True)
    ]
    groups: dict[frozenset[anf.Var], list[int]] = {}
    for k, need in enumerate(needs):
        groups.setdefault(frozenset(shared | found(need)), []).append(k)
    return [let] if len(groups) == 1 else taken_apart(let, groups.values())


def _dependence(let: anf.Let, s: _Split) -> dict[anf.Var, set[anf.Var]]:
    return dict.fromkeys(let.vars, _axes_of(let.op, s))


def _axes_of(op: anf.Op, s: _Split) -> set[anf.Var]:
    """The axes that an operation depends on."""
    names = {a.var for a in s.axes}
    axes: set[anf.Var] = set()
    for v in free_vars(op):
        axes |= {v} if v in names else s.depends.get(v, set())
    return axes


def _sees_all(let: anf.Let, s: _Split) -> bool:
    """Tells whether a view is of an array from outside, and may stand there."""
    return s.depends.keys().isdisjoint(used_by(let)) and runs_anywhere([let], s.known, set())


def _stays(op: anf.Op, s: _Split, depends: Mapping[anf.Var, set[anf.Var]]) -> bool:
    """Tells whether an operation must stay: neither scalar code nor a comprehension, or it uses what must stay."""
    match op:
        case anf.Prim(name, args):
            divides = name in ("floordiv", "mod", "shift_left", "shift_right") and dtype_of(args[0]) in anf.INTEGERS
            if divides and not (isinstance(args[1], anf.Lit) and args[1].value) and not _by_extent(args, s, depends):
                return True
        case anf.Cast() | anf.IndexExpr() | anf.Read() | anf.StopGradient() | anf.Assert():
            pass
        case anf.Comp():
            if any(d.into is not None for d in op.destinations):
                return True
        case anf.If(_, then, otherwise) if is_scalar_code(op):
            if any(_stays(let.op, s, depends) for b in (then, otherwise) for let in b.lets):
                return True
        case _:
            return True
    return any(v in s.pinned for v in free_vars(op))


def _by_extent(args: Sequence[anf.Atom], s: _Split, depends: Mapping[anf.Var, set[anf.Var]]) -> bool:
    """Tells whether a number is divided by the length of an axis that it depends on, which is not 0 at any point."""
    x, y = args
    axes = depends.get(x, {x}) if isinstance(x, anf.Var) else set()
    return any(a.var in axes and a.lows == (anf.ZERO,) and a.highs == (anf.poly(y),) for a in s.axes)


def _used_whole(body: anf.Block) -> set[anf.Var]:
    """The arrays that are used otherwise than element by element."""
    whole: set[anf.Var] = set()
    for let in walk(body):
        for a in parts(let.op).atoms:
            if isinstance(a, anf.Var) and isinstance(a.type, anf.Array) and not isinstance(let.op, anf.Read):
                whole.add(a)
        for inner in parts(let.op).blocks:
            whole |= {a for a in inner.results if isinstance(a, anf.Var) and isinstance(a.type, anf.Array)}
    return whole


def _needed(body: Sequence[anf.Let], wanted: set[anf.Atom]) -> list[anf.Let]:
    """The lets that something needs, and those that stay anyhow."""
    wanted = set(wanted)
    out = []
    for let in reversed(body):
        if any(v in wanted for v in let.vars) or not isinstance(
            let.op, anf.Prim | anf.Cast | anf.IndexExpr | anf.Read | anf.StopGradient
        ):
            out.append(let)
            wanted |= set(used_by(let))
    return out[::-1]


# ---- the space of what moves -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Space:
    """Axes to move to, and the shape of an array over them.

    index: of the place of a point of these axes; read: of the place that belongs to a point of the comprehension.
    lets: what computes the shape.
    """

    axes: tuple[anf.Axis, ...]
    shape: tuple[anf.Size, ...]
    index: tuple[anf.Size, ...]
    read: tuple[anf.Size, ...]
    lets: tuple[anf.Let, ...]
    whole: bool  # all axes of the comprehension

    @property
    def over(self) -> set[anf.Var]:
        """The axes on which it depends what a point of the comprehension reads."""
        return {a.var for a in self.axes if any(entry.mentions((a.var,)) for entry in self.read)}


def _project(s: _Split, over: Set[anf.Var], lets: Sequence[anf.Let]) -> _Space:
    """The axes `over`, if what moves there is defined there, else all of them.

    A bound that mentions another axis is widened to the box, if the code may run anywhere. Where it may not, as a read
    that is not proven in range without the dropped axes, or a check, there is a point if and only if there is one of
    all axes; the space of no axis is then an axis of one point.
    """
    kept = [a for a in s.axes if a.var in over]
    gone = {a.var for a in s.axes if a.var not in over}

    def wide(bounds: tuple[anf.Size, ...], end: anf.Size) -> tuple[anf.Size, ...]:
        return tuple(dict.fromkeys(end if b.mentions(gone) else b for b in bounds))

    axes = [anf.Axis(a.var, wide(a.lows, s.box[a.var][0]), wide(a.highs, s.box[a.var][1] + 1)) for a in kept]
    if gone and not runs_anywhere(lets, s.known.within(axes), set(s.depends)):
        axes = list(s.axes)
        if not all(at_most_one(a) for a in s.axes if a.var in gone):
            axes = projected(s.axes, over, s.box, s.known) or axes
    b = Builder()
    with b.scope() as emitted:
        shape = [extent(b, s.box[a.var], s.known) for a in axes if a.var in s.box]
    sizes = dict(zip([a.var for a in axes if a.var in s.box], shape, strict=True))
    covering = [_covering(a, s.box[a.var], sizes[a.var]) if a.var in sizes else a for a in axes]
    if runs_anywhere(lets, s.known.within(covering), set(s.depends)) or not emitted:
        axes = covering
    index = [anf.poly(a.var) - s.box[a.var][0] for a in axes if a.var in s.box]
    single = [a.var for a in axes if a.var not in s.box]
    return _Space(
        axes=tuple(axes),
        shape=(*shape, *[anf.poly(1) for _ in single]),
        index=(*index, *[anf.poly(v) for v in single]),
        read=(*index, *[anf.ZERO for _ in single]),
        lets=tuple(emitted),
        whole={a.var for a in axes} == {a.var for a in s.axes},
    )


def _covering(axis: anf.Axis, ends: tuple[anf.Size, anf.Size], size: anf.Size) -> anf.Axis:
    """An axis from end to end, with the end of an array over it, so that it is seen to reach each element."""
    low, high = ends
    return replace(axis, highs=(low + size,)) if (axis.lows, axis.highs) == ((low,), (high + 1,)) else axis


def _with_open_bounds(op: anf.Comp, lets: Sequence[anf.Let]) -> anf.Comp:
    """The comprehension whose bounds mention what sizes are made of, not the variables that name them."""
    named = Renaming(sizes_named(anf.Block(tuple(lets), ())))
    return replace(op, axes=tuple(map(named.axis, op.axes)))


def _store(
    s: _Split, space: _Space, lets: Sequence[anf.Let], atoms: Sequence[anf.Var], span: Span | None, depth: int
) -> list[anf.Var]:
    """Emits the comprehension that stores scalars at every point of a space; gives its arrays."""
    keep = anf.Reduce(space.shape, space.index, "set")
    stored = [anf.fresh(v.name, type_of(dtype_of(v), space.shape)) for v in atoms]
    op = Renaming({}, renew=True).op(anf.Comp(space.axes, anf.Block(tuple(lets), tuple(atoms)), (keep,) * len(atoms)))
    assert isinstance(op, anf.Comp)
    s.before += space.lets
    s.put_before(_split(anf.Let(tuple(stored), op, span), op, s.known, s.repeats, depth + 1))
    s.known.note_made(stored)
    return stored


# ---- inner comprehensions and checks ---------------------------------------------------------------------------------
def _moved(s: _Split, let: anf.Let, op: anf.Comp, whole: set[anf.Var], depth: int) -> bool:
    """Moves an inner comprehension to the front; False if it has to stay."""
    names = {a.var for a in s.axes}
    local = set(s.depends) | names
    if any(v in whole for v in let.vars) or any(n.mentions(local) for d in op.destinations for n in d.shape):
        return False
    lets = pruned(s.body, free_vars(op))
    if any(isinstance(x.op, anf.Assert) for x in lets):
        return False
    op = _with_open_bounds(op, lets)
    if any(b.mentions(s.depends) for a in op.axes for b in (*a.lows, *a.highs)):
        return False  # a bound that is computed at each point
    space = _project(s, _axes_of(op, s), [*lets, let])
    destinations: list[anf.Destination] = []
    stored = []
    for v, d in zip(let.vars, op.destinations, strict=True):
        destinations.append(stacked(d, space.shape, space.index))
        stored.append(anf.fresh(v.name, type_of(dtype_of(v), destinations[-1].shape)))
    joined = anf.Comp((*space.axes, *op.axes), anf.Block((*lets, *op.body.lets), op.body.results), tuple(destinations))
    new = Renaming({}, renew=True).op(joined)
    assert isinstance(new, anf.Comp)
    s.before += space.lets
    s.put_before(_split(anf.Let(tuple(stored), new, let.span), new, s.known, s.repeats, depth + 1))
    s.known.note_made(stored)
    for v, array in zip(let.vars, stored, strict=True):
        if isinstance(v.type, anf.Array):
            s.moved.locations[v] = Location(array, space.read)
        elif space.axes:
            s.body.append(anf.Let((v,), anf.Read(array, space.read), let.span))
            s.depends[v] = space.over
        else:
            s.moved.env[v] = array
    return True


def _certify(s: _Split, op: anf.Comp | None, depth: int) -> None:
    """Moves checks to the front, of which what they certify is stored: those that an inner comprehension relies on.

    Without one, those of data that depend on fewer axes than there are: each is then made once for each of their
    points. A check of what is computed from axes alone stays, since it costs little, and its index keeps its form.
    """
    wanted = None if op is None else {v for let in pruned(s.body, free_vars(op)) for v in let.vars}
    before, changed = s.body, False
    s.body = []
    for let in before:
        if changed:  # what is stored may depend on other axes
            s.depends |= _dependence(let, s)
        made = _check_to_store(let, s, wanted) if isinstance(let.op, anf.Assert) else None
        if made is None:
            s.body.append(let)
            continue
        lets, space = made
        stored = _store(s, space, lets, let.vars, let.span, depth)
        s.body += [anf.Let((v,), anf.Read(a, space.read), let.span) for v, a in zip(let.vars, stored, strict=True)]
        s.depends.update(dict.fromkeys(let.vars, space.over))
        changed = True
    if changed:
        s.checked = _tainted(s.body)


def _check_to_store(let: anf.Let, s: _Split, wanted: Set[anf.Var] | None) -> tuple[list[anf.Let], _Space] | None:
    """The code of a check of which what it certifies is to be stored, and where; None if it stays.

    wanted: what the comprehension that relies on it needs; None if there is none.
    """
    if not let.vars or any(isinstance(v.type, anf.Array) for v in let.vars):
        return None
    if (wanted is None and not s.depends[let.vars[0]]) or (wanted is not None and wanted.isdisjoint(let.vars)):
        return None
    if not s.pinned.isdisjoint(used_by(let)):
        return None
    lets = [*pruned(s.body, used_by(let)), let]
    if any(isinstance(x.op, anf.Assert) for x in lets[:-1]):
        return None
    if wanted is None and (any(takes_long(x.op) for x in lets) or not any(isinstance(x.op, anf.Read) for x in lets)):
        return None
    space = _project(s, s.depends[let.vars[0]], lets)
    return None if wanted is None and space.whole else (lets, space)


def _tainted(body: Sequence[anf.Let]) -> set[anf.Var]:
    """Finds the variables of a body that depend on a check in it."""
    tainted: set[anf.Var] = set()
    for let in body:
        if isinstance(let.op, anf.Assert) or any(v in tainted for v in used_by(let)):
            tainted |= set(let.vars)
    return tainted


# ---- what takes long -------------------------------------------------------------------------------------------------
def _lift(s: _Split, used: set[anf.Var], depth: int) -> bool:
    """Moves what takes long and depends on fewer axes than there are to the front, in loops over just those.

    Tells whether there was some.
    """
    lifted = False
    tried: set[frozenset[anf.Var]] = set()
    while any(takes_long(let.op) for let in s.body):
        s.depends = dependencies(s.body, s.axes)
        used = {a for v in used if isinstance(a := s.moved.env.get(v, v), anf.Var)}
        codes = [c for c in liftable(s.body, used, s.depends, [a.var for a in s.axes]) if c.over not in tried]
        if not codes:
            return lifted
        code = codes[0]
        tried.add(code.over)
        space = _project(s, code.over, code.lets)
        if code.over:
            if space.whole:
                continue
            if any(isinstance(v.type, anf.Array) for v in code.stored):
                lets = stored_in_turn(code, space.axes, space.shape, space.index)
                first = _normal(lets, lets[-1].vars, s.known, s.repeats)
                s.before += [*space.lets, *first.lets]
                lifted_arrays = tuple([a for a in first.results if isinstance(a, anf.Var)])
                s.known.note_made(lifted_arrays)
            else:
                lifted_arrays = tuple(_store(s, space, code.lets, code.stored, span_of(code), depth))
            by = {v: from_store(v, a, space.read) for v, a in zip(code.stored, lifted_arrays, strict=True)}
            s.body = without(s.body, code, by, used)
            lifted = True
            continue
        gaps = shadow(s.axes, set(), s.known) if space.axes else []
        if gaps is not None:
            lets, values = run_if(code, [gap + 1 for gap in gaps])
            first = _normal(lets, values, s.known, s.repeats)
            s.before += first.lets
            s.moved.env.update(zip(code.stored, first.results, strict=True))
            s.body = [s.rewritten(let) for let in without(s.body, code, {}, used)]
            lifted = True
    return lifted


def _normal(lets: Sequence[anf.Let], results: Sequence[anf.Atom], known: Knowledge, repeats: Repeats) -> anf.Block:
    """Code that moved to the front, in the normal form, with what the rest uses of it."""
    return _block(vectorised(anf.Block(tuple(lets), tuple(results)), known), known, repeats)


def _without_invariants(let: anf.Let, known: Knowledge, repeats: Repeats) -> list[anf.Let]:
    """A loop, and in front of it what takes long in its body and does not change from iteration to iteration."""
    op = let.op
    assert isinstance(op, anf.For | anf.While)
    if not any(takes_long(inner.op) for inner in op.body.lets):
        return [let]
    state = (*op.params, *([op.index] if isinstance(op, anf.For) else []))
    used = [r for r in op.body.results if isinstance(r, anf.Var)]
    iteration = anf.fresh("iteration", I64)  # it stands for all of the state: what depends on none of it is wanted
    depends = {v: {iteration} for v in state}
    for inner in op.body.lets:
        varies = any(depends.get(v) for v in used_by(inner))
        depends.update({v: {iteration} if varies else set() for v in inner.vars})
    codes = liftable(op.body.lets, used, depends, (iteration,))
    if not codes:
        return [let]
    (code,) = codes
    if runs_anywhere(code.lets, known, set()):
        before, values = run_if(code, ())
    elif isinstance(op, anf.For) and may_go_first(op.body.lets, code):
        before, values = run_if(code, (op.high - op.low,))
    else:
        return [let]
    remaining = without(op.body.lets, code, {}, used)
    if any(v in code.stored for inner in remaining for v in consumed_by(inner.op)):
        return [let]  # what is changed in an iteration would be copied in each
    first = _normal(before, values, known, repeats)
    renaming = Renaming(dict(zip(code.stored, first.results, strict=True)))
    body = renaming.block(anf.Block(tuple(remaining), op.body.results))
    return [*first.lets, anf.Let(let.vars, replace(op, body=body), let.span)]


# ---- invariants ------------------------------------------------------------------------------------------------------
def _hoist(s: _Split, top: set[anf.Atom], depth: int) -> None:
    """Moves every maximal float that is computed from fewer axes than there are to the front."""
    everything = {a.var for a in s.axes}
    roots: dict[tuple[anf.Var, ...], list[anf.Let]] = {}
    elsewhere: set[anf.Atom] = set(top)  # what is used at other points than those that it depends on
    gathered: set[anf.Var] = set()  # what is computed from arrays
    costs: dict[anf.Var, int] = {}  # of each value with all that it is computed from; of a root, if it costs more
    for let in s.body:
        named = used_by(let)
        costs.update(
            dict.fromkeys(let.vars, min(figures.ROOT, additions(let.op) + sum([costs.get(v, 0) for v in named])))
        )
        over = s.depends[let.vars[0]] if let.vars else everything
        elsewhere.update([v for v in named if not let.vars or s.depends.get(v) != over])
        sizes = (v for var in let.vars for v in type_vars(var.type))
        if isinstance(let.op, anf.Read) or any(v in gathered for v in (*named, *sizes)):
            gathered.update(let.vars)
    for let in s.body:
        if any(v in s.pinned or v in s.checked for v in let.vars) or len(let.vars) != 1:
            continue
        (v,) = let.vars
        over = s.depends[v]
        if over == everything or v not in elsewhere:
            continue
        if _worth_storing(let, s, over, gathered, costs[v] >= figures.ROOT):
            roots.setdefault(tuple(a.var for a in s.axes if a.var in over), []).append(let)
    for axes, lets in roots.items():
        needed = pruned(s.body, [let.vars[0] for let in lets])
        space = _project(s, set(axes), needed)
        if space.whole:
            continue
        if not space.axes:
            renaming = Renaming({}, renew=True)
            s.before += [renaming.let(let) for let in needed]
            s.moved.env.update({let.vars[0]: renaming.atom(let.vars[0]) for let in lets})
            moved = {let.vars[0] for let in lets}
            s.body = [
                s.rewritten(let) for let in s.body if (let.vars[:1] != () and let.vars[0] not in moved) or not let.vars
            ]
            continue
        stored = _store(s, space, needed, [let.vars[0] for let in lets], lets[0].span, depth)
        reads = {let.vars[0]: anf.Read(array, space.read) for let, array in zip(lets, stored, strict=True)}
        s.body = [
            anf.Let(let.vars, reads[let.vars[0]], let.span) if let.vars and let.vars[0] in reads else let
            for let in s.body
        ]


def _worth_storing(let: anf.Let, s: _Split, over: set[anf.Var], gathered: Set[anf.Var], expensive: bool) -> bool:
    """Tells whether reading a stored value is cheaper: of a float computed from arrays, gathered by data, or expensive.

    gathered: what is computed from arrays.
    """
    if not is_float(let.vars[0].type):
        return False
    match let.op:
        case anf.Read(_, index):
            return any(e.mentions(s.depends) for e in index)
        case anf.Prim() | anf.Cast() | anf.If():
            return expensive or not over or any(v in gathered for v in used_by(let))
        case _:
            return False
