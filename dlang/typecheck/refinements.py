"""Refinements, the facts about values beside their types: where `Idx` stands, and what that says for other sizes."""

from __future__ import annotations

from collections.abc import Iterator

from dlang.typecheck import types as ty
from dlang.typecheck.printing import Names
from dlang.typecheck.state import Term
from dlang.typecheck.terms import Substitution, size_variables, substitute, substitute_size, variables


def substituted(r: ty.Refinement | None, replace: Substitution) -> ty.Refinement | None:
    """The refinement with its size variables replaced."""
    match r:
        case ty.Below(size):
            return ty.Below(substitute_size(size, replace))
        case ty.Elements(element):
            inner = substituted(element, replace)
            return None if inner is None else ty.Elements(inner)
        case ty.Items(items):
            return ty.Items(tuple([substituted(i, replace) for i in items]))
        case None:
            return None


def of_elements(element: ty.Refinement | None) -> ty.Refinement | None:
    """The refinement of an array with such elements; an array of arrays is one array."""
    return element if element is None or isinstance(element, ty.Elements) else ty.Elements(element)


def of_items(items: list[ty.Refinement | None]) -> ty.Refinement | None:
    return ty.Items(tuple(items)) if any(i is not None for i in items) else None


def of_part(r: ty.Refinement | None, part: ty.Type) -> ty.Refinement | None:
    """The refinement of an element of an array, or of an array of fewer axes out of it."""
    return r.element if isinstance(r, ty.Elements) and not isinstance(ty.resolve(part), ty.TypeArray) else r


def of_field(t: ty.Type, position: int, r: ty.Refinement | None = None, variant: int = 0) -> ty.Refinement | None:
    """The refinement of a field of a struct or an enum, as declared, or of an item of a tuple with the refinement r."""
    t = ty.resolve(t)
    if isinstance(t, ty.TypeTuple):
        return r.items[position] if isinstance(r, ty.Items) and 0 <= position < len(r.items) else None
    if not isinstance(t, ty.TypeData):
        return None
    known = t.decl.variants[variant].refinements
    return substituted(known[position], arguments(t)) if 0 <= position < len(known) else None


def arguments(t: ty.TypeData) -> Substitution:
    return dict(zip(t.decl.params, t.args, strict=True))


def sizes(r: ty.Refinement | None) -> Iterator[ty.Size]:
    match r:
        case ty.Below(size):
            yield size
        case ty.Elements(element):
            yield from sizes(element)
        case ty.Items(items):
            for i in items:
                yield from sizes(i)
        case None:
            return


def size_names(r: ty.Refinement | None) -> Iterator[ty.SizeVar]:
    for size in sizes(r):
        yield from size_variables(size)


def unseen(decl: ty.DataDecl) -> set[ty.Var]:
    """The parameters of a declaration that say where its indices end, and of which no array in it is a witness."""
    asked = {v for variant in decl.variants for r in variant.refinements for v in size_names(r)}
    return {v for v in decl.params if v in asked and v not in _witnessed(decl, set())}


def _witnessed(decl: ty.DataDecl, within: set[ty.DataDecl]) -> set[ty.Var]:
    """The size parameters that are found by looking at the arrays of a value."""
    witnessed: set[ty.Var] = set()
    work: list[ty.Type | ty.Shape | ty.Size] = [t for v in decl.variants for _, t in v.fields] if decl.is_struct else []
    while work:
        t = work.pop()
        match t:
            case ty.Shape():
                shape = ty.resolve_shape(t)
                witnessed.update(v for s in (*shape.pre, *shape.post) if isinstance(v := s.poly.atom, ty.SizeVar))
            case ty.TypeData(inner, args):
                if inner not in within:
                    seen = _witnessed(inner, {*within, decl})
                    witnessed.update(
                        v for p, a in zip(inner.params, args, strict=True) if p in seen for v in variables(a)
                    )
            case ty.TypeTuple() | ty.TypeArray():
                work += ty.children(t)
            case _:
                continue
    return witnessed


# ---- types -----------------------------------------------------------------------------------------------------------
def field_type(t: ty.Type, position: int, variant: int = 0) -> ty.Type:
    t = ty.resolve(t)
    if isinstance(t, ty.TypeTuple):
        return t.items[position]
    if isinstance(t, ty.TypeData):
        return substitute(t.decl.variants[variant].fields[position][1], arguments(t))
    return t


def data_pairs(a: ty.Type, b: ty.Type) -> Iterator[tuple[ty.TypeData, ty.TypeData]]:
    """The structs and enums at corresponding places of two types that differ in sizes."""
    a, b = ty.resolve(a), ty.resolve(b)
    match a, b:
        case ty.TypeData(), ty.TypeData():
            yield a, b
            for x, y in zip(a.args, b.args, strict=True):
                if isinstance(x, ty.Type) and isinstance(y, ty.Type):
                    yield from data_pairs(x, y)
        case ty.TypeArray(), ty.TypeArray():
            yield from data_pairs(a.element, b.element)
        case ty.TypeTuple(), ty.TypeTuple():
            for x, y in zip(a.items, b.items, strict=True):
                yield from data_pairs(x, y)
        case _:
            return


def written(t: ty.Type, r: ty.Refinement | None, names: Names) -> str:
    """A type with what is known beside it."""
    t = ty.resolve(t)
    match t, r:
        case _, ty.Below(size):
            return f"Idx<{names(size)}>"
        case ty.TypeArray(element, shape), ty.Elements(inner):
            return f"{written(element, inner, names)}[{names.dims(shape)}]"
        case ty.TypeTuple(items), ty.Items(parts):
            return "(" + ", ".join(written(i, p, names) for i, p in zip(items, parts, strict=True)) + ")"
        case _:
            return names(t)


def opened_here(t: ty.Type, actual: ty.Type) -> dict[ty.Var, Term]:
    """Maps the sizes `?` of a type to those of a value's type."""
    opened: dict[ty.Var, Term] = {}

    def match(x: Term, y: Term) -> None:
        if isinstance(x, ty.Size) or isinstance(y, ty.Size):
            if isinstance(x, ty.Size) and isinstance(y, ty.Size):
                v = ty.resolve_size(x).poly.atom
                if isinstance(v, ty.SizeVar) and v.opened:
                    opened[v] = y
            return
        if isinstance(x, ty.Shape) or isinstance(y, ty.Shape):
            if isinstance(x, ty.Shape) and isinstance(y, ty.Shape):
                a, b = ty.resolve_shape(x), ty.resolve_shape(y)
                if a.row is None and b.row is None:
                    for size, other in zip(a.pre, b.pre, strict=False):
                        match(size, other)
            return
        for part, other_part in zip(ty.children(ty.resolve(x)), ty.children(ty.resolve(y)), strict=False):
            match(part, other_part)

    match(t, actual)
    return opened
