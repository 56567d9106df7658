"""Recurrences: an iteration waits as short as it can for the one before it.

    for j (d = z) {                             s = read z[0]
      t = read d[j]                             for j (d = z, s = s) {
      u = minimum(x[j], minimum(t, y[j]))  →      u = minimum(minimum(x[j], y[j]), s)
      d' = update d[j + 1] = u                    d' = update d[j + 1] = u
      yield d'                                    yield d', u
    }                                           }

An element that an iteration has written and that one of the next reads is a number of the state: it stays in a
register, where the processor would wait for memory to give it back. And of operands that may be combined in any order,
exactly, those that depend on the state come last, so that all others are combined while the iteration before is still
at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import sub

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder, shape_of
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import count_uses, map_blocks, map_functions, used_by, walk, with_body, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE
from dlang.optimize.iterations import Iteration

EXACT = frozenset(["minimum", "maximum", "and", "or"])
"""Primitives whose operands may be combined in any order, of any type."""


def recurrences(program: anf.Program) -> anf.Program:
    """The program whose loops wait less for what the iteration before does."""

    def function(f: anf.Function) -> anf.Function:
        return with_body(f, _block(f.body, Knowledge.of(f)))

    return map_functions(program, function)


def _block(block: anf.Block, known: Knowledge) -> anf.Block:
    known = known.copy()
    lets: list[anf.Let] = []
    for let in block.lets:
        inside = known
        match let.op:
            case anf.Comp(axes):
                inside = known.within(axes)
            case anf.For(index, low, high):
                inside = known.within((anf.Axis(index, (low,), (high,)),))
            case _:
                pass
        new = with_op(let, let.vars, map_blocks(let.op, partial(_block, known=inside)))
        if isinstance(new.op, anf.For):
            lets += _carried(new, new.op, known)
        else:
            lets.append(new)
        known.note_made(let.vars)
    return with_lets(block, lets, block.results)


# ---- elements that iterations hand on --------------------------------------------------------------------------------
def _carried(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let]:
    """The loop with numbers for the elements of arrays that an iteration has written and the next ones read."""
    lets: list[anf.Let] = []
    written = _written(loop)
    numbers_of: dict[anf.Var, anf.Atom] = {}
    params, init, following = list(loop.params), list(loop.init), list[anf.Atom]()
    for (param, number), distances in (_distances(loop, written) if written else {}).items():
        element = written[param].elements[number]
        firsts = _firsts(loop, loop.params.index(param), element.index, distances, known)
        if firsts is None:
            continue
        before, values = firsts
        lets += before
        numbers = [anf.fresh("s", x.type) for x in values]
        numbers_of |= {v: numbers[d - 1] for v, d in distances.items()}
        params += numbers
        init += values
        following += [element.value, *numbers[:-1]]
    if numbers_of:
        renaming = Renaming(numbers_of)
        body = _reading(loop.body, renaming)
        body = anf.Block(body.lets, (*body.results, *map(renaming.atom, following)))
        more = [anf.fresh("s", p.type) for p in params[len(loop.params) :]]
        loop = replace(loop, params=tuple(params), init=tuple(init), body=body)
        let = anf.Let((*let.vars, *more), loop, let.span)
    return [*lets, with_op(let, let.vars, replace(loop, body=_in_order(loop)))]


@dataclass(frozen=True, slots=True)
class _Element:
    """An element that each iteration writes: its index, and the value."""

    index: tuple[anf.Size, ...]
    value: anf.Atom


@dataclass(frozen=True, slots=True)
class _Written:
    """The elements of an array of the state that each iteration writes, in this order, and no others.

    versions: the variables that stand for the array in an iteration, and how many have been written by then.
    """

    elements: tuple[_Element, ...]
    versions: Mapping[anf.Var, int]


def _written(loop: anf.For) -> dict[anf.Var, _Written]:
    """The arrays of the state in which each iteration writes single elements, at indices that its number decides."""
    one = Iteration.of(loop)
    updates = {let.op.array: (let.vars[0], let.op) for let in loop.body.lets if isinstance(let.op, anf.Update)}
    found: dict[anf.Var, _Written] = {}
    for param, end in zip(loop.params, loop.body.results[loop.early :], strict=True):
        if not isinstance(param.type, anf.Array) or dtype_of(param) not in WHOLE:
            continue
        version, elements, versions = param, list[_Element](), {param: 0}
        while version in updates:
            version, op = updates[version]
            elements.append(_Element(tuple(map(one.opened, op.index)), op.value))
            versions[version] = len(elements)
        scalars = all(isinstance(e.value.type, anf.Scalar) and one.is_known(*e.index) for e in elements)
        if elements and version is end and scalars:
            found[param] = _Written(tuple(elements), versions)
    return found


def _distances(loop: anf.For, written: Mapping[anf.Var, _Written]) -> dict[tuple[anf.Var, int], dict[anf.Var, int]]:
    """For each array and each element of it that an iteration writes, by its number, the values that are read where an
    earlier iteration has written it, and how many iterations before that was."""
    one = Iteration.of(loop)
    params = {version: param for param, w in written.items() for version in w.versions}
    found: dict[tuple[anf.Var, int], dict[anf.Var, int]] = {}
    for let in walk(loop.body):
        if isinstance(let.op, anf.Read) and let.op.array in params:
            param = params[let.op.array]
            source = _source(loop, one, written[param], let.op)
            if source is not None:
                number, distance = source
                found.setdefault((param, number), {})[let.vars[0]] = distance
    return found


def _source(loop: anf.For, one: Iteration, written: _Written, read: anf.Read) -> tuple[int, int] | None:
    """The element that is read, by its number among those of an iteration that writes it last, and how many iterations
    before that is; None if it is none, or not known."""
    index = tuple(map(one.opened, read.index))
    number = anf.poly(loop.index)
    if not all(_differ(e.index, index) for e in written.elements[: written.versions[read.array]]):
        return None
    for k, element in reversed([*enumerate(written.elements)]):
        before = _before(loop, element.index, number, 1)
        if before == index:
            return k, 1
        if not _differ(before, index):
            break
    first = written.elements[0]
    if len(written.elements) > 1 or not one.apart(first.index):
        return None
    further = range(2, figures.CARRIED + 1)
    return next(((0, d) for d in further if _before(loop, first.index, number, d) == index), None)


def _differ(a: Sequence[anf.Size], b: Sequence[anf.Size]) -> bool:
    """Tells whether two indices are never alike, by as much as stays the same."""
    return any(e.constant not in (None, 0) for e in map(sub, a, b))


def _before(loop: anf.For, written: Sequence[anf.Size], number: anf.Size, distance: int) -> tuple[anf.Size, ...]:
    """The index at which an iteration has written, so many before the one with a number."""
    return tuple([e.substitute({loop.index: number - distance}.get) for e in written])


def _firsts(
    loop: anf.For, k: int, written: Sequence[anf.Size], distances: Mapping[anf.Var, int], known: Knowledge
) -> tuple[list[anf.Let], list[anf.Atom]] | None:
    """The elements that the first iterations read, and the lets that read them before the loop; None if they may not be
    there.

    An element that is out of range where the loop has no iteration is read only if it has one.
    """
    array = loop.init[k]
    if not isinstance(array, anf.Var):
        return None
    running = known.within((anf.Axis(loop.index, (loop.low,), (loop.high,)),))
    b = Builder()
    init: list[anf.Atom] = []
    with b.scope() as lets:
        for d in range(1, max(distances.values()) + 1):
            index = _before(loop, written, loop.low, d)
            if known.inside(index, shape_of(array)):
                init.append(b.read(array, index))
                continue
            if not running.inside(index, shape_of(array)):
                return None
            runs = b.prim("lt", b.size(loop.low), b.size(loop.high))
            (first,) = b.if_(runs, partial(b.read, array, index), lambda: anf.Lit(0, dtype_of(array)))
            init.append(first)
    return lets, init


def _reading(block: anf.Block, numbers: Renaming) -> anf.Block:
    """The block with numbers in the place of what it reads."""

    def without_reads(block: anf.Block) -> anf.Block:
        lets = [
            with_op(let, let.vars, map_blocks(let.op, without_reads))
            for let in block.lets
            if numbers.env.keys().isdisjoint(let.vars)
        ]
        return with_lets(block, lets, block.results)

    return numbers.block(without_reads(block))


# ---- the order of operands -------------------------------------------------------------------------------------------
def _in_order(loop: anf.For) -> anf.Block:
    """The body of a loop, in which operands that depend on numbers of the state are combined last."""
    late: set[anf.Atom] = {p for p in loop.params if isinstance(p.type, anf.Scalar)}
    if not late:
        return loop.body
    uses = count_uses(loop.body)
    by: dict[anf.Atom, anf.Let] = {}
    lets: list[anf.Let] = []
    for let in loop.body.lets:
        if not late.isdisjoint(used_by(let)):
            late.update(let.vars)
        match let.op:
            case anf.Prim(name, (x, y)) if name in EXACT and let.vars[0] in late:
                chain: set[anf.Var] = set()
                terms = list(_terms(let, name, by, uses, chain))
                waiting = [t for t in terms if t in late]
                if (x in late and chain.isdisjoint((x, y))) or not late.isdisjoint(chain):
                    lets = [inner for inner in lets if chain.isdisjoint(inner.vars)]
                    lets += _combined(let, name, [*[t for t in terms if t not in late], *waiting])
                else:
                    lets.append(let)
            case _:
                lets.append(let)
        by.update(dict.fromkeys(lets[-1].vars, lets[-1]))
    return with_lets(loop.body, lets, loop.body.results)


def _terms(
    let: anf.Let, name: str, by: dict[anf.Atom, anf.Let], uses: dict[anf.Var, int], gone: set[anf.Var]
) -> Iterator[anf.Atom]:
    """The operands that a chain of one primitive combines; notes the lets of the chain."""
    assert isinstance(let.op, anf.Prim)
    for x in let.op.args:
        inner = by.get(x)
        if inner is not None and isinstance(inner.op, anf.Prim) and inner.op.name == name and uses[inner.vars[0]] == 1:
            gone.add(inner.vars[0])
            yield from _terms(inner, name, by, uses, gone)
        else:
            yield x


def _combined(let: anf.Let, name: str, terms: Sequence[anf.Atom]) -> Iterator[anf.Let]:
    so_far = terms[0]
    for k, term in enumerate(terms[1:], 1):
        last = k == len(terms) - 1
        var = let.vars[0] if last else anf.fresh("t", let.vars[0].type)
        yield anf.Let((var,), anf.Prim(name, (so_far, term)), let.span)
        so_far = var
