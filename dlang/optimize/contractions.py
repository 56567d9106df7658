"""Products recognised: a sum over axes of a product of two factors becomes a `Contract`.

For each result of a comprehension, on the part of the body that it needs: Σ c·a·b, or the sum of several such terms,
where a and b are functions of different sets of axes that share a reduced one, and at least one of them has an axis of
its own. A factor is used where it stands if it is a read by plain axes; a read by entries that are linear in the axes
becomes a view, so a convolution is a product with the windows of its input; any other is computed first, into an array
over its axes, if each of its elements serves several times. Factors of kept axes alone multiply the product afterwards.
A product that is added to a part of an array, as the cotangent of one of several weights, is an array of its own first.
Dot products and products of small literal sizes stay loops. A choice between a value and 0, by a condition, is that
value times 1 or 0: so a mask is a factor like others, unless it leaves one point of an axis (`compared_axes.py`).

In an adjoint a product `zero_safe_mul(c, d)` is 0 where c is 0, though d may be infinite. A product of arrays knows
nothing of that, and gives NaN there, which is found out. A sum that stays a comprehension goes without
its guards in the same way.

A plain product is NaN there, and so is a sum
with such a term. One pass over the sum, which has fewer elements than there were products, finds out whether it has to
be computed again with its guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from dlang.ir import anf
from dlang.ir.accesses import INDEX
from dlang.ir.affine import Knowledge, hull, projected
from dlang.ir.anf import Array, Axis, Block, Comp, Destination, If, Let, Prim, Read, Reduce, Scalar, Var, fresh, poly
from dlang.ir.comprehension_queries import extent, surely_inside, surely_total, without_results
from dlang.ir.substitution import Renaming, refresh, substitute
from dlang.ir.traverse import map_blocks, map_bodies, mentioned, pruned, with_lets, with_op
from dlang.ir.types import BOOL, I64, dtype_of, type_of
from dlang.ir.writes import elements, missing
from dlang.ops import figures
from dlang.ops.primitives import GUARDS
from dlang.optimize.compared_axes import is_compared, is_zero
from dlang.optimize.one_pass import in_one_pass
from dlang.optimize.producers import LightElements

MOST = 64  # factors of a product, and terms of a sum, that are looked at one by one


@dataclass(frozen=True, slots=True)
class _Around:
    """The facts around some code.

    indices: of the loops, which are within their bounds there; states: of the loops; passing: the arrays of the block
    that need not be there (`one_pass.py`). apart: as for `contractions`. certified: indices that checks have given.
    """

    indices: tuple[anf.Axis, ...] = ()
    states: frozenset[anf.Var] = frozenset()
    passing: frozenset[anf.Var] = frozenset()
    apart: bool = False
    certified: Set[anf.Var] = frozenset()

    def inside(self, loop: anf.For) -> _Around:
        """Returns what is known around the body of a loop."""
        indices = (*self.indices, anf.Axis(loop.index, (loop.low,), (loop.high,)))
        return replace(self, indices=indices, states=self.states | set(loop.params))


def contractions(program: anf.Program, apart: bool = False) -> anf.Program:
    """The program with its products recognised, outside of other comprehensions. apart: whether its operands may be
    there before the products are asked for, so that they are not computed where they are multiplied."""
    return map_bodies(program, partial(_block, around=_Around(apart=apart)))


def _block(block: anf.Block, around: _Around) -> anf.Block:
    lets: list[anf.Let] = []
    terms = LightElements(block)
    certified, plain = set(around.certified), set[anf.Atom]()
    around = replace(around, passing=frozenset() if around.apart else in_one_pass(block), certified=certified)
    for let in block.lets:
        match let.op:
            case anf.Prim("lt" | "le" | "gt" | "ge"):
                plain.update(let.vars)
            case anf.Prim("and", args) if plain.issuperset(args):
                plain.update(let.vars)
            case anf.Assert(condition, code=code) if code == INDEX and condition in plain:
                certified.update(let.vars)
            case _:
                pass
        if isinstance(let.op, anf.Comp):
            opened = terms.opened(let.op)
            lets += _comp(let, let.op, [terms.uncopied(let.op), let.op, opened], around)
            terms.note(let, opened, let.op)
        else:
            inner = around.inside(let.op) if isinstance(let.op, anf.For) else around
            op = map_blocks(let.op, partial(_block, around=inner))
            lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def _comp(let: anf.Let, op: anf.Comp, given: Sequence[anf.Comp], around: _Around) -> Iterator[anf.Let]:
    """The comprehension without the results that are products, and these.

    given: forms of it, with what they read of arrays that `LightElements` knows; the last with all light terms.
    """
    extents = _extents(op)
    if extents is None:
        yield from _sum(let, op, around)
        return
    forms = [form for k, form in enumerate(given) if not any(form is other for other in given[:k])]
    masked = _with_masks(given[-1], around)
    if masked is not given[-1] and not any(map(is_compared, forms)):
        forms.append(masked)
    slices = [_Slice(each, extents, around) for each in forms]
    products_at = set()
    for k, destination in enumerate(op.destinations):
        recognised = ((s, s.products(s.op.body.results[k], destination)) for s in slices)
        slice, products = next(((s, found) for s, found in recognised if found is not None), (slices[0], None))
        if products is None:
            if (part := _product_of_part(let, op, k, given, around)) is not None:
                products_at.add(k)
                yield from part
            continue
        products_at.add(k)
        value = slice.op.body.results[k]
        if value in slice.guarded:
            plain = replace(products[0].destination, into=None)
            without = [replace(p, destination=plain) for p in products]
            slow = slice.code([value])
            yield from checked(let, slice.op, k, slow, partial(_added, without, like=let))
        else:
            yield from _added(products, let.vars[k], let)
    if products_at:
        yield from without_results(let, products_at)
    else:
        yield from _sum(let, op, around)


def is_product(op: anf.Comp) -> bool:
    """Tells whether the only result of a comprehension is recognised as a product of arrays, or a sum of products, or
    as a part of an array that is one."""
    extents = _extents(op)
    if extents is None:
        return False
    slice, (d,) = _Slice(op, extents), op.destinations
    own = d if slice.products(op.body.results[0], d) is not None else _own_elements(op, d)
    return own is d or (own is not None and slice.products(op.body.results[0], own) is not None)


def _product_of_part(
    let: anf.Let, op: anf.Comp, k: int, given: Sequence[anf.Comp], around: _Around
) -> list[anf.Let] | None:
    """The lets that bind a result which a product is a part of, or is added to a part of; None if it is no such one.

    given: as for `_comp`.
    """
    if (own := _own_elements(op, d := op.destinations[k])) is None:
        return None
    assert isinstance(d, Reduce)
    one = _result(op, k, d)
    part = _part(anf.Let((let.vars[k],), one, let.span), one, d, around)
    if part is None or not part[1]:
        return None
    total, store = part
    lets = list(_comp(total, _result(op, k, own), [_result(form, k, own) for form in given], around))
    return [*lets, *store] if any(isinstance(inner.op, anf.Contract) for inner in lets) else None


def _result(op: anf.Comp, k: int, destination: anf.Reduce) -> anf.Comp:
    """The comprehension with just one of its results, which goes to a destination."""
    return anf.Comp(op.axes, anf.Block(op.body.lets, (op.body.results[k],)), (destination,))


def _extents(op: anf.Comp) -> dict[anf.Var, anf.Size] | None:
    """The number of points of each axis; None if that of one depends on another."""
    extents: dict[anf.Var, anf.Size] = {}
    for axis in op.axes:
        size = extent(axis)
        if size is None or size.mentions(extents):
            return None
        extents[axis.var] = size
    return extents


def _with_masks(op: anf.Comp, around: _Around) -> anf.Comp:
    """The comprehension, in which a choice between a value and 0 is that value times 1 or 0: `zero_safe_mul` of both.

    What an arm of a branch computes is computed at all points then, so that has to be possible.
    """
    points = [*around.indices, *op.axes]
    lets: list[anf.Let] = []
    for let in op.body.lets:
        match let.op:
            case anf.Prim("select", (condition, x, y)):
                lets += _masked(let, condition, [(x, y)]) or [let]
            case anf.If(condition, then, otherwise) if all(
                surely_total(inner.op, points, around.certified) for inner in (*then.lets, *otherwise.lets)
            ):
                masked = _masked(let, condition, list(zip(then.results, otherwise.results, strict=True)))
                lets += [*then.lets, *otherwise.lets, *masked] if masked else [let]
            case _:
                lets.append(let)
    if all(a is b for a, b in zip(lets, op.body.lets, strict=False)):
        return op
    return replace(op, body=anf.Block(tuple(lets), op.body.results))


def _masked(let: anf.Let, condition: anf.Atom, pairs: list[tuple[anf.Atom, anf.Atom]]) -> list[anf.Let]:
    """The lets that bind choices between a value and 0, of each the values where the condition holds and where it does
    not, as products; none if one is no such choice."""
    lets: list[anf.Let] = []
    for var, (x, y) in zip(let.vars, pairs, strict=True):
        chosen = x if is_zero(y) else y if is_zero(x) else None
        if chosen is None or not isinstance(var.type, anf.Scalar) or var.type.dtype not in ("f32", "f64"):
            return []
        one, zero = anf.Lit(1.0, var.type.dtype), anf.Lit(0.0, var.type.dtype)
        mask = anf.fresh("mask", var.type)
        lets.append(anf.Let((mask,), anf.Prim("select", (condition, *((one, zero) if chosen is x else (zero, one))))))
        lets.append(anf.Let((var,), anf.Prim("zero_safe_mul", (mask, chosen)), let.span))
    return lets


def _added(products: list[_Product], result: anf.Var, like: anf.Let) -> Iterator[anf.Let]:
    """The lets that bind the sum of products: each is an array, and one pass adds these."""
    first = products[0]
    if len(products) == 1:
        yield from first.lets(result, like)
        return
    slice, kept, destination = first.slice, first.kept, first.destination
    index = tuple([anf.poly(a) for a in kept])
    shape = tuple([slice.extents[axis] for axis in kept])
    if shape != destination.shape:  # it has axes of one element: the products are added without them
        flat = anf.fresh(result.name, anf.Array(dtype_of(result), shape) if shape else anf.Scalar(dtype_of(result)))
        without = replace(destination, shape=shape, index=index)
        yield from _added([replace(p, destination=without) for p in products], flat, like)
        yield anf.Let((result,), anf.Reshape(flat, destination.shape), like.span)
        return
    code: list[anf.Let] = []
    total: anf.Atom | None = None
    for product in products:
        less = product.negate and total is not None
        array = anf.fresh(result.name, result.type)
        negate = product.negate and not less
        yield from replace(product, destination=replace(destination, into=None), negate=negate).lets(array, like)
        value = anf.fresh("t", anf.Scalar(dtype_of(result)))
        code.append(anf.Let((value,), anf.Read(array, index)))
        if total is None:
            total = value
        else:
            new = anf.fresh("t", value.type)
            code.append(anf.Let((new,), anf.Prim("sub" if less else "add", (total, value))))
            total = new
    assert total is not None
    into = destination if destination.into is not None else None
    yield anf.Let((result,), slice.over(kept, _Factor(frozenset(kept), [total]), code, into, "t").lets[0].op, like.span)


def _sum(let: anf.Let, op: anf.Comp, around: _Around) -> Iterator[anf.Let]:
    """A comprehension that stays one: its guards are left out if it adds up more values than it gives."""
    slice = _Slice(op, {axis.var: anf.poly(0) for axis in op.axes})
    first, destination = (op.body.results[0], op.destinations[0]) if len(op.destinations) == 1 else (None, None)
    if first is None or first not in slice.pure or first not in slice.guarded or not adds_many(op, destination):
        yield let
        return
    assert isinstance(destination, anf.Reduce)
    if (part := _part(let, op, destination, around)) is None:
        yield let
        return
    total, store = part
    assert isinstance(total.op, anf.Comp)
    plain = replace(total.op.destinations[0], into=None)
    body = refresh(anf.Block(tuple(slice.unguarded(first)), (first,)), {})
    fast = anf.Comp(op.axes, body, (plain,))
    yield from checked(total, total.op, 0, slice.code([first]), lambda var: iter([anf.Let((var,), fast, let.span)]))
    yield from store


def _own_elements(op: anf.Comp, d: anf.Destination) -> anf.Reduce | None:
    """The destination of a sum that is an array of just the elements that its points reach; None if they are no box."""
    if not isinstance(d, Reduce) or d.monoid != "sum" or len(d.index) < len(d.shape):
        return None
    if any(entry.mentions(inner.vars) for entry in d.index for inner in op.body.lets):
        return None
    kept = [axis for axis in op.axes if any(e.mentions((axis.var,)) for e in d.index)]
    shape = tuple([size for axis in kept if (size := extent(axis)) is not None])
    if not shape or len(shape) < len(kept) or any(size.mentions(a.var for a in op.axes) for size in shape):
        return None
    return anf.Reduce(shape, tuple([anf.poly(axis.var) for axis in kept]))


def _part(let: anf.Let, op: anf.Comp, d: anf.Reduce, around: _Around) -> tuple[anf.Let, list[anf.Let]] | None:
    """A sum over an array of just the elements that its points reach, and what adds these to the array.

    The array may be far larger than what is added to it in one iteration of a loop. An element that is in range only
    because a point has checked it is added to only if there is such a point. None if the elements are no box.
    """
    kept = [axis for axis in op.axes if any(e.mentions((axis.var,)) for e in d.index)]
    if elements(kept, d.shape, d.index) is not None:
        return let, []
    if (own := _own_elements(op, d)) is None:
        return None
    shape, index = own.shape, own.index
    part = anf.fresh(let.vars[0].name, type_of(dtype_of(let.vars[0]), shape))
    value = anf.fresh("t", anf.Scalar(dtype_of(part)))
    store = anf.Comp(tuple(kept), anf.Block((anf.Let((value,), anf.Read(part, index)),), (value,)), (d,))
    if not surely_inside(store, around.indices, around.certified):
        known = Knowledge()
        known.note_sizes([part.type, anf.Array("f64", d.shape)])
        known = known.within(around.indices)
        box = hull(op.axes, known.within(op.axes))
        points = None if box is None else projected(op.axes, {axis.var for axis in kept}, box, known)
        if points is None:
            return None
        store = replace(store, axes=tuple(points))
    total = anf.Let((part,), replace(op, destinations=(anf.Reduce(shape, index),)), let.span)
    return total, [anf.Let(let.vars, Renaming({}, renew=True).op(store), let.span)]


@dataclass(slots=True)
class _Factor:
    """A product of atoms of the body that depend on the same axes, divided by others."""

    axes: frozenset[anf.Var]
    atoms: list[anf.Atom]
    divisors: list[anf.Atom] = field(default_factory=list)


@dataclass(slots=True)
class _Operand:
    """An array to multiply, the axis that each of its own is, and the lets that make it."""

    array: anf.Var
    axes: tuple[anf.Var, ...]
    lets: list[anf.Let] = field(default_factory=list)


class _Slice:
    """The body of a comprehension, seen as expressions of its axes."""

    def __init__(self, op: anf.Comp, extents: dict[anf.Var, anf.Size], around: _Around | None = None) -> None:
        self.op = op
        self.around = around or _Around()
        self.extents = extents
        self.defined: dict[anf.Var, anf.Op] = {}
        self.depends: dict[anf.Var, frozenset[anf.Var]] = {axis: frozenset((axis,)) for axis in extents}
        self.pure: set[anf.Var] = set(extents)
        self.guarded: set[anf.Atom] = set()  # what is made of products that are 0 where a factor is
        for let in op.body.lets:
            used = mentioned(let.op)
            axes = frozenset().union(*[self.depends.get(v, frozenset()) for v in used])
            pure = let.op.IS.point
            pure = pure and all(v in self.pure or v not in self.depends for v in used)
            for var in let.vars:
                self.defined[var] = let.op
                self.depends[var] = axes
                if pure:
                    self.pure.add(var)
            match let.op:
                case anf.Prim("zero_safe_mul" | "zero_safe_mul_both"):
                    self.guarded.update(let.vars)
                case anf.Prim("mul" | "add" | "sub" | "neg" | "div", args) if not self.guarded.isdisjoint(args):
                    self.guarded.update(let.vars)
                case _:
                    pass

    def axes_of(self, atom: anf.Atom) -> frozenset[anf.Var]:
        return self.depends.get(atom, frozenset()) if isinstance(atom, anf.Var) else frozenset()

    def factors(self, atom: anf.Atom, divisors: list[anf.Atom] | None = None) -> tuple[list[anf.Atom], bool]:
        """The factors of a value, up to some dozens, and whether their product is to be negated. divisors: gets those
        of the value, if wanted."""
        out: list[anf.Atom] = []
        negate, work = False, [atom]
        while work:
            value = work.pop()
            match self.defined.get(value) if isinstance(value, anf.Var) else None:
                case anf.Prim("mul" | "zero_safe_mul" | "zero_safe_mul_both", (x, y)) if len(out) + len(work) < MOST:
                    work += (y, x)
                case anf.Prim("neg", (x,)):
                    negate = not negate
                    work.append(x)
                case anf.Prim("div", (x, y)) if divisors is not None:
                    divisors.append(y)
                    work.append(x)
                case _:
                    out.append(value)
        return out, negate

    def unguarded(self, atom: anf.Atom) -> list[anf.Let]:
        """The code of a value without the guards of the products that it is made of."""
        products: set[anf.Var] = set()
        open = [atom]
        while open:
            value = open.pop()
            if not isinstance(value, anf.Var) or value in products:
                continue
            op = self.defined.get(value)
            if isinstance(op, anf.Prim) and op.name in (*GUARDS, "mul", "add", "sub", "neg", "div"):
                products.add(value)
                open += op.args
        out = []
        for let in self.code([atom]):
            if isinstance(let.op, anf.Prim) and let.op.name in GUARDS and let.vars[0] in products:
                let = anf.Let(let.vars, anf.Prim("mul", let.op.args), let.span)
            out.append(let)
        return out

    def terms(self, atom: anf.Atom) -> list[tuple[anf.Atom, bool]]:
        """The terms of a value that is a sum, up to some dozens, and whether each is to be negated."""
        out: list[tuple[anf.Atom, bool]] = []
        work = [(atom, False)]
        while work:
            value, negate = work.pop()
            match self.defined.get(value) if isinstance(value, anf.Var) else None:
                case anf.Prim("add" | "sub" as name, (x, y)) if len(out) + len(work) < MOST:
                    work += ((y, negate ^ (name == "sub")), (x, negate))
                case _:
                    out.append((value, negate))
        return out

    def products(self, value: anf.Atom, destination: anf.Destination) -> list[_Product] | None:
        """The products whose sum a result is, if each is a worthwhile one."""
        products = []
        for term, negate in self.terms(value):
            product = self.product(term, destination)
            if product is None:
                return None
            product.negate ^= negate
            products.append(product)
        return products

    def product(self, value: anf.Atom, destination: anf.Destination) -> _Product | None:
        """The product that a result is, if it is a worthwhile one: perhaps with a divisor that belongs to a factor."""
        return self.product_of(value, destination, None) or self.product_of(value, destination, [])

    def product_of(
        self, value: anf.Atom, destination: anf.Destination, divisors: list[anf.Atom] | None
    ) -> _Product | None:
        """The product that a result is. divisors: gets the divisors of factors; None where quotients are factors."""
        if not isinstance(destination, anf.Reduce) or destination.monoid != "sum" or value not in self.pure:
            return None
        kept: list[anf.Var] = []
        for entry, size in zip(destination.index, destination.shape, strict=True):
            axis = entry.atom
            if axis is not None and axis not in kept and self.extents.get(axis) == size:
                kept.append(axis)
            elif entry != 0 or size != 1 or destination.into is not None:
                return None
        if dtype_of(value) not in ("f32", "f64"):
            return None
        out_axes = tuple(kept)
        atoms, negate = self.factors(value, divisors)
        if divisors == []:
            return None
        groups: dict[frozenset[anf.Var], _Factor] = {}
        for atom in atoms:
            axes = self.axes_of(atom)
            groups.setdefault(axes, _Factor(axes, [])).atoms.append(atom)
        outside = frozenset(out_axes)
        inside = [f for f in groups.values() if not f.axes <= outside]
        after = [a for f in groups.values() if f.axes <= outside for a in f.atoms]
        pair = _pair(inside)
        if pair is None:
            return None
        a, b = pair
        for divisor in divisors or ():
            # of the smaller one that serves several times: each of its elements is divided once
            homes = [f for f, g in ((a, b), (b, a)) if self.axes_of(divisor) <= f.axes and g.axes - f.axes]
            if not homes:
                return None
            min(homes, key=lambda f: len(f.axes)).divisors.append(divisor)
        if not self.worthwhile(a.axes, b.axes, outside):
            return None
        left = self.operand(a, reused=bool(b.axes - a.axes))
        right = self.operand(b, reused=bool(a.axes - b.axes))
        if left is None or right is None or not self.movable(after) or self.passed(left, right):
            return None
        return _Product(self, destination, out_axes, left, right, after, negate)

    def passed(self, left: _Operand, right: _Operand) -> bool:
        """Tells whether a product of a matrix and a vector is better a part of a pass over the matrix.

        That has then not to be stored for it, or it is a loop's state, multiplied with a slice of another array: others
        may share the pass.
        """
        matrix, vector = sorted((left, right), key=lambda x: -len(x.axes))
        if matrix.array in self.around.passing and set(vector.axes) < set(matrix.axes):
            return True
        return matrix.array in self.around.states and len(vector.axes) == 1 and bool(vector.lets)

    def worthwhile(self, a: frozenset[anf.Var], b: frozenset[anf.Var], kept: frozenset[anf.Var]) -> bool:
        reduced = set(self.extents) - kept
        if not reduced or not reduced <= (a & b) or a | b != set(self.extents):
            return False
        if not (a - b or b - a) or max(len(a), len(b)) < 2:
            return False
        return not any(self.small(axes) for axes in (reduced, kept))

    def small(self, axes: set[anf.Var] | frozenset[anf.Var]) -> bool:
        points = 1
        for axis in axes:
            size = self.extents[axis].constant
            if not isinstance(size, int):
                return False
            points *= size
        return points <= figures.LOOP_UP_TO

    def movable(self, atoms: list[anf.Atom]) -> bool:
        """Tells whether the code of these factors may run without the reduced axes."""
        return all(self.total(let.op, self.axes_of(a)) for a in atoms for let in self.code([a]))

    def total(self, op: anf.Op, axes: frozenset[anf.Var]) -> bool:
        points = [*self.around.indices, *[a for a in self.op.axes if a.var in axes]]
        return surely_total(op, points, self.around.certified)

    def code(self, atoms: list[anf.Atom]) -> list[anf.Let]:
        """The lets of the body that these values need."""
        return pruned(self.op.body.lets, atoms)

    def operand(self, factor: _Factor, reused: bool) -> _Operand | None:
        """The array of a factor; None if it is not worth computing or may not be."""
        if len(factor.atoms) == 1 and not factor.divisors and isinstance(factor.atoms[0], anf.Var):
            op = self.defined.get(factor.atoms[0])
            if isinstance(op, anf.Read) and op.array not in self.depends:
                array = self.direct(op, factor.axes) or self.viewed(op, factor.axes)
                if array is not None:
                    return array
        if not reused:
            return None
        return self.computed(factor)

    def direct(self, op: anf.Read, axes: frozenset[anf.Var]) -> _Operand | None:
        entries = [i.atom for i in op.index]
        named = tuple([e for e in entries if e is not None])
        assert isinstance(op.array.type, anf.Array)
        if len(named) != len(entries) or len(named) != len(axes) or set(named) != axes:
            return None
        if tuple([self.extents[e] for e in named]) != op.array.type.shape:
            return None
        return _Operand(op.array, named)

    def viewed(self, op: anf.Read, axes: frozenset[anf.Var]) -> _Operand | None:
        """A view of what is read: entries are linear in the axes, as those of a window that moves over an array are."""
        assert isinstance(op.array.type, anf.Array)
        for entry in op.index:
            inner = {a for a in entry.atoms() if a in self.depends}
            if not inner <= axes or not _linear(entry, inner):
                return None
        order = [axis.var for axis in self.op.axes if axis.var in axes]
        if not all(any(entry.mentions((axis,)) for entry in op.index) for axis in order) or not self.total(op, axes):
            return None
        names = {axis: anf.fresh(axis.name, axis.type) for axis in order}
        shape = tuple([self.extents[axis] for axis in order])
        index = tuple([substitute(i, names) for i in op.index])
        array = anf.fresh(op.array.name, anf.Array(op.array.type.dtype, shape))
        view = anf.View(op.array, tuple(names.values()), shape, index)
        return _Operand(array, tuple(order), [anf.Let((array,), view)])

    def computed(self, factor: _Factor) -> _Operand | None:
        code = self.code([*factor.atoms, *factor.divisors])
        if not all(self.total(let.op, factor.axes) for let in code):
            return None
        order = tuple([axis.var for axis in self.op.axes if axis.var in factor.axes])
        return self.over(order, factor, code, None, "factor")

    def over(
        self, order: tuple[anf.Var, ...], factor: _Factor, code: list[anf.Let], into: anf.Reduce | None, name: str
    ) -> _Operand:
        """An array of a factor over some of the axes."""
        shape = tuple([self.extents[axis] for axis in order])
        dtype = dtype_of(factor.atoms[0])
        lets = list(code)
        value = factor.atoms[0]
        others = [*[("mul", a) for a in factor.atoms[1:]], *[("div", a) for a in factor.divisors]]
        for operation, atom in others:
            new = anf.fresh("t", anf.Scalar(dtype))
            lets.append(anf.Let((new,), anf.Prim(operation, (value, atom))))
            value = new
        block = refresh(
            anf.Block(tuple(lets), (value,)), names := {axis: anf.fresh(axis.name, axis.type) for axis in order}
        )
        axes = tuple([anf.Axis(names[axis], (anf.poly(0),), (self.extents[axis],)) for axis in order])
        keep = anf.Reduce(shape, tuple([anf.poly(names[axis]) for axis in order]), "set")
        if into is not None:
            keep = anf.Reduce(shape, keep.index, "sum", into.into)
        type: anf.Type = anf.Array(dtype, shape) if shape else anf.Scalar(dtype)
        array = anf.fresh(name, type)
        return _Operand(array, order, [anf.Let((array,), anf.Comp(axes, block, (keep,)))])


@dataclass(slots=True)
class _Product:
    """out[kept] = ± after · Σ left · right, added to an older array if the destination has one."""

    slice: _Slice
    destination: anf.Reduce
    kept: tuple[anf.Var, ...]
    left: _Operand
    right: _Operand
    after: list[anf.Atom]
    negate: bool

    def lets(self, result: anf.Var, like: anf.Let) -> Iterator[anf.Let]:
        """The lets that bind the result."""
        shape = tuple([self.slice.extents[axis] for axis in self.kept])
        if shape == self.destination.shape:
            yield from self._lets(result, like)
            return
        flat = anf.fresh(result.name, anf.Array(dtype_of(result), shape))  # without the axes of one element
        yield from self._lets(flat, like)
        yield anf.Let((result,), anf.Reshape(flat, self.destination.shape), like.span)

    def _lets(self, result: anf.Var, like: anf.Let) -> Iterator[anf.Let]:
        names = {axis: k for k, axis in enumerate(self.slice.extents)}
        for operand in (self.left, self.right):
            for let in operand.lets:
                yield anf.Let(let.vars, let.op, like.span)
        contract = anf.Contract(
            self.left.array,
            self.right.array,
            tuple([names[a] for a in self.left.axes]),
            tuple([names[a] for a in self.right.axes]),
            tuple([names[a] for a in self.kept]),
        )
        if not self.after and not self.negate and self.destination.into is None:
            yield anf.Let((result,), contract, like.span)
            return
        product = anf.fresh("product", result.type)
        yield anf.Let((product,), contract, like.span)
        value: anf.Atom = product
        code = self.slice.code(self.after)
        dtype = dtype_of(result)
        if self.kept:
            value = anf.fresh("t", anf.Scalar(dtype))
            code.append(anf.Let((value,), anf.Read(product, tuple([anf.poly(a) for a in self.kept]))))
        if self.negate:
            negated = anf.fresh("t", anf.Scalar(dtype))
            code.append(anf.Let((negated,), anf.Prim("neg", (value,))))
            value = negated
        into = self.destination if self.destination.into is not None else None
        scaled = self.slice.over(self.kept, _Factor(frozenset(self.kept), [*self.after, value]), code, into, "t")
        yield anf.Let((result,), scaled.lets[0].op, like.span)


def _pair(factors: list[_Factor]) -> tuple[_Factor, _Factor] | None:
    """Two factors, the others multiplied into one that has their axes."""
    big = [f for f in factors if not any(f.axes < g.axes for g in factors)]
    if len(big) == 1 and len(factors) == 2:
        return factors[0], factors[1]  # a[i, k] · b[k]
    if len(big) != 2:
        return None
    pair = [_Factor(f.axes, list(f.atoms)) for f in big]
    for f in factors:
        if not any(f.axes == p.axes for p in pair):
            home = next(p for p in pair if f.axes < p.axes)
            home.atoms += f.atoms
    return pair[0], pair[1]


def _linear(entry: anf.Size, axes: set[anf.Var]) -> bool:
    """Tells whether an entry is a sum of multiples of axes, and of terms that do not change."""
    return all(len(m) == 1 or not any(a in axes for a in m) for m in entry.terms)


# ---- guarded products ------------------------------------------------------------------------------------------------
def adds_many(op: Comp, destination: Destination | None) -> bool:
    """Tells whether many points meet in each element of a sum that is an array."""
    if not isinstance(destination, Reduce) or destination.monoid != "sum" or not destination.shape:
        return False
    points = 1
    for axis in missing(op.axes, destination.index):
        sizes = [high.constant for high in axis.highs if high.constant is not None]
        points *= int(min(sizes)) if sizes else figures.POINTS_FOR_ELEMENT
    return points >= figures.POINTS_FOR_ELEMENT


def checked(let: Let, op: Comp, k: int, code: Sequence[Let], products: Callable[[Var], Iterator[Let]]) -> Iterator[Let]:
    """The lets that bind a result of a comprehension which is a sum of guarded products.

    code: that of its value. products: gives the lets that bind a variable to the sum of plain products.
    """
    result = let.vars[k]
    destination = op.destinations[k]
    assert isinstance(destination, Reduce)
    plain = replace(destination, into=None)
    fast = fresh(result.name, result.type)
    yield from products(fast)
    axes = tuple([Axis(fresh("i", I64), (poly(0),), (size,)) for size in destination.shape])
    index = tuple([poly(a.var) for a in axes])
    value, nan, wrong = fresh("t", Scalar(dtype_of(result))), fresh("nan", BOOL), fresh("wrong", BOOL)
    test = Block((Let((value,), Read(fast, index)), Let((nan,), Prim("isnan", (value,)))), (nan,))
    yield Let((wrong,), Comp(axes, test, (Reduce((), (), "any"),)), let.span)
    slow, copied = fresh(result.name, result.type), fresh(result.name, result.type)
    product = Comp(op.axes, Block(tuple(code), (op.body.results[k],)), (plain,))
    body = refresh(Block((Let((slow,), product, let.span), _stored(slow, fast, copied)), (copied,)), {})
    right = result if destination.into is None else fresh(result.name, result.type)
    yield Let((right,), If(wrong, body, Block((), (fast,)), cold=True), let.span)
    if destination.into is not None:
        yield _stored(right, destination.into, result, "sum")


def _stored(array: Var, into: Var, result: Var, monoid: str = "set") -> Let:
    """The let of an array combined into another, in its place."""
    assert isinstance(array.type, Array)
    axes = tuple([Axis(fresh("i", I64), (poly(0),), (size,)) for size in array.type.shape])
    index = tuple([poly(a.var) for a in axes])
    value = fresh("t", Scalar(array.type.dtype))
    body = Block((Let((value,), Read(array, index)),), (value,))
    return Let((result,), Comp(axes, body, (Reduce(array.type.shape, index, monoid, into),)))
