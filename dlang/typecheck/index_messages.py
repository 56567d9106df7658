"""Messages about values that are not proven to be the index that `Idx<n>` asks for."""

from __future__ import annotations

from dlang.diagnostics import Diagnostic, Note, Span
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.refinements import written
from dlang.typecheck.sizes import where_from
from dlang.typecheck.terms import I64
from dlang.typecheck.types import Below, Elements, Refinement, Size, TypeData, Variant, resolve_size

UNPROVEN, NO_PLACE = "E0419", "E0420"


def unproven(e: core.Expr, want: Refinement, found: Refinement | None, symbol: Size | None) -> Diagnostic:
    """symbol: the value as a polynomial, if it is one. found: what is known of it, which is not enough."""
    names = Names()
    text = written(e.type, want, names)
    source = e.span.text
    shown = f"`{source}`" if "\n" not in source and len(source) <= 40 and not source.startswith("..") else "this value"
    value = symbol.poly.constant if symbol is not None else None
    label = f"this is {written(e.type, found, names) if found is not None else value}"
    if found is None and value is None:
        label = f"this is {names(e.type)}"
    if not isinstance(want, Below):
        message = f"{shown} is not proven to hold indices: expected {text}"
        help = "check each where it is made: `i as Idx<…>`"
        if isinstance(want, Elements) and isinstance(want.element, Below) and shown != "this value":
            help = f"check each when it runs: `[i as {written(I64, want.element, names)} for i in {source}]`"
        return Diagnostic(UNPROVEN, message, e.span, label, (), (help,))
    notes = tuple(where_from(want.size, names))
    bound = resolve_size(want.size).poly.constant
    if value is not None and bound is not None:
        message = f"index {value} is out of range: expected {text}"
        advice = "indices count from 0" if bound else "there is none: if nothing says the size, annotate the value"
        return Diagnostic(UNPROVEN, message, e.span, label, notes, (advice,))
    message = f"{shown} is not proven to be an index: expected {text}, 0 <= i < {names(want.size)}"
    help = "write the field anew, as an index that is checked when it runs"
    if shown != "this value":
        help = f"to check it when it runs, write `{bracketed(e)} as {text}`"
    if "?" in text:  # which can't be written
        index = "… as Idx<k>" if shown == "this value" else f"{bracketed(e)} as Idx<k>"
        help = f"name the size by `let a: f64[k] = …` where the array is made; then `{index}` is checked when it runs"
    return Diagnostic(UNPROVEN, message, e.span, label, notes, (help,))


def unproven_update(s: core.Assign, want: Refinement) -> Diagnostic:
    """The diagnostic of an update such as `i += 1`."""
    names = Names()
    place, text = s.place.span.text, written(s.place.type, want, names)
    message = f"`{place}` is not proven to stay an index: expected {text}"
    help = f"to check it when it runs, write `{place} = ({place} {s.operator} {s.value.span.text}) as {text}`"
    notes = tuple(where_from(want.size, names)) if isinstance(want, Below) else ()
    return Diagnostic(UNPROVEN, message, s.span, f"nothing is known of what `{s.operator}` gives", notes, (help,))


def bracketed(e: core.Expr) -> str:
    """The text of an expression, to be followed by `as`."""
    compound = isinstance(e, core.Arith | core.Negate | core.If | core.Match | core.As)
    return f"({e.span.text})" if compound else e.span.text


def as_value(decl: core.FnDecl, asking: core.Local, span: Span) -> Diagnostic:
    """A function that asks for an index, used as a value."""
    text = written(asking.type, asking.refinement, Names())
    message = f"`{decl.name}` asks for `{asking.name}: {text}`, which a function value does not say"
    names = [p.local.name for p in decl.params]
    inner = ", ".join(f"{n} as {text}" if p.local is asking else n for n, p in zip(names, decl.params, strict=True))
    help = f"write a lambda around it, in which the index is checked: `|{', '.join(names)}| {decl.name}({inner})`"
    notes = (Note(f"`{decl.name}` is declared here", decl.span),)
    return Diagnostic(NO_PLACE, message, span, "", notes, (help,))


def constructor_as_value(variant: Variant, span: Span) -> Diagnostic:
    names = [n or f"x{i}" for i, (n, _) in enumerate(variant.fields)]
    message = f"`{variant.name}` asks for an index, which a function value does not say"
    inner = ", ".join(n if r is None else f"{n} as Idx<…>" for n, r in zip(names, variant.refinements, strict=True))
    help = f"write a lambda around it, in which the index is checked: `|{', '.join(names)}| {variant.name}({inner})`"
    return Diagnostic(NO_PLACE, message, span, "", (), (help,))


def retyped(t: TypeData, size: Size, span: Span) -> Diagnostic:
    """`as` of a struct, where no array says the n of an `Idx<n>`."""
    names = Names()
    message = f"`as` cannot check the indices in {names(t)}: no array in it has the size {names(size)}"
    return Diagnostic(NO_PLACE, message, span, "", (), (f"make it anew: `{t.decl.name}(… as Idx<…>)`",))
