"""Sums that stand for the cotangents of arrays in nodes: making them, and adding them up (`tangent_types.py`).

A term is added to a sum in one step. Where a node is made, the terms are added to the cotangent of the array that went
into it, in place and in as many steps as there are terms, and elements in their boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from dlang.ad.inlining import unused
from dlang.ad.tangent_types import BOTH, BOX, ELEMENT, is_zero, retyped
from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.types import I64, array_type, dtype_of, is_float, product
from dlang.polynomials import Poly

if TYPE_CHECKING:
    from dlang.ad.conversions import Conversions

ZERO = anf.Lit(0, "i64")


def with_element(b: Builder, nodes: Conversions, total: anf.Atom, index: Sequence[anf.Size], g: anf.Atom) -> anf.Var:
    """A sum with one more term, for the element of an array at an index."""
    at = [b.size(entry) for entry in index]
    element = _variant(nodes, total, ELEMENT)
    match b.definition(total) if isinstance(total, anf.Var) else None:
        case anf.Construct(anf.Variant(tag=tag) as box, (*places, rest)) if tag == BOX:
            behind = b.one(anf.Construct(element, (*at, g, rest)), "terms")
            return b.one(anf.Construct(box, (*places, behind)), "terms")
        case _:
            return b.one(anf.Construct(element, (*at, g, total)), "terms")


def with_box(
    b: Builder, nodes: Conversions, total: anf.Atom, g: anf.Var, low: Sequence[anf.Size] | None = None
) -> anf.Atom:
    """A sum with one more term: an array that is added to the elements from an index on, or to all."""
    shape = array_type(g).shape
    start = [b.size(entry) for entry in low] if low is not None else [ZERO] * len(shape)
    sizes = [b.size(size) for size in shape]
    nothing = nodes.nothing(b, total.type)
    return joined(
        b, nodes, total, b.one(anf.Construct(_variant(nodes, total, BOX), (*start, *sizes, g, nothing)), "terms")
    )


def joined(b: Builder, nodes: Conversions, x: anf.Atom, y: anf.Atom) -> anf.Atom:
    """The sum of two sums."""
    if is_zero(b, x) or is_zero(b, y):
        return y if is_zero(b, x) else x
    dtype = dtype_of(x)
    return b.call(nodes.function("join", dtype, 2, dtype, partial(_join, nodes)), x, y)[0]


def _join(nodes: Conversions, b: Builder, dtype: str, args: Sequence[anf.Var]) -> anf.Atom:
    """The sum of two sums. The largest box is in front, so that boxes of the same elements are added: as many arrays
    are held as there are kinds of boxes, and not as there are terms."""
    x, y = args
    box = nodes.datatypes[dtype].variants[BOX]

    def in_front(boxed: Sequence[anf.Atom], other: anf.Atom) -> anf.Var:
        *places, rest = boxed
        return b.one(anf.Construct(box, (*places, _both(b, nodes, rest, other))))

    def two_boxes() -> anf.Atom:
        first, second = b.emit(anf.Fields(box, x)), b.emit(anf.Fields(box, y))
        *places, terms, rest = first
        *others, other_terms, other_rest = second
        same = _all(b, [b.prim("eq", i, j) for i, j in zip(places, others, strict=True)])

        def merged() -> anf.Atom:
            total = nodes.plus(b, terms, retyped(b, other_terms, terms.type))
            return b.one(anf.Construct(box, (*places, total, _both(b, nodes, rest, other_rest))))

        def larger() -> anf.Atom:
            counts = [b.size(product(array_type(a).shape)) for a in (terms, other_terms)]
            return b.if_(b.prim("ge", *counts), lambda: in_front(first, y), lambda: in_front(second, x))[0]

        return b.if_(same, merged, larger)[0]

    def unless_zero() -> anf.Atom:
        return b.if_(_is(b, x, BOX), first_boxed, first_not_boxed)[0]

    def first_boxed() -> anf.Atom:
        return b.if_(_is(b, y, BOX), two_boxes, lambda: in_front(b.emit(anf.Fields(box, x)), y))[0]

    def first_not_boxed() -> anf.Atom:
        return b.if_(_is(b, y, BOX), lambda: in_front(b.emit(anf.Fields(box, y)), x), lambda: _both(b, nodes, x, y))[0]

    return b.if_(_is(b, x, 0), lambda: y, lambda: b.if_(_is(b, y, 0), lambda: x, unless_zero)[0])[0]


def _both(b: Builder, nodes: Conversions, x: anf.Atom, y: anf.Atom) -> anf.Atom:
    """The sum of two sums, of which only the second is looked into: it may be a single element, which is put in front
    of the first."""
    both = _variant(nodes, x, BOTH)

    def in_front() -> anf.Atom:
        return b.one(anf.Construct(both, (y, x)))

    def of_element() -> anf.Atom:
        element = _variant(nodes, x, ELEMENT)
        *term, rest = b.emit(anf.Fields(element, y))
        return b.if_(_is(b, rest, 0), lambda: b.one(anf.Construct(element, (*term, x))), in_front)[0]

    def unless_zero() -> anf.Atom:
        return b.if_(_is(b, y, ELEMENT), of_element, lambda: b.if_(_is(b, y, 0), lambda: x, in_front)[0])[0]

    return b.if_(_is(b, x, 0), lambda: y, unless_zero)[0]


def _all(b: Builder, conditions: Sequence[anf.Atom]) -> anf.Atom:
    return reduce(lambda x, y: b.prim("and", x, y), conditions)


def array_of(b: Builder, nodes: Conversions, total: anf.Atom, type: anf.Array) -> anf.Atom:
    """The array that a sum stands for, of a type of tangents: its only term, where that is the whole array."""
    box, rank = _variant(nodes, total, BOX), len(type.shape)

    def whole() -> anf.Atom:
        fields = b.emit(anf.Fields(box, total))
        wanted = [*[ZERO] * rank, *map(b.size, type.shape)]
        same = [b.prim("eq", found, size) for found, size in zip(fields, wanted, strict=False)]
        return _all(b, [_is(b, fields[-1], 0), *same])

    def in_zeros() -> anf.Atom:
        zeros = nodes.nothing(b, type)
        assert isinstance(zeros, anf.Var)
        return added(b, nodes, total, zeros)

    is_whole = b.if_(_is(b, total, BOX), whole, lambda: anf.Lit(False, "bool"))[0]
    return b.if_(is_whole, lambda: retyped(b, b.emit(anf.Fields(box, total))[2 * rank], type), in_zeros)[0]


def added(b: Builder, nodes: Conversions, total: anf.Atom, array: anf.Var) -> anf.Var:
    """An array with the terms of a sum added to its elements, in place."""
    sizes = [b.size(size) for size in array_type(array).shape]
    (out,) = b.call(_adding(nodes, dtype_of(total)), *sizes, total, array)
    return out


def _adding(nodes: Conversions, dtype: str) -> str:
    """The name of the function of sizes, a sum, and an array that is given back with the terms added."""
    key = "sum", dtype
    if key not in nodes.made:
        name = nodes.made[key] = unused("add_terms", nodes.functions)
        summed = nodes.sums[dtype]
        b = Builder(nodes.functions)
        sizes = [b.param("n", I64) for _ in summed.shape]
        type = anf.Array(summed.dtype, tuple(map(anf.poly, sizes)))
        total, array = b.param("terms", anf.Scalar(dtype)), b.param("bar", type)
        block = b.block(lambda: _loop(b, nodes, total, array))
        params = (*sizes, total, array)
        function = anf.Function(name, params, (anf.fresh("bar", type),), block, name, sizes=frozenset(sizes))
        nodes.functions[name] = function
    return nodes.made[key]


def _loop(b: Builder, nodes: Conversions, total: anf.Var, array: anf.Var) -> anf.Var:
    """Adds the terms one after another. Those of x in `Both(x, y)` come first, and y waits in a list."""
    rank = len(array_type(array).shape)
    pair = _variant(nodes, total, BOTH)

    def fields(tag: int, node: anf.Var) -> tuple[anf.Var, ...]:
        return b.emit(anf.Fields(_variant(nodes, node, tag), node))

    def element(node: anf.Var, bar: anf.Var) -> tuple[anf.Var, anf.Var]:
        *at, term, rest = fields(ELEMENT, node)
        index = tuple(map(anf.poly, at))
        return rest, b.update(bar, index, nodes.plus(b, b.one(anf.Read(bar, index)), term))

    def box(node: anf.Var, bar: anf.Var) -> tuple[anf.Var, anf.Var]:
        *places, terms, rest = fields(BOX, node)
        low, sizes = places[:rank], places[rank:]
        ends = [b.add(start, size) for start, size in zip(low, sizes, strict=True)]
        inside = _all(
            b,
            [
                *(b.prim("le", ZERO, start) for start in low),
                *(b.prim("le", end, b.size(n)) for end, n in zip(ends, array_type(bar).shape, strict=True)),
            ],
        )
        # A term of no points may stand at an index that nothing has checked.
        return rest, b.if_(inside, lambda: _with_terms(b, nodes, bar, terms, list(map(anf.poly, low))), lambda: bar)[0]

    def both(node: anf.Var, waiting: anf.Var, bar: anf.Var) -> tuple[anf.Atom, ...]:
        x, y = fields(BOTH, node)
        return x, b.one(anf.Construct(pair, (y, waiting))), bar

    def one_term(tag: anf.Var, node: anf.Var, waiting: anf.Var, bar: anf.Var) -> tuple[anf.Atom, ...]:
        def boxed() -> tuple[anf.Atom, ...]:
            rest, after = box(node, bar)
            return rest, waiting, after

        def not_element() -> tuple[anf.Atom, ...]:
            return b.if_(b.prim("eq", tag, anf.Lit(BOX, "i64")), boxed, lambda: both(node, waiting, bar))

        def of_element() -> tuple[anf.Atom, ...]:
            rest, after = element(node, bar)
            return rest, waiting, after

        return b.if_(b.prim("eq", tag, anf.Lit(ELEMENT, "i64")), of_element, not_element)

    def next(waiting: anf.Atom) -> tuple[anf.Atom, ...]:
        first, others = b.emit(anf.Fields(pair, waiting))
        return b.one(anf.Tag(first)), first, others

    def step(tag: anf.Var, node: anf.Var, waiting: anf.Var, bar: anf.Var) -> tuple[anf.Atom, ...]:
        rest, left, after = one_term(tag, node, waiting, bar)
        kind = b.one(anf.Tag(rest))
        more = b.if_(
            b.prim("eq", kind, ZERO),
            lambda: b.if_(_is(b, left, 0), lambda: (kind, rest, left), lambda: next(left)),
            lambda: (kind, rest, left),
        )
        return *more, after

    start = [b.one(anf.Tag(total)), total, nodes.nothing(b, total.type), array]
    *_, out = b.while_(start, lambda tag, *_: b.prim("ne", tag, ZERO), step)
    return out


def _with_terms(b: Builder, nodes: Conversions, bar: anf.Var, terms: anf.Var, low: Sequence[Poly[anf.Var]]) -> anf.Atom:
    """An array with the elements of another added from an index on."""
    shape, sizes = array_type(bar).shape, array_type(terms).shape
    if is_float(terms.type):
        return b.comp(
            sizes,
            lambda *at: b.one(anf.Read(terms, tuple(map(anf.poly, at)))),
            lambda *at: [
                anf.Reduce(shape, tuple([start + anf.poly(i) for start, i in zip(low, at, strict=True)]), "sum", bar)
            ],
        )[0]

    def nest(out: anf.Var, at: tuple[anf.Var, ...]) -> anf.Var:
        if len(at) < len(sizes):
            return b.for_(0, sizes[len(at)], [out], lambda i, inner: nest(inner, (*at, i)))[0]
        index = tuple([start + anf.poly(i) for start, i in zip(low, at, strict=True)])
        term = b.one(anf.Read(terms, tuple(map(anf.poly, at))))
        return b.update(out, index, nodes.plus(b, b.one(anf.Read(out, index)), term))

    return nest(bar, ())


def _variant(nodes: Conversions, total: anf.Atom, tag: int) -> anf.Variant:
    return nodes.datatypes[dtype_of(total)].variants[tag]


def _is(b: Builder, node: anf.Atom, tag: int) -> anf.Var:
    return b.prim("eq", b.one(anf.Tag(node)), anf.Lit(tag, "i64"))
