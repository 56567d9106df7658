"""Products of the inputs of a loop with what does not change in it are done for a block of iterations at once.

    for t { … x[t] @ w … }        becomes        for blocks of iterations { ms = x[block] @ w; for t in block { … ms[t]
    … } }

A recurrent network multiplies the input of each iteration by its weights. Such products are small, or of a vector and a
matrix, and each goes over all of the weights; that of a block of iterations goes over them once. A block has as many
iterations as give `figures.PRODUCTS_OF_BLOCK` bytes, so that a loop needs the memory of one iteration and that much,
whatever the number of iterations.

For the same reason a product in front of a loop that reads one part of it in each iteration is moved into the loop: it
is done when its part is needed, in memory that is still in the cache.

A product is total and an index between two that are in range is in range, so whether an iteration fails changes
nothing. Of a loop that may end early nothing is taken: what it does not reach would cost. This comes when all
derivatives are there, because a product in a loop is all that it needs to see, of a value, a tangent or a cotangent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from dlang.ir import anf
from dlang.ir.axes import Location, Relocation, at_point, without
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import surely_inside
from dlang.ir.substitution import refresh_vars
from dlang.ir.terms import WIDTHS
from dlang.ir.traverse import count_uses, map_bodies, map_inner, mentioned, type_vars, walk, with_lets
from dlang.ir.types import I64, array_type, dtype_of, product
from dlang.ops import figures
from dlang.optimize.effects import consumed_by
from dlang.optimize.iterations import Iteration, Rows


def block_loop_products(program: anf.Program) -> anf.Program:
    """The program with products of the inputs of loops done a block of iterations at a time."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    if not any(isinstance(let.op, anf.For) for let in block.lets):
        return block
    front, lets, gone = _Front(Counter(mentioned(block))), list[anf.Let](), set[anf.Var]()
    for let in block.lets:
        new = [let]
        if isinstance(let.op, anf.For) and not let.op.early and not _short(let.op):
            moved = front.products(let.op)
            products = _inside(let.op) + moved
            if products:
                gone.update([p.let.vars[0] for p in moved])
                new = _loop(let, let.op, products)
                front.replaced([let, *(p.let for p in moved)], new)
        lets += new
        front.passed(new)
    return with_lets(block, [let for let in lets if gone.isdisjoint(let.vars)], block.results)


def _short(op: anf.For) -> bool:
    iterations = (op.high - op.low).constant
    return iterations is not None and iterations <= 1


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of which each iteration needs a part.

    let: of the part in the loop, or of the whole in front of it. varies: whether the left operand has the part of the
    iteration. part: that, as a view of an array from outside. falls: whether a later
    iteration has an earlier part. axis: of the whole that the iterations go along, None for a part in the loop. out:
    axes of the part.
    """

    let: anf.Let
    varies: bool
    part: anf.View
    names: tuple[int, ...]
    out: tuple[int, ...]
    falls: bool
    axis: int | None

    @property
    def sizes(self) -> tuple[anf.Size, ...]:
        """The sizes of the part of an iteration."""
        return without(array_type(self.let.vars[0]).shape, self.axis)


# ---- what is found ---------------------------------------------------------------------------------------------------
def _inside(op: anf.For) -> list[_Product]:
    """The products in the body of the operand of an iteration, by what does not change."""
    one = Iteration.of(op)
    views = {let.vars[0]: let.op for let in op.body.lets if isinstance(let.op, anf.View)}
    kept = {v for let in op.body.lets for v in _consumed(let.op)} | set(op.body.results)
    products = []
    for let in op.body.lets:
        if not isinstance(let.op, anf.Contract) or let.vars[0] in kept:
            continue
        a, b = let.op.a, let.op.b
        varies = a in one.computed
        view = views.get(a if varies else b)
        if varies == (b in one.computed) or view is None or view.array in one.computed:
            continue
        steps = one.slope(view.index)
        if steps == 0 or not one.is_known(*view.index) or one.names(*view.shape, *array_type(let.vars[0]).shape):
            continue
        view = replace(view, index=tuple(map(one.opened, view.index)))
        names = let.op.left if varies else let.op.right
        products.append(_Product(let, varies, view, names, let.op.out, steps < 0, None))
    return products


@dataclass(slots=True)
class _Front:
    """The lets in front of a loop in its block.

    used: how often the block mentions each variable. contracts: the products by what they give, each with a number that
    says their order. consumed: the arrays that were consumed.
    """

    used: Counter[anf.Var]
    contracts: dict[anf.Var, tuple[int, anf.Let]] = field(default_factory=dict)
    consumed: set[anf.Var] = field(default_factory=set)

    def passed(self, lets: Sequence[anf.Let]) -> None:
        """Some lets are in front now."""
        for let in lets:
            self.consumed.update(consumed_by(let.op))
            if isinstance(let.op, anf.Contract):
                self.contracts[let.vars[0]] = len(self.contracts), let

    def replaced(self, old: Sequence[anf.Let], new: Sequence[anf.Let]) -> None:
        """Some lets have taken the place of others."""
        for let in old:
            self.used.subtract(_mentioned(let))
        for let in new:
            self.used.update(_mentioned(let))

    def products(self, op: anf.For) -> list[_Product]:
        """The products in front of a loop of which an iteration reads a part, and nothing else anything."""
        inner = count_uses(op.body)
        products: list[_Product] = []
        read = sorted(
            [self.contracts[v] for v in inner if v in self.contracts and inner[v] == self.used[v]], key=itemgetter(0)
        )
        if not read:
            return products
        one = Iteration.of(op)
        consumed = set(consumed_by(op))
        for _, let in read:
            whole = let.vars[0]
            assert isinstance(let.op, anf.Contract)
            if any(v in self.consumed or v in consumed for v in (whole, let.op.a, let.op.b)):
                continue
            indices = _parts(op.body, whole)
            if not indices:
                continue
            for axis, name in enumerate(let.op.out):
                (entry, *others) = {one.opened(i[axis]) for i in indices}
                steps = one.slope((entry,))
                if others or steps not in (1, -1) or not one.is_known(entry):
                    continue
                if (name in let.op.left) == (name in let.op.right):
                    continue
                if not _reaches(op, entry, array_type(whole).shape[axis]):
                    continue
                products.append(_whole(let, let.op, axis, entry, steps == -1))
                break
        return products


def _whole(let: anf.Let, op: anf.Contract, axis: int, entry: anf.Size, falls: bool) -> _Product:
    """A product in front of a loop, of which an iteration reads the part at an entry of an axis."""
    name = op.out[axis]
    varies = name in op.left
    source = op.a if varies else op.b
    names = op.left if varies else op.right
    there = names.index(name)
    view = at_point(source, (entry,), there)
    left = tuple([n for n in names if n != name])
    out = tuple([n for n in op.out if n != name])
    return _Product(let, varies, view, left, out, falls, axis)


def _mentioned(let: anf.Let) -> list[anf.Var]:
    return [*mentioned(let.op), *(v for var in let.vars for v in type_vars(var.type))]


def _reaches(op: anf.For, entry: anf.Size, size: anf.Size) -> bool:
    """Tells whether an index is in range in all iterations of a loop, under whatever condition it is used."""
    line = anf.fresh("line", anf.Array("f64", (size,)))
    return surely_inside(anf.Read(line, (entry,)), [anf.Axis(op.index, (op.low,), (op.high,))])


def _parts(body: anf.Block, whole: anf.Var) -> list[tuple[anf.Size, ...]]:
    """The indices by which a body reads an array; none if it does anything else with it."""
    indices = []
    for let in walk(body):
        match let.op:
            case anf.Read(array, index) | anf.View(array, index=index) if array is whole:
                indices.append(index)
            case _:
                pass
    return indices if count_uses(body).get(whole) == len(indices) else []


def _consumed(op: anf.Op) -> list[anf.Var]:
    """Lists the arrays that an operation consumes, except where it hardly ever does: there a copy costs nothing."""
    if isinstance(op, anf.If) and op.cold:
        return [v for let in op.otherwise.lets for v in consumed_by(let.op)]
    return consumed_by(op)


# ---- what is made ----------------------------------------------------------------------------------------------------
def _loop(let: anf.Let, op: anf.For, products: Sequence[_Product]) -> list[anf.Let]:
    """The lets in the place of a loop: how large a block is, and the loop over blocks."""
    b = Builder({}, let.span)
    with b.scope() as lets:
        iterations = b.prim("maximum", b.size(op.high - op.low), anf.Lit(0, "i64"), name="iterations")
        each = anf.poly(0)
        for p in products:
            each = each + product(p.sizes) * WIDTHS[dtype_of(p.let.vars[0])]
        bytes = b.prim("maximum", b.size(each), anf.Lit(1, "i64"))
        room = b.prim("floordiv", anf.Lit(figures.PRODUCTS_OF_BLOCK, "i64"), bytes, name="room")
        step = b.prim("maximum", b.prim("minimum", room, iterations), anf.Lit(1, "i64"), name="step")
        blocks = b.prim("floordiv", b.size(anf.poly(iterations) + anf.poly(step) - 1), step, name="blocks")
    number = anf.fresh("block", I64)
    params = refresh_vars(op.params, {})
    with b.scope() as body:
        first = anf.poly(b.size(op.low + anf.poly(number) * anf.poly(step), "first"))
        some = anf.poly(b.prim("minimum", step, b.size(op.high - first), name="some"))
        inner = anf.For(op.index, first, first + some, op.params, params, _iterations(b, op, products, first, some))
        after = refresh_vars(let.vars, {})
        b.emit_as(after, inner)
    outer = anf.For(number, anf.poly(0), anf.poly(blocks), params, op.init, anf.Block(tuple(body), after))
    return [*lets, anf.Let(let.vars, outer, let.span)]


def _iterations(b: Builder, op: anf.For, products: Sequence[_Product], first: anf.Size, some: anf.Size) -> anf.Block:
    """The body of a loop over the iterations of a block; what it needs of all of them goes before it."""
    one, lets = Iteration.of(op), list(op.body.lets)
    parts: dict[anf.Var, Location] = {}
    for p in products:
        rows = Rows(one, first, some, p.falls)
        whole = _product(b, p, rows)
        if p.axis is None:
            lets[lets.index(p.let)] = anf.Let(p.let.vars, at_point(whole, (rows.row,)), p.let.span)
        else:
            parts[p.let.vars[0]] = Location(whole, (rows.row,), axis=p.axis)
    return Relocation({}, parts).block(anf.Block(tuple(lets), op.body.results))


def _product(b: Builder, p: _Product, rows: Rows) -> anf.Var:
    """The product of the parts of all iterations of a block."""
    contract = p.let.op
    assert isinstance(contract, anf.Contract)
    view = rows.parts(p.part)
    array = anf.fresh(view.array.name, anf.Array(array_type(view.array).dtype, view.shape))
    new = 1 + max((*contract.left, *contract.right))
    names = (new, *p.names)
    result = anf.fresh(p.let.vars[0].name, anf.Array(dtype_of(p.let.vars[0]), (rows.count, *p.sizes)))
    b.append(anf.Let((array,), view, p.let.span))
    if p.varies:
        blocked = replace(contract, a=array, left=names, out=(new, *p.out))
    else:
        blocked = replace(contract, b=array, right=names, out=(new, *p.out))
    b.append(anf.Let((result,), blocked, p.let.span))
    return result
