"""Arrays of integers that are computed of places alone, each element as fast as it is read.

    let next = [if i + 1 < n { i + 1 } else { 0 } for i < n]      [x[if i + 1 < n { i + 1 } else { 0 }] for i < n]
    [x[next[i]] for i < n]                                    →

An element is computed where it is read. So what is known of the axes there is known of an index that was read from an
array, which is in range by the bounds of axes, and a polynomial in them if the element is one. Views of such arrays
are such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.comprehension_queries import point_of
from dlang.ir.sharing import additions
from dlang.ir.traverse import walk
from dlang.ops import figures
from dlang.optimize.producers import Producer


@dataclass(slots=True)
class IndexArrays:
    """Such arrays, as they are met on a walk. producers: the comprehension that makes each, and which result it is."""

    producers: dict[anf.Var, tuple[Producer, int]] = field(default_factory=dict)

    def note(self, let: anf.Let) -> None:
        """Notes which results of a let are such arrays."""
        match let.op:
            case anf.Comp() as op:
                producer = Producer(op)
                self.producers.update({v: (producer, k) for k, v in enumerate(let.vars) if _is_quick(producer, k, v)})
            case anf.View(array, axes, shape, index) if array in self.producers:
                lets, value = self.element(array, index)
                keep = anf.Reduce(shape, tuple([anf.poly(a) for a in axes]), "set")
                points = tuple([anf.Axis(a, (anf.ZERO,), (n,)) for a, n in zip(axes, shape, strict=True)])
                self.producers[let.vars[0]] = Producer(anf.Comp(points, anf.Block(tuple(lets), (value,)), (keep,))), 0
            case _:
                pass

    def element(self, array: anf.Var, index: Sequence[anf.Size]) -> tuple[Sequence[anf.Let], anf.Atom]:
        """The code of an element of such an array, and its value."""
        producer, k = self.producers[array]
        return producer.element(k, index)


def _is_quick(producer: Producer, k: int, array: anf.Var) -> bool:
    """Tells whether each element of a result is an integer that code without reads gives quickly."""
    if not isinstance(array.type, anf.Array) or array.type.dtype != "i64" or point_of(producer.op, k) is None:
        return False
    code = producer.code(k, figures.COPIED_CODE)
    if code is None:
        return False
    computed = [let.op for let in walk(anf.Block(tuple(code), ())) if not isinstance(let.op, anf.IndexExpr)]
    quick = all(isinstance(op, anf.Prim | anf.Cast | anf.If) and additions(op) <= figures.ADDITION for op in computed)
    return quick and len(computed) <= figures.COPIED_CODE
