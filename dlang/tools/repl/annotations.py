"""Types of values that are kept, as annotations that can be written into the next input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import Source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.typecheck.printing import Names
from dlang.typecheck.types import (
    DataDecl,
    Shape,
    Size,
    Type,
    TypeArray,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    children,
    resolve,
    resolve_size,
)

if TYPE_CHECKING:
    from dlang.specialize.values import Value


def items_of(t: Type) -> tuple[Type, ...]:
    """The items of a tuple; of another type itself."""
    r = resolve(t)
    return tuple(resolve(i) for i in r.items) if isinstance(r, TypeTuple) else (r,)


def leaves_a_run(t: Type) -> bool:
    """Whether values of a type are numbers, texts and arrays when taken apart, which then tell all its sizes."""
    seen: set[DataDecl] = set()

    def holds(u: Type, within: tuple[DataDecl, ...]) -> bool:
        for p in _parts(u):
            if isinstance(p, TypeFn) or (isinstance(p, TypeArray) and _is_empty(p.element)):
                return False
            if isinstance(p, TypeData):
                if p.decl in within:
                    return False
                if p.decl not in seen:
                    for v in p.decl.variants:
                        if not all(holds(f, (*within, p.decl)) for _, f in v.fields):
                            return False
                    seen.add(p.decl)
        return True

    return holds(t, ())


def _is_empty(t: Type) -> bool:
    """Whether values of a type are made of nothing, or nothing says of what."""
    r = resolve(t)
    return isinstance(r, TypeVar) or (isinstance(r, TypeTuple) and all(map(_is_empty, r.items)))


def datatypes_of(t: Type) -> tuple[DataDecl, ...]:
    """The datatypes that values of a type are made of, at every depth."""
    found: dict[DataDecl, None] = {}
    work = [t]
    while work:
        for p in _parts(work.pop()):
            if isinstance(p, TypeData) and p.decl not in found:
                found[p.decl] = None
                work += [f for v in p.decl.variants for _, f in v.fields]
    return tuple(found)


def annotation(t: Type, form: Value, leaves: Iterator[Any]) -> s.TypeExpr:
    """A type as an annotation, with the sizes that a value of it has."""
    module, problems = parse(Source("<type>", f"type T = {written(t, form, leaves)}"))
    assert not problems and isinstance(module.items[0], s.Alias)
    return module.items[0].type


def has_unknown(t: s.TypeExpr | None) -> bool:
    return isinstance(t, s.TypeArray) and any(isinstance(d, s.SizeAny) for d in t.dims)


def _parts(t: Type) -> Iterator[Type]:
    stack: list[Any] = [t]
    while stack:
        p = stack.pop()
        if isinstance(p, Type):
            p = resolve(p)
            yield p
        if isinstance(p, TypeArray | TypeTuple | TypeFn | TypeData | Shape):
            stack.extend(children(p))


def written(t: Type, form: Value, leaves: Iterator[Any], axes: int = 0) -> str:
    """A type as it is written, with the sizes of a value, whose leaves are taken.

    axes: how many axes of the leaves in front are not those of the value, but of arrays that it is an element of.
    """
    from dlang.specialize.values import Many, TupleV, leaves as atoms_of

    t = resolve(t)
    match t, form:
        case TypeTuple(items), TupleV(forms):
            return f"({', '.join(written(i, f, leaves, axes) for i, f in zip(items, forms, strict=True))})"
        case TypeArray(element, shape), _:
            own = [next(leaves) for _ in atoms_of(form)]
            inside = axes + len(shape.pre)
            sizes = ", ".join(map(str, own[0].shape[axes:inside]))
            of = form.element if isinstance(form, Many) else form
            return f"{written(element, of, iter(own), inside)}[{sizes}]"
    for _ in atoms_of(form):
        next(leaves)
    if isinstance(t, TypeData) and t.args:
        return f"{t.decl.name}<{', '.join(map(_argument, t.args))}>"
    return Names(scheme=True)(t)


def _argument(a: Type | Size | Shape) -> str:
    """An argument of a datatype, with the sizes that its type says."""
    match a:
        case Size():
            value = resolve_size(a).poly.constant
            return "_" if value is None else str(int(value))
        case Shape():
            return "_"
        case _:
            return Names(scheme=True)(a)
