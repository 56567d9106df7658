"""Arrays that a loop makes longer in each iteration, by the same number of elements, are as long from the start.

    m, y = for i in 0..n (m = 0, y: [m]) { …  yield m + 2, concat(y, v) }
    m = 2 * n
    y = for i in 0..n (y: [m]) { …  yield y with y[2 * i..][j] = v[j] }

Elements may be put before the others as well as behind them. What an iteration reads of the array is a part of it. So
an element is written once, and is not copied in each iteration; a loop that does no more than that is a comprehension.

Where only some iterations make it longer, at one end and by a few numbers, the array is as long as it may become, and
what is there is a part of it that grows:

    m, y = for i in 0..n (m = 0, y: [m]) { …  if c { yield m + 1, concat(y, v) } else { yield m, y } }
    m, z = for i in 0..n (m = 0, z: [n]) { …  if c { yield m + 1, z with z[m] = v } else { yield m, z } }
    y = z[..m]

This comes before derivatives, behind what makes loops of recursion (`counted_calls.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from dlang.ir import anf
from dlang.ir.axes import section
from dlang.ir.builder import Builder, i64
from dlang.ir.traverse import bound_vars, map_bodies, map_inner, mentioned, type_vars, walk, with_lets
from dlang.ir.types import I64, array_type
from dlang.ops import figures
from dlang.optimize.tailcalls import zero


def grown_arrays(program: anf.Program) -> anf.Program:
    """The program in which no loop makes arrays longer that could be as long from the start."""
    return map_bodies(program, _whole)


def _whole(block: anf.Block) -> anf.Block:
    block = map_inner(block, _whole)
    lets: list[anf.Let] = []
    known = Builder()
    for let in block.lets:
        known.append(let)
        new = [let]
        while isinstance(op := new[-1].op, anf.For) and (grown := next(_grown(op, known), None)) is not None:
            new[-1:] = _from_the_start(new[-1], op, grown)
        at = len(new) - 1  # of the loop
        while isinstance(op := new[at].op, anf.For) and (some := next(_sometimes(op, known), None)) is not None:
            before, loop, behind = _with_room(new[at], op, some)
            new[at : at + 1] = [*before, loop, *behind]
            at += len(before)
        lets += new
    return with_lets(block, lets, block.results)


@dataclass(frozen=True, slots=True)
class _Joined:
    """An array that grows: its position in the state, and the let that joins pieces before and behind it."""

    position: int
    let: anf.Let
    before: tuple[anf.Var, ...]
    behind: tuple[anf.Var, ...]

    @property
    def more(self) -> anf.Size:
        """How many elements come before it."""
        return _length(self.before)


@dataclass(frozen=True, slots=True)
class _Grown:
    """A part of the state that is the size of arrays which grow. step: by how much, in each iteration."""

    position: int
    step: anf.Size
    arrays: tuple[_Joined, ...]


def _length(arrays: Sequence[anf.Var]) -> anf.Size:
    return sum((array_type(a).shape[0] for a in arrays), anf.ZERO)


def _grown(op: anf.For, known: Builder) -> Iterator[_Grown]:
    """The sizes in the state of a loop that grow by the same in each iteration, as do all arrays of them."""
    all_sized = {} if op.early or not (runs_to_its_end(op) or goes_over_arrays(op, known)) else _sized(op)
    defined = {v: let for let in op.body.lets for v in let.vars} if all_sized else {}
    inside = {op.index, *op.params, *bound_vars(op.body)} if all_sized else set()
    for k, sized in all_sized.items():
        size, after = op.params[k], op.body.results[k]
        last = defined.get(after) if isinstance(after, anf.Var) else None
        if last is None or not isinstance(last.op, anf.IndexExpr):
            continue
        step = last.op.size - anf.poly(size)
        arrays = [_joined(op, j, size, defined) for j in sized]
        grown = [a for a in arrays if a is not None and _length([*a.before, *a.behind]) == step]
        if len(grown) == len(arrays) and not any(s.mentions(inside) for s in (step, *(a.more for a in grown))):
            yield _Grown(k, step, tuple(grown))


def _sized(op: anf.For) -> dict[int, list[int]]:
    """The positions of the sizes in the state of a loop, each with those of the arrays which are of that size."""
    at = {p: k for k, p in enumerate(op.params) if p.type == I64}
    out: dict[int, list[int]] = {}
    for j, p in enumerate(op.params):
        if isinstance(p.type, anf.Array):
            for k in dict.fromkeys(at[v] for v in type_vars(p.type) if v in at):
                out.setdefault(k, []).append(j)
    return out


def runs_to_its_end(op: anf.For) -> bool:
    """Tells whether a loop does all of its iterations, which a check or a call in one might end."""
    return not op.early and not any(isinstance(let.op, anf.Assert | anf.Call) for let in walk(op.body))


def goes_over_arrays(op: anf.For, known: Builder) -> bool:
    """Tells whether a loop has no more iterations than arrays that it reads have elements, or few: there is memory for
    what each may add, though few do. known: has emitted what is before it."""
    trips = _opened(op.high - op.low, known)
    if trips.constant is not None:
        return trips.constant <= figures.ROOM_FOR_ITERATIONS
    inside = {op.index, *bound_vars(op.body)}
    read = [a for a in mentioned(op.body) if isinstance(a.type, anf.Array) and a not in inside]
    sizes = {v for a in read for v in type_vars(a.type)}
    return all(v in sizes for v in trips.atoms())


def _opened(size: anf.Size, known: Builder) -> anf.Size:
    """A number that is at least 0 in terms of what it is made of."""

    def value(v: anf.Var) -> anf.Size | None:
        match known.definition(v):
            case anf.Prim("maximum", (x, anf.Lit(value=0))):
                return _opened(anf.poly(x), known)
            case _:
                made = known.as_poly(v, through_checks=True)
                return None if made.atom is v else _opened(made, known)

    return size.substitute(value)


def _joined(op: anf.For, position: int, size: anf.Var, defined: dict[anf.Var, anf.Let]) -> _Joined | None:
    """How an array of so many rows is joined with others."""
    param, last = op.params[position], op.body.results[position]
    dtype, shape = array_type(param).dtype, array_type(param).shape
    let = defined.get(last) if isinstance(last, anf.Var) else None
    if (
        let is None
        or anf.is_reference(dtype)
        or shape[0] != anf.poly(size)
        or any(s.mentions([size]) for s in shape[1:])
    ):
        return None
    match let.op:
        case anf.Concat(arrays) if arrays.count(param) == 1:
            at = arrays.index(param)
            return _Joined(position, let, arrays[:at], arrays[at + 1 :])
        case _:
            return None


def _from_the_start(let: anf.Let, op: anf.For, grown: _Grown) -> list[anf.Let]:
    """The loop over arrays that are as long from the start as they become, with what comes before it."""
    b = Builder(span=let.span)
    total, size = let.vars[grown.position], op.params[grown.position]
    positions = {a.position for a in grown.arrays}
    with b.scope() as lets:
        trips = anf.poly(b.prim("maximum", b.size(op.high - op.low), i64(0), name="n"))
        start = anf.poly(op.init[grown.position])
        b.emit_as((total,), anf.IndexExpr(start + trips * grown.step))
        done = anf.poly(op.index) - op.low
        init, wholes = list(op.init), {}
        for a in grown.arrays:
            param = op.params[a.position]
            type = anf.Array(array_type(param).dtype, (anf.poly(total), *array_type(param).shape[1:]))
            wholes[a.position] = anf.fresh(param.name, type)
            first = b.full(type.shape, zero(type.dtype), name=param.name)
            given = op.init[a.position]
            assert isinstance(given, anf.Var)
            init[a.position] = first if start == 0 else _with_rows(b, first, trips * a.more, given)
    with b.scope() as inner:
        b.emit_as((size,), anf.IndexExpr(start + done * grown.step))
        for a in grown.arrays:
            _show(b, op.params[a.position], wholes[a.position], (trips - done) * a.more)
        results = list(op.body.results)
        for each in op.body.lets:
            a_ = next((a for a in grown.arrays if a.let is each), None)
            if a_ is None:
                b.append(each)
                continue
            b.span = each.span
            whole, before, behind = wholes[a_.position], (trips - done - 1) * a_.more, (trips - done) * a_.more
            for piece in a_.before:
                whole = _with_rows(b, whole, before, piece)
                before += array_type(piece).shape[0]
            behind += anf.poly(size)
            for piece in a_.behind:
                whole = _with_rows(b, whole, behind, piece)
                behind += array_type(piece).shape[0]
            _show(b, each.vars[0], whole, (trips - done - 1) * a_.more)
            results[a_.position] = whole
    kept = [k for k in range(len(op.params)) if k != grown.position]
    body = anf.Block(tuple(inner), tuple([results[k] for k in kept]))
    params = tuple([wholes[k] if k in positions else op.params[k] for k in kept])
    loop = anf.For(op.index, op.low, op.high, params, tuple([init[k] for k in kept]), body)
    return [*lets, anf.Let(tuple([let.vars[k] for k in kept]), loop, let.span)]


def _show(b: Builder, var: anf.Var, whole: anf.Var, first: anf.Size) -> None:
    """Binds a variable to rows of an array from the first one on."""
    shape = array_type(var).shape
    b.emit_as((var,), section(whole, (first, *(anf.ZERO for _ in shape[1:])), shape))


def _with_rows(b: Builder, whole: anf.Var, first: anf.Size, rows: anf.Var) -> anf.Var:
    """Sets rows of an array, from the first one on."""
    shape = array_type(rows).shape
    if shape == (anf.ONE,):
        return b.update(whole, (first,), b.read(rows, (0,)), whole.name)
    axes = tuple([anf.Axis(anf.fresh("ijkl"[min(n, 3)], I64), (anf.ZERO,), (s,)) for n, s in enumerate(shape)])
    index = tuple([anf.poly(axis.var) for axis in axes])
    body = b.block(lambda: b.read(rows, [axis.var for axis in axes]))
    to = anf.Reduce(array_type(whole).shape, (first + index[0], *index[1:]), "set", into=whole)
    (out,) = b.emit(anf.Comp(axes, body, (to,)), (whole.name,))
    return out


@dataclass(frozen=True, slots=True)
class _Sometimes:
    """A part of the state that is the size of an array which some iterations make longer, by so much each.

    ahead: whether that is at its start.
    """

    size: int
    array: int
    step: anf.Size
    ahead: bool


def _sometimes(op: anf.For, known: Builder) -> Iterator[_Sometimes]:
    """The sizes in the state of a loop of which one array is, that branches make longer or leave as it is."""
    all_sized = {} if op.early or not goes_over_arrays(op, known) else _sized(op)
    inside = {op.index, *op.params, *bound_vars(op.body)} if all_sized else set()
    after = op.body.results
    for k, sized in all_sized.items():
        size = op.params[k]
        if len(sized) != 1:
            continue
        (j,) = sized
        dtype, shape = array_type(op.params[j]).dtype, array_type(op.params[j]).shape
        if anf.is_reference(dtype) or shape[0] != anf.poly(size) or any(s.mentions([size]) for s in shape[1:]):
            continue
        ends = _ends(op.body, after[k], after[j], size, op.params[j])
        joins = None if ends is None else {*ends} - {None}
        if joins is not None and len(joins) == 1:
            ((step, ahead),) = [join for join in joins if join is not None]
            numbers = prod([step, *shape[1:]], start=anf.ONE).constant
            if numbers is not None and numbers <= figures.GROWN_AT_ONCE and not step.mentions(inside):
                yield _Sometimes(k, j, step, ahead)


def _ends(
    block: anf.Block, length: anf.Atom, array: anf.Atom, size: anf.Var, param: anf.Var
) -> list[tuple[anf.Size, bool] | None] | None:
    """By how much an array is longer at the ends of a block, and whether at its start; None in the list where it is
    as it was, and None where something else becomes of it."""
    if length is size and array is param:
        return [None]
    let = next((let for let in block.lets if array in let.vars), None)
    match None if let is None else let.op:
        case anf.If(_, then, otherwise) if let is not None and isinstance(length, anf.Var) and length in let.vars:
            assert isinstance(array, anf.Var)
            out: list[tuple[anf.Size, bool] | None] = []
            for arm in (then, otherwise):
                results = dict(zip(let.vars, arm.results, strict=True))
                found = _ends(arm, results[length], results[array], size, param)
                if found is None:
                    return None
                out += found
            return out
        case anf.Concat(arrays) if arrays.count(param) == 1 and param in (arrays[0], arrays[-1]) and len(arrays) > 1:
            step = _length([a for a in arrays if a is not param])
            named = next((let.op for let in block.lets if length in let.vars), None)
            if isinstance(named, anf.IndexExpr) and named.size == anf.poly(size) + step:
                return [(step, arrays[0] is not param)]
            return None
        case _:
            return None


def _with_room(let: anf.Let, op: anf.For, some: _Sometimes) -> tuple[list[anf.Let], anf.Let, list[anf.Let]]:
    """The loop over an array that has room for all that may come, between what comes before it and after it."""
    b = Builder(span=let.span)
    size, param, given = op.params[some.size], op.params[some.array], op.init[some.array]
    dtype, shape = array_type(param).dtype, array_type(param).shape
    assert isinstance(given, anf.Var)
    with b.scope() as lets:
        trips = anf.poly(b.prim("maximum", b.size(op.high - op.low), i64(0), name="n"))
        start = anf.poly(op.init[some.size])
        room = anf.poly(b.size(start + trips * some.step))
        first = b.empty(dtype, (room, *shape[1:]), param.name)
        if start != 0:
            first = _with_rows(b, first, room - start if some.ahead else anf.ZERO, given)
    whole, last = (anf.fresh(param.name, anf.Array(dtype, (room, *shape[1:]))) for _ in range(2))
    roomy = _Roomy(param, whole, room, some)
    with b.scope() as inner:
        roomy.show(b, param, whole, anf.poly(size))
        after = op.body.results[some.array]
        made = roomy.block(b, op.body, after)
    results = [*op.body.results]
    results[some.array] = made
    params = tuple([whole if p is param else p for p in op.params])
    init = tuple([first if k == some.array else a for k, a in enumerate(op.init)])
    loop = anf.For(op.index, op.low, op.high, params, init, anf.Block(tuple(inner), tuple(results)))
    vars = tuple([last if k == some.array else v for k, v in enumerate(let.vars)])
    with b.scope() as behind:
        roomy.show(b, let.vars[some.array], last, anf.poly(let.vars[some.size]))
    return lets, anf.Let(vars, loop, let.span), behind


@dataclass(frozen=True, slots=True)
class _Roomy:
    """An array of the state that is the part of another one, `whole`, which has room for so many rows."""

    param: anf.Var
    whole: anf.Var
    room: anf.Size
    some: _Sometimes

    def show(self, b: Builder, var: anf.Var, whole: anf.Var, size: anf.Size) -> None:
        """Binds a variable to the part that is there."""
        _show(b, var, whole, self.room - size if self.some.ahead else anf.ZERO)

    def block(self, b: Builder, block: anf.Block, array: anf.Atom) -> anf.Var:
        """Emits the lets of a block at whose end the array is this one; gives what is then the whole."""
        if array is self.param:
            for let in block.lets:
                b.append(let)
            return self.whole
        out = self.whole
        for let in block.lets:
            if array not in let.vars:
                b.append(let)
                continue
            assert isinstance(array, anf.Var)
            b.span = let.span
            length = array_type(array).shape[0]
            match let.op:
                case anf.Concat(arrays):
                    pieces = [a for a in arrays if a is not self.param]
                    at = self.room - length if self.some.ahead else length - self.some.step
                    for piece in pieces:
                        out = _with_rows(b, out, at, piece)
                        at += array_type(piece).shape[0]
                case anf.If(condition, then, otherwise, cold=cold):
                    k = let.vars.index(array)
                    arms = []
                    for arm in (then, otherwise):
                        with b.scope() as lets:
                            whole = self.block(b, arm, arm.results[k])
                        results = tuple([whole if j == k else r for j, r in enumerate(arm.results)])
                        arms.append(anf.Block(tuple(lets), results))
                    out = anf.fresh(self.whole.name, self.whole.type)
                    vars = tuple([out if v is array else v for v in let.vars])
                    b.append(anf.Let(vars, anf.If(condition, arms[0], arms[1], cold=cold), let.span))
                case _:
                    raise AssertionError("an array grows by being joined, in a branch or not")
            self.show(b, array, out, length)
        return out
