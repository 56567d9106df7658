"""Finds comprehensions that are products of matrices with a factor in windows over an array (`gathered.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Buffer, Matrix
from dlang.ir.anf import Axis, Comp, Prim, Read, Reduce, Size, Var, fresh, poly
from dlang.ir.terms import ONE
from dlang.ir.types import dtype_of, product

NEAR = 4  # strides and dilations by which a window is known


@dataclass(frozen=True, slots=True)
class Factor:
    """An array in memory, by the offset of its element at a point of the axes."""

    buffer: Buffer
    offset: Size

    def reads(self, axis: Axis) -> bool:
        return self.offset.mentions((axis.var,))

    def moved(self, env: dict[Var, Size]) -> Factor:
        """The same at other values of some axes."""
        return Factor(self.buffer, self.offset.substitute(env.get))


@dataclass(frozen=True, slots=True)
class Windows:
    """A product with windows that are read.

    windows, other: the two factors. around: axes of loops around the blocks; block: the axis that is cut, and inside:
    those that lie whole in a block with it; terms: the other axes of the windows; columns: those of the other factor
    alone. rows: whether the blocks are rows of the result, and not parts of its sums. borders: what is at least zero
    within the array.
    """

    windows: Factor
    other: Factor
    around: tuple[Axis, ...]
    block: Axis
    inside: tuple[Axis, ...]
    terms: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    rows: bool
    borders: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """A product of plain matrices, whose elements are added to windows of the result.

    one: has the axes around, the block, those inside it, and terms; other: has terms and columns. env: what the axes of
    the result are in these.
    """

    one: Factor
    other: Factor
    around: tuple[Axis, ...]
    block: Axis
    inside: tuple[Axis, ...]
    terms: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    env: dict[Var, Size]


def plan_of(s: Scheduler, op: Comp) -> Windows | Spread | None:
    """The product that a comprehension is, if one factor lies in windows or what it gives does."""
    factors = _factors(s, op)
    keep = op.destinations[0] if len(op.destinations) == 1 else None
    if factors is None or s.short or not isinstance(keep, Reduce) or keep.monoid != "sum" or keep.into is not None:
        return None
    axes = {a.var for a in op.axes}
    kept = [e.atom for e in keep.index if e.mentions(axes)]
    if any(k is None or k not in axes for k in kept) or len(set(kept)) < len(kept):
        return None
    boxed = [_boxed(a, axes) for a in op.axes]
    if any(box is None for box in boxed):
        return None
    box = {a.var: a for a in boxed if a is not None}
    borders = tuple(b for a in op.axes for b in _borders(a, axes))
    order = sorted(range(2), key=lambda k: not _overlaps(factors[k][0], box, kept))
    for k in order:
        windows = _with_windows(factors[k], factors[1 - k], box, kept, borders)
        if windows is not None:
            return _spread(windows, factors[1 - k][1], box) or windows
    return None


def _factors(s: Scheduler, op: Comp) -> tuple[tuple[Factor, Read], tuple[Factor, Read]] | None:
    """The two arrays whose elements a body multiplies, if it does nothing else."""
    lets = op.body.lets
    if len(lets) != 3 or len(op.body.results) != 1 or dtype_of(op.body.results[0]) not in ("f32", "f64"):
        return None
    first, second, last = (let.op for let in lets)
    if not (isinstance(first, Read) and isinstance(second, Read) and isinstance(last, Prim) and last.name == "mul"):
        return None
    if {*last.args} != {lets[0].vars[0], lets[1].vars[0]} or op.body.results[0] is not lets[2].vars[0]:
        return None
    if any(
        r.array not in s.memory.places or dtype_of(op.body.results[0]) != dtype_of(r.array) for r in (first, second)
    ):
        return None
    if any(e.mentions((lets[0].vars[0],)) for e in second.index):
        return None
    a, b = ((Factor(s.place(r.array).buffer, s.place(r.array).at(r.index)), r) for r in (first, second))
    return a, b


def _with_windows(
    windows: tuple[Factor, Read],
    other: tuple[Factor, Read],
    box: dict[Var, Axis],
    kept: Sequence[Var | None],
    borders: tuple[Size, ...],
) -> Windows | None:
    """A plan with one of the factors in windows."""
    (a, read), (b, _) = windows, other
    mine = {v for v in box if a.offset.mentions((v,))}
    theirs = {v for v in box if b.offset.mentions((v,))}
    if mine | theirs != set(box) or any(v in kept for v in mine & theirs) or any(v not in kept for v in mine ^ theirs):
        return None
    order = _in_order(read, mine)
    if order is None or any(c.mentions(theirs - mine) for c in borders):
        return None
    results = [v for v in kept if v in mine and v is not None]
    columns = [v for v in kept if v not in mine and v is not None]
    inner = [v for v in order if v not in kept]
    if not (results and columns and inner):
        return None
    steps = {v: step(a.offset, v, set(box)) for v in mine}
    if any(step is None for step in steps.values()):
        return None
    near = {(d, e) for d in results for e in inner if _near(steps[d], steps[e])}
    if not near:
        return None
    rows = order[0] in kept
    data, terms = (results, inner) if rows else (inner, results)
    moving = [v for v in data if any(v in pair for pair in near)]
    block = moving[0]
    at = data.index(block)
    if any(step(c, v, set(box)) not in (ONE, -ONE) for c in borders for v in box if c.mentions((v,))):
        return None
    return Windows(
        a, b, tuple(box[v] for v in data[:at]), box[block], tuple(box[v] for v in data[at + 1 :]),
        tuple(box[v] for v in terms), tuple(box[v] for v in columns), rows, borders,
    )  # fmt: skip


def _overlaps(factor: Factor, box: dict[Var, Axis], kept: Sequence[Var | None]) -> bool:
    """Tells whether an array is read alike along an axis of the result and an axis that is summed over."""
    steps = {v: step(factor.offset, v, set(box)) for v in box if factor.offset.mentions((v,))}
    return any(_near(steps[v], steps[w]) for v in steps if v in kept for w in steps if w not in kept)


def _in_order(read: Read, axes: set[Var]) -> list[Var] | None:
    """The axes in the order of the dimensions that they move along."""
    order = list(dict.fromkeys(v for e in read.index for v in e.atoms() if v in axes))
    return order if len(order) == len(axes) else None


def step(offset: Size, axis: Var, axes: set[Var]) -> Size | None:
    try:
        step = offset.coefficient(axis)
    except ValueError:
        return None
    return None if step.mentions(axes) else step


def _near(a: Size | None, b: Size | None) -> bool:
    """Tells whether one step is a small multiple of the other."""
    if a is None or b is None:
        return False
    few = [k for n in range(1, NEAR + 1) for k in (n, -n)]
    return any(a == b * k or a * k == b for k in few)


def _boxed(axis: Axis, axes: set[Var]) -> Axis | None:
    """The range of an axis that does not depend on others."""
    lows = tuple(b for b in axis.lows if not b.mentions(axes))
    highs = tuple(b for b in axis.highs if not b.mentions(axes))
    return Axis(axis.var, lows, highs) if len(lows) == len(highs) == 1 else None


def _borders(axis: Axis, axes: set[Var]) -> list[Size]:
    """Returns sizes that are all at least 0 where the bounds that depend on other axes hold."""
    var = poly(axis.var)
    lows = [var - b for b in axis.lows if b.mentions(axes)]
    return lows + [b - 1 - var for b in axis.highs if b.mentions(axes)]


def extent(axis: Axis) -> Size:
    return axis.highs[0] - axis.lows[0]


def count(axes: Sequence[Axis]) -> Size:
    return product(tuple(map(extent, axes)))


def _spread(p: Windows, read: Read, box: dict[Var, Axis]) -> Spread | None:
    """Windows x[t - p] for 0 <= t - p < n, as x[i] for i in 0..n, whose products go to i + p.

    read: of the other factor. This needs no zeros beyond borders.
    """
    if not p.rows:
        return None
    data = (p.block, *p.inside)
    axes = [a.var for a in (*data, *p.terms)]
    steps = {v: p.windows.offset.coefficient(v) for v in axes}
    env: dict[Var, Size] = {}
    ranges: dict[Var, tuple[list[Size], list[Size]]] = {}
    pairs: dict[Var, Var] = {}
    for t in data:
        met = [b for b in p.borders if b.mentions((t.var,))]
        partners = [a.var for a in p.terms if met and steps[a.var] == -steps[t.var]]
        if not met:
            continue
        if len(partners) != 1 or partners[0] in pairs.values():
            return None
        i = fresh("i", t.var.type)
        env[t.var], pairs[i] = poly(i) + poly(partners[0]), partners[0]
        ranges[i] = ([], [])
    for border in p.borders:
        moved = border.substitute(env.get)
        inner = [i for i in pairs if moved.mentions((i,))]
        if len(inner) != 1 or moved.without(inner[0]).mentions((*axes, *pairs)):
            return None
        offset = moved.without(inner[0])
        lows, highs = ranges[inner[0]]
        if moved.coefficient(inner[0]) == 1:
            lows.append(-offset)
        else:
            highs.append(offset + 1)
    if not pairs or any(len(ends) != 1 for pair in ranges.values() for ends in pair):
        return None
    new: list[Axis] = []
    for t in data:
        if t.var not in env:
            new.append(t)
            continue
        i = next(i for i in pairs if env[t.var].mentions((i,)))
        axis, q = Axis(i, tuple(ranges[i][0]), tuple(ranges[i][1])), box[pairs[i]]
        least = (axis.lows[0] + q.lows[0] - t.lows[0]).constant
        most = (t.highs[0] - axis.highs[0] - q.highs[0] + 1).constant
        if least is None or most is None or least < 0 or most < 0:
            return None
        new.append(axis)
    terms = tuple(a for a in p.terms if a.var not in pairs.values())
    order = _in_order(read, {a.var for a in (*p.terms, *p.columns)} - {a.var for a in terms})
    one = Factor(p.windows.buffer, p.windows.offset.substitute(env.get))
    if order is None or not terms or any(one.offset.mentions((v,)) for v in pairs.values()):
        return None
    return Spread(one, p.other, p.around, new[0], tuple(new[1:]), terms, tuple(box[v] for v in order), env)


def matrix_of(f: Factor, rows: Sequence[Axis], columns: Sequence[Axis], tests: list[tuple[Size, int]]) -> Matrix | None:
    """A factor as a matrix whose rows and columns each run over some axes.

    tests: what has to be at least so large, that stored rows do not overlap, is added.
    """
    axes = {a.var for a in (*rows, *columns)}
    steps = {a.var: step(f.offset, a.var, axes) for a in (*rows, *columns)}
    for group in (rows, columns):
        for outer, inner in pairwise(group):
            far, near = steps[outer.var], steps[inner.var]
            if far is None or near is None or far != near * extent(inner):
                return None
    first = {a.var: a.lows[0] for a in (*rows, *columns)}
    down, across = steps[rows[-1].var], steps[columns[-1].var]
    if down is None or across is None or ONE not in (down, across):
        return None
    stride, length = (down, count(columns)) if across == 1 else (across, count(rows))
    tests.append((stride - length, 0))
    return Matrix(f.buffer, f.offset.substitute(first.get), stride, across != 1)
