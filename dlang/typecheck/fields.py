"""Fields of structs and items of tuples."""

from __future__ import annotations

from dlang.diagnostics import Note, Span, error
from dlang.typecheck import builtins, elsewhere
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.printing import show
from dlang.typecheck.terms import substitute
from dlang.typecheck.types import Type, TypeArray, TypeData, TypeTuple, resolve


def field_of(t: Type, name: str | int, span: Span) -> tuple[int, Type]:
    """Position and type of a field of a struct or an item of a tuple."""
    t = resolve(t)
    if isinstance(t, TypeTuple) and isinstance(name, int) and name < len(t.items):
        return name, t.items[name]
    if isinstance(t, TypeData) and t.decl.is_struct and isinstance(name, str):
        fields = t.decl.variants[0].fields
        for i, (n, f) in enumerate(fields):
            if n == name:
                return i, substitute(f, dict(zip(t.decl.params, t.args, strict=True)))
        listed = ", ".join(f"`{n}`" for n, _ in fields if n)
        listed = f"its field is {listed}" if len(fields) == 1 else f"its fields are {listed}"
        raise error(
            "E0305",
            f"`{show(t)}` has no field `{name}`",
            named(span, name),
            notes=(Note(listed, t.decl.span),),
            help=did_you_mean(name, [n for n, _ in fields if n]) or no_method(name, span),
            fixes=misspelt(named(span, name), name, [n for n, _ in fields if n]),
        )
    raise error("E0305", f"`{show(t)}` has no field `{name}`", named(span, name), help=instead_of_field(t, name, span))


def named(span: Span, name: str | int) -> Span:
    """The span of the name in `base.name`."""
    return span.tail(len(str(name))) if span.text.endswith(f".{name}") else span


def no_method(name: str, span: Span) -> tuple[str, ...]:
    if not is_called(span):
        return ()
    base = span.text.removesuffix(f".{name}")
    return (f"there are no methods: a function `{name}` is called by `{name}({base})`",)


def is_called(span: Span) -> bool:
    return span.source.text[span.end : span.end + 1] == "("


def instead_of_field(t: Type, name: str | int, span: Span) -> tuple[str, ...]:
    """Help for a field that a type does not have."""
    base = span.text.removesuffix(f".{name}")
    base = base if base.isidentifier() else "x"
    if isinstance(t, TypeTuple):
        last = f"the last of its {len(t.items)} items is `.{len(t.items) - 1}`"
        return (f"the items of a tuple are counted from 0: {last}",) if isinstance(name, int) else ()
    if isinstance(t, TypeData):
        arms = ", ".join(f"{v.name}{'(…)' if v.fields else ''} => …" for v in t.decl.variants[:3])
        return (f"an enum is taken apart by `match {base} {{ {arms} }}`",)
    if isinstance(name, int):
        return (f"an element of an array is `{base}[{name}]`",) if isinstance(t, TypeArray) else ()
    if (instead := elsewhere.of_method(name, base)) is not None:
        return (f"there are no methods: write `{instead}`",)
    if builtins.is_builtin(name):
        return (f"there are no methods: write `{name}({base})`",)
    if isinstance(t, TypeArray) and isinstance(resolve(t.element), TypeData):
        return ("it is an array: take the field of one element, or of each in a comprehension",)
    return ()
