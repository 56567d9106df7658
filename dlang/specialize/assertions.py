"""`e as T`: sizes that are not known to be equal are compared when the program runs.

Those in a node of a datatype are compared where it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlang.diagnostics import Span
from dlang.ir.anf import Size
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoTuple
from dlang.specialize.values import Value, mono_of
from dlang.typecheck.types import DataDecl

Pair = tuple[str, Size, Size]


def asserted(f: Frame, v: Value, wanted: Mono, span: Span) -> Value:
    """The value under a type whose sizes are compared now."""
    em = f.emitter
    for what, actual, stated in pairs(mono_of(v), wanted, "", span):
        if actual != stated:
            x, y = em.atom(actual), em.atom(stated)
            parts = (f"`as`: {what} has size ", "", ", expected ", "", "")
            em.check(em.prim("eq", x, y), "E0807", parts, (x, y))
    return f.fit(v, wanted)


def pairs(found: Mono, wanted: Mono, path: str, span: Span) -> Iterator[Pair]:
    """The sizes of two types that differ in sizes alone: what each is of, as it is and as it should be."""
    match found, wanted:
        case MonoArray(element, shape), MonoArray(stated, sizes):
            assert len(shape) == len(sizes), "the checker compares the numbers of axes"
            for k, (a, b) in enumerate(zip(shape, sizes, strict=True)):
                yield f"axis {k}" + (f" of `{path}`" if path else ""), a, b
            yield from pairs(element, stated, f"{path}[…]", span)
        case MonoTuple(items), MonoTuple(others):
            for k, (x, y) in enumerate(zip(items, others, strict=True)):
                yield from pairs(x, y, f"{path}.{k}", span)
        case MonoData(decl, fields), MonoData(_, others):
            for name, x, y in zip(field_names(decl), fields, others, strict=True):
                yield from pairs(x, y, f"{path}.{name}", span)
        case MonoEnum(), MonoEnum():
            for x, y in zip(found.fields, wanted.fields, strict=True):
                if any(a != b for _, a, b in pairs(x, y, path, span)):
                    raise unsupported("`as` with other sizes of an enum", span)


def field_names(decl: DataDecl) -> list[str]:
    return [name or "" for name, _ in decl.variants[0].fields]
