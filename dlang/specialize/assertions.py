"""`e as T`: sizes that are not known to be equal are compared when the program runs.

Those in a node of a datatype are compared where it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from dlang.diagnostics import Span
from dlang.ir.anf import Array, Size, Var
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.types import Mono, MonoArray, MonoData, MonoEnum, MonoTuple
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, TupleV, Value, leaves, rebuild
from dlang.typecheck.types import DataDecl


class Pair(NamedTuple):
    """An axis whose size is asserted: how a message calls it, its size as it is and as it should be, and which leaves
    of the value have it as which of their axes."""

    what: str
    actual: Size
    stated: Size
    leaves: range
    axis: int


def asserted(f: Frame, v: Value, wanted: Mono, span: Span) -> Value:
    """The value under a type whose sizes are compared now."""
    em = f.emitter
    atoms = list(leaves(v))
    for what, actual, stated, positions, axis in pairs(v, wanted, "", 0, 0, span):
        if em.opened(actual) != em.opened(stated):
            arrays = [(a, axis) for a in atoms[positions.start : positions.stop] if isinstance(a, Var)]
            atoms[positions.start : positions.stop] = em.compared(actual, stated, f"`as`: {what}", arrays)
    return f.fit(rebuild(v, iter(atoms)), wanted)


def pairs(v: Value, wanted: Mono, path: str, first: int, depth: int, span: Span) -> Iterator[Pair]:
    """The axes of a value and their sizes in a type that differs from its own in sizes alone.

    first: how many leaves come before those of this value. depth: in how many axes of arrays around it they lie.
    """

    def axes(own: tuple[Size, ...], stated: tuple[Size, ...], count: int) -> Iterator[Pair]:
        assert len(own) == len(stated), "the checker compares the numbers of axes"
        for k, (a, b) in enumerate(zip(own, stated, strict=True)):
            what = f"axis {k}" + (f" of `{path}`" if path else "")
            yield Pair(what, a, b, range(first, first + count), depth + k)

    match v, wanted:
        case ArrayV(var), MonoArray(_, shape):
            assert isinstance(var.type, Array)
            yield from axes(var.type.shape[depth:], shape, 1)
        case Many(own, inner), MonoArray(element, shape):
            yield from axes(own, shape, len(list(leaves(inner))))
            yield from pairs(inner, element, f"{path}[…]", first, depth + len(own), span)
        case (TupleV(parts), MonoTuple(types)) | (DataV(_, parts), MonoData(_, types)):
            names = field_names(v.decl) if isinstance(v, DataV) else map(str, range(len(types)))
            for name, part, type in zip(names, parts, types, strict=True):
                yield from pairs(part, type, f"{path}.{name}", first, depth, span)
                first += len(list(leaves(part)))
        case EnumV(fields=fields), MonoEnum(fields=types):
            inside = chain.from_iterable(pairs(x, t, path, 0, depth, span) for x, t in zip(fields, types, strict=True))
            if any(pair.actual != pair.stated for pair in inside):
                raise unsupported("`as` with other sizes of an enum", span)


def field_names(decl: DataDecl) -> list[str]:
    """The names of the fields of a struct."""
    return [name or "" for name, _ in decl.variants[0].fields]
