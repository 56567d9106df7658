"""Lowering of expressions: core tree to values, emitting the IR.

`e as T`: sizes that are not known to be equal are compared when the program runs.

Those in a node of a datatype are compared where it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, assert_never

from dlang.diagnostics import Span, error
from dlang.ir import anf
from dlang.ir.anf import INTEGERS, Array, Atom, Lit, Size, Var, poly
from dlang.ir.types import dtype_of
from dlang.ops.dtypes import rounded
from dlang.polynomials import Poly
from dlang.specialize.analysis import acts_in, escapes, tails
from dlang.specialize.arith import nothing
from dlang.specialize.arrangement import listed
from dlang.specialize.binders import acts, axes_of, bind_all, open_variables, places_of
from dlang.specialize.builtins import builtin
from dlang.specialize.comprehensions import bounds, elements, filtered
from dlang.specialize.control import branches, statements, unreached
from dlang.specialize.emitter import FALSE, TRUE
from dlang.specialize.foreign import foreign
from dlang.specialize.frame import Frame, scalar, unsupported
from dlang.specialize.functions import apply, closure_of, named
from dlang.specialize.generated import construct, opened
from dlang.specialize.in_order import in_order
from dlang.specialize.indexing import leading_shape, select, selectors
from dlang.specialize.instances import Instances
from dlang.specialize.loops import changing, flag_value
from dlang.specialize.operators import negate, operator
from dlang.specialize.patterns import bind_pattern, both, connected, refutable, test
from dlang.specialize.randomness import draws_in
from dlang.specialize.text import hole, whole
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoNode, MonoTuple
from dlang.specialize.values import (
    ArrayV,
    ClosureV,
    DataV,
    DerivativeV,
    DynamicV,
    EnumV,
    FnV,
    Many,
    NodeV,
    ScalarV,
    TupleV,
    Value,
    contains_function,
    leaves,
    rebuild,
)
from dlang.typecheck import core, types as ty
from dlang.typecheck.types import DataDecl


@dataclass(slots=True)
class Lowering(Instances):
    """The functions made so far, and how the expressions in them are lowered."""

    def evaluate(self, f: Frame, e: core.Expr) -> Value:
        outer = f.emitter.span
        if e.span.start < e.span.end:  # what nobody wrote has no place of its own
            f.emitter.span = e.span
        try:
            return _evaluate(f, e)
        finally:
            f.emitter.span = outer


def _evaluate(f: Frame, e: core.Expr) -> Value:
    em = f.emitter
    match e:
        case core.Literal(_, _, value):
            return literal(f, e.type, value)
        case core.Format():
            pieces: list[str | tuple[Atom, str]] = []
            for part in e.parts:
                pieces += [part] if isinstance(part, str) else hole(f, f.eval(part[0]), part[1])
            return whole(f, pieces)
        case core.Ref(_, _, local, opened):
            v = reference(f, local)
            for size in opened:
                f.bindings.pop(size, None)
            f.bind_sizes(e.type, v, opened)
            return v
        case core.SizeValue(_, _, size):
            return ScalarV(em.atom(f.size(size)))
        case core.FnRef():
            closure = named(f, e)
            return apply(f, closure, []) if e.decl.kind == "const" else closure
        case core.Lambda(_, span, params, body, forwards):
            return replace(closure_of(f, params, body, span), forwards=forwards)
        case core.Call():
            return call(f, e)
        case core.Builtin():
            return builtin(f, e)
        case core.Arith(_, _, name, left, right):
            return operator(f, name, f.eval(left), f.eval(right))
        case core.Negate(_, _, core.Literal(_, _, int() as value)) if f.dtype(e.type) in anf.INTEGERS:
            return literal(f, e.type, -value)
        case core.Negate(_, _, operand):
            return negate(f, f.eval(operand))
        case core.Not(_, _, operand):
            return ScalarV(em.prim("not", f.bool(operand)))
        case core.Logic():
            return ScalarV(logic(f, e))
        case core.TupleExpr(_, _, items):
            return TupleV(tuple([f.eval(i) for i in items]))
        case core.Construct(_, _, decl, variant, fields):
            values = tuple([f.eval(x) for x in fields])
            wanted = f.mono(e.type)
            if isinstance(wanted, MonoNode):
                return construct(f, wanted, variant.tag, values)
            if isinstance(wanted, MonoEnum):
                return enum(f, wanted, variant.tag, values)
            return f.fit(DataV(decl, values), wanted)
        case core.Project():
            return projected(f, e)
        case core.ArrayExpr(_, _, items):
            return array(f, e, [f.eval(i) for i in items])
        case core.Comprehension():
            return comprehension(f, e)
        case core.Index(_, _, base, indices):
            v = f.eval(base)
            return select(f, v, selectors(f, indices, leading_shape(v)))
        case core.As(below=None):
            return asserted(f, f.eval(e.value), f.mono(e.type), e.span)
        case core.As(_, _, value, below):
            index = f.eval(value)
            assert isinstance(index, ScalarV) and below is not None
            return ScalarV(em.atom(em.index(index.atom, f.size(below), "an `Idx`")))
        case core.If():
            return branches(f, e, f.bool(e.condition), e.then, e.otherwise, e.opened)
        case core.Match():
            return matched(f, e, f.eval(e.value))
        case core.BlockExpr():
            return statements(f, e)
        case core.Derivative(_, span, kind, function, wrt, single):
            inner = f.eval(function)
            assert isinstance(inner, FnV)
            return DerivativeV(kind, inner, wrt, single, span)
        case core.Foreign():
            return foreign(f, e, [f.eval(a) for a in e.args])
        case core.Fail():
            return fail(f, e)
        case _:
            assert_never(e)


def literal(f: Frame, t: ty.Type, value: int | float | bool | str) -> Value:
    dtype = f.dtype(t)
    if dtype in anf.FLOATS:
        value = rounded(float(value), dtype)
    elif dtype in anf.INTEGERS:
        bits = int(dtype[1:])
        low, high = (0, 1 << bits) if dtype in anf.UNSIGNED else (-(1 << (bits - 1)), 1 << (bits - 1))
        if not low <= int(value) < high:
            raise error("E0109", f"{value} is needed as `{dtype}` here, which does not hold it", f.emitter.span)
    return ScalarV(Lit(value, dtype))


def reference(f: Frame, local: core.Local) -> Value:
    v = f.env.get(local)
    if v is None:
        bound = f.bindings.get(local.size) if local.size is not None else None
        if not isinstance(bound, Poly):
            raise AssertionError(f"`{local.name}` has no value at {f.emitter.span!r}")
        return ScalarV(f.emitter.atom(bound))
    return v


def call(f: Frame, c: core.Call) -> Value:
    """Arguments that are missing take the parameter's default, which sees the parameters before it.

    A named function, or a derivative, comes after its arguments: it may depend on sizes that are known only then.
    """
    first = None if isinstance(c.function, core.FnRef | core.Derivative) else f.eval(c.function)
    given = [None if a is None else f.eval(a) for a in c.args]
    function = first or (named(f, _ref(c.function)) if is_const(c.function) else f.eval(c.function))
    args: list[Value] = []
    for k, a in enumerate(given):
        if a is not None:
            args.append(a)
            continue
        base = function
        while isinstance(base, DerivativeV):
            base = base.function
        assert isinstance(base, ClosureV) and base.decl is not None
        default = base.decl.params[k].default
        assert default is not None
        inner = f.inner(dict(base.bindings), dict(base.captured))
        for p, v in zip(base.decl.params, args, strict=False):
            inner.env[p.local] = v
        args.append(inner.eval(default))
        size = base.decl.params[k].local.size
        if size is not None and size not in base.bindings:  # the caller is not of the language, and leaves it open
            function = with_size(function, size, f.emitter.sized(scalar(args[k])))
    v = apply(f, function, args)
    f.bind_sizes(c.type, v, c.opened)
    if isinstance(function, DynamicV) and not contains_function(v):
        return f.fit(v, f.mono(c.type))  # its sizes are those of the node, of which nothing is known
    return v


def with_size(function: Value, size: ty.SizeVar, known: Size) -> Value:
    """A named function, or a derivative of one, where one of its sizes is known."""
    if isinstance(function, DerivativeV):
        inner = with_size(function.function, size, known)
        assert isinstance(inner, FnV)
        return replace(function, function=inner)
    assert isinstance(function, ClosureV)
    return replace(function, bindings={**function.bindings, size: known})


def is_const(e: core.Expr) -> bool:
    return isinstance(e, core.FnRef) and e.decl.kind == "const"


def _ref(e: core.Expr) -> core.FnRef:
    assert isinstance(e, core.FnRef)
    return e


def logic(f: Frame, e: core.Logic) -> Atom:
    """`and` and `or`: a branch, unless the right side is cheap, can't fail and changes nothing."""
    left = f.bool(e.left)
    if acts_in(f.env, e.right) or changing(f, e.right):
        if e.operator == "and":
            return scalar(branches(f, e, left, e.right, lambda: ScalarV(FALSE), ()))
        return scalar(branches(f, e, left, lambda: ScalarV(TRUE), e.right, ()))
    with f.block() as lets:
        right = f.bool(e.right)
    return connected(f, e.operator, left, lets, right)


def projected(f: Frame, e: core.Project) -> Value:
    """A part of a structure; of an element of an array of structures, an element of the array of that part: so nothing
    is read of the others."""
    path = [e]
    while isinstance(inner := path[-1].value, core.Project):
        path.append(inner)
    if isinstance(inner, core.Index):
        with f.emitter.at(inner.span):
            v = f.eval(inner.base)
            chosen = selectors(f, inner.indices, leading_shape(v))
            while path and isinstance(v, Many) and isinstance(v.element, TupleV | DataV):
                part = path.pop()
                v = project(f, v, part.position, part.name)
            v = select(f, v, chosen)
    else:
        v = f.eval(inner)
    while path:
        part = path.pop()
        with f.emitter.at(part.span):
            v = project(f, v, part.position, part.name)
    return v


def project(f: Frame, v: Value, position: int, name: str) -> Value:
    match v:
        case TupleV(items):
            return items[position if position >= 0 else int(name)]
        case DataV(decl, fields):
            return fields[field_position(decl, position, name)]
        case NodeV(type):
            k = field_position(type.decl, position, name)
            count = len(type.decl.variants[0].fields)
            return opened(f, v, 0, [i == k for i in range(count)])[k]
        case Many(shape, element):
            # A field of an array of structures is the array of that field.
            inner = project(f, element, position, name)
            return Many(shape + inner.shape, inner.element) if isinstance(inner, Many) else _leaf_or_many(shape, inner)
    raise AssertionError("not a structure")


def field_position(decl: ty.DataDecl, position: int, name: str) -> int:
    return position if position >= 0 else [n for n, _ in decl.variants[0].fields].index(name)


def _leaf_or_many(shape: tuple[Size, ...], inner: Value) -> Value:
    return inner if isinstance(inner, ArrayV) else Many(shape, inner)


def array(f: Frame, e: core.ArrayExpr, items: list[Value]) -> Value:
    """`[a, b, c]`: stored one after another into a fresh array."""
    return listed(f, items, f.erasing().mono(e.type)) if items else nothing(f, f.mono(e.type))


def enum(f: Frame, t: MonoEnum, tag: int, values: tuple[Value, ...]) -> Value:
    """A variant; the fields of the others are zeros."""
    zero = nothing(f, t)
    assert isinstance(zero, EnumV)
    fields = tuple([f.fit(v, m) for v, m in zip(values, t.variants[tag], strict=True)])
    variants = (*zero.variants[:tag], fields, *zero.variants[tag + 1 :])
    return EnumV(t.decl, ScalarV(Lit(tag, "i64")), variants)


def fail(f: Frame, e: core.Fail) -> Value:
    em = f.emitter
    message = f.atom(e.message)
    em.check(FALSE, "E0800", ("", "", ""), (message,))
    return nothing(f, f.mono(e.type))


def comprehension(f: Frame, c: core.Comprehension) -> Value:
    """An array over the axes of the binders; with a condition, of the points where it holds."""
    if acts(f, c):
        return in_order(f, c)
    if c.condition is not None:
        return filtered(f, c)
    open_variables(f, c)
    binders = bounds(f, c.binders, kept=True)
    axes = axes_of(f, binders)
    index = [poly(a.var) for a in axes]

    def enter() -> list[Size]:
        bind_all(f, binders, index)
        return index

    return elements(f, c.element, axes, enter, places_of(f, c))


class Pair(NamedTuple):
    """An axis whose size is asserted: how a message calls it, its size as it is and as it should be, and which leaves
    of the value have it as which of their axes."""

    what: str
    actual: Size
    stated: Size
    leaves: range
    axis: int


def asserted(f: Frame, v: Value, wanted: Mono, span: Span) -> Value:
    """The value under a type whose sizes are compared now."""
    em = f.emitter
    atoms = list(leaves(v))
    for what, actual, stated, positions, axis in pairs(v, wanted, "", 0, 0, span):
        if em.opened(actual) != em.opened(stated):
            arrays = [(a, axis) for a in atoms[positions.start : positions.stop] if isinstance(a, Var)]
            atoms[positions.start : positions.stop] = em.compared(actual, stated, f"`as`: {what}", arrays)
    return f.fit(rebuild(v, iter(atoms)), wanted)


def pairs(v: Value, wanted: Mono, path: str, first: int, depth: int, span: Span) -> Iterator[Pair]:
    """The axes of a value and their sizes in a type that differs from its own in sizes alone.

    first: how many leaves come before those of this value. depth: in how many axes of arrays around it they lie.
    """

    def axes(actual: tuple[Size, ...], stated: tuple[Size, ...], count: int) -> Iterator[Pair]:
        assert len(actual) == len(stated), "the checker compares the numbers of axes"
        for k, (a, b) in enumerate(zip(actual, stated, strict=True)):
            what = f"axis {k}" + (f" of `{path}`" if path else "")
            yield Pair(what, a, b, range(first, first + count), depth + k)

    match v, wanted:
        case ArrayV(var), MonoArray(_, shape):
            assert isinstance(var.type, Array)
            yield from axes(var.type.shape[depth:], shape, 1)
        case Many(own, inner), MonoArray(element, shape):
            yield from axes(own, shape, len(list(leaves(inner))))
            yield from pairs(inner, element, f"{path}[…]", first, depth + len(own), span)
        case (TupleV(parts), MonoTuple(types)) | (DataV(_, parts), MonoData(_, types)):
            names = field_names(v.decl) if isinstance(v, DataV) else map(str, range(len(types)))
            for name, part, type in zip(names, parts, types, strict=True):
                yield from pairs(part, type, f"{path}.{name}", first, depth, span)
                first += len(list(leaves(part)))
        case EnumV(fields=fields), MonoEnum(fields=types):
            inside = chain.from_iterable(pairs(x, t, path, 0, depth, span) for x, t in zip(fields, types, strict=True))
            if any(pair.actual != pair.stated for pair in inside):
                raise unsupported("`as` with other sizes of an enum", span)


def field_names(decl: DataDecl) -> list[str]:
    """The names of the fields of a struct."""
    return [name or "" for name, _ in decl.variants[0].fields]


# ---- matches ---------------------------------------------------------------------------------------------------------
# Matches: the arms of one are tried in turn, or found by halves where a number tells many of them apart.
#
# A match of n arms that are tried in turn is n branches deep, and so is its derivative; by halves it is log n deep.

MANY = 16  # arms; a draw is numbered by the arms around it, so those that draw are tried in turn


def matched(f: Frame, e: core.Match, v: Value) -> Value:
    """The first arm whose pattern matches. Many arms that are told apart by a number are found by halves."""
    if len(e.arms) > MANY and not draws_in(f, e):
        numbers = arm_numbers(v, e.arms)
        if numbers is not None:
            return by_halves(f, e, v, *numbers)
    return in_turn(f, tails(e), v)


def arm_numbers(v: Value, arms: Sequence[core.Arm]) -> tuple[Atom, list[tuple[int, core.Arm]], core.Arm | None] | None:
    """The number that chooses among arms, those in the order of their numbers, which leave none out, and the arm for
    all other numbers; None where arms are told apart in another way."""
    last = arms[-1]
    fallback = last if isinstance(last.pattern, core.Wildcard | core.Bind) and last.guard is None else None
    by_number: dict[int, core.Arm] = {}
    for arm in arms if fallback is None else arms[:-1]:
        match arm.pattern, v:
            case core.LiteralPattern(literal), ScalarV() if v.dtype in INTEGERS and isinstance(literal.value, int):
                number = literal.value
            case core.VariantPattern(_, variant, items), EnumV() if not any(map(refutable, items)):
                number = variant.tag
            case _:
                return None
        if number in by_number or arm.guard is not None:
            return None
        by_number[number] = arm
    order = sorted(by_number.items())
    if order[-1][0] - order[0][0] + 1 != len(order):
        return None
    tag = v.tag if isinstance(v, EnumV) else v
    assert isinstance(tag, ScalarV)
    return tag.atom, order, fallback


def by_halves(
    f: Frame, e: core.Match, v: Value, number: Atom, arms: Sequence[tuple[int, core.Arm]], fallback: core.Arm | None
) -> Value:
    """The arm that a number chooses. fallback: the arm for numbers below the first, or above the last."""
    em, dtype = f.emitter, dtype_of(number)
    if fallback is not None:
        low = em.prim("ge", number, Lit(arms[0][0], dtype))
        inside = em.prim("and", low, em.prim("le", number, Lit(arms[-1][0], dtype)))
        return branches(
            f, e, inside, lambda: by_halves(f, e, v, number, arms, None), lambda: taken(f, fallback, v), e.opened
        )
    if len(arms) == 1:
        return taken(f, arms[0][1], v)
    middle = len(arms) // 2
    inner_match = core.Match(e.type, e.span, e.value, tuple([arm for _, arm in arms]), e.opened)
    return branches(
        f,
        inner_match,
        em.prim("lt", number, Lit(arms[middle][0], dtype)),
        lambda: by_halves(f, inner_match, v, number, arms[:middle], None),
        lambda: by_halves(f, inner_match, v, number, arms[middle:], None),
        e.opened,
    )


def taken(f: Frame, arm: core.Arm, v: Value) -> Value:
    """The value of an arm whose pattern matches."""
    bind_pattern(f, arm.pattern, v)
    return f.eval(arm.body)


def in_turn(f: Frame, tails: Sequence[core.Match], v: Value, first: int = 0) -> Value:
    """The first arm whose pattern matches, from some arm on; the checker proved that one does. tails: of the match."""
    e = tails[first]
    arm = e.arms[0]
    if len(e.arms) == 1:
        return taken(f, arm, v)
    condition = test(f, arm.pattern, v)

    def decided() -> Value:
        return branches(f, e, condition, lambda: taken(f, arm, v), lambda: in_turn(f, tails, v, first + 1), e.opened)

    if arm.guard is None:
        return taken(f, arm, v) if condition == TRUE else decided()
    condition = guarded(f, arm, arm.guard, v, condition)
    if condition == TRUE:
        return taken(f, arm, v)
    flags = f.exits.of(escapes(arm.guard))
    if flags:  # the guard may have left
        return branches(f, e, flag_value(f, flags), lambda: unreached(f, e.type), decided, e.opened)
    return decided()


def guarded(f: Frame, arm: core.Arm, guard: core.Expr, v: Value, condition: Atom) -> Atom:
    """Says whether the guard holds too; it sees what the pattern binds, so it runs only if that matches."""

    def holds() -> Value:
        bind_pattern(f, arm.pattern, v)
        return f.eval(guard)

    before = dict(f.env)
    if acts_in(f.env, guard) or changing(f, guard):
        return scalar(branches(f, guard, condition, holds, lambda: ScalarV(FALSE), ()))
    out = both(f, condition, lambda: scalar(holds()))
    f.env = before
    return out
