"""Refuses a struct or an enum of which no value can be made: every way to make one needs one that was made before."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.diagnostics import Diagnostic, error
from dlang.typecheck.types import (
    DataDecl,
    Shape,
    Size,
    Type,
    TypeArray,
    TypeData,
    TypeTuple,
    TypeVar,
    Var,
    resolve,
    resolve_shape,
    resolve_size,
)

Known = dict[Var, bool]  # whether the types that the parameters of a declaration stand for have values
Path = frozenset[tuple[DataDecl, tuple[bool, ...]]]


def uninhabited(decls: Sequence[DataDecl]) -> list[Diagnostic]:
    """E0218 for each declaration without values, whatever its parameters stand for."""
    found: list[Diagnostic] = []
    for d in decls:
        if d.variants and not _declared(d, tuple(True for _ in d.params), frozenset()):
            kind = "struct" if d.is_struct else "enum"
            found += error(
                "E0218",
                f"no value of the {kind} `{d.name}` can be made: it would have to hold another one",
                d.span,
                label="contains itself in every case",
                help=("let it end: an enum with a case that does not contain it, an `Option`, or an array of them",),
            ).diagnostics
    return found


def _declared(d: DataDecl, args: tuple[bool, ...], path: Path) -> bool:
    if (d, args) in path:
        return False
    known: Known = dict(zip(d.params, args, strict=True))
    inner = path | {(d, args)}
    return any(all(_has_values(t, known, inner) for _, t in v.fields) for v in d.variants)


def _has_values(t: Type | Size | Shape, known: Known, path: Path) -> bool:
    if isinstance(t, Size | Shape):
        return True
    match resolve(t):
        case TypeVar() as v:
            return known.get(v, True)
        case TypeArray(element, shape):
            s = resolve_shape(shape)
            counts = [resolve_size(n).poly.constant for n in (*s.pre, *s.post)]
            some = s.row is None and all(c is not None and c > 0 for c in counts)
            return not some or _has_values(element, known, path)  # an array may be empty
        case TypeTuple(items):
            return all(_has_values(i, known, path) for i in items)
        case TypeData(decl, args):
            return _declared(decl, tuple([_has_values(a, known, path) for a in args]), path)
        case _:
            return True
