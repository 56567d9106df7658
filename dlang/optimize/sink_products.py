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
from dataclasses import dataclass

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import extent, is_zero, sizes_named, slope, without_results
from dlang.ir.pruning import pruned
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import count_uses, map_blocks, map_functions, type_vars, with_body, with_lets, with_op
from dlang.ir.types import I64, dtype_of
from dlang.optimize.contractions import is_product
from dlang.optimize.stores import Where, stored
from dlang.polynomials import Poly


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
    found = _Finder(op).sums()
    if not found:
        return [let]
    b = Builder({}, let.span)
    with b.scope() as before:
        iterations = op.high - op.low
        if iterations.atom is None or iterations.atom not in sizes:
            iterations = anf.poly(b.prim("maximum", b.size(iterations), anf.Lit(0, "i64"), name="iterations"))
    made = _Deferred(let, op, iterations, found, zeros)
    after = made.products()
    if after is None:
        return [let]
    loop = made.loop()
    return [*before, *made.before, loop, *after]


class _Finder:
    """Looks for sums in a loop."""

    def __init__(self, op: anf.For) -> None:
        self.op = op
        self.uses = count_uses(op.body)
        self.inside = {op.index, *op.params} | {v for let in op.body.lets for v in let.vars}
        self.fixed = {v: let.op.size for let in op.body.lets for v in let.vars if isinstance(let.op, anf.IndexExpr)}
        self.home = {v: at for at, let in enumerate(op.body.lets) for v in let.vars}

    def sums(self) -> list[_Sum]:
        found = []
        for state, (param, result) in enumerate(zip(self.op.params, self.op.body.results, strict=True)):
            if isinstance(param.type, anf.Array) and self.uses.get(param) == 1 and isinstance(result, anf.Var):
                found += self.sum(state, param, result)
        return found

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
        names = {a.var for a in op.axes} | {v for let in code for v in let.vars}
        found: dict[anf.Var, None] = {}
        growing = False
        axis_sizes = [s for a in op.axes for s in (*a.lows, *a.highs)]
        if not all(self.is_outside(s, names) for s in (*axis_sizes, *d.shape)):
            return None
        for entry in d.index:
            if not self.is_outside(entry, names, {self.op.index}):
                return None
            growing |= slope(self.opened(entry), self.op.index) in (1, -1)  # a slice for each iteration
        for let in code:
            match let.op:
                case anf.Read(array, index):
                    if not all(self.is_outside(i, names, {self.op.index}) for i in index):
                        return None
                    if array not in self.inside:
                        growing |= any(self.opened(i).mentions((self.op.index,)) for i in index)
                    elif self.op.index in {v for i in index for v in self.opened(i).atoms()}:
                        return None
                    else:
                        assert isinstance(array.type, anf.Array)
                        if array in self.op.params or not all(self.is_outside(s, set()) for s in array.type.shape):
                            return None
                        found[array] = None
                case anf.Prim() | anf.Cast():
                    pass
                case _:
                    return None
            atoms = (
                let.op.args if isinstance(let.op, anf.Prim) else (let.op.arg,) if isinstance(let.op, anf.Cast) else ()
            )
            if any(a in self.inside for a in atoms if isinstance(a, anf.Var)):
                return None
        return tuple(found) if growing and found else None

    def opened(self, size: anf.Size) -> anf.Size:
        return size.substitute(self.fixed.get)

    def is_outside(self, size: anf.Size, names: set[anf.Var], also: set[anf.Var] | None = None) -> bool:
        """Tells whether a size mentions nothing of an iteration but `names`, and `also`."""
        return not any(a in self.inside and a not in names and a not in (also or ()) for a in self.opened(size).atoms())


class _Deferred:
    """A loop and the products after it."""

    def __init__(
        self, let: anf.Let, op: anf.For, iterations: anf.Size, sums: Sequence[_Sum], zeros: set[anf.Var]
    ) -> None:
        self.let, self.op, self.iterations, self.zeros = let, op, iterations, zeros
        self.sums = list(sums)
        self.fixed = sizes_named(op.body)
        self.stacks = _stacks(let, op)
        self.before: list[anf.Let] = []
        self.arrays: dict[anf.Var, anf.Var] = {}  # what is kept of the iterations, after the loop
        self.backwards = any(self._falls(s) for s in sums)

    def _falls(self, s: _Sum) -> bool:
        """Tells whether the parts of an array are read backwards: the last iteration reads the first."""
        comp = self.op.body.lets[s.at].op
        assert isinstance(comp, anf.Comp)
        read = [i for let in s.code if isinstance(let.op, anf.Read) for i in let.op.index]
        entries = [i.substitute(self.fixed.get) for i in (*read, *comp.destinations[s.result].index)]
        return any(e.terms.get((self.op.index,), 0) < 0 for e in entries)

    def row(self, index: anf.Size) -> anf.Size:
        """Returns the row of an iteration's part, in the order of what it is multiplied with."""
        at = index - self.op.low
        return self.iterations - 1 - at if self.backwards else at

    def products(self) -> list[anf.Let] | None:
        """The sums over all iterations at once; None if none of them is a product."""
        made = []
        for s in list(self.sums):
            product = self.product(s)
            if product is None:
                self.sums.remove(s)
            else:
                made.append(product)
        return made or None

    def product(self, s: _Sum) -> anf.Let | None:
        comp = self.op.body.lets[s.at].op
        assert isinstance(comp, anf.Comp)
        d = comp.destinations[s.result]
        assert isinstance(d, anf.Reduce)
        t = anf.fresh(self.op.index.name, I64)
        iteration = self.op.low + (self.iterations - 1 - anf.poly(t) if self.backwards else anf.poly(t))
        renaming = Renaming({self.op.index: iteration}, renew=True)
        axes = [anf.Axis(t, (Poly({}),), (self.iterations,))]
        for a in comp.axes:
            lows, highs = tuple(map(renaming.size, a.lows)), tuple(map(renaming.size, a.highs))
            axes.append(anf.Axis(renaming.bind(a.var), lows, highs))
        lets = []
        for let in s.code:
            op = let.op
            if isinstance(op, anf.Read):
                index = tuple([renaming.size(i.substitute(self.fixed.get)) for i in op.index])
                op = (
                    self.kept(op.array, index, anf.poly(t), iteration)
                    if op.array in s.kept
                    else anf.Read(op.array, index)
                )
            else:
                op = renaming.op(op)
            lets.append(anf.Let(tuple([renaming.bind(v) for v in let.vars]), op, let.span))
        value = renaming.atom(comp.body.results[s.result])
        start = self.op.init[s.state]
        assert isinstance(start, anf.Var)
        place = tuple([renaming.size(i.substitute(self.fixed.get)) for i in d.index])
        keep = anf.Reduce(d.shape, place, "sum", None if start in self.zeros else start)
        whole = anf.Comp(tuple(axes), anf.Block(tuple(lets), (value,)), (keep,))
        if not is_product(whole):
            return None
        return anf.Let((self.let.vars[s.state],), whole, self.op.body.lets[s.at].span)

    def kept(self, var: anf.Var, index: tuple[anf.Size, ...], row: anf.Size, iteration: anf.Size) -> anf.Read:
        """The read, after the loop, of what an array was in an iteration."""
        if var not in self.stacks:
            return anf.Read(self.array(var), (row, *index))
        stack, at, entry = self.stacks[var]
        return anf.Read(stack, (*index[:at], entry.substitute({self.op.index: iteration}.get), *index[at:]))

    def array(self, var: anf.Var) -> anf.Var:
        if var not in self.arrays:
            assert isinstance(var.type, anf.Array)
            self.arrays[var] = anf.fresh(f"{var.name}s", anf.Array(var.type.dtype, (self.iterations, *var.type.shape)))
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
        row = self.row(anf.poly(op.index))
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


def _stacks(let: anf.Let, op: anf.For) -> dict[anf.Var, tuple[anf.Var, int, anf.Size]]:
    """The arrays of which each iteration keeps a copy in a slice of its own: where, along which axis, at which
    entry."""
    found = {}
    uses = count_uses(op.body)
    fixed = sizes_named(op.body)
    inside = {*op.params} | {v for let in op.body.lets for v in let.vars}
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
            at = [j for j, e in enumerate(d.index) if e.substitute(fixed.get).mentions((op.index,))]
            if op.body.results[state] is not var or uses[d.into] != 1 or uses[var] != 1 or len(at) != 1:
                continue
            entry = d.index[at[0]].substitute(fixed.get)
            rest = tuple([e for j, e in enumerate(d.index) if j != at[0]])
            axes = [e.atom for e in rest]
            if slope(entry, op.index) == 0 or entry.mentions(inside) or read.index != rest or set(axes) != set(full):
                continue
            assert isinstance(read.array.type, anf.Array)
            if len(axes) == len(full) and tuple([full[a] for a in axes if a]) == read.array.type.shape:
                found[read.array] = let.vars[state], at[0], entry
    return found
