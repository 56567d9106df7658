"""Products that a loop adds up are done at once when it has ended.

    for t { …; w̄ += x[t]ᵀ ȳ; x̄[t] += ȳ wᵀ }        becomes        for t { …; ȳs[t] = ȳ };  w̄ += xsᵀ ȳs;  x̄ += ȳs wᵀ

In each iteration of a recurrent network the gradient of its weights gets a product of what is saved of the iteration
and the cotangent there, and that of its inputs one of the cotangent and the weights. Such products are small, or of
rank one, and each goes over all of the weights. Kept until the end the cotangents take the memory of what is saved, and
one product has as many terms as all of them. Where a slice of an array has them already, that is used.

A sum is taken out of a loop if nothing else in the loop looks at it, if it is recognised as a product, and if some
factor, or the sum, has a part for each iteration already: then memory grows by as much as there is of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.axes import Location, without
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import extent, is_zero, without_results
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
from dlang.optimize.stores import Where, stored


def sink_products(program: anf.Program) -> anf.Program:
    """The program with products in the place of loops that add up products."""
    return map_functions(program, _function)


def _function(function: anf.Function) -> anf.Function:
    sizes = {v for p in function.params for v in type_vars(p.type)}
    return with_body(function, _block(function.body, sizes))


def _block(block: anf.Block, sizes: set[anf.Var]) -> anf.Block:
    lets: list[anf.Let] = []
    zeros: set[anf.Var] = set()
    for let in block.lets:
        op = map_blocks(let.op, lambda inner: _block(inner, sizes))
        let = with_op(let, let.vars, op)
        if isinstance(op, anf.For) and not op.early:
            lets += _loop(let, op, sizes, zeros)
        else:
            lets.append(let)
        if isinstance(op, anf.Comp) and len(let.vars) == 1 and is_zero(op):
            zeros.add(let.vars[0])
    return with_lets(block, lets, block.results)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A state of a loop that a comprehension adds to. code: of the value added. kept: the arrays of an iteration in
    it."""

    state: int
    at: int
    result: int
    code: tuple[anf.Let, ...]
    kept: tuple[anf.Var, ...]


def _loop(let: anf.Let, op: anf.For, sizes: set[anf.Var], zeros: set[anf.Var]) -> list[anf.Let]:
    """The lets in the place of a loop."""
    sums = _Finder(op).sums()
    if not sums:
        return [let]
    b = Builder({}, let.span)
    with b.scope() as before:
        iterations = op.high - op.low
        if iterations.atom is None or iterations.atom not in sizes:
            iterations = anf.poly(b.prim("maximum", b.size(iterations), anf.Lit(0, "i64"), name="iterations"))
    deferred = _Deferred(let, op, iterations, sums, zeros)
    after = deferred.products()
    if after is None:
        return [let]
    loop = deferred.loop()
    return [*before, *deferred.before, loop, *after]


class _Finder:
    """Looks for sums in a loop."""

    def __init__(self, op: anf.For) -> None:
        self.op = op
        self.uses = count_uses(op.body)
        self.one = Iteration.of(op)
        self.home = {v: at for at, let in enumerate(op.body.lets) for v in let.vars}

    def sums(self) -> list[_Sum]:
        sums = []
        for state, (param, result) in enumerate(zip(self.op.params, self.op.body.results, strict=True)):
            if isinstance(param.type, anf.Array) and self.uses.get(param) == 1 and isinstance(result, anf.Var):
                sums += self.sum(state, param, result)
        return sums

    def sum(self, state: int, param: anf.Var, result: anf.Var) -> list[_Sum]:
        at = self.home.get(result)
        if self.uses[result] != 1 or at is None:
            return []
        let = self.op.body.lets[at]
        if not isinstance(let.op, anf.Comp):
            return []
        k = let.vars.index(result)
        d = let.op.destinations[k]
        if isinstance(d, anf.Reduce) and d.monoid == "sum" and d.into is param:
            code = tuple(pruned(let.op.body.lets, [let.op.body.results[k]], d.index))
            kept = self.kept(let.op, code, d)
            if kept is not None:
                return [_Sum(state, at, k, code, kept)]
        return []

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
    """A loop and the products after it."""

    def __init__(
        self, let: anf.Let, op: anf.For, iterations: anf.Size, sums: Sequence[_Sum], zeros: set[anf.Var]
    ) -> None:
        self.let, self.op, self.zeros = let, op, zeros
        self.sums = list(sums)
        self.one = Iteration.of(op)
        self.rows = Rows(self.one, op.low, iterations, any(map(self._falls, sums)))
        self.stacks = _stacks(let, op, self.one)
        self.before: list[anf.Let] = []
        self.arrays: dict[anf.Var, anf.Var] = {}  # what is kept of the iterations, after the loop

    def _falls(self, s: _Sum) -> bool:
        """Tells whether the parts of an array are read backwards: the last iteration reads the first."""
        comp = self.op.body.lets[s.at].op
        assert isinstance(comp, anf.Comp)
        read = [i for let in s.code if isinstance(let.op, anf.Read) for i in let.op.index]
        entries = map(self.one.opened, (*read, *comp.destinations[s.result].index))
        return any(e.terms.get((self.op.index,), 0) < 0 for e in entries)

    def products(self) -> list[anf.Let] | None:
        """The sums over all iterations at once; None if none of them is a product."""
        products = []
        for s in list(self.sums):
            product = self.product(s)
            if product is None:
                self.sums.remove(s)
            else:
                products.append(product)
        return products or None

    def product(self, s: _Sum) -> anf.Let | None:
        comp = self.op.body.lets[s.at].op
        assert isinstance(comp, anf.Comp)
        d = comp.destinations[s.result]
        assert isinstance(d, anf.Reduce)
        start = self.op.init[s.state]
        assert isinstance(start, anf.Var)
        body = anf.Block(s.code, (comp.body.results[s.result],))
        keep = replace(d, into=None if start in self.zeros else start)
        locations = {v: self.stacks.get(v) or Location(self.array(v), (self.rows.row,)) for v in s.kept}
        whole = self.rows.at_once(anf.Comp(comp.axes, body, (keep,)), locations)
        if not is_product(whole):
            return None
        return anf.Let((self.let.vars[s.state],), whole, self.op.body.lets[s.at].span)

    def array(self, var: anf.Var) -> anf.Var:
        if var not in self.arrays:
            assert isinstance(var.type, anf.Array)
            self.arrays[var] = anf.fresh(f"{var.name}s", anf.Array(var.type.dtype, (self.rows.count, *var.type.shape)))
        return self.arrays[var]

    def loop(self) -> anf.Let:
        """The loop without the sums, which keeps what these need."""
        op, gone = self.op, {s.state: s for s in self.sums}
        stay = [k for k in range(len(op.params)) if k not in gone]
        params = [op.params[k] for k in stay]
        init: list[anf.Atom] = [op.init[k] for k in stay]
        results = [op.body.results[k] for k in stay]
        vars = [self.let.vars[k] for k in stay]
        lets = list(op.body.lets)
        for s in sorted(gone.values(), key=lambda s: -s.at):
            result = lets[s.at].vars.index(op.body.results[s.state])
            lets[s.at : s.at + 1] = without_results(lets[s.at], (result,))
        row = self.rows.row
        kept = [v for v in self.arrays if any(v in s.kept for s in self.sums)]
        tapes: list[tuple[anf.Var, anf.Var, Where]] = []
        for v in kept:
            after = self.arrays[v]
            assert isinstance(after.type, anf.Array)
            empty, param = anf.fresh(after.name, after.type), anf.fresh(after.name, after.type)
            self.before.append(anf.Let((empty,), anf.Empty(dtype_of(v), after.type.shape), self.let.span))
            tapes.append((v, param, lambda shape, index: (row, *index)))
            init.append(empty)
            vars.append(after)
        lets, ends = stored(lets, tapes, results)
        params += [param for _, param, _ in tapes]
        results += ends
        new = anf.For(op.index, op.low, op.high, tuple(params), tuple(init), anf.Block(tuple(lets), tuple(results)))
        return anf.Let(tuple(vars), new, self.let.span)


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
