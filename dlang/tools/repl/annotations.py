"""Types of values that are kept, as annotations that can be written into the next input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import Source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.lazy_modules import lazy_module
from dlang.polynomials import Poly
from dlang.typecheck.printing import Names
from dlang.typecheck.types import (
    DataDecl,
    Shape,
    Size,
    SizeAtom,
    SizeVar,
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
    from dlang.specialize import frame, values
    from dlang.specialize.values import Value
else:
    frame = lazy_module("dlang.specialize.frame")
    values = lazy_module("dlang.specialize.values")

Known = dict[Poly[SizeAtom], int]
VALUE = "<value>"  # where the types of values are written, which nobody sees


def items_of(t: Type) -> tuple[Type, ...]:
    """The items of a tuple; of another type itself."""
    r = resolve(t)
    return tuple(resolve(i) for i in r.items) if isinstance(r, TypeTuple) else (r,)


def leaves_a_run(t: Type) -> bool:
    """Tells whether values of a type are numbers, texts and arrays when taken apart, which then tell all its sizes."""
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
    """Tells whether values of a type have no leaves, or nothing says what leaves they have."""
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


def annotation(t: Type, form: Value, leaves: Sequence[Any], names: Mapping[DataDecl, str]) -> s.TypeExpr:
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


def written(t: Type, form: Value, leaves: Sequence[Any], names: Mapping[DataDecl, str] | None = None) -> str:
    """A type as it is written, with the sizes that a value of it has. names: as in `annotation`."""
    known: Known = {}
    for size, count in _counts(t, form, iter(leaves)):
        poly = resolve_size(size).poly
        known.setdefault(poly, count)
        rest = _at(poly, known)
        match list(dict.fromkeys(rest.atoms())):
            case [SizeVar() as v] if _is_linear(rest, v):
                factor, more = rest.coefficient(v).constant, rest.without(v).constant
                if factor is not None and more is not None:
                    known[Poly.of(v)] = int((count - more) / factor)
    return _text(t, known, names or {})


def _is_linear(poly: Poly[SizeAtom], v: SizeVar) -> bool:
    return all(m.count(v) <= 1 for m in poly.terms)


def _counts(t: Type, form: Value, leaves: Iterator[Any], axes: int = 0) -> Iterator[tuple[Size, int]]:
    """The sizes in a type, and how many they are in a value, whose leaves are taken.

    axes: how many axes of the leaves in front are not those of the value, but of arrays that it is an element of.
    """
    own = [next(leaves) for _ in values.leaves(form)]
    t, parts = resolve(t), iter(own)
    match t, form:
        case TypeTuple(items), values.TupleV(forms):
            for item, part in zip(items, forms, strict=True):
                yield from _counts(item, part, parts, axes)
        case TypeArray(element, shape), _:
            inside = axes + len(shape.pre)
            yield from zip(shape.pre, own[0].shape[axes:inside], strict=True)
            yield from _counts(element, form.element if isinstance(form, values.Many) else form, parts, inside)
        case TypeData(decl, args), values.DataV(_, fields):
            by = dict(zip(decl.params, args, strict=True))
            for (_, field), part in zip(decl.variants[0].fields, fields, strict=True):
                yield from _counts(frame.substituted(field, by), part, parts, axes)
        case TypeData(decl, args), values.EnumV(_, _, variants) if not axes:
            by = dict(zip(decl.params, args, strict=True))
            tag = int(next(parts))
            for k, (variant, fields) in enumerate(zip(decl.variants, variants, strict=True)):
                for (_, field), part in zip(variant.fields, fields, strict=True):
                    found = list(_counts(frame.substituted(field, by), part, parts))
                    yield from found if k == tag else ()


def _at(poly: Poly[SizeAtom], known: Known) -> Poly[SizeAtom]:
    """A size in terms of what is not known."""
    return poly.substitute(lambda a: Poly.of(n) if (n := known.get(Poly.of(a))) is not None else None)


def _text(t: Type | Size | Shape, known: Known, names: Mapping[DataDecl, str]) -> str:
    """A type, or an argument of a datatype, with the sizes that are known."""
    match t if isinstance(t, Size | Shape) else resolve(t):
        case Size() as size:
            poly = resolve_size(size).poly
            count = known.get(poly, _at(poly, known).constant)
            return "_" if count is None else str(int(count))
        case Shape():
            return "_"
        case TypeArray(element, shape):
            return f"{_text(element, known, names)}[{', '.join(_text(n, known, names) for n in shape.pre)}]"
        case TypeData(decl, args):
            arguments = f"<{', '.join(_text(a, known, names) for a in args)}>" if args else ""
            return names.get(decl, decl.name) + arguments
        case TypeTuple(items):
            return f"({', '.join(_text(i, known, names) for i in items)})"
        case other:
            return Names(scheme=True)(other)
