"""Products recognised: a sum over axes of a product of two factors becomes a `Contract`.

For each result of a comprehension, on the part of the body that it needs: Σ c·a·b, or the sum of several such terms,
where a and b are functions of different sets of axes that share a reduced one, and at least one of them has an axis of
its own. A factor is used where it stands if it is a read by plain axes; a read by entries that are linear in the axes
becomes a view, so a convolution is a product with the windows of its input; any other is computed first, into an array
over its axes, if each of its elements serves several times. Factors of kept axes alone multiply the product afterwards.
Dot products and products of small literal sizes stay loops.

In an adjoint a product `guard(c, d)` is 0 where c is 0, though d may be infinite. A product of arrays knows nothing of
that, and gives NaN there, which is found out (`unguarded.py`). A sum that stays a comprehension goes without its guards
in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from dlang.ir.anf import (
    Array,
    Atom,
    Axis,
    Block,
    Cast,
    Comp,
    Contract,
    Destination,
    For,
    Keep,
    Let,
    Op,
    Prim,
    Program,
    Read,
    Reshape,
    Scalar,
    Size,
    SizeOf,
    Type,
    Var,
    View,
    fresh,
    poly,
)  # fmt: skip
from dlang.ir.comps import extent, surely_total, without_results
from dlang.ir.pruning import pruned
from dlang.ir.substitution import refresh, substitute
from dlang.ir.traverse import map_blocks, map_bodies, mentioned, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ops.primitives import GUARDS
from dlang.optimize.unguarded import adds_many, checked

SMALL = 4  # a literal number of points up to which a product is a loop


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops around some code: their indices, which are within their bounds there, and their states."""

    indices: tuple[Axis, ...] = ()
    states: frozenset[Var] = frozenset()

    def inside(self, loop: For) -> _Loops:
        """Those around the body of a loop."""
        return _Loops((*self.indices, Axis(loop.index, (loop.low,), (loop.high,))), self.states | set(loop.params))


def contractions(program: Program) -> Program:
    """The program with its products recognised, outside of other comprehensions."""
    return map_bodies(program, partial(_block, around=_Loops()))


def _block(block: Block, around: _Loops) -> Block:
    lets: list[Let] = []
    for let in block.lets:
        if isinstance(let.op, Comp):
            lets += _comp(let, let.op, around)
        else:
            inner = around.inside(let.op) if isinstance(let.op, For) else around
            op = map_blocks(let.op, partial(_block, around=inner))
            lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def _comp(let: Let, op: Comp, around: _Loops) -> Iterator[Let]:
    """The comprehension without the results that are products, and these."""
    extents: dict[Var, Size] = {}
    for axis in op.axes:
        size = extent(axis)
        if size is None or size.mentions(extents):
            yield from _sum(let, op)
            return
        extents[axis.var] = size
    slice = _Slice(op, extents, around)
    found = set()
    for k, destination in enumerate(op.destinations):
        products = slice.products(op.body.results[k], destination)
        if products is None:
            continue
        found.add(k)
        if slice.guarded(op.body.results[k]):
            plain = replace(products[0].destination, into=None)
            without = [replace(p, destination=plain) for p in products]
            slow = slice.code([op.body.results[k]])
            yield from checked(let, op, k, slow, partial(_added, without, like=let))
        else:
            yield from _added(products, let.vars[k], let)
    if found:
        yield from without_results(let, found)
    else:
        yield from _sum(let, op)


def is_product(op: Comp) -> bool:
    """Whether the only result of a comprehension is recognised as a product of arrays, or a sum of such."""
    extents: dict[Var, Size] = {}
    for axis in op.axes:
        size = extent(axis)
        if size is None or size.mentions(extents):
            return False
        extents[axis.var] = size
    return _Slice(op, extents).products(op.body.results[0], op.destinations[0]) is not None


def _added(products: list[_Product], result: Var, like: Let) -> Iterator[Let]:
    """The lets that bind the sum of products: each is an array, and one pass adds these."""
    first = products[0]
    if len(products) == 1:
        yield from first.lets(result, like)
        return
    slice, kept, destination = first.slice, first.kept, first.destination
    index = tuple([poly(a) for a in kept])
    shape = tuple([slice.extents[axis] for axis in kept])
    if shape != destination.shape:  # it has axes of one element: the products are added without them
        flat = fresh(result.name, Array(dtype_of(result), shape) if shape else Scalar(dtype_of(result)))
        without = replace(destination, shape=shape, index=index)
        yield from _added([replace(p, destination=without) for p in products], flat, like)
        yield Let((result,), Reshape(flat, destination.shape), like.span)
        return
    code: list[Let] = []
    total: Atom | None = None
    for product in products:
        less = product.negate and total is not None
        array = fresh(result.name, result.type)
        negate = product.negate and not less
        yield from replace(product, destination=replace(destination, into=None), negate=negate).lets(array, like)
        value = fresh("t", Scalar(dtype_of(result)))
        code.append(Let((value,), Read(array, index)))
        if total is None:
            total = value
        else:
            new = fresh("t", value.type)
            code.append(Let((new,), Prim("sub" if less else "add", (total, value))))
            total = new
    assert total is not None
    into = destination if destination.into is not None else None
    yield Let((result,), slice.over(kept, [total], code, into, "t").lets[0].op, like.span)


def _sum(let: Let, op: Comp) -> Iterator[Let]:
    """A comprehension that stays one: its guards are left out if it adds up more values than it gives."""
    slice = _Slice(op, {axis.var: poly(0) for axis in op.axes})
    first, destination = (op.body.results[0], op.destinations[0]) if len(op.destinations) == 1 else (None, None)
    if first is None or first not in slice.pure or not slice.guarded(first) or not adds_many(op, destination):
        yield let
        return
    assert isinstance(destination, Keep)
    computed = {v for inner in op.body.lets for v in inner.vars}
    if any(entry.mentions(computed) for entry in destination.index):  # which is not among the code of the value
        yield let
        return
    plain = replace(destination, into=None)
    body = refresh(Block(tuple(slice.unguarded(first)), (first,)), {})
    fast = Comp(op.axes, body, (plain,))
    yield from checked(let, op, 0, slice.code([first]), lambda var: iter([Let((var,), fast, let.span)]))


@dataclass(slots=True)
class _Factor:
    """A product of atoms of the body that depend on the same axes."""

    axes: frozenset[Var]
    atoms: list[Atom]


@dataclass(slots=True)
class _Operand:
    """An array to multiply, the axis that each of its own is, and the lets that make it."""

    array: Var
    axes: tuple[Var, ...]
    lets: list[Let] = field(default_factory=list)


class _Slice:
    """The body of a comprehension, seen as expressions of its axes."""

    def __init__(self, op: Comp, extents: dict[Var, Size], around: _Loops | None = None) -> None:
        self.op = op
        self.around = around or _Loops()
        self.extents = extents
        self.defined: dict[Var, Op] = {}
        self.depends: dict[Var, frozenset[Var]] = {axis: frozenset((axis,)) for axis in extents}
        self.pure: set[Var] = set(extents)
        for let in op.body.lets:
            used = mentioned(let.op)
            axes = frozenset().union(*[self.depends.get(v, frozenset()) for v in used])
            pure = isinstance(let.op, Prim | Cast | Read | SizeOf)
            pure = pure and all(v in self.pure or v not in self.depends for v in used)
            for var in let.vars:
                self.defined[var] = let.op
                self.depends[var] = axes
                if pure:
                    self.pure.add(var)

    def axes_of(self, atom: Atom) -> frozenset[Var]:
        return self.depends.get(atom, frozenset()) if isinstance(atom, Var) else frozenset()

    def factors(self, atom: Atom, out: list[Atom]) -> bool:
        """Collects the factors of a value; gives whether their product is to be negated."""
        match self.defined.get(atom) if isinstance(atom, Var) else None:
            case Prim("mul" | "guard" | "guard_both", (x, y)):
                left = self.factors(x, out)
                return left ^ self.factors(y, out)
            case Prim("neg", (x,)):
                return not self.factors(x, out)
            case _:
                out.append(atom)
                return False

    def guarded(self, atom: Atom) -> bool:
        """Whether a value is made of a product that is 0 where a factor is 0, though the other may not be finite."""
        match self.defined.get(atom) if isinstance(atom, Var) else None:
            case Prim("guard" | "guard_both"):
                return True
            case Prim("mul" | "add" | "sub" | "neg", args):
                return any(map(self.guarded, args))
            case _:
                return False

    def unguarded(self, atom: Atom) -> list[Let]:
        """The code of a value without the guards of the products that it is made of."""
        products: set[Var] = set()
        open = [atom]
        while open:
            value = open.pop()
            op = self.defined.get(value) if isinstance(value, Var) else None
            if isinstance(op, Prim) and op.name in (*GUARDS, "mul", "add", "sub", "neg"):
                assert isinstance(value, Var)
                products.add(value)
                open += op.args
        out = []
        for let in self.code([atom]):
            if isinstance(let.op, Prim) and let.op.name in GUARDS and let.vars[0] in products:
                let = Let(let.vars, Prim("mul", let.op.args), let.span)
            out.append(let)
        return out

    def terms(self, atom: Atom, negate: bool = False) -> Iterator[tuple[Atom, bool]]:
        """The terms of a value that is a sum, and whether each is to be negated."""
        match self.defined.get(atom) if isinstance(atom, Var) else None:
            case Prim("add" | "sub" as name, (x, y)):
                yield from self.terms(x, negate)
                yield from self.terms(y, negate ^ (name == "sub"))
            case _:
                yield atom, negate

    def products(self, value: Atom, destination: Destination) -> list[_Product] | None:
        """The products whose sum a result is, if each is a worthwhile one."""
        found = []
        for term, negate in self.terms(value):
            product = self.product(term, destination)
            if product is None:
                return None
            product.negate ^= negate
            found.append(product)
        return found

    def product(self, value: Atom, destination: Destination) -> _Product | None:
        """The product that a result is, if it is a worthwhile one."""
        if not isinstance(destination, Keep) or destination.monoid != "sum" or value not in self.pure:
            return None
        kept: list[Var] = []
        for entry, size in zip(destination.index, destination.shape, strict=True):
            axis = entry.atom
            if axis is not None and axis not in kept and self.extents.get(axis) == size:
                kept.append(axis)
            elif entry != 0 or size != 1 or destination.into is not None:
                return None
        if dtype_of(value) not in ("f32", "f64"):
            return None
        out_axes = tuple(kept)
        atoms: list[Atom] = []
        negate = self.factors(value, atoms)
        groups: dict[frozenset[Var], _Factor] = {}
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
        if not self.worthwhile(a.axes, b.axes, outside):
            return None
        left = self.operand(a, reused=bool(b.axes - a.axes))
        right = self.operand(b, reused=bool(a.axes - b.axes))
        if left is None or right is None or not self.movable(after) or self.passed(left, right):
            return None
        return _Product(self, destination, out_axes, left, right, after, negate)

    def passed(self, left: _Operand, right: _Operand) -> bool:
        """Whether it is a pass over the state of a loop, with a slice of another array: others may share the pass."""
        matrix, vector = sorted((left, right), key=lambda x: -len(x.axes))
        return matrix.array in self.around.states and len(vector.axes) == 1 and bool(vector.lets)

    def worthwhile(self, a: frozenset[Var], b: frozenset[Var], kept: frozenset[Var]) -> bool:
        reduced = set(self.extents) - kept
        if not reduced or not reduced <= (a & b) or a | b != set(self.extents):
            return False
        if not (a - b or b - a) or max(len(a), len(b)) < 2:
            return False
        return not any(self.small(axes) for axes in (reduced, kept))

    def small(self, axes: set[Var] | frozenset[Var]) -> bool:
        points = 1
        for axis in axes:
            size = self.extents[axis].constant
            if not isinstance(size, int):
                return False
            points *= size
        return points <= SMALL

    def movable(self, atoms: list[Atom]) -> bool:
        """Whether the code of these factors may run without the reduced axes."""
        return all(self.total(let.op, self.axes_of(a)) for a in atoms for let in self.code([a]))

    def total(self, op: Op, axes: frozenset[Var]) -> bool:
        return surely_total(op, [*self.around.indices, *[a for a in self.op.axes if a.var in axes]])

    def code(self, atoms: list[Atom]) -> list[Let]:
        """The lets of the body that these values need."""
        return pruned(self.op.body.lets, atoms)

    def operand(self, factor: _Factor, reused: bool) -> _Operand | None:
        """The array of a factor; None if it is not worth computing or may not be."""
        if len(factor.atoms) == 1 and isinstance(factor.atoms[0], Var):
            op = self.defined.get(factor.atoms[0])
            if isinstance(op, Read) and op.array not in self.depends:
                found = self.direct(op, factor.axes) or self.viewed(op, factor.axes)
                if found is not None:
                    return found
        if not reused:
            return None
        return self.computed(factor)

    def direct(self, op: Read, axes: frozenset[Var]) -> _Operand | None:
        entries = [i.atom for i in op.index]
        named = tuple([e for e in entries if e is not None])
        assert isinstance(op.array.type, Array)
        if len(named) != len(entries) or len(named) != len(axes) or set(named) != axes:
            return None
        if tuple([self.extents[e] for e in named]) != op.array.type.shape:
            return None
        return _Operand(op.array, named)

    def viewed(self, op: Read, axes: frozenset[Var]) -> _Operand | None:
        """A view of what is read: entries are linear in the axes, as those of a window that moves over an array are."""
        assert isinstance(op.array.type, Array)
        for entry in op.index:
            inner = {a for a in entry.atoms() if a in self.depends}
            if not inner <= axes or not _linear(entry, inner):
                return None
        order = [axis.var for axis in self.op.axes if axis.var in axes]
        if not all(any(entry.mentions((axis,)) for entry in op.index) for axis in order) or not self.total(op, axes):
            return None
        names = {axis: fresh(axis.name, axis.type) for axis in order}
        shape = tuple([self.extents[axis] for axis in order])
        index = tuple([substitute(i, names) for i in op.index])
        array = fresh(op.array.name, Array(op.array.type.dtype, shape))
        view = View(op.array, tuple(names.values()), shape, index)
        return _Operand(array, tuple(order), [Let((array,), view)])

    def computed(self, factor: _Factor) -> _Operand | None:
        code = self.code(factor.atoms)
        if not all(self.total(let.op, factor.axes) for let in code):
            return None
        order = tuple([axis.var for axis in self.op.axes if axis.var in factor.axes])
        return self.over(order, factor.atoms, code, None, "factor")

    def over(
        self, order: tuple[Var, ...], atoms: list[Atom], code: list[Let], into: Keep | None, name: str
    ) -> _Operand:
        """An array of the product of `atoms` over some of the axes."""
        shape = tuple([self.extents[axis] for axis in order])
        dtype = dtype_of(atoms[0])
        lets = list(code)
        value = _multiplied(atoms, dtype, lets)
        block = refresh(Block(tuple(lets), (value,)), names := {axis: fresh(axis.name, axis.type) for axis in order})
        axes = tuple([Axis(names[axis], (poly(0),), (self.extents[axis],)) for axis in order])
        keep = Keep(shape, tuple([poly(names[axis]) for axis in order]), "set")
        if into is not None:
            keep = Keep(shape, keep.index, "sum", into.into)
        type: Type = Array(dtype, shape) if shape else Scalar(dtype)
        array = fresh(name, type)
        return _Operand(array, order, [Let((array,), Comp(axes, block, (keep,)))])


@dataclass(slots=True)
class _Product:
    """out[kept] = ± after · Σ left · right, added to an older array if the destination has one."""

    slice: _Slice
    destination: Keep
    kept: tuple[Var, ...]
    left: _Operand
    right: _Operand
    after: list[Atom]
    negate: bool

    def lets(self, result: Var, like: Let) -> Iterator[Let]:
        """The lets that bind the result."""
        shape = tuple([self.slice.extents[axis] for axis in self.kept])
        if shape == self.destination.shape:
            yield from self._lets(result, like)
            return
        flat = fresh(result.name, Array(dtype_of(result), shape))  # without the axes of one element
        yield from self._lets(flat, like)
        yield Let((result,), Reshape(flat, self.destination.shape), like.span)

    def _lets(self, result: Var, like: Let) -> Iterator[Let]:
        names = {axis: k for k, axis in enumerate(self.slice.extents)}
        for operand in (self.left, self.right):
            for let in operand.lets:
                yield Let(let.vars, let.op, like.span)
        contract = Contract(
            self.left.array,
            self.right.array,
            tuple([names[a] for a in self.left.axes]),
            tuple([names[a] for a in self.right.axes]),
            tuple([names[a] for a in self.kept]),
        )
        if not self.after and not self.negate and self.destination.into is None:
            yield Let((result,), contract, like.span)
            return
        product = fresh("product", result.type)
        yield Let((product,), contract, like.span)
        value: Atom = product
        code = self.slice.code(self.after)
        dtype = dtype_of(result)
        if self.kept:
            value = fresh("t", Scalar(dtype))
            code.append(Let((value,), Read(product, tuple([poly(a) for a in self.kept]))))
        if self.negate:
            negated = fresh("t", Scalar(dtype))
            code.append(Let((negated,), Prim("neg", (value,))))
            value = negated
        into = self.destination if self.destination.into is not None else None
        scaled = self.slice.over(self.kept, [*self.after, value], code, into, "t")
        yield Let((result,), scaled.lets[0].op, like.span)


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


def _linear(entry: Size, axes: set[Var]) -> bool:
    """Whether an entry is the sum of multiples of axes, and of what does not change."""
    return all(len(m) == 1 or not any(a in axes for a in m) for m in entry.terms)


def _multiplied(atoms: list[Atom], dtype: str, lets: list[Let]) -> Atom:
    value = atoms[0]
    for atom in atoms[1:]:
        new = fresh("t", Scalar(dtype))
        lets.append(Let((new,), Prim("mul", (value, atom))))
        value = new
    return value
