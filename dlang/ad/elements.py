"""Bodies of comprehensions at other axes, and the elements of arrays that an adjoint saves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dlang.ad.scope import Scope, dummy, numeric
from dlang.ir import anf
from dlang.ir.affine import Change, extent, far_fewer, hull, nonempty
from dlang.ir.anf import Atom, Block, Comp, If, Let, Prim, Read, Reduce, Size, Var, fresh, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, parts, pruned, rebuild
from dlang.ir.types import array_type, dtype_of, is_float, product, type_of
from dlang.ir.writes import determines
from dlang.polynomials import Poly

# ---- bodies ----------------------------------------------------------------------------------------------------------
# Bodies of comprehensions at other axes.


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


# ---- saved elements --------------------------------------------------------------------------------------------------
# Saves the elements that a comprehension's adjoint needs of arrays that it may not have whole (`rematerialise.py`).
#
# The body of a comprehension runs again in its adjoint, at the same points. An element that it reads of an array that
# is there no longer is a further result, in an arm of a branch, too, where the other arm gives a dummy. What fewer axes
# decide is saved before, by a comprehension over these.


def saved_values(let: Let, scope: Scope) -> tuple[list[Let], dict[Var, Read]]:
    """The comprehension, last, with what it saves, and values of its body that the adjoint reads from there.

    These are stored results, and elements of arrays that the adjoint may not have whole, unless they are about all
    that the array has. Elements that are in the array that the loops around leave are read there.
    """
    op = let.op
    assert isinstance(op, Comp)
    names = [a.var for a in op.axes]
    definitions = {v: inner.op for inner in op.body.lets for v in inner.vars}
    order = {v: k for k, v in enumerate(definitions)}
    values: dict[Var, Read] = {}
    inside = scope.known.within(op.axes)
    for var, atom, d in zip(let.vars, op.body.results, op.destinations, strict=True):
        plain = isinstance(d, Reduce) and d.shape and (d.monoid == "set" or (d.monoid == "sum" and d.into is None))
        if plain and isinstance(atom, Var) and isinstance(definitions.get(atom), Prim) and is_float(atom.type):
            known_before = all(order.get(v, -1) < order[atom] for e in d.index for v in e.atoms())
            if known_before and determines(op.axes, d.index):
                last = None if d.into is None else scope.lasting.element(var, d.index, inside, op.axes)
                stored = Read(var, d.index) if d.into is None else last
                if stored is not None:
                    values.setdefault(atom, stored)
    box = hull(op.axes, inside) if scope.fleeting else None
    if box is None:
        return [let], values
    before: list[Let] = []
    body: list[Let] = []
    points = product(high - low + 1 for low, high in box.values())
    vars, results, destinations = list(let.vars), list(op.body.results), list(op.destinations)
    for inner in op.body.lets:
        read = inner.op
        if isinstance(read, Read) and (last := scope.lasting.element(read.array, read.index, inside, op.axes)):
            values[inner.vars[0]] = last
            body.append(inner)
            continue
        saving, given = _with_reads(inner, scope, points)
        body.append(saving)
        for v, result in given.items():
            axes = list(op.axes)
            if isinstance(read, Read) and not _within(read, definitions):
                axes = [a for a in op.axes if any(e.mentions((a.var,)) for e in read.index)]
            own_points = product(box[a.var][1] - box[a.var][0] + 1 for a in axes)
            if isinstance(read, Read) and not far_fewer(own_points, product(array_type(read.array).shape)):
                continue
            others = [a for a in op.axes if a not in axes]
            if others and any(bound.mentions(names) for a in op.axes for bound in (*a.lows, *a.highs)):
                axes, others = list(op.axes), []  # where there are points of the others is not known without them
            if not axes:
                one = axis(1)
                axes, box = [one], {**box, one.var: (Poly({}), Poly({}))}
            with scope.b.scope() as emitted:
                shape = tuple(extent(scope.b, box[a.var], scope.known) for a in axes)
            index = tuple(poly(a.var) - box[a.var][0] for a in axes)
            saved = fresh(f"{v.name}_read", type_of(dtype_of(v), shape))
            values[v] = Read(saved, tuple(e if e.mentions(names) else Poly[Var]({}) for e in index))
            if others:
                change = Change(tuple(nonempty(axes, others, box, scope.known)), {})
                with scope.b.scope() as more:
                    emit_comp(scope.b, change, [inner], [(saved, v, Reduce(shape, index, "set"))])
                before += [*emitted, *more]
            else:
                before += emitted
                vars.append(saved)
                results.append(result)
                destinations.append(Reduce(shape, index, "set"))
    if len(vars) > len(let.vars):
        let = Let(tuple(vars), Comp(op.axes, Block(tuple(body), tuple(results)), tuple(destinations)), let.span)
    return [*before, let], values


def _within(read: Read, definitions: Collection[Var]) -> bool:
    """Tells whether a read is of an array, or at an index, that is defined at each point."""
    return read.array in definitions or any(e.mentions(definitions) for e in read.index)


def _with_reads(let: Let, scope: Scope, points: Size) -> tuple[Let, dict[Var, Var]]:
    """A let that also gives the elements that are read in it of arrays that are not there later.

    What it gives for each variable that one of its blocks binds to such an element. points: at how many it is done. Of
    an array with no more elements than these, all are saved, and not those that an arm reads.
    """
    op = let.op
    match op:
        case Read() if op.array in scope.fleeting and numeric(let.vars[0].type):
            return let, {let.vars[0]: let.vars[0]}
        case If():
            arms: list[tuple[list[Let], dict[Var, Var]]] = []
            for arm in (op.then, op.otherwise):
                pairs = [
                    (inner, {}) if _reads_about_all(inner.op, points) else _with_reads(inner, scope, points)
                    for inner in arm.lets
                ]
                arms.append(([inner for inner, _ in pairs], {v: r for _, results in pairs for v, r in results.items()}))
            given = {v: fresh(v.name, v.type) for _, results in arms for v in results}
            blocks = []
            for arm, (lets, results) in zip((op.then, op.otherwise), arms, strict=True):
                more: list[Atom] = [results[v] if v in results else dummy(scope.b, v.type) for v in given]
                blocks.append(Block(tuple(lets), (*arm.results, *more)))
            return Let((*let.vars, *given.values()), replace(op, then=blocks[0], otherwise=blocks[1]), let.span), given
        case _:
            return let, {}


def _reads_about_all(op: anf.Op, points: Size) -> bool:
    """Tells whether it reads, at so many points, an array that has about as many elements, or fewer."""
    return isinstance(op, Read) and not far_fewer(points, product(array_type(op.array).shape))


def from_there(lets: Sequence[Let], saved: Mapping[Atom, Read]) -> list[Let]:
    """Lets in which some variables, those of inner blocks too, are read from where they are saved."""

    def inner(block: Block) -> Block:
        return Block(tuple(from_there(block.lets, saved)), block.results)

    reads = [saved.get(let.vars[0]) if len(let.vars) == 1 else None for let in lets]
    return [replace(let, op=map_blocks(let.op, inner) if r is None else r) for let, r in zip(lets, reads, strict=True)]
