"""Results in memory that all pieces of a loop add to: each piece but the first has an array of its own for them.

So no two threads write to one element, and what is added up in which order depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlang.codegen.loops import Buffer, Partial, Slice, Stmt, Store
from dlang.codegen.traverse import captures, map_inside
from dlang.ir.anf import Size
from dlang.ops.dtypes import PARTIAL

ELEMENT = 16_000  # picoseconds of work in a piece for each element of its arrays, so that these cost little


def partials_of(
    stmts: Sequence[Stmt], apart: Sequence[Buffer], own: set[Buffer], sizes: Mapping[Buffer, Size]
) -> tuple[Partial, ...] | None:
    """An array for each buffer that several iterations add to; None if they do more with one, or its size isn't known.

    stmts: all of a loop, one after another. own: the buffers made in an iteration. apart: those in which iterations
    never meet.
    """
    found: dict[Buffer, Partial] = {}
    alone = own.union(apart)
    parts: dict[Buffer, Buffer] = {}
    for stmt in stmts:
        match stmt:
            case Slice(part, source) if source in alone:
                alone.add(part)
            case Slice(part, source):
                parts[part] = parts.get(source, source)
            case Store(place, _, _, monoid) if monoid != "set" and place not in alone:
                whole = parts.get(place, place)
                if whole not in sizes or monoid != "sum" or whole.dtype not in PARTIAL:
                    return None
                found[whole] = Partial(whole, Buffer(whole.name, whole.dtype), sizes[whole])
            case _:
                pass
    return tuple(found.values())


def split(stmts: Sequence[Stmt], partials: Sequence[Partial]) -> tuple[Stmt, ...] | None:
    """Statements that add to the arrays of a piece; None if they do more with one than that."""
    own = {p.whole: p.own for p in partials}
    return None if _is_used_otherwise(stmts, set(own)) else _redirected(stmts, own)


def _is_used_otherwise(stmts: Sequence[Stmt], shared: set[Buffer]) -> bool:
    """Tells whether statements do more with some buffers, or with parts of them, than add to them."""
    used = set(shared)

    def rest(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case Store(buffer, _, _, monoid) if monoid != "set" and buffer in used:
                    pass
                case Slice(part, source) if source in used:
                    used.add(part)
                case _:
                    out.append(map_inside(stmt, rest))
        return tuple(out)

    return not used.isdisjoint(captures(rest(stmts), ()))


def _redirected(stmts: Sequence[Stmt], replaced: Mapping[Buffer, Buffer]) -> tuple[Stmt, ...]:
    """Statements that add to other buffers."""

    def change(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return _redirected(stmts, replaced)

    out: list[Stmt] = []
    for stmt in stmts:
        match stmt:
            case Store(buffer) if buffer in replaced:
                out.append(replace(stmt, buffer=replaced[buffer]))
            case Slice(_, source) if source in replaced:
                out.append(replace(stmt, source=replaced[source]))
            case _:
                out.append(map_inside(stmt, change))
    return tuple(out)
