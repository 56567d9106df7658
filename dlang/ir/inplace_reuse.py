"""Results that may be written into the memory of an array that their comprehension reads.

    y = comp i, j { … read x[i, j] … } to keep [n, m] [i, j]

Each point has one element of y for itself, and of x it reads just the same one, before that is written. So y may take
the place of x, if nothing needs x any more.
"""

from __future__ import annotations

from collections import Counter

from dlang.ir.anf import ONE, ZERO, Array, Comp, Read, Reduce, Scalar, Var
from dlang.ir.traverse import mentioned, walk
from dlang.ir.types import dtype_of
from dlang.ops.monoids import STAYS


def own_elements(op: Comp, position: int) -> tuple[Var | None, ...] | None:
    """Returns the axis that each index entry is, if each point has its own element of a result, and none is left out.

    None in place of an axis: the only index along an axis of size 1. None for the whole: it is another kind of result.
    """
    d = op.destinations[position]
    if not isinstance(d, Reduce) or d.after is not None or not d.shape or len(d.index) < len(d.shape):
        return None
    axes = {axis.var: axis for axis in op.axes}
    entries: list[Var | None] = []
    for size, index in zip(d.shape, d.index, strict=True):
        axis = axes.pop(index.atom, None) if isinstance(index.atom, Var) else None
        if axis is not None and axis.lows == (ZERO,) and axis.highs == (size,):
            entries.append(axis.var)
        elif axis is None and index == ZERO and size == ONE:
            entries.append(None)
        else:
            return None
    return None if axes else tuple(entries)


def is_overwritten(op: Comp, position: int) -> bool:
    """Tells whether each point of a comprehension sets an element of a result, and together they set each once."""
    d = op.destinations[position]
    scalar = isinstance(op.body.results[position].type, Scalar)
    place = isinstance(d, Reduce) and d.monoid in STAYS
    return scalar and not place and own_elements(op, position) is not None


def is_replaced(op: Comp, position: int) -> bool:
    """Tells whether a result overwrites all of the array that it replaces, so that it may as well be elsewhere."""
    d = op.destinations[position]
    return isinstance(d, Reduce) and d.into is not None and d.monoid == "set" and is_overwritten(op, position)


def arrays_at_own_points(op: Comp, position: int) -> list[Var]:
    """The arrays of which each point reads only the element that it sets of a result, which is of the same type.

    Where a check may fail and there are several axes, there are none: in lanes, points are done once more if it does.
    With one axis a check is before all that is stored.
    """
    if not is_overwritten(op, position):
        return []
    if len(op.axes) > 1 and any(let.op.IS.fails for let in walk(op.body)):
        return []
    d = op.destinations[position]
    own = Counter(let.op.array for let in walk(op.body) if isinstance(let.op, Read) and let.op.index == d.index)
    uses = Counter(mentioned(op))
    type = Array(dtype_of(op.body.results[position]), d.shape)
    return [x for x, count in own.items() if count == uses[x] and x.type == type]


def reads_its_place(op: Comp, position: int) -> bool:
    """Tells whether a result takes the place of an array of which each point reads only the element that it sets."""
    d = op.destinations[position]
    into = d.into
    if into is None or not isinstance(d, Reduce) or not isinstance(op.body.results[position].type, Scalar):
        return False
    if len(op.axes) > 1 and any(let.op.IS.fails for let in walk(op.body)):
        return False
    if not {a.var for a in op.axes} <= {v for e in d.index for v in e.atoms()}:
        return False
    own = [let.op for let in walk(op.body) if isinstance(let.op, Read) and let.op.array is into]
    return all(read.index == d.index for read in own) and mentioned(op).count(into) == len(own) + 1
