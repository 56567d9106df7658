"""Contractions: a library's matrix product where it pays, loops otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlang.ir.anf import Array, Axis, Block, Comp, Contract, Keep, Let, Prim, Read, Scalar, Size, Var, fresh, poly
from dlang.codegen.memory import I64, ZERO
from dlang.codegen.nests import comprehension

if TYPE_CHECKING:
    from dlang.codegen.schedule import Scheduler


def as_comprehension(op: Contract) -> Comp:
    """The product as a comprehension over all of its axes, those of the result first."""
    assert isinstance(op.a.type, Array) and isinstance(op.b.type, Array)
    dtype = op.a.type.dtype
    sizes: dict[int, Size] = dict(zip(op.left, op.a.type.shape, strict=True))
    sizes.update(zip(op.right, op.b.type.shape, strict=True))
    names = [*op.out, *(n for n in sizes if n not in op.out)]
    axes = {n: fresh("ijkl"[min(k, 3)], I64) for k, n in enumerate(names)}
    x, y, xy = (fresh(name, Scalar(dtype)) for name in ("x", "y", "xy"))

    def index(names: Sequence[int]) -> tuple[Size, ...]:
        return tuple(poly(axes[n]) for n in names)

    lets = (
        Let((x,), Read(op.a, index(op.left))),
        Let((y,), Read(op.b, index(op.right))),
        Let((xy,), Prim("mul", (x, y))),
    )
    keep = Keep(tuple(sizes[n] for n in op.out), index(op.out))
    bounds = tuple(Axis(axes[n], (ZERO,), (sizes[n],)) for n in names)
    return Comp(bounds, Block(lets, (xy,)), (keep,))


def contraction(s: Scheduler, op: Contract, var: Var) -> None:
    """Emits a product."""
    comprehension(s, as_comprehension(op), (var,))
