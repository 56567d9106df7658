"""Products of matrices whose factor lies in windows over an array, block by block.

    out[b, i, j, o] = Σ x[b, i + p, j + q, r] · w[p, q, r, o]        a row for each i, j; a column for each p, q, r

So a convolution, in any layout, with strides and dilations, and both of its derivatives, are products of matrices. A
block is a range of one axis, as much as stays in the cache; where its axis is one of the result, the product gives a
block of that, else what is added to all of it. Where the windows are those of the result, the product is added to them.

Windows are read where they are, by offsets of their points and terms that all blocks share (`llvm/windows.py`). With
points beyond a border a block is gathered into a matrix; they are zeros in it, which only counts for nothing if the
other factor is finite. So is one with few columns, where the windows give the columns of the product.

Chellapilla, Puri, Simard: High performance convolutional neural networks for document processing; 2006. Dukhan: The
indirect convolution algorithm, 2019.

Windows that end at a border are gathered a block at a time. The derivative by the input has its windows in the result:
a product of plain matrices is added to them. Where the result has its points side by side, windows are put into panels
right there. What is too small is done in tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dlang.codegen import loops
from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Buffer, Matrix
from dlang.codegen.memory import row_major
from dlang.codegen.packing import NARROWEST, matrix_product, packed
from dlang.ir.affine import Knowledge, span
from dlang.ir.anf import Axis, Comp, Lit, Prim, Read, Reduce, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ONE, WIDTHS, ZERO
from dlang.ir.types import BOOL, I64, array_type, dtype_of, product
from dlang.ir.writes import covers
from dlang.ops import figures

LARGEST = 2**31 - 1

Tests = list[tuple[Size, int]]
"""Sizes, and how large they have to be."""


def comprehension(s: Scheduler, op: Comp, var: Var, otherwise: Callable[[], None]) -> bool:
    """Emits a comprehension by blocks where that pays, else as `otherwise` does; False if it has no blocks."""
    plan = plan_of(s, op)
    tests = [] if plan is None else _tests(plan)
    if plan is None or _too_small(tests):
        return False
    keep = op.destinations[0]
    assert isinstance(keep, Reduce)
    place = s.target(var)
    out = Factor(place.buffer, place.at(keep.index))
    reached = covers(op.axes, keep.shape, keep.index)
    with s.collect() as blocks:
        if not reached or isinstance(plan, Spread) or not plan.rows:
            s.fill(place, Lit(0.0, place.buffer.dtype))
        done = _spread(s, plan, out, tests) if isinstance(plan, Spread) else _windows(s, plan, out, tests)
    condition = _condition(s, plan, tests) if done else Lit(False, "bool")
    if isinstance(condition, Lit):
        if condition.value:
            s.out += blocks
        else:
            s.wanted[var] = place
        return bool(condition.value)
    with s.collect() as nest:
        s.wanted[var] = place
        otherwise()
    s.out.append(loops.Branch(condition, loops.Body(tuple(blocks), ()), loops.Body(tuple(nest), ()), ()))
    return True


def gains(s: Scheduler, op: Comp) -> bool:
    """Tells whether a comprehension may be computed in blocks."""
    plan = plan_of(s, op)
    return plan is not None and not _too_small(_tests(plan))


# ---- whether it pays -------------------------------------------------------------------------------------------------
def _tests(p: Windows | Spread) -> Tests:
    columns, terms = count(p.columns), count(p.terms)
    points = count((*p.around, p.block, *p.inside)) * columns * terms
    sizes = columns, terms, count((p.block, *p.inside))
    tests = [(points, figures.GATHERED_FROM), *((LARGEST - size, 0) for size in sizes)]
    if isinstance(p, Windows) and p.rows and columns.constant is not None:
        tests.append((columns, figures.GATHERED_COLUMNS))
    return [*tests, *p.there] if isinstance(p, Windows) else tests


def _too_small(tests: Tests) -> bool:
    """Tells whether a test is known to fail."""
    return any(size.constant is not None and size.constant < least for size, least in tests)


def _condition(s: Scheduler, p: Windows | Spread, tests: Tests) -> Var | Lit:
    """Emits a test whether the sizes make blocks worth it, and the factor multiplied with the borders is finite."""
    if _too_small(tests):
        return Lit(False, "bool")
    result: Var | None = None
    for size, least in dict.fromkeys(tests):
        if size.constant is not None:
            continue
        value, test = fresh("size", I64), fresh("fits", BOOL)
        s.out += [loops.Evaluate(value, size), loops.Compute(test, "ge", (value, Lit(least, "i64")))]
        result = test if result is None else _both(s, result, test)
    if isinstance(p, Windows) and p.borders:
        with s.collect() as stmts:  # whose elements are there if the sizes are
            finite = _all_finite(s, p)
        if result is None:
            s.out += stmts
            return finite
        fine = fresh("fits", BOOL)
        s.out.append(
            loops.Branch(result, loops.Body(tuple(stmts), (finite,)), loops.Body((), (Lit(False, "bool"),)), (fine,))
        )
        return fine
    return Lit(True, "bool") if result is None else result


def _both(s: Scheduler, a: Var, b: Var) -> Var:
    both = fresh("fits", BOOL)
    s.out.append(loops.Compute(both, "and", (a, b)))
    return both


def _all_finite(s: Scheduler, p: Windows) -> Var:
    """Emits a test whether all elements of the other factor are finite."""
    axes, env = _renewed([a for a in (*p.around, p.block, *p.inside, *p.terms, *p.columns) if p.other.reads(a)])
    x, fine = fresh("x", Scalar(p.other.buffer.dtype)), fresh("finite", BOOL)
    stmts: list[loops.Stmt] = [
        loops.Load(x, p.other.buffer, p.other.offset.substitute(env.get)),
        loops.Compute(fine, "isfinite", (x,)),
    ]
    for axis in reversed(axes):
        all = fresh("finite", BOOL)
        with s.collect() as outer:
            s.loop(axis.var, axis.lows, axis.highs, stmts, [loops.Reduction("all", all, fine)])
        stmts, fine = outer, all
    s.out += stmts
    return fine


# ---- blocks ----------------------------------------------------------------------------------------------------------
def _in_blocks(
    s: Scheduler,
    p: Windows | Spread,
    width: Size,
    block: Callable[[tuple[Axis, ...], dict[Var, Size]], None],
    disjoint: tuple[loops.Buffer, ...] = (),
    first: Callable[[Size], None] | None = None,
) -> None:
    """Emits loops over blocks of so many elements for each point of their axes.

    block: emits one, from its axes, the first of which is a part of that of the plan, and what stands for those around.
    first: emits what all of them share, from how much of that axis the largest one has.
    """
    around, env = _renewed(p.around)
    each, step, chunks = (fresh(n, I64) for n in ("chunk", "step", "chunks"))
    wide, some, room, up = (fresh(n, I64) for n in ("wide", "wide", "room", "up"))
    s.out += [
        loops.Evaluate(wide, count(p.inside) * width),
        loops.Compute(some, "maximum", (wide, Lit(1, "i64"))),
        loops.Compute(room, "floordiv", (Lit(figures.GATHERED_BLOCK, "i64"), some)),
        loops.Compute(step, "maximum", (room, Lit(1, "i64"))),
        loops.Evaluate(up, extent(p.block) + poly(step) - 1),
        loops.Compute(chunks, "floordiv", (up, step)),
    ]
    whole, most = fresh("count", I64), fresh("count", I64)
    s.out += [loops.Evaluate(whole, extent(p.block)), loops.Compute(most, "minimum", (whole, step))]
    if first is not None:
        first(poly(most))
    with s.collect() as stmts:
        begin, remaining, some = (fresh(n, I64) for n in ("first", "rest", "count"))
        s.out += [
            loops.Evaluate(begin, p.block.lows[0] + poly(each) * poly(step)),
            loops.Evaluate(remaining, p.block.highs[0] - poly(begin)),
            loops.Compute(some, "minimum", (most, remaining)),
        ]
        block((Axis(p.block.var, (poly(begin),), (poly(begin) + poly(some),)), *p.inside), env)
    loop = loops.Loop(each, (ZERO,), (poly(chunks),), tuple(stmts))
    for axis in reversed(around):
        loop = loops.Loop(axis.var, axis.lows, axis.highs, (loop,), disjoint=disjoint)
    s.out.append(loop)


def _windows(s: Scheduler, p: Windows, out: Factor, tests: Tests) -> bool:
    """Products with gathered windows; False if an array does not lie as they need it. More tests are added."""
    data = (p.block, *p.inside)
    if p.rows:
        target = matrix_of(out, data, p.columns, tests)
        if target is None:
            return False
        if not p.borders:
            _rows_in_place(s, p, out, tests, target.transposed)
            return True
        other, copy = _as_matrix(s, p.other, p.terms, p.columns, p.terms, tests)
        operand = other if target.transposed else packed(s, other, count(p.terms), count(p.columns))

        def rows(part: tuple[Axis, ...], env: dict[Var, Size]) -> None:
            windows = _gathered(s, p, part, env)
            c = matrix_of(out.moved(env), part, p.columns, [])
            assert c is not None
            _multiply(s, windows, operand, c, (count(part), count(p.columns), count(p.terms)))
            s.out.append(loops.Free(windows.buffer))

        _in_blocks(s, p, count(p.terms), rows)
        s.out += [loops.Free(b) for b in (copy, None if operand is other else operand.buffer) if b is not None]
        return True

    few = count(p.columns).constant
    if not p.borders and (few is None or few >= figures.GATHERED_COLUMNS):
        _sums_in_place(s, p, out, tests)
        return True

    def sums(part: tuple[Axis, ...], env: dict[Var, Size]) -> None:
        windows = _gathered(s, p, part, env)
        other, copy = _as_matrix(s, p.other.moved(env), part, p.columns, data, tests)
        terms, columns = count(p.terms), count(p.columns)
        total = loops.Buffer("sums", out.buffer.dtype)
        s.out.append(loops.Allocate(total, (terms, columns), 0, s.span))
        if windows.transposed:
            order = (*p.terms, *p.columns)
            _multiply(
                s, windows.turned, other, loops.Matrix(total, ZERO, columns, False), (terms, columns, count(part))
            )
        else:  # the wider matrix gives the columns
            order = (*p.columns, *p.terms)
            _multiply(s, other.turned, windows, loops.Matrix(total, ZERO, terms, False), (columns, terms, count(part)))
        _add(s, total, order, out.moved(env))
        s.out += [loops.Free(b) for b in (total, windows.buffer, copy) if b is not None]

    _in_blocks(s, p, count(p.terms), sums)
    return True


def _rows_in_place(s: Scheduler, p: Windows, out: Factor, tests: Tests, turned: bool) -> None:
    """Products with windows that are rows of the result: they are read where they are, or put in panels right there.

    turned: the result lies by columns, so its transpose is computed, with the windows as the right factor.
    """
    other, copy = _as_matrix(s, p.other, p.terms, p.columns, p.terms, tests)
    columns, inner, bits = count(p.columns), count(p.terms), s.lanes.bits or NARROWEST
    panels = None if turned else packed(s, other, inner, columns)

    def rows(part: tuple[Axis, ...], env: dict[Var, Size], points: loops.Buffer, terms: loops.Buffer) -> None:
        c, height = matrix_of(out.moved(env), part, p.columns, []), count(part)
        assert c is not None
        if panels is not None:
            windows = _scattered(p, part, env, points, terms)
            s.out.append(loops.Product(windows, panels, c, height, columns, inner, bits))
            return
        right = packed(s, _scattered(p, part, env, terms, points), inner, height)
        s.out += [loops.Product(other.turned, right, c.turned, columns, height, inner, bits), loops.Free(right.buffer)]

    _in_place(s, p, rows)
    s.out += [loops.Free(b) for b in (copy, None if panels is None else panels.buffer) if b is not None]


def _sums_in_place(s: Scheduler, p: Windows, out: Factor, tests: Tests) -> None:
    """Products with windows that are read where they are, which are parts of the sums of the result."""
    data = (p.block, *p.inside)

    def sums(part: tuple[Axis, ...], env: dict[Var, Size], points: loops.Buffer, terms: loops.Buffer) -> None:
        other, copy = _as_matrix(s, p.other.moved(env), part, p.columns, data, tests)
        panels = packed(s, other, count(part), count(p.columns))
        total = loops.Buffer("sums", out.buffer.dtype)
        s.out.append(loops.Allocate(total, (count(p.terms), count(p.columns)), 0, s.span))
        windows, c = _scattered(p, part, env, terms, points), loops.Matrix(total, ZERO, count(p.columns), False)
        bits = s.lanes.bits or NARROWEST
        s.out.append(loops.Product(windows, panels, c, count(p.terms), count(p.columns), count(part), bits))
        _add(s, total, (*p.terms, *p.columns), out.moved(env))
        s.out += [loops.Free(b) for b in (total, panels.buffer, copy) if b is not None]

    _in_place(s, p, sums)


def _in_place(
    s: Scheduler, p: Windows, block: Callable[[tuple[Axis, ...], dict[Var, Size], loops.Buffer, loops.Buffer], None]
) -> None:
    """Emits loops over blocks, each of which gets the offsets of its points and of terms, beside its axes."""
    terms = _offsets(s, p.windows, p.terms)
    points: list[loops.Buffer] = []

    def first(most: Size) -> None:
        low = p.block.lows[0]
        points.append(_offsets(s, p.windows, (Axis(p.block.var, (low,), (low + most,)), *p.inside)))

    _in_blocks(s, p, count(p.terms), lambda part, env: block(part, env, points[0], terms), first=first)
    s.out += [loops.Free(b) for b in (terms, *points)]


def _scattered(
    p: Windows, part: tuple[Axis, ...], env: dict[Var, Size], rows: loops.Buffer, columns: loops.Buffer
) -> loops.Scattered:
    """The windows of a block, by the offsets of its rows and columns."""
    start = {a.var: a.lows[0] for a in (*part, *p.terms)}
    windows = p.windows.moved(env).moved(start)
    return loops.Scattered(windows.buffer, windows.offset, rows, columns)


def _offsets(s: Scheduler, f: Factor, axes: Sequence[Axis]) -> loops.Buffer:
    """Emits how many bytes each point of some axes is from the first one, and an element more, which means nothing."""
    buffer = loops.Buffer("offsets", "i64")
    s.out.append(loops.Allocate(buffer, (count(axes) + 1,), 0, s.span))
    new, env = _renewed(axes)
    start = {a.var: a.lows[0] for a in axes}
    distance = (f.offset.substitute(env.get) - f.offset.substitute(start.get)) * WIDTHS[f.buffer.dtype]
    value = fresh("offset", I64)
    stmts: list[loops.Stmt] = [loops.Evaluate(value, distance), loops.Store(buffer, _dense(new), value)]
    for axis in reversed(new):
        with s.collect() as outer:
            s.loop(axis.var, axis.lows, axis.highs, stmts)
        stmts = outer
    s.out += [*stmts, loops.Store(buffer, count(axes), Lit(0, "i64"))]
    return buffer


def _spread(s: Scheduler, p: Spread, out: Factor, tests: Tests) -> bool:
    """Products that are added to windows of the result; False if a factor is no matrix."""
    data = (p.block, *p.inside)
    if matrix_of(p.one, data, p.terms, tests) is None:
        return False
    other, copy = _as_matrix(s, p.other, p.terms, p.columns, p.terms, tests)
    target = Factor(out.buffer, out.offset.substitute(p.env.get))
    by_columns = any(target.offset.coefficient(a.var) == 1 for a in data)
    operand = other if by_columns else packed(s, other, count(p.terms), count(p.columns))

    def block(part: tuple[Axis, ...], env: dict[Var, Size]) -> None:
        one = matrix_of(p.one.moved(env), part, p.terms, [])
        assert one is not None
        columns, height = count(p.columns), count(part)
        products = loops.Buffer("products", out.buffer.dtype)
        s.out.append(loops.Allocate(products, (height, columns), 0, s.span))
        c = loops.Matrix(products, ZERO, height, True) if by_columns else loops.Matrix(products, ZERO, columns, False)
        _multiply(s, one, operand, c, (height, columns, count(p.terms)))
        _add(s, products, (*p.columns, *part) if by_columns else (*part, *p.columns), target.moved(env))
        s.out.append(loops.Free(products))

    _in_blocks(s, p, count(p.columns), block, (out.buffer,))
    s.out += [
        loops.Free(b) for b in (copy, operand.buffer if isinstance(operand, loops.Panels) else None) if b is not None
    ]
    return True


def _multiply(
    s: Scheduler, a: loops.Matrix, b: loops.Matrix | loops.Panels, c: loops.Matrix, sizes: tuple[Size, Size, Size]
) -> None:
    """Emits c = a · b. sizes: m, n and k, where c is m by n; it is not transposed if b is in panels."""
    rows, columns, inner = sizes
    if c.transposed:
        assert isinstance(b, loops.Matrix)
        a, b, c, rows, columns = b.turned, a.turned, c.turned, columns, rows
    if isinstance(b, loops.Matrix):
        matrix_product(s, a, b, c, (rows, columns, inner))
    else:
        s.out.append(loops.Product(a, b, c, rows, columns, inner, s.lanes.bits or NARROWEST))


# ---- elements --------------------------------------------------------------------------------------------------------
def _gathered(s: Scheduler, p: Windows, data: tuple[Axis, ...], around: dict[Var, Size]) -> loops.Matrix:
    """The windows of a block as a matrix with a row for each of its points and a column for each term.

    It is transposed if elements along a row of the array are then adjacent in it.
    """
    windows = p.windows.moved(around)
    few = count(p.columns).constant
    turned = any(windows.offset.coefficient(a.var) == 1 for a in data)
    if not p.rows and few is not None and few < figures.GATHERED_COLUMNS:
        turned = False
    order = (*p.terms, *data) if turned else (*data, *p.terms)
    height, width = count(data), count(p.terms)
    buffer = loops.Buffer("windows", windows.buffer.dtype)
    s.out.append(loops.Allocate(buffer, (height, width), 0, s.span))
    axes, env = _renewed(order)
    if p.borders:
        i = fresh("i", I64)
        s.loop(i, (ZERO,), (height * width,), [loops.Store(buffer, poly(i), Lit(0.0, buffer.dtype))])
    x = fresh("x", Scalar(buffer.dtype))
    bounded = _within(axes, [c.substitute(around.get).substitute(env.get) for c in p.borders])
    source = windows.offset.substitute(env.get)
    _nested(s, bounded, [loops.Load(x, windows.buffer, source), loops.Store(buffer, _dense(axes), x)])
    return loops.Matrix(buffer, ZERO, height if turned else width, turned)


def _add(s: Scheduler, source: loops.Buffer, order: tuple[Axis, ...], out: Factor) -> None:
    """Adds an array, which has these axes, to where they are in the result."""
    axes, env = _renewed(order)
    x = fresh("x", Scalar(source.dtype))
    target = out.offset.substitute(env.get)
    _nested(s, axes, [loops.Load(x, source, _dense(axes)), loops.Store(out.buffer, target, x, "sum")])


def _as_matrix(
    s: Scheduler, f: Factor, rows: Sequence[Axis], columns: Sequence[Axis], full: Sequence[Axis], tests: Tests
) -> tuple[loops.Matrix, loops.Buffer | None]:
    """A factor if it is a matrix, else a copy that is one. full: the rows, where they are not just those of a block."""
    direct = matrix_of(f, rows, columns, [])
    if direct is not None:
        matrix_of(f, full, columns, tests)
        return direct, None
    buffer = loops.Buffer("matrix", f.buffer.dtype)
    s.out.append(loops.Allocate(buffer, (count(rows), count(columns)), 0, s.span))
    axes, env = _renewed((*rows, *columns))
    x = fresh("x", Scalar(buffer.dtype))
    _nested(s, axes, [loops.Load(x, f.buffer, f.offset.substitute(env.get)), loops.Store(buffer, _dense(axes), x)])
    return loops.Matrix(buffer, ZERO, count(columns), False), buffer


def _dense(axes: Sequence[Axis]) -> Size:
    """The offset of an element of an array that has just these axes."""
    return row_major(tuple(map(extent, axes)), tuple(poly(a.var) - a.lows[0] for a in axes))


def _renewed(axes: Sequence[Axis]) -> tuple[list[Axis], dict[Var, Size]]:
    """Axes with new variables, and what stands for the old ones."""
    new = [Axis(fresh(a.var.name, I64), a.lows, a.highs) for a in axes]
    return new, {a.var: poly(b.var) for a, b in zip(axes, new, strict=True)}


def _within(axes: list[Axis], borders: Sequence[Size]) -> list[Axis]:
    """Axes, each of which may have bounds that depend on those before it, so that borders are at least zero."""
    out = list(axes)
    for border in borders:
        k = max(n for n, a in enumerate(out) if border.mentions((a.var,)))
        axis = out[k]
        offset = border.without(axis.var)
        if border.coefficient(axis.var) == 1:
            out[k] = Axis(axis.var, (*axis.lows, -offset), axis.highs)
        else:
            out[k] = Axis(axis.var, axis.lows, (*axis.highs, offset + 1))
    return out


def _nested(s: Scheduler, axes: Sequence[Axis], stmts: list[loops.Load | loops.Store]) -> None:
    """Emits loops, the inner ones joined where two move as one does."""
    joined, body = _joined(axes, stmts)
    inside: list[loops.Stmt] = [*body]
    for axis in reversed(joined):
        loop = s.lanes.chosen(loops.Loop(axis.var, axis.lows, axis.highs, tuple(inside)))
        # most run over less than a register
        inside = [replace(loop, tail=0, masked=True) if loop.lanes > 1 else loop]
    s.out += inside


def _joined(
    axes: Sequence[Axis], stmts: list[loops.Load | loops.Store]
) -> tuple[list[Axis], list[loops.Load | loops.Store]]:
    """The axes with as many of the last ones in one as there can be, and the statements."""
    out = list(axes)
    while len(out) > 1:
        outer, inner = out[-2:]
        single = all(len(b) == 1 for a in (outer, inner) for b in (a.lows, a.highs))
        if not single or inner.lows[0] != 0 or inner.highs[0].mentions([a.var for a in out]):
            break
        size = inner.highs[0]
        if any(t.offset.coefficient(outer.var) != t.offset.coefficient(inner.var) * size for t in stmts):
            break
        both = fresh(inner.var.name, I64)
        env: dict[Var, Size] = {outer.var: outer.lows[0], inner.var: poly(both)}
        stmts = [replace(t, offset=t.offset.substitute(env.get)) for t in stmts]
        out[-2:] = [Axis(both, (ZERO,), (extent(outer) * size,))]
    return out, stmts


# ---- which comprehensions they are -----------------------------------------------------------------------------------
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
    within the array. there: tests whether the other factor is read in range also beyond these.
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
    there: tuple[tuple[Size, int], ...]


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
            return _in_places(windows, factors[1 - k][1], box) or windows
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
    (a, read), (b, read_besides) = windows, other
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
    there = _inside_box(read_besides, box) if borders else ()
    if there is None:
        return None
    return Windows(
        a, b, tuple(box[v] for v in data[:at]), box[block], tuple(box[v] for v in data[at + 1 :]),
        tuple(box[v] for v in terms), tuple(box[v] for v in columns), rows, borders, there,
    )  # fmt: skip


def _inside_box(read: Read, box: Mapping[Var, Axis]) -> tuple[tuple[Size, int], ...] | None:
    """Tests whether a read is in range at all points of the box, also where there is no point; None if that can't be
    said."""
    ends = {v: (axis.lows[0], axis.highs[0] - 1) for v, axis in box.items()}
    tests: list[tuple[Size, int]] = []
    for entry, size in zip(read.index, array_type(read.array).shape, strict=True):
        if (least_and_greatest := span(entry, ends, Knowledge())) is None:
            return None
        least, greatest = least_and_greatest
        tests += [(least, 0), (size - 1 - greatest, 0)]
    return tuple(tests)


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


def _in_places(p: Windows, read: Read, box: dict[Var, Axis]) -> Spread | None:
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
