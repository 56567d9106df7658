"""Types of values that are kept, as annotations that can be written into the next input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

VALUE = "<value>"  # where the types of values are written, which nobody sees


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


def annotation(t: Type, form: Value, leaves: Iterator[Any], names: Mapping[DataDecl, str]) -> s.TypeExpr:
    """A type as an annotation, with the sizes that a value of it has. names: of some datatypes, unless their own."""
    module, problems = parse(Source(VALUE, f"type T = {written(t, form, leaves, names)}"))
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


def written(
    t: Type, form: Value, leaves: Iterator[Any], names: Mapping[DataDecl, str] | None = None, axes: int = 0
) -> str:
    """A type as it is written, with the sizes of a value, whose leaves are taken. names: as in `annotation`.

    axes: how many axes of the leaves in front are not those of the value, but of arrays that it is an element of.
    """
    from dlang.specialize.values import Many, TupleV, leaves as atoms_of

    t = resolve(t)
    match t, form:
        case TypeTuple(items), TupleV(forms):
            return f"({', '.join(written(i, f, leaves, names, axes) for i, f in zip(items, forms, strict=True))})"
        case TypeArray(element, shape), _:
            own = [next(leaves) for _ in atoms_of(form)]
            inside = axes + len(shape.pre)
            sizes = ", ".join(map(str, own[0].shape[axes:inside]))
            of = form.element if isinstance(form, Many) else form
            return f"{written(element, of, iter(own), names, inside)}[{sizes}]"
    for _ in atoms_of(form):
        next(leaves)
    return _named(t, names or {})


def _named(t: Type | Size | Shape, names: Mapping[DataDecl, str]) -> str:
    """A type, or an argument of a datatype, with the sizes that it says by itself."""
    match t if isinstance(t, Size | Shape) else resolve(t):
        case Size() as size:
            value = resolve_size(size).poly.constant
            return "_" if value is None else str(int(value))
        case Shape():
            return "_"
        case TypeData(decl, args):
            arguments = f"<{', '.join(_named(a, names) for a in args)}>" if args else ""
            return names.get(decl, decl.name) + arguments
        case TypeTuple(items):
            return f"({', '.join(_named(i, names) for i in items)})"
        case other:
            return Names(scheme=True)(other)
