"""Types of values that are kept, as annotations that can be written into the next input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    children,
    resolve,
    resolve_size,
)


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
    """Whether values of a type are made of nothing."""
    r = resolve(t)
    return isinstance(r, TypeTuple) and all(map(_is_empty, r.items))


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


def annotation(t: Type, leaves: Iterator[Any]) -> s.TypeExpr:
    """A type as an annotation, with the sizes that a value of it has."""
    module, problems = parse(Source("<type>", f"type T = {written(t, leaves)}"))
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


def written(t: Type, leaves: Iterator[Any]) -> str:
    """A type as it is written, with the sizes of a value, whose leaves are taken."""
    t = resolve(t)
    match t:
        case TypeTuple(items):
            return f"({', '.join(written(i, leaves) for i in items)})"
        case TypeArray(element, shape):
            first = next(leaves)
            rank = len(shape.pre)
            sizes = [str(n) for n in getattr(first, "shape", ())[:rank]]
            inner = written(element, iter((first,))) if not isinstance(resolve(element), TypeData | TypeTuple) else ""
            return f"{inner or Names(scheme=True)(element)}[{', '.join(sizes)}]"
        case TypeData(decl, args) if args:
            arguments = []
            for a in args:
                if isinstance(a, Size):
                    value = resolve_size(a).poly.constant
                    arguments.append("_" if value is None else str(int(value)))
                elif isinstance(a, Shape):
                    arguments.append("_")
                else:
                    arguments.append(Names(scheme=True)(a))
            return f"{decl.name}<{', '.join(arguments)}>"
        case _:
            return Names(scheme=True)(t)
