"""Suggests fixes for two sizes that differ, or shapes that don't fit."""

from __future__ import annotations

import re

from dlang.diagnostics import Fix, Span, replacement
from dlang.typecheck.mismatches import NoMultiple
from dlang.typecheck.printing import Names
from dlang.typecheck.sizes import same
from dlang.typecheck.state import Constraint, Mismatch
from dlang.typecheck.terms import opened_in, variables, view
from dlang.typecheck.types import (
    Shape,
    Size,
    SizeVar,
    Type,
    TypeArray,
    TypeData,
    TypeTuple,
    resolve,
    resolve_shape,
    resolve_size,
)

_OPENED = "a size `?` is known only when the program runs"
_SIMPLE = re.compile(r"[\w.']+(\([^()]*\)|\[[^\[\]]*\])?")
_LONGEST = 40  # characters of the program that are repeated in a help


def of_types(m: Mismatch, span: Span, found: Type, wanted: Type, names: Names) -> tuple[str, ...]:
    """Advice about two whole types that differ in a size."""
    assert isinstance(m.found, Size) and isinstance(m.wanted, Size)
    if never_equal(m.found, m.wanted):
        return ()
    target = asserted(found, wanted)
    assertion = f"`{written(span)} as {names(target)}`" if target is not None else "`as`"
    if opened_in(m.found, m.wanted) and "?" in assertion:
        return (_named_first(),)
    if opened_in(m.found, m.wanted):
        return (f"{_OPENED}: write {assertion} to have it checked there",)
    if isinstance(m.why, NoMultiple):
        return of_multiple(m.found, m.why, span, names)
    if target is None:
        return ()
    return (f"if these sizes are always equal, write {assertion}: it is checked when the program runs",)


def _named_first() -> str:
    """Advice about two sizes that nobody has named yet."""
    return (
        f"{_OPENED}: name one by `let a: f64[k] = …`, and write `as f64[k]` behind the other to have it checked there"
    )


def assertions(m: Mismatch, span: Span, found: Type, wanted: Type, names: Names) -> tuple[Fix, ...]:
    """The `as` that is advised for two whole types that differ in a size."""
    assert isinstance(m.found, Size) and isinstance(m.wanted, Size)
    target = asserted(found, wanted)
    if never_equal(m.found, m.wanted) or target is None or isinstance(m.why, NoMultiple) or written(span) == "…":
        return ()
    return (replacement(span, f"{written(span)} as {names(target)}", certain=False),)


def of_multiple(found: Size, why: NoMultiple, span: Span, names: Names) -> tuple[str, ...]:
    """Advice about a size where a multiple of another is expected."""
    if resolve_size(found).poly.constant is not None or why.factor.denominator != 1:
        return ()
    whole = names(found)
    whole = f"({whole})" if " " in whole else whole
    part = f"let part = {whole} // {why.factor}"
    end = f"{written(span)} as …[{why.factor} * part]"
    return (f"if it always is one, write `{part}`, then `{end}`: it is checked there",)


def of_constraint(c: Constraint, m: Mismatch) -> tuple[str, ...]:
    """Advice about operands that don't fit."""
    assert isinstance(m.found, Size) and isinstance(m.wanted, Size)
    if c.kind == "join":
        return ("sizes of branches may differ where a type with `?` is expected: annotate the result, or the `let`",)
    if opened_in(m.found) and opened_in(m.wanted):
        return (_named_first(),)
    if opened_in(m.found, m.wanted):
        return (f"{_OPENED}: write `as` to have it checked there",)
    if c.reason.operator == "reshape":
        return ("choose sizes whose product is the number of elements",)
    if len(c.reason.operands) != 2 or c.kind == "axis":
        return ()
    left, right = (resolve_shape(view(t)[1]) for t in c.reason.operands)
    if left.row is not None or right.row is not None:
        return ()
    return of_product(left, right) if c.reason.operator == "@" else of_broadcast(left, right)


def of_product(left: Shape, right: Shape) -> tuple[str, ...]:
    rule = "`@` multiplies rows of the left side by columns of the right: its last axis meets the one before the last"
    if len(right.pre) == 1:
        fits = len(left.pre) == 2 and same(left.pre[0], right.pre[0])
        return ("`transpose(…)` of the left side fits",) if fits else ()
    if len(right.pre) == 2 and left.pre and same(left.pre[-1], right.pre[1]):
        return ("`transpose(…)` of the right side fits",)
    return (rule,)


def of_broadcast(left: Shape, right: Shape) -> tuple[str, ...]:
    rule = "axes line up from the last one, and only an axis of the literal size 1 stretches"
    if len(left.pre) == len(right.pre):
        return (rule,) if len(left.pre) > 1 else ()
    return (f"{rule}: a reduction leaves one with `keepdims = true`, `reshape` makes one",)


def never_equal(a: Size, b: Size) -> bool:
    return bool((resolve_size(a).poly - resolve_size(b).poly).constant)


def written(span: Span) -> str:
    """The text of an expression, to stand before `as`."""
    text = span.text
    if not text or "\n" in text or len(text) > _LONGEST:
        return "…"
    return text if _SIMPLE.fullmatch(text) else f"({text})"


def asserted(found: Type, wanted: Type) -> Type | None:
    """The type to write after `as`; None where it can't be written."""
    found, wanted = resolve(found), resolve(wanted)
    if isinstance(found, TypeArray) and isinstance(wanted, TypeArray):
        wanted = TypeArray(found.element, wanted.shape)
    elif not isinstance(wanted, TypeTuple | TypeData):
        return None
    names = list(variables(wanted))
    if any(not v.rigid or not v.name or (isinstance(v, SizeVar) and v.opened) for v in names):
        return None
    return wanted if len({v.name for v in names}) == len(names) else None
