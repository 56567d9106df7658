"""Axes that are compared with numbers: where a value counts only if an axis is a number, that is all of the axis.

    r = comp g, i { l = read label[i]; c = eq(l, g); v = read x[i]; t = select(c, v, 0.0); yield t } to keep [k] [g] sum

becomes

    r = comp i { l = read label[i]; g = l within 0..k; c = eq(l, g); v = …; t = select(c, v, 0.0); … } to add [k] [g]

So sums over masks, over filters by a label and over rows of a one-hot matrix are scatters, and their adjoints gathers,
whose operations do not grow with the number of labels. Where the number is no value of the axis, the comparison with
the nearest one does not hold, and the value is 0 as it was. A number of another axis, or one from outside, is as good:
a sum over a diagonal, or of the element of a loop's iteration.

A number times 1 or 0 is 0 at the other points of the axis too, unless the number is not finite. So where 0 times all of
the other factors is a NaN, a product with a one-hot matrix is done as it was written. These must lack an axis.

    r = contract hot[g, i] x[i] -> [g]

becomes

    z = comp i { … yield 0.0 * x[i] } to keep [] [] sum
    r = if ne(z, z) { comp g, i { … yield 0.0 or x[i] } to keep [k] [g] } else { comp i { … } to add [k] [g] }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge, hull, nonempty
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import as_comprehension, extent, taken_apart, without_results
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, map_functions, pruned, used_by, with_body, with_lets, with_op
from dlang.ir.types import I64, array_type, dtype_of, is_float
from dlang.ops import figures
from dlang.optimize.producers import LightElements


def compared_axes(program: anf.Program) -> anf.Program:
    """The program with comprehensions over such axes done at the numbers that they are compared with."""

    def function(f: anf.Function) -> anf.Function:
        return with_body(f, _block(f.body, Knowledge.of(f), None))

    return map_functions(program, function)


def _block(block: anf.Block, known: Knowledge, around: LightElements | None) -> anf.Block:
    """The block with such axes replaced. around: the elements of arrays that the block is behind."""
    known = known.copy()
    elements = LightElements(block, around)
    lets: list[anf.Let] = []
    for let in block.lets:
        let = with_op(let, let.vars, map_blocks(let.op, lambda inner: _block(inner, known, elements)))
        if isinstance(let.op, anf.Comp):
            opened = elements.opened(let.op)
            lets += _comp(let, let.op, opened, known)
            elements.note(let, opened)
        elif isinstance(let.op, anf.Contract):
            lets += _product(let, let.op, elements, known) or [let]
        else:
            lets.append(let)
        known.note_made(let.vars)
    return with_lets(block, lets, block.results)


def _comp(let: anf.Let, op: anf.Comp, opened: anf.Comp, known: Knowledge) -> Iterator[anf.Let]:
    """A comprehension without the results that need only some points of an axis, and these."""
    apart: dict[int, list[anf.Let]] = {}
    if not any(isinstance(d, anf.Reduce) and d.after is not None for d in op.destinations):
        forms = [_Compared(each) for each in ((op,) if opened is op else (op, opened))]
        for k in range(len(op.destinations)):
            new = next(filter(None, (_at_numbers(each, k, known, let) for each in forms)), None)
            if new is not None:
                apart[k] = new
    if apart:
        yield from without_results(let, apart)
        for lets in apart.values():
            yield from lets
    else:
        yield let


def _product(let: anf.Let, op: anf.Contract, elements: LightElements, known: Knowledge) -> list[anf.Let]:
    """The lets that do a product with a one-hot matrix; none if it has no such factor."""
    if elements.producers.keys().isdisjoint((op.a, op.b)) or array_type(op.a).dtype in anf.HALF:
        return []
    return _at_numbers(_Compared(elements.opened(as_comprehension(op))), 0, known, let)


def _at_numbers(compared: _Compared, k: int, known: Knowledge, let: anf.Let) -> list[anf.Let]:
    """The lets that give a result of a comprehension without an axis that is compared; none if it has none."""
    op = compared.op
    for axis, place, factors, code in compared.places(k):
        if lets := _without(op, axis, place, code, k, known, let):
            return _where_finite(op, k, factors, code, lets, let) if factors else lets
    return []


def is_compared(op: anf.Comp) -> bool:
    """Tells whether a result is a sum of which an axis counts only where it is a number."""
    compared = _Compared(op)
    return any(True for k in range(len(op.destinations)) for _ in compared.places(k))


Factors = tuple[anf.Atom, ...]
"""The factors that are times 0 where numbers differ."""

Place = tuple[anf.Axis, anf.Size, Factors, Sequence[anf.Let]]
"""An axis, its value where a result counts, what is times 0 at the others, and the code of the result and its place."""

_Pairs = Mapping[tuple[anf.Atom, anf.Atom], Factors]
"""Pairs of numbers that are equal wherever a value is not 0, or 0 times the fewest factors."""


class _Compared:
    """The comparisons in the body of a comprehension, each let looked at once.

    held: of conditions, the pairs that are equal where they hold. equal: of values.
    """

    def __init__(self, op: anf.Comp) -> None:
        self.op = op
        self.by: dict[anf.Atom, anf.Op] = {}
        self.sizes: dict[anf.Atom, anf.Size] = {}
        self.held: dict[anf.Atom, _Pairs] = {}
        self.equal: dict[anf.Atom, _Pairs] = {}
        for let in op.body.lets:
            match let.op:
                case anf.Prim("eq", (x, y)) if x.type == I64:
                    self.held[let.vars[0]] = {(x, y): ()}
                case anf.Prim("and" | "bit_and", (x, y)) if x in self.held or y in self.held:
                    self.held[let.vars[0]] = {**self.held.get(x, {}), **self.held.get(y, {})}
                case anf.If(condition, _, otherwise) if condition in self.held:
                    zeros = [v for v, r in zip(let.vars, otherwise.results, strict=True) if is_zero(r)]
                    self.equal.update(dict.fromkeys(zeros, self.held[condition]))
                case anf.Prim() | anf.Cast() if (self.held or self.equal) and (pairs := self.pairs(let.op)):
                    self.equal[let.vars[0]] = pairs
                case _:
                    pass
            self.by.update(dict.fromkeys(let.vars, let.op))

    def pairs(self, op: anf.Prim | anf.Cast) -> _Pairs:
        """The pairs that are equal wherever the value of an operation is not 0."""
        held, equal = self.held, self.equal
        match op:
            case anf.Prim("select", (condition, x, y)) if is_zero(y):
                return {**held.get(condition, {}), **self.alone(x)}
            case anf.Prim("zero_safe_mul", (x, _)):
                return self.alone(x)
            case anf.Prim("zero_safe_mul_both", (x, y)):
                return {**self.alone(x), **self.alone(y)}
            case anf.Prim("neg", (x,)):
                return equal.get(x, {})
            case anf.Prim("mul", (x, y)):
                found: dict[tuple[anf.Atom, anf.Atom], Factors] = {}
                for one, other in ((x, y), (y, x)):
                    for pair, factors in equal.get(one, {}).items():
                        more = (*factors, other) if is_float(other.type) else factors
                        found[pair] = min(found.get(pair, more), more, key=len)
                return found
            case anf.Cast(arg=x):
                return {**held.get(x, {}), **self.alone(x)}
            case _:
                return {}

    def alone(self, value: anf.Atom) -> _Pairs:
        """The pairs with which a value is 0 whatever else it is made of."""
        return {pair: factors for pair, factors in self.equal.get(value, {}).items() if not factors}

    def places(self, k: int) -> Iterator[Place]:
        """The places of a result on the axes that it is compared with."""
        value, destination = self.op.body.results[k], self.op.destinations[k]
        if value not in self.equal or not isinstance(destination, anf.Reduce) or destination.monoid != "sum":
            return
        code = pruned(self.op.body.lets, [value], destination.index)
        if not all(_is_plain(inner.op) for inner in code):
            return
        for (x, y), factors in self.equal[value].items():
            gap = self.size(x) - self.size(y)
            for axis in self.op.axes:
                place = _place(gap, axis, self.op.axes, code)
                if place is not None and (not factors or _are_fewer(self.op, destination, factors, code)):
                    yield axis, place, factors, code

    def size(self, atom: anf.Atom) -> anf.Size:
        """A number as a polynomial of others, which it is also where both wrap."""
        if atom not in self.sizes:
            match self.by.get(atom):
                case anf.IndexExpr(size):
                    self.sizes[atom] = size
                case anf.Prim("add", (x, y)):
                    self.sizes[atom] = self.size(x) + self.size(y)
                case anf.Prim("sub", (x, y)):
                    self.sizes[atom] = self.size(x) - self.size(y)
                case _:
                    self.sizes[atom] = anf.poly(atom)
        return self.sizes[atom]


def _are_fewer(op: anf.Comp, destination: anf.Reduce, factors: Factors, code: Sequence[anf.Let]) -> bool:
    """Tells whether factors are added up over fewer points than a comprehension has, and for all of its elements."""
    needed = _axes_of(op, factors, code)
    kept = {e.atom for e in destination.index}
    full = destination.into is None and len(kept) == len(destination.index)
    full = full and all(
        any(e == anf.poly(a.var) and extent(a) == size for a in op.axes)
        for e, size in zip(destination.index, destination.shape, strict=True)
    )
    boxed = all(extent(a) is not None for a in op.axes)
    boxed = boxed and not any(a.highs[0].mentions([other.var for other in op.axes]) for a in op.axes)
    return full and boxed and len(needed) < len(op.axes) and all(a in needed or a.var in kept for a in op.axes)


def _axes_of(op: anf.Comp, factors: Factors, code: Sequence[anf.Let]) -> list[anf.Axis]:
    """The axes on which factors depend."""
    used = {v for inner in pruned(code, factors) for v in used_by(inner)}.union(factors)
    return [a for a in op.axes if a.var in used]


def _where_finite(
    op: anf.Comp, k: int, factors: Factors, code: Sequence[anf.Let], lets: Sequence[anf.Let], let: anf.Let
) -> list[anf.Let]:
    """The lets that give a result by some lets if factors are finite, and else as it was written."""
    b = Builder(span=let.span)
    renaming = Renaming({}, renew=True)
    with b.scope() as test:
        points = tuple([renaming.axis(a) for a in _axes_of(op, factors, code)])
        with b.scope() as body:
            for inner in pruned(code, factors):
                b.append(renaming.let(inner))
            product: anf.Atom = anf.Lit(0.0, dtype_of(factors[0]))
            for factor in factors:
                product = b.prim("mul", product, renaming.atom(factor))
        (zeros,) = b.emit(anf.Comp(points, anf.Block(tuple(body), (product,)), (anf.Reduce((), ()),)), ("zeros",))
        condition = b.prim("ne", zeros, zeros)
    written = taken_apart(anf.Let(let.vars, op, let.span), [[k]])[0]  # which needs no matrix of zeros and ones
    slow, fast = (Renaming({}, renew=True).block(anf.Block(tuple(arm), written.vars)) for arm in ([written], lets))
    return [*test, anf.Let(written.vars, anf.If(condition, slow, fast, cold=True), let.span)]


def _is_plain(op: anf.Op) -> bool:
    """Tells whether an operation computes numbers of a point, and can't end the run."""
    if isinstance(op, anf.If):
        return all(_is_plain(inner.op) for arm in (op.then, op.otherwise) for inner in arm.lets)
    return op.IS.point


def is_zero(atom: anf.Atom) -> bool:
    """Tells whether an atom is a literal 0, of either sign."""
    return isinstance(atom, anf.Lit) and not isinstance(atom.value, str) and atom.value == 0


def _place(gap: anf.Size, axis: anf.Axis, axes: Sequence[anf.Axis], code: Sequence[anf.Let]) -> anf.Size | None:
    """The value of an axis at which a difference is 0, if nothing that depends on the axis determines it."""
    if not gap.mentions((axis.var,)) or len(axis.lows) != 1 or len(axis.highs) != 1:
        return None
    count = (axis.highs[0] - axis.lows[0]).constant
    if count is not None and count <= figures.WRITTEN_OUT_AXIS:
        return None
    if any(b.mentions((axis.var,)) for other in axes for b in (*other.lows, *other.highs)):
        return None
    others = gap.without(axis.var)
    slope = gap - others
    if slope != anf.poly(axis.var) and slope != -anf.poly(axis.var):
        return None
    place = -others if slope == anf.poly(axis.var) else others
    varying = {axis.var}
    for inner in code:
        if not varying.isdisjoint(used_by(inner)):
            varying.update(inner.vars)
    return None if place.mentions(varying) else place


def _without(
    op: anf.Comp, axis: anf.Axis, place: anf.Size, code: Sequence[anf.Let], k: int, known: Knowledge, let: anf.Let
) -> list[anf.Let]:
    """The lets that give a result of a comprehension without an axis, which is at a place instead; none if they can't.

    code: that of the result's value.
    """
    destination = op.destinations[k]
    others = [a for a in op.axes if a is not axis]
    entries = [n for n, e in enumerate(destination.index) if e.mentions((axis.var,))]
    kept = {e.atom for e in destination.index}
    if len(entries) > 1 or any(destination.index[n] != anf.poly(axis.var) for n in entries):
        return []
    if entries and all(a.var in kept for a in others):
        return []  # each element is set once: it may be a matrix of zeros and ones
    if entries:  # an iteration adds to elements side by side
        others.sort(key=lambda a: a.var in kept)
    count = axis.highs[0] - axis.lows[0]
    box = hull(op.axes, known)
    if box is None or count.mentions([a.var for a in op.axes]):
        return []
    b = Builder(span=let.span)
    with b.scope() as lets:
        left, points_of_axis = others, anf.poly(1)
        if not known.positive(count):
            some = b.prim("minimum", b.size(count), anf.Lit(1, "i64"), name="some")
            points_of_axis = anf.poly(some)
            left = nonempty(others, [anf.Axis(axis.var, (anf.ZERO,), (points_of_axis,))], box, known)
        if not others:
            left = [anf.Axis(anf.fresh(axis.var.name, I64), (anf.ZERO,), (points_of_axis,))]
        renaming = Renaming({}, renew=True)
        points = tuple([renaming.axis(a) for a in left])
        with b.scope() as body:
            _emit_at(b, renaming, axis, place, code)
        index = tuple(map(renaming.size, destination.index))
        to = (
            anf.ScatterAdd(destination.shape, index, destination.into) if entries else replace(destination, index=index)
        )
        new = anf.Comp(points, anf.Block(tuple(body), (renaming.atom(op.body.results[k]),)), (to,))
        b.emit_as([let.vars[k]], new)
    return lets


def _emit_at(b: Builder, renaming: Renaming, axis: anf.Axis, place: anf.Size, code: Sequence[anf.Let]) -> None:
    """Emits code with an axis at the number in its range that is nearest to a place."""
    needed, numbers = {*place.atoms()}, set[tuple[anf.Var, ...]]()
    for inner in reversed(code):
        if not needed.isdisjoint(inner.vars):
            numbers.add(inner.vars)
            needed.update(used_by(inner))
    for inner in code:
        if inner.vars in numbers:
            b.append(renaming.let(inner))
    low, last = b.size(renaming.size(axis.lows[0])), b.size(renaming.size(axis.highs[0]) - 1)
    number = b.prim("maximum", b.size(renaming.size(place)), low)
    renaming.env[axis.var] = b.prim("minimum", number, last)
    for inner in code:
        if inner.vars not in numbers:
            b.append(renaming.let(inner))
