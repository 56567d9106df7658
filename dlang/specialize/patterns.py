"""Patterns: binding those that cannot fail, testing those that can.

A node is looked into only where its tag is known: a test of what is inside stands in an arm of the test of the tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dlang.ir import anf
from dlang.ir.anf import Atom, Lit
from dlang.ir.types import BOOL
from dlang.specialize.emitter import FALSE, TRUE
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.generated import fields_of, opened, tag_of
from dlang.specialize.joins import choice
from dlang.specialize.values import DataV, EnumV, NodeV, ScalarV, TupleV, Value
from dlang.typecheck import core
from dlang.typecheck.trees import pattern_locals


def bind_pattern(f: Frame, p: core.Pattern, v: Value) -> None:
    """Makes the names of a pattern stand for the parts of a value that it is known to match."""
    match p, v:
        case core.Bind(local), _:
            f.env[local] = v
            if local.size is not None and isinstance(v, ScalarV):
                f.bindings[local.size] = f.emitter.sized(v.atom)
            f.name(local)
        case core.TuplePattern(items), TupleV(parts):
            bind_all(f, items, parts)
        case core.VariantPattern(_, _, items), DataV(_, parts):
            bind_all(f, items, parts)
        case core.VariantPattern(_, variant, items), EnumV(_, _, variants):
            bind_all(f, items, variants[variant.tag])
        case core.VariantPattern(_, variant, items), NodeV():
            if any(wanted := [next(pattern_locals(item), None) is not None for item in items]):
                bind_all(f, items, opened(f, v, variant.tag, wanted))
        case core.Alternatives(items), _:
            bind_alternatives(f, items, v)


def bind_all(f: Frame, items: Sequence[core.Pattern], parts: Sequence[Value]) -> None:
    for item, part in zip(items, parts, strict=True):
        bind_pattern(f, item, part)


def bind_alternatives(f: Frame, items: tuple[core.Pattern, ...], v: Value) -> None:
    """Each name stands for its part in the alternative that matches; all alternatives bind the same names."""
    locals_ = names(items[0])
    if not locals_:
        return
    if len(items) == 1:
        bind_pattern(f, items[0], v)
        return

    def bound(alternatives: tuple[core.Pattern, ...]) -> Callable[[], list[Value]]:
        def values() -> list[Value]:
            before = dict(f.env)
            bind_alternatives(f, alternatives, v)
            values_bound = [f.env[local] for local in locals_]
            f.env = before
            return values_bound

        return values

    types = [local.type for local in locals_]
    values = choice(f, test(f, items[0], v), bound(items[:1]), bound(items[1:]), types)
    f.env.update(zip(locals_, values, strict=True))


def names(p: core.Pattern) -> list[core.Local]:
    """The locals that a pattern binds."""
    return list(dict.fromkeys(pattern_locals(p)))


# ---- tests -----------------------------------------------------------------------------------------------------------
def test(f: Frame, p: core.Pattern, v: Value) -> Atom:
    """Emits the test whether a value matches, as a bool that is the literal true where it must."""
    e = f.emitter
    match p, v:
        case ((core.Wildcard() | core.Bind()), _):
            return TRUE
        case core.LiteralPattern(literal), ScalarV(atom):
            value = literal.value
            dtype = v.dtype
            if dtype.startswith(("f", "bf")):
                value = float(value)
            return e.prim("eq", atom, Lit(value, dtype))
        case core.TuplePattern(items), TupleV(parts):
            return conjunction(f, tests(f, items, parts))
        case core.VariantPattern(decl, _, items), DataV(_, parts) if decl.is_struct:
            return conjunction(f, tests(f, items, parts))
        case core.VariantPattern(_, variant, items), EnumV(_, ScalarV(tag), variants):
            inside = tests(f, items, variants[variant.tag])
            return conjunction(f, iter([lambda: e.prim("eq", tag, Lit(variant.tag, "i64")), *inside]))
        case core.VariantPattern(decl, variant, items), NodeV():

            def here() -> Atom:
                if len(decl.variants) == 1:
                    return TRUE
                return e.prim("eq", tag_of(f, v), Lit(variant.tag, "i64"))

            def inner() -> Atom:
                if not any(map(refutable, items)):
                    return TRUE
                return conjunction(f, tests(f, items, fields_of(f, v, variant.tag)))

            return conjunction(f, iter([here, inner]))
        case core.Alternatives(items), _:
            return disjunction(f, [partial(test, f, item, v) for item in items])
    raise unsupported("this pattern", e.span)


def refutable(p: core.Pattern) -> bool:
    """Tells whether a value of the type may fail to match."""
    match p:
        case core.Wildcard() | core.Bind():
            return False
        case core.TuplePattern(items):
            return any(map(refutable, items))
        case core.VariantPattern(decl, _, items):
            return len(decl.variants) > 1 or any(map(refutable, items))
        case core.Alternatives(items):
            return all(map(refutable, items))
        case _:
            return True


def tests(f: Frame, items: Sequence[core.Pattern], parts: Sequence[Value]) -> Iterator[Callable[[], Atom]]:
    """The tests of parts, each emitted when it is called."""
    for item, part in zip(items, parts, strict=True):
        if refutable(item):
            yield partial(test, f, item, part)


def conjunction(f: Frame, conditions: Iterator[Callable[[], Atom]]) -> Atom:
    """Emits a conjunction. A condition that is not cheap, or not total, is computed only if those before hold."""
    out: Atom = TRUE
    for condition in conditions:
        out = both(f, out, condition)
    return out


def both(f: Frame, first: Atom, second: Callable[[], Atom]) -> Atom:
    if first == TRUE:
        return second()
    with f.block() as lets:
        holds = second()
    return connected(f, "and", first, lets, holds)


def disjunction(f: Frame, conditions: Sequence[Callable[[], Atom]]) -> Atom:
    out: Atom = FALSE
    for condition in conditions:
        if out == FALSE:
            out = condition()
        elif out != TRUE:
            with f.block() as lets:
                holds = condition()
            out = connected(f, "or", out, lets, holds)
    return out


def connected(f: Frame, operator: str, left: Atom, lets: list[anf.Let], right: Atom) -> Atom:
    """`left and right` or `left or right`: a branch, unless what gives the right side is cheap and cannot fail."""
    e = f.emitter
    if all(let.op.IS.scalar for let in lets):
        e.lets.extend(lets)
        if right in (TRUE, FALSE):
            return left if (operator == "and") == (right == TRUE) else right
        return e.prim(operator, left, right)
    block = anf.Block(tuple(lets), (right,))
    short = anf.Block((), (FALSE if operator == "and" else TRUE,))
    arms = (block, short) if operator == "and" else (short, block)
    return e.emit(anf.If(left, *arms), BOOL)[0]
