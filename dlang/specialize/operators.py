"""Operators on structures: component by component, at every depth.

What they do at a type that contains itself is a function of the IR, which calls itself. So what they do at a float is
data (`Pointwise`), and the values that it needs are arguments of that function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dlang.diagnostics import error
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Scalar, fresh, poly
from dlang.specialize.arith import all_of, cast_like, elementwise, matmul, reduce_axes, scalar_operator
from dlang.specialize.comprehensions import collect
from dlang.specialize.emitter import TRUE
from dlang.specialize.frame import Frame, scalar
from dlang.specialize.generated import construct, fields_of, generated, opened, tag_of
from dlang.specialize.indexing import Element, select
from dlang.specialize.joins import choice
from dlang.specialize.patterns import both, conjunction
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    DataV,
    DerivativeV,
    DynamicV,
    EnumV,
    Many,
    NodeV,
    PullV,
    ScalarV,
    TupleV,
    Value,
    leaves,
    parts,
    with_parts,
)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A function of corresponding scalars. key: identifies it; held: the values that it needs."""

    key: object
    held: tuple[Value, ...]
    at: Callable[[Frame, tuple[Value, ...], tuple[Atom, ...]], Atom]

    def over(self, held: Sequence[Value]) -> Pointwise:
        return Pointwise(self.key, tuple(held), self.at)


# ---- operators -------------------------------------------------------------------------------------------------------
def operator(f: Frame, name: str, a: Value, b: Value) -> Value:
    """`a name b`, broadcasting over arrays, component by component on structures."""
    e = f.emitter
    if name == "@":
        return matmul(f, a, b)
    if not is_structure(a) and not is_structure(b):
        return elementwise(f, lambda x, y: scalar_operator(e, name, x, y), a, b)
    if name in ("==", "!="):
        return same(f, name, a, b)
    if is_structure(a) and is_structure(b):
        return pointwise(f, Pointwise(name, (), lambda g, _, xs: scalar_operator(g.emitter, name, *xs)), a, b)
    if is_structure(a):
        return pointwise(f, Pointwise(("right", name), (b,), lambda g, held, xs: scaled(g, name, held, xs, True)), a)
    return pointwise(f, Pointwise(("left", name), (a,), lambda g, held, xs: scaled(g, name, held, xs, False)), b)


def scaled(f: Frame, name: str, held: tuple[Value, ...], xs: tuple[Atom, ...], right: bool) -> Atom:
    """A component with a scalar, in the dtype of the component."""
    factor = cast_like(f.emitter, scalar(held[0]), xs[0])
    return scalar_operator(f.emitter, name, *((xs[0], factor) if right else (factor, xs[0])))


def negate(f: Frame, v: Value) -> Value:
    if not is_structure(v):
        return elementwise(f, lambda x: f.emitter.prim("neg", x), v)
    return pointwise(f, Pointwise("neg", (), lambda g, _, xs: g.emitter.prim("neg", *xs)), v)


def is_structure(v: Value) -> bool:
    return isinstance(v, TupleV | DataV | EnumV | Many | NodeV)


def has_node(v: Value) -> bool:
    return isinstance(v, NodeV) or any(map(has_node, parts(v)))


def has_variants(v: Value) -> bool:
    """Tells whether a structure holds an enum anywhere, so that elements like it may be of different variants."""
    return isinstance(v, EnumV | NodeV) or any(map(has_variants, parts(v)))


def pointwise(f: Frame, p: Pointwise, *values: Value) -> Value:
    """A function at the corresponding floats of structures of one type; other leaves are those of the first."""
    first = values[0]
    match first:
        case ScalarV() | ArrayV():
            if first.dtype not in anf.FLOATS:
                return first
            return elementwise(f, lambda *xs: p.at(f, p.held, xs), *values)
        case TupleV() | DataV():
            return with_parts(first, pointwise_all(f, p, [parts(v) for v in values]))
        case Many(shape, element) if has_variants(element):
            return over_elements(f, shape, values, lambda xs: pointwise(f, p, *xs))
        case Many(shape, _):
            return Many(shape, pointwise(f, p, *[parts(v)[0] for v in values]))
        case EnumV():
            return pointwise_enum(f, p, first, [v for v in values if isinstance(v, EnumV)])
        case NodeV():
            n = len(values)

            def body(g: Frame, args: Sequence[Value]) -> Value:
                return pointwise_node(g, p.over(args[n:]), [v for v in args[:n] if isinstance(v, NodeV)])

            return generated(f, "operator", p.key, (*values, *p.held), lambda args: args[0], body)
        case _:  # a function
            return first


def pointwise_all(f: Frame, p: Pointwise, columns: Sequence[Sequence[Value]]) -> list[Value]:
    return [pointwise(f, p, *row) for row in zip(*columns, strict=True)]


def pointwise_enum(f: Frame, p: Pointwise, first: EnumV, values: Sequence[EnumV]) -> Value:
    """All values are of one variant; the fields of the others are left."""
    tags = [scalar(v.tag) for v in values]
    tag = one_variant(f, tags)
    variants: list[tuple[Value, ...]] = []
    for k, fields in enumerate(first.variants):
        if not any(is_float(a) for x in fields for a in leaves(x)):
            variants.append(fields)
            continue
        is_variant = f.emitter.prim("eq", tag, Lit(k, "i64"))
        columns = [v.variants[k] for v in values]
        chosen = choice(
            f, is_variant, partial(pointwise_all, f, p, columns), partial(list, fields), [None] * len(fields)
        )
        variants.append(tuple(chosen))
    return EnumV(first.decl, ScalarV(tag), tuple(variants))


def pointwise_node(f: Frame, p: Pointwise, values: Sequence[NodeV]) -> Value:
    first = values[0]
    tag = one_variant(f, [tag_of(f, v) for v in values])

    def arm(k: int) -> list[Value]:
        columns = [opened(f, v, k) for v in values]
        return [construct(f, first.type, k, pointwise_all(f, p, columns))]

    return by_variant(f, tag, len(first.type.decl.variants), arm)[0]


def one_variant(f: Frame, tags: Sequence[Atom]) -> Atom:
    """The tag that values have in common; another one ends the run."""
    e = f.emitter
    tag = tags[0]
    for other in tags[1:]:
        agree = e.prim("eq", tag, other)
        (tag,) = e.check(agree, "E0800", ("an operator on different variants of an enum",), (), (tag,))
    return tag


def by_variant(f: Frame, tag: Atom, count: int, arm: Callable[[int], list[Value]], k: int = 0) -> list[Value]:
    """The values that the arm of the variant gives."""
    if k == count - 1:
        return arm(k)
    is_variant = f.emitter.prim("eq", tag, Lit(k, "i64"))
    return choice_of(f, is_variant, lambda: arm(k), lambda: by_variant(f, tag, count, arm, k + 1))


def choice_of(
    f: Frame, condition: Atom, then: Callable[[], list[Value]], otherwise: Callable[[], list[Value]]
) -> list[Value]:
    """A branch that gives one value."""
    return choice(f, condition, then, otherwise, [None])


def over_elements(
    f: Frame, shape: tuple[anf.Size, ...], values: Sequence[Value], function: Callable[[list[Value]], Value]
) -> Value:
    """A function at the corresponding elements of arrays of one shape."""
    axes = tuple([f.emitter.axis(s) for s in shape])
    index = [Element(poly(a.var)) for a in axes]
    with f.block() as lets:
        value = function([select(f, v, index) for v in values])
    return collect(f, axes, lets, value)


def is_float(a: Atom) -> bool:
    return not isinstance(a.type, anf.Token) and a.type.dtype in anf.FLOATS


# ---- comparing -------------------------------------------------------------------------------------------------------
def same(f: Frame, name: str, a: Value, b: Value) -> Value:
    """`==` and `!=` of structures: one truth value, or of arrays of structures one for each element."""
    e = f.emitter

    def compared(x: Value, y: Value) -> Atom:
        same = equal(f, x, y)
        return same if name == "==" else e.prim("not", same)

    if isinstance(a, Many) and isinstance(b, Many):
        return over_elements(f, a.shape, (a, b), lambda xs: ScalarV(compared(*xs)))
    return ScalarV(compared(a, b))


def equal(f: Frame, a: Value, b: Value) -> Atom:
    """Structural equality, one bool."""
    return agree(f, "equal", (), lambda g, _, x, y: g.emitter.prim("eq", x, y), a, b)


def close(f: Frame, a: Value, b: Value, tol: Atom) -> Atom:
    """|a - b| <= tol · max(1, |a|, |b|) at every float; other leaves are equal."""
    return agree(f, "close", (ScalarV(tol),), near, a, b)


Agreement = Callable[[Frame, tuple[Value, ...], Atom, Atom], Atom]


def near(f: Frame, held: tuple[Value, ...], x: Atom, y: Atom) -> Atom:
    e = f.emitter
    assert isinstance(x.type, anf.Scalar)
    dtype = x.type.dtype
    if dtype not in anf.FLOATS:
        return e.prim("eq", x, y)
    scale = e.prim("maximum", Lit(1.0, dtype), e.prim("maximum", e.prim("abs", x), e.prim("abs", y)))
    distance = e.prim("abs", e.prim("sub", x, y))
    within = e.prim("le", distance, e.prim("mul", e.cast(dtype, scalar(held[0])), scale))
    # an infinity is close to itself alone: infinite is the scale, too
    within = e.prim("and", within, e.prim("isfinite", distance))
    return e.prim("or", e.prim("eq", x, y), within)


def agree(f: Frame, what: str, held: tuple[Value, ...], at: Agreement, a: Value, b: Value) -> Atom:
    """Emits the test whether two values of a type are alike, where `at` says it of two scalars."""
    match a, b:
        case ((ScalarV() | ArrayV()), (ScalarV() | ArrayV())):
            return alike_arrays(f, held, at, a, b)
        case Many(_, x), Many(_, y) if not has_variants(x):
            return agree(f, what, held, at, x, y)
        case Many(shape, _), Many():
            return all_of(
                f, over_elements(f, shape, (a, b), lambda xs: ScalarV(agree(f, what, held, at, xs[0], xs[1])))
            )
        case EnumV(), EnumV():
            tag = scalar(a.tag)
            tags_agree = f.emitter.prim("eq", tag, scalar(b.tag))

            def enum_arm(k: int) -> list[Value]:
                return [ScalarV(conjunction(f, agreements(f, what, held, at, a.variants[k], b.variants[k])))]

            if not a.fields:
                return tags_agree
            return both(f, tags_agree, lambda: scalar(by_variant(f, tag, len(a.variants), enum_arm)[0]))
        case NodeV(), NodeV():

            def body(g: Frame, args: Sequence[Value]) -> Value:
                x, y, *captured = args
                assert isinstance(x, NodeV) and isinstance(y, NodeV)
                tag = tag_of(g, x)

                def arm(k: int) -> list[Value]:
                    if not x.type.decl.variants[k].fields:
                        return [ScalarV(TRUE)]
                    left, right = fields_of(g, x, k), fields_of(g, y, k)
                    return [ScalarV(conjunction(g, agreements(g, what, tuple(captured), at, left, right)))]

                tags_agree = g.emitter.prim("eq", tag, tag_of(g, y))
                count = len(x.type.decl.variants)
                return ScalarV(both(g, tags_agree, lambda: scalar(by_variant(g, tag, count, arm)[0])))

            result = ScalarV(fresh("same", Scalar("bool")))
            return scalar(generated(f, what, what, (a, b, *held), lambda _: result, body))
        case ((ClosureV() | DerivativeV() | PullV() | DynamicV()), _):
            help = ("compare what they give, or fields that are no functions",)
            raise error("E0301", "functions cannot be compared", f.emitter.span, help=help)
        case _:
            return conjunction(f, agreements(f, what, held, at, parts(a), parts(b)))


def agreements(
    f: Frame, what: str, held: tuple[Value, ...], at: Agreement, xs: Sequence[Value], ys: Sequence[Value]
) -> Iterator[Callable[[], Atom]]:
    for x, y in zip(xs, ys, strict=True):
        yield partial(agree, f, what, held, at, x, y)


def alike_arrays(f: Frame, held: tuple[Value, ...], at: Agreement, a: Value, b: Value) -> Atom:
    """Scalars and arrays; arrays that come out of nodes may differ in size, and are different then."""
    e = f.emitter
    sizes_agree: Atom = TRUE
    if isinstance(a, ArrayV) and isinstance(b, ArrayV):
        for s, t in zip(a.shape, b.shape, strict=True):
            if e.opened(s) != e.opened(t):
                same_size = e.prim("eq", e.atom(s), e.atom(t))
                sizes_agree = same_size if sizes_agree == TRUE else e.prim("and", sizes_agree, same_size)

    def elements_agree() -> Atom:
        return all_of(f, elementwise(f, lambda x, y: at(f, held, x, y), a, b))

    return both(f, sizes_agree, elements_agree)


# ---- sums ------------------------------------------------------------------------------------------------------------
def sum_floats(f: Frame, v: Value, dtype: str) -> Atom:
    """The sum of all floats of a structure."""
    e = f.emitter
    match v:
        case ScalarV(atom):
            return e.cast(dtype, atom) if v.dtype in anf.FLOATS else Lit(0.0, dtype)
        case ArrayV():
            if v.dtype not in anf.FLOATS:
                return Lit(0.0, dtype)
            return e.cast(dtype, scalar(reduce_axes(e, v, range(len(v.shape)), ("sum",))[0]))
        case Many(shape, element) if has_node(element):
            sums = over_elements(f, shape, (v,), lambda xs: ScalarV(sum_floats(f, xs[0], dtype)))
            assert isinstance(sums, ArrayV)
            return scalar(reduce_axes(e, sums, range(len(shape)), ("sum",))[0])
        case NodeV():

            def body(g: Frame, args: Sequence[Value]) -> Value:
                (x,) = args
                assert isinstance(x, NodeV)
                tag, count = tag_of(g, x), len(x.type.decl.variants)

                def arm(k: int) -> list[Value]:
                    return [ScalarV(total(g, fields_of(g, x, k), dtype))]

                return by_variant(g, tag, count, arm)[0]

            result = ScalarV(fresh("sum", Scalar(dtype)))
            return scalar(generated(f, "sum_floats", dtype, (v,), lambda _: result, body))
        case _:
            return total(f, parts(v), dtype)


def total(f: Frame, values: Sequence[Value], dtype: str) -> Atom:
    out: Atom = Lit(0.0, dtype)
    for v in values:
        part = sum_floats(f, v, dtype)
        if part != Lit(0.0, dtype):
            out = part if out == Lit(0.0, dtype) else f.emitter.prim("add", out, part)
    return out
