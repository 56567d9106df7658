"""Arrays with one element in each row that may not be 0: what is 0 for the others is computed for that one alone.

    e = comp i { k = read at[i]; t = read g[i]; yield t } to keep [n, m] [i, k] sum
    … = comp i, j, a { c = read e[i, j]; t = read x[j, a]; u = zero_safe_mul(c, t); yield u } to keep [n, d] [i, a] sum

becomes

    … = comp i, a { k = read at[i]; c = read g[i]; t = read x[k, a]; u = zero_safe_mul(c, t); yield u } to …

The cotangent of what an extremum was taken of is such an array. So the adjoint of the least of m distances is that of
one distance, and nothing of the m is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.affine import at_most_one
from dlang.ir.comprehension_queries import extent
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_bodies, map_inner, with_lets
from dlang.ir.types import I64
from dlang.ops import figures
from dlang.optimize.effects import consumed_by


def one_element(program: anf.Program) -> anf.Program:
    """The program with comprehensions over rows that have one element done for that element."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    sparse: dict[anf.Var, _Sparse] = {}
    changed: set[anf.Var] | None = None
    lets = []
    for let in block.lets:
        if isinstance(let.op, anf.Comp):
            let = _at_elements(let, let.op, sparse) if sparse else let
            for k, var in enumerate(let.vars):
                one = _Sparse.of(let.op, k) if isinstance(let.op, anf.Comp) else None
                if one is not None and changed is None:
                    changed = {v for other in block.lets for v in consumed_by(other.op)}
                if one is not None and changed is not None and changed.isdisjoint(one.read):
                    sparse[var] = one
        lets.append(let)
    return with_lets(block, lets, block.results)


@dataclass(frozen=True, slots=True)
class _Sparse:
    """A result of a comprehension that sets one element in each row: value, at an index of axes but for one entry.

    position: of that entry, which the body computes. single: axes of at most one point.
    """

    op: anf.Comp
    value: anf.Atom
    index: tuple[anf.Size, ...]
    position: int
    rows: tuple[anf.Axis, ...]
    single: tuple[anf.Axis, ...]

    @property
    def read(self) -> list[anf.Var]:
        """The arrays of which elements are read."""
        return [let.op.array for let in self.op.body.lets if isinstance(let.op, anf.Read)]

    @staticmethod
    def of(op: anf.Comp, k: int) -> _Sparse | None:
        """Returns what a result is; None if it is anything else."""
        d = op.destinations[k]
        if not isinstance(d, anf.Reduce) or d.monoid != "sum" or d.into is not None or d.after is not None:
            return None
        axes = {a.var: a for a in op.axes}
        rows = [axes.get(e.atom) if isinstance(e.atom, anf.Var) else None for e in d.index]
        if rows.count(None) != 1 or len(set(d.index)) < len(rows) or not all(let.op.IS.point for let in op.body.lets):
            return None
        position = rows.index(None)
        bound = {v for let in op.body.lets for v in let.vars}
        kept = tuple([a for a in rows if a is not None])
        single = tuple([a for a in op.axes if a not in kept])
        if not d.index[position].mentions(bound) or not all(map(at_most_one, single)):
            return None
        return _Sparse(op, op.body.results[k], d.index, position, kept, single)


def _at_elements(let: anf.Let, op: anf.Comp, sparse: dict[anf.Var, _Sparse]) -> anf.Let:
    """A comprehension, done for the elements of a sparse array that it reads, if it gives 0 for others."""
    read = [inner.op.array for inner in op.body.lets if isinstance(inner.op, anf.Read)]
    for array in dict.fromkeys(v for v in read if v in sparse):
        new = _for_one(op, array, sparse[array])
        if new is not None:
            return anf.Let(let.vars, new, let.span)
    return let


def _for_one(op: anf.Comp, array: anf.Var, one: _Sparse) -> anf.Comp | None:
    """The comprehension for the elements of an array; None if other points may count."""
    reads = [inner.op for inner in op.body.lets if isinstance(inner.op, anf.Read) and inner.op.array is array]
    axes = {a.var: a for a in op.axes}
    index = reads[0].index
    through = [axes.get(e.atom) if isinstance(e.atom, anf.Var) else None for e in index]
    if any(r.index != index for r in reads) or None in through or len(set(index)) < len(index):
        return None
    gone = through[one.position]
    assert gone is not None and isinstance(array.type, anf.Array)
    size = extent(gone)
    if size is None or size != array.type.shape[one.position] or _is_short(size):
        return None
    if any(b.mentions((gone.var,)) for a in op.axes for b in (*a.lows, *a.highs)):
        return None
    names = dict(zip([e.atom for e in one.index], [a.var for a in through if a is not None], strict=True))
    rows = {a.var: axes[names[a.var]] for a in one.rows}
    renamed = Renaming({a.var: rows[a.var].var for a in one.rows})
    if any(renamed.axis(replace(a, var=rows[a.var].var)) != rows[a.var] for a in one.rows):
        return None
    if not all(inner.op.IS.point for inner in op.body.lets) or not _is_zero(op, array):
        return None
    return _joined(op, array, one, gone, list(rows.values()))


def _is_short(size: anf.Size) -> bool:
    return size.constant is not None and size.constant <= figures.WRITTEN_OUT_AXIS


def _is_zero(op: anf.Comp, array: anf.Var) -> bool:
    """Tells whether a comprehension adds nothing to its results at points where it reads 0 from an array."""
    zero: set[anf.Atom] = set()

    def is_zero(atom: anf.Atom) -> bool:
        return atom in zero if isinstance(atom, anf.Var) else not isinstance(atom.value, str) and atom.value == 0

    for let in op.body.lets:
        match let.op:
            case anf.Read(read, _):
                none = read is array
            case anf.Prim("zero_safe_mul", (x, _)) | anf.Prim("neg", (x,)) | anf.Cast(arg=x):
                none = is_zero(x)
            case anf.Prim("mul", (anf.Lit(k), x)) | anf.Prim("mul" | "div", (x, anf.Lit(k))):
                none = is_zero(x) and isinstance(k, float) and math.isfinite(k) and k != 0
            case anf.Prim("zero_safe_mul_both", (x, y)):
                none = is_zero(x) or is_zero(y)
            case anf.Prim("add" | "sub", (x, y)) | anf.Prim("select", (_, x, y)):
                none = is_zero(x) and is_zero(y)
            case _:
                none = False
        if none:
            zero.update(let.vars)
    return all(map(is_zero, op.body.results)) and all(
        isinstance(d, anf.ScatterAdd) or (d.monoid == "sum" and d.after is None) for d in op.destinations
    )


def _joined(op: anf.Comp, array: anf.Var, one: _Sparse, gone: anf.Axis, rows: Sequence[anf.Axis]) -> anf.Comp:
    """The comprehension without an axis, at whose only point that counts it computes what is read from the array."""
    first = Renaming({a.var: r.var for a, r in zip(one.rows, rows, strict=True)}, renew=True)
    points = [first.axis(a) for a in one.single]
    code = [first.let(let) for let in one.op.body.lets]
    value, place = first.atom(one.value), first.size(one.index[one.position])
    at = place.atom
    if not isinstance(at, anf.Var):
        at = anf.fresh("at", I64)
        code.append(anf.Let((at,), anf.IndexExpr(place)))
    body = []
    second = Renaming({gone.var: at})
    for let in op.body.lets:
        if isinstance(let.op, anf.Read) and let.op.array is array:
            second.env[let.vars[0]] = value
        else:
            body.append(second.let(let))
    left = [a for a in op.axes if a is not gone]
    last = max([left.index(r) for r in rows], default=-1) + 1
    destinations: list[anf.Destination] = []
    for d in op.destinations:
        moved = tuple(map(second.size, d.index))
        meets = any(e.mentions((gone.var,)) for e in d.index) and not {r.var for r in rows} <= {e.atom for e in d.index}
        destinations.append(anf.ScatterAdd(d.shape, moved, d.into) if meets else replace(d, index=moved))
    results = tuple(map(second.atom, op.body.results))
    return anf.Comp((*left[:last], *points, *left[last:]), anf.Block((*code, *body), results), tuple(destinations))
