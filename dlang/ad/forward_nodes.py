"""The tangents of making a node and of looking into one; those of nodes are of their tangent datatypes (`tangents.py`).

x = K(a…)          ẋ = K̄(ȧ…)
a… = fields K x    ȧ… = the fields of ẋ, or zeros where ẋ is zero
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ad.conversions import retyped
from dlang.ad.dual import Dual
from dlang.ad.nodes import constructed
from dlang.ad.tangents import is_zero, tangent_fields, tangent_variant
from dlang.ir.anf import Atom, Construct, Fields, Let, Lit, Tag


def push_construct(let: Let, op: Construct, s: Dual) -> None:
    """Emits the tangent of a node."""
    nodes = s.nodes
    if all(s.dot(a) is None for a in op.args):
        return
    wanted = [op.args[k] for k in tangent_fields(nodes.held, op.variant)]
    parts = tuple([s.built(a) if s.carries(a.type) else a for a in wanted])
    s.set(let.vars[0], s.b.one(Construct(tangent_variant(nodes.datatypes, op.variant), parts)))


def push_fields(let: Let, op: Fields, s: Dual) -> None:
    """Emits the tangents of what a node holds."""
    b, nodes = s.b, s.nodes
    dot = s.dot(op.node)
    if dot is None or is_zero(b, dot):
        return
    chosen = [v for v in let.vars if v in s.active]
    variant = tangent_variant(nodes.datatypes, op.variant)
    places = {let.vars[k]: n for n, k in enumerate(tangent_fields(nodes.held, op.variant))}
    made = constructed(b, dot, variant)

    def found() -> list[Atom]:
        parts: Sequence[Atom] = b.emit(Fields(variant, dot)) if made is None else made.args
        return [retyped(b, parts[places[v]], nodes.type(v.type)) for v in chosen]

    if made is not None:
        dots: Sequence[Atom] = found()
    else:
        nothing = b.prim("eq", b.one(Tag(dot)), Lit(0, "i64"))
        dots = b.if_(nothing, lambda: [s.zero(v.type) for v in chosen], found)
    for v, part in zip(chosen, dots, strict=True):
        s.set(v, part)
