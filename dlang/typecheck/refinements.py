"""Refinements, the facts about values beside their types: where `Idx` stands, and what that says for other sizes."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.typecheck.printing import Names
from dlang.typecheck.state import Term
from dlang.typecheck.terms import Substitution, size_variables, substitute, substitute_size, variables
from dlang.typecheck.types import (
    Below,
    DataDecl,
    Elements,
    Items,
    Refinement,
    Shape,
    Size,
    SizeVar,
    Type,
    TypeArray,
    TypeData,
    TypeTuple,
    Var,
    children,
    resolve,
    resolve_shape,
    resolve_size,
)


def substituted(r: Refinement | None, replace: Substitution) -> Refinement | None:
    """The refinement with its size variables replaced."""
    match r:
        case Below(size):
            return Below(substitute_size(size, replace))
        case Elements(element):
            inner = substituted(element, replace)
            return None if inner is None else Elements(inner)
        case Items(items):
            return Items(tuple([substituted(i, replace) for i in items]))
        case None:
            return None


def of_elements(element: Refinement | None) -> Refinement | None:
    """The refinement of an array with such elements; an array of arrays is one array."""
    return element if element is None or isinstance(element, Elements) else Elements(element)


def of_items(items: list[Refinement | None]) -> Refinement | None:
    return Items(tuple(items)) if any(i is not None for i in items) else None


def of_part(r: Refinement | None, part: Type) -> Refinement | None:
    """The refinement of an element of an array, or of an array of fewer axes out of it."""
    return r.element if isinstance(r, Elements) and not isinstance(resolve(part), TypeArray) else r


def of_field(t: Type, position: int, r: Refinement | None = None, variant: int = 0) -> Refinement | None:
    """The refinement of a field of a struct or an enum, as declared, or of an item of a tuple with the refinement r."""
    t = resolve(t)
    if isinstance(t, TypeTuple):
        return r.items[position] if isinstance(r, Items) and 0 <= position < len(r.items) else None
    if not isinstance(t, TypeData):
        return None
    known = t.decl.variants[variant].refinements
    return substituted(known[position], arguments(t)) if 0 <= position < len(known) else None


def arguments(t: TypeData) -> Substitution:
    return dict(zip(t.decl.params, t.args, strict=True))


def sizes(r: Refinement | None) -> Iterator[Size]:
    match r:
        case Below(size):
            yield size
        case Elements(element):
            yield from sizes(element)
        case Items(items):
            for i in items:
                yield from sizes(i)
        case None:
            return


def size_names(r: Refinement | None) -> Iterator[SizeVar]:
    for size in sizes(r):
        yield from size_variables(size)


def unseen(decl: DataDecl) -> set[Var]:
    """The parameters of a declaration that say where its indices end, and of which no array in it is a witness."""
    asked = {v for variant in decl.variants for r in variant.refinements for v in size_names(r)}
    return {v for v in decl.params if v in asked and v not in _witnessed(decl, set())}


def _witnessed(decl: DataDecl, within: set[DataDecl]) -> set[Var]:
    """The size parameters that are found by looking at the arrays of a value."""
    found: set[Var] = set()
    work: list[Type | Shape | Size] = [t for v in decl.variants for _, t in v.fields] if decl.is_struct else []
    while work:
        t = work.pop()
        match t:
            case Shape():
                shape = resolve_shape(t)
                found.update(v for s in (*shape.pre, *shape.post) if isinstance(v := s.poly.atom, SizeVar))
            case TypeData(inner, args):
                if inner not in within:
                    seen = _witnessed(inner, {*within, decl})
                    found.update(v for p, a in zip(inner.params, args, strict=True) if p in seen for v in variables(a))
            case TypeTuple() | TypeArray():
                work += children(t)
            case _:
                continue
    return found


# ---- types -----------------------------------------------------------------------------------------------------------
def field_type(t: Type, position: int, variant: int = 0) -> Type:
    t = resolve(t)
    if isinstance(t, TypeTuple):
        return t.items[position]
    if isinstance(t, TypeData):
        return substitute(t.decl.variants[variant].fields[position][1], arguments(t))
    return t


def data_pairs(a: Type, b: Type) -> Iterator[tuple[TypeData, TypeData]]:
    """The structs and enums at corresponding places of two types that differ in sizes."""
    a, b = resolve(a), resolve(b)
    match a, b:
        case TypeData(), TypeData():
            yield a, b
            for x, y in zip(a.args, b.args, strict=True):
                if isinstance(x, Type) and isinstance(y, Type):
                    yield from data_pairs(x, y)
        case TypeArray(), TypeArray():
            yield from data_pairs(a.element, b.element)
        case TypeTuple(), TypeTuple():
            for x, y in zip(a.items, b.items, strict=True):
                yield from data_pairs(x, y)
        case _:
            return


def written(t: Type, r: Refinement | None, names: Names) -> str:
    """A type with what is known beside it."""
    t = resolve(t)
    match t, r:
        case _, Below(size):
            return f"Idx<{names(size)}>"
        case TypeArray(element, shape), Elements(inner):
            return f"{written(element, inner, names)}[{names.dims(shape)}]"
        case TypeTuple(items), Items(parts):
            return "(" + ", ".join(written(i, p, names) for i, p in zip(items, parts, strict=True)) + ")"
        case _:
            return names(t)


def opened_here(t: Type, actual: Type) -> dict[Var, Term]:
    """Maps the sizes `?` of a type to those of a value's type."""
    found: dict[Var, Term] = {}

    def match(x: Term, y: Term) -> None:
        if isinstance(x, Size) or isinstance(y, Size):
            if isinstance(x, Size) and isinstance(y, Size):
                v = resolve_size(x).poly.atom
                if isinstance(v, SizeVar) and v.opened:
                    found[v] = y
            return
        if isinstance(x, Shape) or isinstance(y, Shape):
            if isinstance(x, Shape) and isinstance(y, Shape):
                a, b = resolve_shape(x), resolve_shape(y)
                if a.row is None and b.row is None:
                    for size, other in zip(a.pre, b.pre, strict=False):
                        match(size, other)
            return
        for part, other_part in zip(children(resolve(x)), children(resolve(y)), strict=False):
            match(part, other_part)

    match(t, actual)
    return found
