"""Elements of rows as elements of the arrays that the rows lie in, where loops can then do several rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.codegen.loops import Buffer, Compute, Convert, Evaluate, Load, Slice, Stmt, Store
from dlang.ir.anf import Size

_PLAIN = (Compute, Convert, Evaluate, Load, Store, Slice)


def without_addresses(stmts: Sequence[Stmt]) -> Sequence[Stmt]:
    """Scalar code in which loads and stores go to whole arrays; anything else as it is."""
    if not any(isinstance(s, Slice) for s in stmts) or not all(isinstance(s, _PLAIN) for s in stmts):
        return stmts
    at: dict[Buffer, tuple[Buffer, Size]] = {}
    out: list[Stmt] = []
    for stmt in stmts:
        match stmt:
            case Slice(result, source, offset):
                base = at.get(source)
                at[result] = (source, offset) if base is None else (base[0], base[1] + offset)
            case Load(buffer=buffer, offset=offset) | Store(buffer=buffer, offset=offset) if buffer in at:
                source, start = at[buffer]
                out.append(replace(stmt, buffer=source, offset=start + offset))
            case _:
                out.append(stmt)
    return out
