"""How long operations of the core IR take, in additions (`ops/figures.py`), for passes that weigh them."""

from __future__ import annotations

from dlang.ir import anf
from dlang.ops import figures
from dlang.ops.primitives import COST


def additions(op: anf.Op) -> int:
    """The time of an operation on scalars, in additions: an access, a conversion or a size takes as long as one."""
    return COST[op.name] if isinstance(op, anf.Prim) else figures.ADDITION


def is_slow(op: anf.Op) -> bool:
    """Tells whether an operation is a primitive that takes longer than to store its result and read it."""
    return isinstance(op, anf.Prim) and COST[op.name] >= figures.ROOT
