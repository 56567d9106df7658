"""The adjoints of making a node and of looking into one.

With x = K(a…), ā gets the field of x̄ for a where x̄ is not zero; with a… = fields K x, x̄ gets K̄(ā…). The cotangent of
an array in a node is a sum there, which is added up where the node is made (`tangent_types.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ad.scope import Scope
from dlang.ad.tangent_types import is_zero, retyped
from dlang.ir.anf import Atom, Construct, Fields, Let, Lit, Tag, Var, Variant
from dlang.ir.builder import Builder


def vjp_construct(let: Let, op: Construct, scope: Scope) -> None:
    """Emits the adjoint of a node made of active values."""
    b, nodes = scope.b, scope.nodes
    g = scope.pop(let.vars[0])
    active = [k for k, a in enumerate(op.args) if scope.is_active(a)]
    if g is None or is_zero(b, g) or not active:
        return
    variant = nodes.variant(op.variant)
    places = {k: n for n, k in enumerate(nodes.fields(op.variant))}
    types = [nodes.field_type(op.variant.fields[k].type) for k in active]

    construct = constructed(b, g, variant)

    def found() -> list[Atom]:
        parts: Sequence[Atom] = b.emit(Fields(variant, g)) if construct is None else construct.args
        return [retyped(b, parts[places[k]], type) for k, type in zip(active, types, strict=True)]

    if construct is not None:
        bars: Sequence[Atom] = found()
    else:
        is_none = b.prim("eq", b.one(Tag(g)), Lit(0, "i64"))
        bars = b.if_(is_none, lambda: [nodes.nothing(b, type) for type in types], found)
    for k, bar in zip(active, bars, strict=True):
        scope.add(op.args[k], bar)


def constructed(b: Builder, node: Atom, variant: Variant) -> Construct | None:
    """The operation that makes a node, if it is known and of a variant; an arm never reached may expect another."""
    operation = b.definition(node) if isinstance(node, Var) else None
    return operation if isinstance(operation, Construct) and operation.variant.tag == variant.tag else None


def vjp_fields(let: Let, op: Fields, scope: Scope) -> None:
    """Emits the adjoint of what was read of a node."""
    b, nodes = scope.b, scope.nodes
    bars = {v: g for v in let.vars if v in scope.active and (g := scope.pop(v)) is not None}
    if not bars:
        return
    parts: list[Atom] = []
    for k in nodes.fields(op.variant):
        v = let.vars[k]
        parts.append(bars[v] if v in bars else nodes.nothing(b, nodes.field_type(op.variant.fields[k].type)))
    scope.add(op.node, b.one(Construct(nodes.variant(op.variant), tuple(parts))))
