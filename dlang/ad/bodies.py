"""Bodies of comprehensions at other axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.affine import Change
from dlang.ir.builder import Builder
from dlang.ir.pruning import pruned
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import parts, rebuild


def with_axes_as_values(lets: Sequence[anf.Let], axes: Sequence[anf.Var]) -> list[anf.Let]:
    """The body with every axis that is an operand (not just part of an index) given a variable of its own."""
    wanted = set(axes)
    values: dict[anf.Var, anf.Var] = {}

    def atom(a: anf.Atom) -> anf.Atom:
        if isinstance(a, anf.Var) and a in wanted:
            return values.setdefault(a, anf.fresh(a.name, a.type))
        return a

    def block(b: anf.Block) -> anf.Block:
        return anf.Block(
            tuple(anf.Let(let.vars, op(let.op), let.span) for let in b.lets), tuple(atom(r) for r in b.results)
        )

    def op(o: anf.Op) -> anf.Op:
        return rebuild(o, atom=atom, size=lambda s: s, block=block, bind=lambda v: v)

    out = [
        anf.Let(let.vars, op(let.op), let.span) if parts(let.op).atoms or parts(let.op).blocks else let for let in lets
    ]
    return [*(anf.Let((v,), anf.IndexExpr(anf.poly(a))) for a, v in values.items()), *out]


def emit_comp(
    b: Builder, change: Change, lets: Sequence[anf.Let], results: Sequence[tuple[anf.Var, anf.Atom, anf.Destination]]
) -> None:
    """Emits a comprehension over changed axes with a fresh copy of the part of a body that its results need.

    The indices of the destinations are in the new axes, those in the body in the old ones.
    """
    sizes = [s for _, _, d in results for s in d.index]
    kept = pruned(lets, [g for _, g, _ in results], sizes)
    renaming = Renaming({}, renew=True)
    axes = tuple(map(renaming.axis, change.axes))
    for old, new in change.env.items():
        renaming.env[old] = renaming.size(new)
    copies = tuple(renaming.let(let) for let in kept)
    atoms = tuple(renaming.atom(g) for _, g, _ in results)
    destinations = tuple([replace(d, index=tuple(map(renaming.size, d.index))) for _, _, d in results])
    b.emit_as([v for v, _, _ in results], anf.Comp(axes, anf.Block(copies, atoms), destinations))
