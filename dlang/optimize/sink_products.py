"""Products that a loop adds up are done at once when it has ended.

    for t { …; w̄ += x[t]ᵀ ȳ; x̄[t] += ȳ wᵀ }        becomes        for t { …; ȳs[t] = ȳ };  w̄ += xsᵀ ȳs;  x̄ += ȳs wᵀ

In each iteration of a recurrent network the gradient of its weights gets a product of what is saved of the iteration
and the cotangent there, and that of its inputs one of the cotangent and the weights. Such products are small, or of
rank one, and each goes over all of the weights. Kept until the end the cotangents take the memory of what is saved, and
one product has as many terms as all of them. Where a slice of an array has them already, that is used.

A sum is taken out of a loop if nothing else in the loop looks at it, if it is recognised as a product in which
iterations have something in common, the sum or a factor, and if some factor, or the sum, has a part for each iteration
already: then memory grows by as much as there is of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.axes import Location, without
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import extent, is_zero, without_results
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    count_uses,
    map_blocks,
    map_functions,
    parts,
    pruned,
    type_vars,
    with_body,
    with_lets,
    with_op,
)
from dlang.ir.types import array_type, dtype_of
from dlang.optimize.contractions import is_product
from dlang.optimize.iterations import Iteration, Rows
from dlang.optimize.stores import stored


def sink_products(program: anf.Program) -> anf.Program:
    """The program with products in the place of loops that add up products."""
    return map_functions(program, _function)


def _function(function: anf.Function) -> anf.Function:
    sizes = {v for p in function.params for v in type_vars(p.type)}
    return with_body(function, _block(function.body, {anf.poly(v): v for v in sizes}))


def _block(block: anf.Block, counts: Mapping[anf.Size, anf.Var]) -> anf.Block:
    """A block without such loops. counts: the numbers that are known to be those of iterations, or 0 for fewer."""
    lets: list[anf.Let] = []
    zeros: set[anf.Var] = set()
    counts, named = dict(counts), dict[anf.Atom, anf.Size]()
    for let in block.lets:
        op = map_blocks(let.op, lambda inner: _block(inner, counts))
        let = with_op(let, let.vars, op)
        match op:
            case anf.For(early=False):
                lets += _loop(let, op, counts, zeros)
                continue
            case anf.Comp() if len(let.vars) == 1 and is_zero(op):
                zeros.add(let.vars[0])
            case anf.IndexExpr(size):
                named[let.vars[0]] = size
            case anf.Prim("maximum", (x, anf.Lit(0))):
                counts.setdefault(named.get(x, anf.poly(x)), let.vars[0])
            case _:
                pass
        lets.append(let)
    return with_lets(block, lets, block.results)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A value that a comprehension adds to a state of a loop.

    into, var: the array before and after. code: of the value; kept: the arrays of an iteration in it.
    """

    state: int
    at: int
    into: anf.Var
    var: anf.Var
    value: anf.Atom
    to: anf.Reduce
    code: tuple[anf.Let, ...]
    kept: tuple[anf.Var, ...]


def _loop(let: anf.Let, op: anf.For, counts: Mapping[anf.Size, anf.Var], zeros: set[anf.Var]) -> list[anf.Let]:
    """The lets in the place of a loop."""
    sums = _Finder(op).sums()
    if not sums:
        return [let]
    b = Builder({}, let.span)
    iterations = op.high - op.low
    with b.scope() as before:
        if iterations.constant is not None:
            count = anf.poly(max(int(iterations.constant), 0))
        elif iterations in counts:
            count = anf.poly(counts[iterations])
        else:
            count = anf.poly(b.prim("maximum", b.size(iterations), anf.Lit(0, "i64"), name="iterations"))
    deferred = _Deferred(let, op, count, sums)
    products = deferred.products()
    if not products:
        return [let]
    loop, after = deferred.loop(products, zeros)
    return [*before, *deferred.before, loop, *after]


class _Finder:
    """Looks for sums in a loop."""

    def __init__(self, op: anf.For) -> None:
        self.op = op
        self.uses = count_uses(op.body)
        self.one = Iteration.of(op)
        self.home = {v: at for at, let in enumerate(op.body.lets) for v in let.vars}

    def sums(self) -> list[_Sum]:
        return [s for k, p in enumerate(self.op.params) if isinstance(p.type, anf.Array) for s in self.of_state(k)]

    def of_state(self, state: int) -> list[_Sum]:
        """The sums that an iteration adds to an array one after another, if it does no more with it."""
        sums: list[_Sum] = []
        array: anf.Atom | None = self.op.body.results[state]
        while array is not self.op.params[state]:
            at = self.home.get(array) if isinstance(array, anf.Var) else None
            op = None if at is None else self.op.body.lets[at].op
            if not isinstance(array, anf.Var) or at is None or not isinstance(op, anf.Comp) or self.uses[array] != 1:
                return []
            k = self.op.body.lets[at].vars.index(array)
            d = op.destinations[k]
            if not isinstance(d, anf.Reduce) or d.monoid != "sum" or d.into is None:
                return []
            code = tuple(pruned(op.body.lets, [op.body.results[k]], d.index))
            kept = self.kept(op, code, d)
            if kept is not None:
                sums.append(_Sum(state, at, d.into, array, op.body.results[k], d, code, kept))
            array = d.into
        return sums[::-1] if self.uses.get(self.op.params[state]) == 1 else []

    def kept(self, op: anf.Comp, code: Sequence[anf.Let], d: anf.Destination) -> tuple[anf.Var, ...] | None:
        """The arrays of an iteration that the code reads; None if it needs anything else of the iteration."""
        one = self.one
        arrays: dict[anf.Var, None] = {}
        if not one.is_fixed(*d.shape, *(s for a in op.axes for s in (*a.lows, *a.highs))) or not one.is_known(*d.index):
            return None
        growing = any(one.slope((entry,)) in (1, -1) for entry in d.index)  # a slice for each iteration
        for let in code:
            match let.op:
                case anf.Read(array, index) if not one.is_known(*index):
                    return None
                case anf.Read(array, index) if array in one.computed:
                    if array in self.op.params or not one.is_fixed(*index, *array_type(array).shape):
                        return None
                    arrays[array] = None
                case anf.Read(array, index):
                    growing |= any(map(one.moves, index))
                case anf.Prim() | anf.Cast():
                    if any(a is one.number or a in one.computed for a in parts(let.op).atoms):
                        return None
                case _:
                    return None
        return tuple(arrays) if growing and arrays else None


class _Deferred:
    """A loop and the products after it. arrays: what is kept of the iterations, after the loop."""

    def __init__(self, let: anf.Let, op: anf.For, iterations: anf.Size, sums: Sequence[_Sum]) -> None:
        self.let, self.op, self.sums = let, op, sums
        self.one = Iteration.of(op)
        self.rows = Rows(self.one, op.low, iterations, any(map(self._falls, sums)), op.high)
        self.stacks = _stacks(let, op, self.one)
        self.before: list[anf.Let] = []
        self.arrays: dict[anf.Var, anf.Var] = {}

    def _falls(self, s: _Sum) -> bool:
        """Tells whether the parts of an array are read backwards: the last iteration reads the first."""
        read = [i for let in s.code if isinstance(let.op, anf.Read) for i in let.op.index]
        entries = map(self.one.opened, (*read, *s.to.index))
        return any(e.terms.get((self.op.index,), 0) < 0 for e in entries)

    def products(self) -> list[tuple[_Sum, anf.Comp]]:
        """The sums that are products, over all iterations at once."""
        return [(s, product) for s in self.sums if (product := self.product(s)) is not None]

    def product(self, s: _Sum) -> anf.Comp | None:
        comp = self.op.body.lets[s.at].op
        assert isinstance(comp, anf.Comp)
        body = anf.Block(s.code, (s.value,))
        locations = {v: self.stacks.get(v) or Location(self.array(v), (self.rows.row,)) for v in s.kept}
        whole = self.rows.at_once(anf.Comp(comp.axes, body, (replace(s.to, into=None),)), locations)
        return whole if is_product(whole) and not _is_batch(whole) else None

    def array(self, var: anf.Var) -> anf.Var:
        if var not in self.arrays:
            assert isinstance(var.type, anf.Array)
            self.arrays[var] = anf.fresh(f"{var.name}s", anf.Array(var.type.dtype, (self.rows.count, *var.type.shape)))
        return self.arrays[var]

    def loop(self, products: Sequence[tuple[_Sum, anf.Comp]], zeros: set[anf.Var]) -> tuple[anf.Let, list[anf.Let]]:
        """The loop without the sums that are products, which keeps what these need; and the products behind it."""
        op, taken = self.op, [s for s, _ in products]
        without = Renaming({})
        for s in taken:
            without.env[s.var] = without.atom(s.into)
        changed = {s.state for s in taken}
        ends = [without.atom(r) for r in op.body.results]
        stay = [k for k in range(len(op.params)) if not (k in changed and ends[k] is op.params[k])]
        lets = list(op.body.lets)
        for s in sorted(taken, key=lambda s: -s.at):
            lets[s.at : s.at + 1] = without_results(lets[s.at], (lets[s.at].vars.index(s.var),))
        lets = list(without.block(anf.Block(tuple(lets), ())).lets)

        row = self.rows.row
        kept = [v for v in self.arrays if any(v in s.kept for s in taken)]
        wholes = [self.arrays[v] for v in kept]
        empties, tapes = ([anf.fresh(v.name, v.type) for v in wholes] for _ in range(2))
        for empty in empties:
            made = anf.Empty(dtype_of(empty), array_type(empty).shape)
            self.before.append(anf.Let((empty,), made, self.let.span))
        results = [ends[k] for k in stay]

        def to(shape: Sequence[anf.Size], index: Sequence[anf.Size]) -> tuple[anf.Size, ...]:
            return row, *index

        lets, after = stored(lets, [(v, tape, to) for v, tape in zip(kept, tapes, strict=True)], results)
        vars = [anf.fresh(v.name, v.type) if k in changed else v for k, v in enumerate(self.let.vars)]
        new = anf.For(
            op.index,
            op.low,
            op.high,
            (*[op.params[k] for k in stay], *tapes),
            (*[op.init[k] for k in stay], *empties),
            anf.Block(tuple(lets), (*results, *after)),
        )
        behind: list[anf.Let] = []
        last = {s.state: s for s in taken}
        so_far: dict[int, anf.Atom] = {k: vars[k] if k in stay else op.init[k] for k in changed}
        for s, product in products:
            start = so_far[s.state]
            assert isinstance(start, anf.Var)
            var = self.let.vars[s.state] if last[s.state] is s else anf.fresh(s.var.name, s.var.type)
            keep = replace(product.destinations[0], into=None if start in zeros else start)
            behind.append(anf.Let((var,), replace(product, destinations=(keep,)), self.op.body.lets[s.at].span))
            so_far[s.state] = var
        return anf.Let((*[vars[k] for k in stay], *wholes), new, self.let.span), behind


def _is_batch(whole: anf.Comp) -> bool:
    """Tells whether a product over all iterations, the first axis, is one for each, of what belongs to it alone: then
    nothing is shared by doing all of them at once."""
    row = whole.axes[0].var
    indices = [let.op.index for let in whole.body.lets if isinstance(let.op, anf.Read)]
    return all(any(e.mentions((row,)) for e in index) for index in (*indices, whole.destinations[0].index))


def _stacks(let: anf.Let, op: anf.For, one: Iteration) -> dict[anf.Var, Location]:
    """The arrays of which each iteration keeps a copy in a slice of its own, and where that is after the loop."""
    stacks = {}
    uses = count_uses(op.body)
    for inner in op.body.lets:
        if not isinstance(inner.op, anf.Comp):
            continue
        reads = {x.vars[0]: x.op for x in inner.op.body.lets if isinstance(x.op, anf.Read)}
        full = {a.var: extent(a) for a in inner.op.axes}
        for k, (var, d) in enumerate(zip(inner.vars, inner.op.destinations, strict=True)):
            value = inner.op.body.results[k]
            read = reads.get(value) if isinstance(value, anf.Var) else None
            if read is None or not isinstance(d, anf.Reduce) or d.monoid != "set" or d.into not in op.params:
                continue
            state = op.params.index(d.into)
            at = [j for j, e in enumerate(d.index) if one.moves(e)]
            if op.body.results[state] is not var or uses[d.into] != 1 or uses[var] != 1 or len(at) != 1:
                continue
            entry, others = d.index[at[0]], without(d.index, at[0])
            axes = [e.atom for e in others]
            if one.slope((entry,)) == 0 or not one.is_known(entry) or read.index != others or set(axes) != set(full):
                continue
            if len(axes) == len(full) and tuple([full[a] for a in axes if a]) == array_type(read.array).shape:
                stacks[read.array] = Location(let.vars[state], (entry,), at[0])
    return stacks
