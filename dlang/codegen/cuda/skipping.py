"""Branches for which nobody waits: the kernels of both arms are launched, and those of one do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dlang.codegen.cuda.numbers import Numbers
from dlang.codegen.loops import Allocate, At, Branch, Compute, Convert, Count, Evaluate, Free, Loop, Slot, Stmt, Store
from dlang.codegen.traverse import bound_by
from dlang.ir.anf import Size, Var

FEW_LAUNCHES = 12  # that are tried in vain rather than that the host waits


def can_be_skipped(stmt: Branch, there: Mapping[Var, Stmt], numbers: Numbers) -> bool:
    """Tells whether kernels that do nothing can stand for an arm that is not taken, so that the host need not wait."""
    launches = 0
    inside: set[Slot] = set()
    if stmt.results:
        return False

    def is_known(sizes: Iterable[Size]) -> bool:
        return not any(v in there or v in inside for size in sizes for v in size.atoms())

    for inner in (*stmt.then.stmts, *stmt.otherwise.stmts):
        match inner:
            case Compute() | Convert() | Evaluate() | At() | Count():
                pass
            case Allocate(buffer, shape) if numbers.spaces.on_device(buffer):
                if not is_known(shape):
                    return False
            case Free(buffer) | Store(buffer) if numbers.spaces.on_device(buffer):
                pass
            case Loop() if numbers.is_for_device(inner):
                nest = numbers.launches.nest(inner)
                assert nest is not None
                around = [level.var for level in nest.levels]
                bounds = [size for level in nest.levels for size in (*level.lows, *level.highs)]
                if not is_known([size for size in bounds if not size.mentions(around)]):
                    return False
                launches += 1
            case _:
                return False
        inside.update(bound_by(inner))
    return launches <= FEW_LAUNCHES
