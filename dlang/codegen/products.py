"""Contractions: packed products of matrices where they pay, loops otherwise.

Columns that fill no more than a vector have tiles of one vector, and small products need no room for panels. For sizes
known to the compiler register tiles win up to 4,000 multiplications; where the sizes of many products side by side are
unknown, the run decides between the two. While one of many small products is computed, the next one is fetched
(`llvm/microkernel.py`). What a loop in order multiplies by in each iteration is packed once, in front of it.

Epilogues of products: a comprehension over the elements of a product runs on each block while it is in the cache.

    m = contract x w -> [n, k]                        loop over blocks of a
    a = comp i, j { max(0, m[i, j] + b[j]) }     →      block of a = x · w
                                                        loop over its elements: a[i, j] = max(0, a[i, j] + b[j])

The product is written to where the result is to be, unless something else reads it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import (
    Allocate,
    Batch,
    Body,
    Branch,
    Buffer,
    Compute,
    Decision,
    Evaluate,
    Free,
    Matrix,
    Product,
    Reduction,
    Store,
    Value,
)
from dlang.codegen.memory import Place, frame_of, row_major, whole
from dlang.codegen.nests import identity
from dlang.codegen.packing import Extent, matrix_product
from dlang.codegen.tiles import comprehension, gains
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.comprehension_queries import as_comprehension
from dlang.ir.terms import ZERO
from dlang.ir.traverse import free_vars, mentioned, type_vars
from dlang.ir.types import I64, product
from dlang.ir.writes import covers
from dlang.ops import figures


def contraction(s: Scheduler, op: anf.Contract, var: anf.Var, span: Span | None) -> None:
    """Emits a product."""
    same = as_comprehension(op)
    tiled = gains(s, same)
    plan = _packed(s, op, var, tiled)
    if plan is None:
        comprehension(s, same, (var,), span)
        return
    if s.device:
        _emit_whole(s, plan)
        return
    if not plan.batch or all(size.constant is not None for size in plan.sizes):
        _emit(s, plan)
        return
    place = s.place(var)
    with s.collect() as packed:
        _emit(s, plan)
    with s.collect() as loops:
        s.wanted[var] = place
        comprehension(s, same, (var,), span)
    m, n, k = plan.sizes
    count, many = anf.fresh("size", I64), anf.fresh("many", anf.Scalar("bool"))
    s.out += [Evaluate(count, m * n * k), Compute(many, "ge", (count, anf.Lit(figures.PACKED_FROM, "i64")))]
    why = Decision("packed product", "from {} multiplications on, else loops", (figures.PACKED_FROM,))
    s.out.append(Branch(many, Body(tuple(packed), ()), Body(tuple(loops), ()), (), why=(why,)))


@dataclass(frozen=True, slots=True)
class _Plan:
    """One product of matrices for each point of the batch. copies: of operands that are no matrices.

    name: the array that b is.
    """

    batch: tuple[anf.Var, ...]
    shape: tuple[anf.Size, ...]
    a: Matrix
    b: Matrix
    c: Matrix
    sizes: tuple[anf.Size, anf.Size, anf.Size]
    copies: tuple[tuple[Place, Buffer, tuple[anf.Size, ...]], ...] = ()
    epilogue: Epilogue | None = None
    name: anf.Var | None = None


def _packed(s: Scheduler, op: anf.Contract, var: anf.Var, tiled: bool) -> _Plan | None:
    """The product as packed products, if each array is a matrix; the result then has its place.

    Unless the product can be done in tiles, an operand that is no matrix, as a window that moves over an array, is
    copied.
    """
    assert isinstance(op.a.type, anf.Array) and isinstance(op.b.type, anf.Array)
    left, right, out = set(op.left), set(op.right), set(op.out)
    if op.a.type.dtype not in ("f64", "f32", *(anf.HALF if s.device else ())) or any(
        len(set(names)) < len(names) for names in (op.left, op.right, op.out)
    ):
        return None
    batch = [n for n in op.out if n in left and n in right]
    rows, columns = ([n for n in op.out if n in side and n not in batch] for side in (left, right))
    inner = [n for n in op.left if n in right and n not in out]
    if not (rows and columns and inner) or (left | right) - out - set(inner):
        return None
    sizes: dict[int, anf.Size] = dict(zip(op.left, op.a.type.shape, strict=True))
    sizes.update(zip(op.right, op.b.type.shape, strict=True))
    axes = {n: anf.fresh("b", I64) for n in sizes}
    count = product(tuple(sizes[n] for n in (*rows, *columns, *inner)))
    if count.constant is not None and count.constant < figures.PACKED_FROM_KNOWN:
        return None
    a = _matrix(s.place(op.a), op.left, rows, inner, sizes, axes)
    b = _matrix(s.place(op.b), op.right, inner, columns, sizes, axes)
    if tiled and (a is None or b is None):
        return None
    copies = []
    if a is None:
        a, copy = _copied(s.place(op.a), op.left, batch, rows, inner, sizes, axes)
        copies.append(copy)
    if b is None:
        b, copy = _copied(s.place(op.b), op.right, batch, inner, columns, sizes, axes)
        copies.append(copy)
    epilogue = None
    if not s.device and len(op.out) == 2 and not batch and (var not in s.wanted or s.wanted[var].start is not None):
        epilogue = epilogue_of(s, var)
    target = s.target(var)
    c = _matrix(target, op.out, rows, columns, sizes, axes)
    m, n, k = (product(tuple(sizes[x] for x in group)) for group in (rows, columns, inner))
    name = None if batch or copies else op.b if isinstance(op.b, anf.Var) else None
    if c is not None and c.transposed:  # the transpose of the result is the product of the transposes
        a, b, c = b.turned, a.turned, c.turned
        m, n, name = n, m, None
    if c is None:
        assert epilogue is None
        s.wanted[var] = target
        return None
    points, shape = tuple(axes[x] for x in batch), tuple(sizes[x] for x in batch)
    return _Plan(points, shape, a, b, c, (m, n, k), tuple(copies), epilogue, name)


def _matrix(
    place: Place,
    names: Sequence[int],
    rows: list[int],
    columns: list[int],
    sizes: dict[int, anf.Size],
    axes: dict[int, anf.Var],
) -> Matrix | None:
    """A matrix whose rows and columns each run over some axes of an array, at a point of the others."""
    offset = place.at(tuple(anf.poly(axes[n]) for n in names))
    try:
        steps = {n: offset.coefficient(axes[n]) for n in names}
    except ValueError:
        return None
    if any(step.mentions(axes.values()) for step in steps.values()):
        return None
    for group in (rows, columns):
        for outer, following in pairwise(group):
            if steps[outer] != steps[following] * sizes[following]:
                return None
    inside = {axes[n] for n in (*rows, *columns)}
    start = offset.substitute(lambda v: ZERO if v in inside else None)
    down, across = steps[rows[-1]], steps[columns[-1]]
    if across == 1:
        return Matrix(place.buffer, start, down, False)
    return Matrix(place.buffer, start, across, True) if down == 1 else None


def _copied(
    place: Place,
    names: Sequence[int],
    batch: list[int],
    rows: list[int],
    columns: list[int],
    sizes: dict[int, anf.Size],
    axes: dict[int, anf.Var],
) -> tuple[Matrix, tuple[Place, Buffer, tuple[anf.Size, ...]]]:
    """An array as a matrix in new memory for each point of the batch, and what is to be copied there."""
    order = [*batch, *rows, *columns]
    shape = tuple(sizes[n] for n in order)
    buffer = Buffer("matrix", place.buffer.dtype)
    entries = {n: anf.fresh("i", I64) for n in order}
    index = tuple(anf.poly(entries[n]) for n in names)
    source = place.seen_through(tuple(entries.values()), shape, index)
    stride = product(tuple(sizes[n] for n in columns))
    start = row_major(shape, tuple(anf.poly(axes[n]) if n in batch else ZERO for n in order))
    return Matrix(buffer, start, stride, False), (source, buffer, shape)


def _emit(s: Scheduler, plan: _Plan) -> None:
    for source, buffer, shape in plan.copies:
        s.out.append(Allocate(buffer, shape, 0, s.span))
        s.copy(source, whole(buffer, shape))
    most = figures.UNBLOCKED_PRODUCT_OF_MANY if plan.batch else figures.UNBLOCKED_PRODUCT
    with s.collect() as stmts:
        followed = _followed(s, plan)
        matrix_product(
            s, plan.a, plan.b, plan.c, plan.sizes, plan.epilogue, name=plan.name, most=most, followed=followed
        )
    s.nest(plan.batch, plan.shape, stmts)
    s.out += [Free(buffer) for _, buffer, _ in plan.copies]


def _emit_whole(s: Scheduler, plan: _Plan) -> None:
    """One product, or those of a batch at once: of its last axes, as far as all three arrays move by equal steps."""
    for source, buffer, shape in plan.copies:
        s.out.append(Allocate(buffer, shape, 0, s.span))
        s.copy(source, whole(buffer, shape))
    points, counts = list(plan.batch), list(plan.shape)
    batch: Batch | None = None
    matrices = [plan.a, plan.b, plan.c]
    while points:
        steps = [m.offset.coefficient(points[-1]) for m in matrices]
        if batch is None:
            batch = Batch(counts[-1], *steps)
        elif all(step == batch.count * by for step, by in zip(steps, (batch.a, batch.b, batch.c), strict=True)):
            batch = replace(batch, count=batch.count * counts[-1])
        else:
            break
        at = {points.pop(): ZERO}
        counts.pop()
        matrices = [replace(m, offset=m.offset.substitute(at.get)) for m in matrices]
    a, b, c = matrices
    s.nest(tuple(points), tuple(counts), [Product(a, b, c, *plan.sizes, 0, batch=batch)])
    s.out += [Free(buffer) for _, buffer, _ in plan.copies]


def _followed(s: Scheduler, plan: _Plan) -> anf.Var | None:
    """Emits whether the next product of the batch lies right behind; None if that is not how the arrays lie."""
    if not plan.batch:
        return None
    point, count = plan.batch[-1], plan.shape[-1]
    rows, columns, inner = plan.sizes
    for matrix, down, across in ((plan.a, rows, inner), (plan.b, inner, columns), (plan.c, rows, columns)):
        dense = matrix.stride == (down if matrix.transposed else across)
        if not dense or matrix.offset.coefficient(point) != down * across:
            return None
    left, followed = anf.fresh("left", I64), anf.fresh("followed", anf.Scalar("bool"))
    s.out += [Evaluate(left, count - anf.poly(point)), Compute(followed, "gt", (left, anf.Lit(1, "i64")))]
    return followed


# ---- epilogues -------------------------------------------------------------------------------------------------------
SCALARS = frozenset("sum prod max min any all".split())
NEAR = 16  # lets after a product among which its reader is looked for


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A comprehension over the elements of a product. row, column: its axes that go along those of the product.

    places: of its results; None for a scalar, which all elements are combined to.
    """

    vars: tuple[anf.Var, ...]
    op: anf.Comp
    row: anf.Axis
    column: anf.Axis
    places: tuple[Place | None, ...]

    def emit(self, s: Scheduler, extent: Extent, whole: bool) -> list[Reduction]:
        """The comprehension on a block; gives what the block contributes to scalars. whole: it is the only one."""
        body = self.op.body
        with s.collect() as stmts:
            values = s.inline(body, [None] * len(body.results), frame_of(body))
            elements, sums = self._stores(values)
            stmts += elements
        joined = tuple([e.buffer for e in elements if e.monoid != "set"])
        with s.collect() as columns:
            s.loop(self.column.var, (extent.column,), (extent.column + extent.columns,), stmts, sums, joined)
        sums = self._of_loop(sums, whole)
        s.loop(self.row.var, (extent.row,), (extent.row + extent.rows,), columns, sums)
        return [] if whole else self._of_loop(sums, True)

    def _stores(self, values: Sequence[Value]) -> tuple[list[Store], list[Reduction]]:
        stores, sums = [], []
        for var, place, d, value in zip(self.vars, self.places, self.op.destinations, values, strict=True):
            assert isinstance(d, anf.Reduce) and isinstance(value, anf.Lit | anf.Var)
            if place is None:
                sums.append(Reduction(d.monoid, anf.fresh(var.name, var.type), value))
            else:
                monoid = "set" if _is_apart(d, self.op) else d.monoid
                stores.append(Store(place.buffer, place.at(d.index), value, monoid))
        return stores, sums

    def _of_loop(self, inside: Sequence[Reduction], last: bool) -> list[Reduction]:
        """Returns a loop's reductions of the scalars of the loop inside it; those of the last loop bind the results."""
        scalars = [var for var, place in zip(self.vars, self.places, strict=True) if place is None]
        results = scalars if last else [anf.fresh(var.name, var.type) for var in scalars]
        return [Reduction(r.monoid, result, r.result) for r, result in zip(inside, results, strict=True)]


def epilogue_of(s: Scheduler, product: anf.Var) -> Epilogue | None:
    """The comprehension that can run with a product, whose let is at hand; its results get their places.

    It is the first to read the product, and nothing in between gives it anything.
    """
    between: set[anf.Var] = set()
    block, position = s.at
    for k, let in enumerate(block.lets[position + 1 : position + 1 + NEAR], position + 1):
        if product in mentioned(let.op):
            axes = _axes(s, let, product, between)
            if axes is None:
                return None
            assert isinstance(let.op, anf.Comp)
            places = tuple([_place(s, var, d, product) for var, d in zip(let.vars, let.op.destinations, strict=True)])
            for place, d in zip(places, let.op.destinations, strict=True):
                if place is not None and isinstance(d, anf.Reduce) and not _is_apart(d, let.op):
                    s.fill(place, identity(d.monoid, place.buffer.dtype))
            s.finished.update(let.vars)
            last = s.memory.frames[-1].last_use.get(product, -1) == k
            if last and product not in s.parts and product not in s.wanted:
                _in_place(s, product, let, axes, places)
            return Epilogue(let.vars, let.op, *axes, places)
        between.update(let.vars)
    return None


def _axes(s: Scheduler, let: anf.Let, product: anf.Var, between: set[anf.Var]) -> tuple[anf.Axis, anf.Axis] | None:
    """The axes along the rows and columns of a product, if a let is a comprehension over its elements."""
    op = let.op
    if not isinstance(op, anf.Comp) or len(op.axes) != 2 or not s.copied.isdisjoint(let.vars):
        return None
    if any(var in s.parts or var in s.joined for var in let.vars):
        return None
    needed = set(free_vars(anf.Block((let,), ()))) | {v for var in let.vars for v in type_vars(var.type)}
    if not needed.isdisjoint(between) or not all(t.op.IS.point for t in op.body.lets):
        return None
    index = {t.op.index for t in op.body.lets if isinstance(t.op, anf.Read) and t.op.array is product}
    if len(index) != 1:
        return None
    axes = {axis.var: axis for axis in op.axes}
    entries = [axes.pop(entry.atom, None) if isinstance(entry.atom, anf.Var) else None for entry in index.pop()]
    row, column = entries if len(entries) == 2 else (None, None)
    assert isinstance(product.type, anf.Array)
    if row is None or column is None or not _is_whole((row, column), product.type):
        return None
    return (row, column) if all(_is_possible(d, op, column.var, product) for d in op.destinations) else None


def _place(s: Scheduler, var: anf.Var, d: anf.Destination, product: anf.Var) -> Place | None:
    """Returns the place of a result: the product's, if it is written there and that is known already."""
    if not isinstance(var.type, anf.Array):
        return None
    if d.into is product and product in s.wanted:
        s.wanted[var] = s.wanted[product]
    return s.target(var)


def _is_possible(d: anf.Destination, op: anf.Comp, column: anf.Var, product: anf.Var) -> bool:
    """Tells whether a destination is an element for each point, a sum for each column, or a scalar."""
    if not isinstance(d, anf.Reduce) or d.into not in (None, product):
        return False
    if not d.shape:
        return d.monoid in SCALARS
    if not covers(op.axes, d.shape, d.index):
        return False
    return _is_apart(d, op) or (d.monoid == "sum" and any(entry.atom is column for entry in d.index))


def _is_apart(d: anf.Reduce, op: anf.Comp) -> bool:
    """Tells whether each point has an element of its own."""
    return {entry.atom for entry in d.index} >= {axis.var for axis in op.axes}


def _is_whole(axes: Sequence[anf.Axis], type: anf.Array) -> bool:
    return all(
        axis.lows == (anf.poly(0),) and axis.highs == (size,) for axis, size in zip(axes, type.shape, strict=True)
    )


def _in_place(
    s: Scheduler, product: anf.Var, let: anf.Let, axes: tuple[anf.Axis, anf.Axis], places: Sequence[Place | None]
) -> None:
    """Has the product written to where a result is to be, if there is one with as many elements in the same order."""
    assert isinstance(let.op, anf.Comp) and isinstance(product.type, anf.Array)
    index = tuple([anf.poly(axis.var) for axis in axes])
    for var, d, place in zip(let.vars, let.op.destinations, places, strict=True):
        if place is None or place.start is None or not isinstance(d, anf.Reduce):
            continue
        if var.type == product.type and d.index == index:
            s.wanted[product] = place
            return
