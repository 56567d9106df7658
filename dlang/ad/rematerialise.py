"""Chooses by a minimum cut the values that are cheaper to rematerialise in the backward pass than to save.

A value that the adjoint mentions is saved, or computed again from others that are saved; so of a chain such as
s = 1/2 tanh(z/2) + 1/2 just what `tanh` gave is saved. Computed again are single primitives, views, elements of arrays,
branches among such, and comprehensions of such that give one element for each point. Costs are in quarters of a simple
operation: to write an element and to read it takes two of these and something for its bytes, which go through memory
twice; a division or a root counts for more than one, and what takes a series for more than saving does. Never computed
again are products and other reductions, loops, calls, effects, and sizes of arrays that only the run knows. No check is
made again: what it certifies are the numbers that it was given, so neither `x[i - 1]` where `i > 0` was asked nor
`x[idx[j]]` saves an index. What a comprehension of the adjoint reads more than once, as a product does, is saved too:
such products are then done for all iterations at once (`optimize/sink_products.py`).

An array that is larger by a power of the sizes than all that it is computed of, such as the distances of all pairs of
points, may take more to compute again: else a loop would save as much in each iteration, and not just its state.

It is the same primitive of the same operands, so the value is the same to the bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ad.lasting import Lasting, nominal
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.affine import Knowledge, grows_less
from dlang.ir.comprehension_queries import point_of
from dlang.ir.sharing import is_scalar_code
from dlang.ir.terms import WIDTHS
from dlang.ir.traverse import free_vars, mentioned, parts, pruned, type_vars, used_by, walk
from dlang.ir.types import I64, dtype_of, is_float, product
from dlang.ops import figures
from dlang.ops.primitives import COST
from dlang.polynomials import Poly


@dataclass(frozen=True, slots=True)
class Rematerialiser:
    """Values that are rematerialised instead of saved: their bytes, and the primitives that they take.

    span: of the loop in which that happens in each iteration, or of the function.
    """

    bytes: anf.Size
    operations: anf.Size
    span: Span | None


def bytes_of(type: anf.Type) -> anf.Size:
    """The memory of a value; a node is the word that refers to it."""
    if isinstance(type, anf.Token):
        return Poly({})
    return anf.poly(8 if anf.is_handle(type.dtype) else WIDTHS[type.dtype]) * _elements(type)


def rematerialised(
    block: anf.Block,
    lets: Sequence[anf.Let],
    bound: set[anf.Var],
    seen: list[Rematerialiser],
    span: Span | None,
    alike: Mapping[anf.Var, anf.Var] | None = None,
    in_memory: bool = True,
    followed: bool = False,
    lasting: Lasting | None = None,
    known: Knowledge | None = None,
) -> anf.Block:
    """The block with those of `lets` in front that are better computed again than saved.

    bound: what has to be saved to be there. seen: gets what is computed again. alike: states of a loop, each with its
    value after an iteration: saving both is saving one. in_memory: whether what is saved goes through memory, or stays
    in a register. followed: of a program that someone follows step by step, for whom doing something again is no step.
    lasting: where elements stand when the loops around have ended, by what is known in the block.
    """
    finals = {} if lasting is None or known is None else _finals(lets, lasting, known)
    return _Chooser(lets, bound, alike or {}, in_memory, followed, finals).chosen(block, seen, span)


def _finals(lets: Sequence[anf.Let], lasting: Lasting, known: Knowledge) -> dict[anf.Var, anf.Let]:
    """The values that are elements of an array, are set there, or copy some, and stand in it when the loops around have
    ended."""
    reads: dict[anf.Var, anf.Let] = {}
    kept: set[anf.Var] = set()

    def note(let: anf.Let) -> None:
        axes: Sequence[anf.Axis] = ()
        match let.op:
            case anf.Read(array, index):
                value: anf.Atom = let.vars[0]
            case anf.Update(_, index, value):
                array = let.vars[0]
            case anf.Comp(axes, anf.Block((anf.Let((element,), anf.Read(array, index)),), (result,))) as op:
                if result is not element or point_of(op, 0) is None:
                    return
                value = let.vars[0]
            case _:
                return
        if not isinstance(value, anf.Var) or value in reads:
            return
        read = lasting.element(array, index, known, axes, kept)
        if read is None:
            return
        kept.add(read.array)
        made: anf.Op = read
        if isinstance(let.op, anf.Comp):
            body = let.op.body
            made = replace(let.op, body=replace(body, lets=(anf.Let(body.lets[0].vars, read, let.span),)))
        reads[value] = anf.Let((value,), made, let.span)

    if lasting.finals:
        for let in (*lets, *lets):  # once more, when it is known which arrays are read
            note(let)
    return reads


@dataclass(frozen=True, slots=True)
class _Way:
    """How a value is computed again.

    operations: for each element; cost: for all. operands: those that are not there anyhow.
    """

    let: anf.Let
    operations: int
    cost: int
    operands: tuple[anf.Var, ...]


class _Chooser:
    """Finds what to compute again of some lets."""

    def __init__(
        self,
        lets: Sequence[anf.Let],
        bound: set[anf.Var],
        alike: Mapping[anf.Var, anf.Var],
        in_memory: bool,
        followed: bool,
        finals: Mapping[anf.Var, anf.Let],
    ) -> None:
        self.lets, self.bound, self.alike, self.in_memory, self.followed = lets, bound, alike, in_memory, followed
        self.finals = finals
        self.defined = {v: let for let in lets for v in let.vars if v in bound}
        self.free: dict[anf.Var, bool] = {}
        self.ways: dict[anf.Var, _Way | None] = {}
        self.wanted: list[anf.Var] = []
        self.kept: set[anf.Var] = set()

    def chosen(self, block: anf.Block, seen: list[Rematerialiser], span: Span | None) -> anf.Block:
        used = [v for v in free_vars(block) if v in self.bound]
        free = [v for v in used if self.is_free(v)]
        self.wanted = [v for v in used if not self.free.get(v, False)]
        self.kept = _read_whole(block, _arrays(used))
        again = self.cut()
        recomputed: list[anf.Let] = []
        for let in self.lets:
            if all(self.free.get(v, False) for v in let.vars):
                recomputed += (
                    _unchecked(let)
                    if isinstance(let.op, anf.Assert)
                    else [self.finals.get(v, let) for v in let.vars[:1]]
                )
            else:
                recomputed += [way.let for v in let.vars if v in again and (way := self.ways[v]) is not None]
        if self.finals:
            recomputed = _in_order(recomputed)
        spared = sum_of(bytes_of(v.type) for v in self.wanted if v in again)
        if spared.terms:
            operations = [_elements(v.type) * way.operations for v in again if (way := self.ways[v]) is not None]
            seen.append(Rematerialiser(spared, sum_of(operations), span))
        first = pruned(recomputed, [*free, *again])
        if self.followed:
            first = [replace(let, span=None) for let in first]
        return anf.Block((*first, *block.lets), block.results)

    def is_free(self, v: anf.Var) -> bool:
        """Tells whether a value is integer arithmetic, a view or an element, of operands that are as cheap."""
        if v not in self.defined:
            return v not in self.bound
        if v not in self.free:
            let = self.defined[v]
            self.free |= dict.fromkeys(let.vars, False)
            if v in self.finals:
                self.free[v] = all(self.is_free(a) for a in free_vars(self.finals[v].op) if a.type == I64)
                if self.free[v]:
                    return True
            op = let.op
            whole = isinstance(op, anf.Prim | anf.Cast) and not any(is_float(a.type) for a in (v, *parts(op).atoms))
            there = op.IS.view or isinstance(op, anf.IndexExpr | anf.Read)
            checked = isinstance(op, anf.Assert) and all(a.type == I64 for a in let.vars)
            operands = op.guarded if isinstance(op, anf.Assert) else free_vars(op)
            free = (whole or there or checked) and all(self.is_free(a) for a in operands if isinstance(a, anf.Var))
            self.free |= dict.fromkeys(let.vars, free)
        return self.free[v]

    def cut(self) -> set[anf.Var]:
        """Returns the values to rematerialise in the backward pass."""
        numbers: dict[anf.Var, int] = {}
        work = list(self.wanted)
        while work:
            v = work.pop()
            if v not in numbers:
                numbers[v] = len(numbers)
                way = self.ways[v] = self.way(v)
                work += () if way is None else way.operands
        if all(self.ways[v] is None for v in numbers):
            return set()
        values = []
        for v in numbers:
            way = self.ways[v]
            again, operands = (None, ()) if way is None else (way.cost, tuple([numbers[a] for a in way.operands]))
            values.append(Value(self.saving(v), again, operands))
        _, chosen = minimum_cut(values, [numbers[v] for v in self.wanted])
        return {v for v, k in numbers.items() if k in chosen}

    def saving(self, v: anf.Var) -> int:
        """Returns the cost to save a value."""
        elements = nominal(_elements(v.type))
        for before, after in self.alike.items():
            if (v is after and before in self.wanted) or (v is before and after in self.wanted and not self.way(after)):
                return elements * figures.RECOMPUTED  # it is in the tape already
        width = WIDTHS.get(dtype_of(v), 8)
        memory = 0 if not self.in_memory else 2 * width if isinstance(v.type, anf.Array) else width
        return elements * (2 * figures.RECOMPUTED + memory) * (figures.OUTGROWN if self.outgrows(v) else 1)

    def outgrows(self, v: anf.Var) -> bool:
        """Tells whether an array is larger by a power of the sizes than all arrays together that it is computed of."""
        if not isinstance(v.type, anf.Array) or v not in self.defined:
            return False
        arrays = [a for a in used_by(self.defined[v]) if isinstance(a.type, anf.Array)]
        return bool(arrays) and grows_less(sum_of(_elements(a.type) for a in arrays), _elements(v.type))

    def way(self, v: anf.Var) -> _Way | None:
        """How to compute a value again; None if that is not possible, or costs no less than to save it."""
        if v not in self.defined or isinstance(v.type, anf.Token) or (v in self.kept and not self.outgrows(v)):
            return None
        let = self.defined[v]
        if (
            v.type == I64 or dtype_of(v) == "str" or anf.is_handle(dtype_of(v))
        ):  # the types of arrays mention saved sizes
            return None
        body: Sequence[anf.Let] = [let]
        match let.op:
            case anf.Prim() | anf.Cast() | anf.Read():
                pass
            case op if op.IS.view:
                pass
            case anf.Comp() if point_of(let.op, k := let.vars.index(v)) is not None:
                value = let.op.body.results[k]
                body = pruned(let.op.body.lets, [value])
                let = anf.Let(
                    (v,), anf.Comp(let.op.axes, anf.Block(tuple(body), (value,)), (let.op.destinations[k],)), let.span
                )
            case _:
                return None
        operands = [a for a in (*used_by(let), *type_vars(v.type)) if a in self.bound and not self.is_free(a)]
        costs = [_cost(inner.op, operands) for inner in body]
        cost = nominal(_elements(v.type)) * sum([c for c in costs if c is not None])
        if None in costs or cost >= self.saving(v):
            return None
        return _Way(let, sum(isinstance(inner.op, anf.Prim | anf.Cast) for inner in body), cost, tuple(operands))


def _unchecked(let: anf.Let) -> list[anf.Let]:
    """Gives the lets of what a check certifies, without the check, which the forward pass has made."""
    assert isinstance(let.op, anf.Assert)
    numbers = zip(let.vars, let.op.guarded, strict=True)
    return [anf.Let((v,), anf.IndexExpr(anf.poly(number)), let.span) for v, number in numbers]


def _in_order(lets: Sequence[anf.Let]) -> list[anf.Let]:
    """The lets, each after those that it mentions: where an element was set may be computed after the element."""
    makers = {v: let for let in lets for v in let.vars}
    out: dict[anf.Var, anf.Let] = {}

    def go(let: anf.Let) -> None:
        if let.vars[0] not in out:
            for v in (*used_by(let), *(size for made_var in let.vars for size in type_vars(made_var.type))):
                if v in makers and makers[v] is not let:
                    go(makers[v])
            out[let.vars[0]] = let

    for let in lets:
        go(let)
    return list(out.values())


def _cost(op: anf.Op, saved: Sequence[anf.Var]) -> int | None:
    """The cost of one operation; None if it is not computed again. saved: arrays that are read in any case."""
    match op:
        case anf.IndexExpr():
            return 0
        case _ if op.IS.view:
            return 0
        case anf.Read():
            return 1 if op.array in saved else figures.RECOMPUTED
        case anf.Cast():
            return figures.RECOMPUTED
        case anf.Prim(name) if COST[name] <= figures.ROUNDING:
            return figures.RECOMPUTED
        case anf.Prim(name) if COST[name] <= figures.REMAINDER:
            return figures.RECOMPUTED_DIVISION
        case anf.If(_, then, otherwise) if is_scalar_code(op):
            arms = [[_cost(let.op, saved) for let in arm.lets] for arm in (then, otherwise)]
            known = [sum([c for c in arm if c is not None]) for arm in arms if None not in arm]
            return figures.RECOMPUTED + max(known) if len(known) == len(arms) else None
        case _:
            return None


def sum_of(sizes: Iterable[anf.Size]) -> anf.Size:
    out: anf.Size = Poly({})
    for size in sizes:
        out = out + size
    return out


def _elements(type: anf.Type) -> anf.Size:
    return product(type.shape if isinstance(type, anf.Array) else ())


def _read_whole(block: anf.Block, arrays: set[anf.Var]) -> set[anf.Var]:
    """Finds those of some arrays that a block uses otherwise than each element once: by a product, a loop, a call."""
    whole: set[anf.Var] = set()
    _whole(block, None, arrays, whole)
    return whole & arrays


def _whole(block: anf.Block, axes: set[anf.Var] | None, arrays: set[anf.Var], whole: set[anf.Var]) -> None:
    if arrays.isdisjoint(mentioned(block)):
        return
    whole |= _arrays(block.results)
    for let in block.lets:
        op = let.op
        match op:
            case anf.Read() if axes is None or axes <= {a for entry in op.index for a in entry.atoms()}:
                pass
            case anf.Comp() | anf.If():
                inner = (axes or set()) | {a.var for a in op.axes} if isinstance(op, anf.Comp) else axes
                p = parts(op)
                whole |= _arrays(p.atoms)
                for nested in p.blocks:
                    _whole(nested, inner, arrays, whole)
            case _:
                whole |= _arrays(free_vars(op))


def _arrays(atoms: Iterable[anf.Atom]) -> set[anf.Var]:
    return {a for a in atoms if isinstance(a, anf.Var) and isinstance(a.type, anf.Array)}


# ---- the minimum cut -------------------------------------------------------------------------------------------------
# Decides by a minimum cut which values to save and which to rematerialise.
#
# Each value costs something to save, and something to compute again from its operands, which then have to be there. The
# cheapest way to have the values that are wanted is a minimum cut of a graph in which every value is two nodes: it is
# wanted if `out` is on the side of the sink, and computed again if `in` is, too.
#
# source → in: what it costs to compute        in → out: what it costs to save        out → in of what it is used for
#
# The partitioners of PyTorch (He and Yuan: Transcending runtime-memory tradeoffs in checkpointing by being fusion
# aware, 2023) and Enzyme (Moses and others: Reverse-mode automatic differentiation and optimization of GPU kernels via
# Enzyme, 2021) cut with the costs of saving alone; here computing has its price, so that there are no rules beside it.
# The flow is found by Dinic's algorithm (Algorithm for solution of a problem of maximum flow in a network with power
# estimation, 1970): the graphs are of the values of one loop body.


@dataclass(frozen=True, slots=True)
class Value:
    """save: the cost of saving it; again: of computing it once more, None where that is not possible.

    operands: the positions of the values that it is computed from.
    """

    save: int
    again: int | None
    operands: tuple[int, ...] = ()


def minimum_cut(values: Sequence[Value], wanted: Sequence[int]) -> tuple[set[int], set[int]]:
    """The positions of the values to save, and of those to compute again, so that those wanted are there.

    Costs are not negative. Of several cuts with the same cost the one that computes least.
    """
    n = len(values)
    source, sink = 2 * n, 2 * n + 1
    without_end = 1 + sum(v.save + (v.again or 0) for v in values)
    flow = _Flow(2 * n + 2)
    for k, v in enumerate(values):
        flow.edge(2 * k, 2 * k + 1, v.save)
        flow.edge(source, 2 * k, without_end if v.again is None else v.again)
        for operand in v.operands if v.again is not None else ():
            flow.edge(2 * operand + 1, 2 * k, without_end)
    for k in set(wanted):
        flow.edge(2 * k + 1, sink, without_end)
    flow.fill(source, sink)
    needed = flow.before(sink)
    again = {k for k in range(n) if 2 * k in needed}
    return {k for k in range(n) if 2 * k + 1 in needed} - again, again


class _Flow:
    """A network; edges 2k and 2k + 1 are one edge and its reverse, with what may still flow through each."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(nodes)]  # of each node, those that leave it
        self.to: list[int] = []
        self.room: list[int] = []

    def edge(self, start: int, end: int, capacity: int) -> None:
        self.edges[start].append(len(self.to))
        self.edges[end].append(len(self.to) + 1)
        self.to += (end, start)
        self.room += (capacity, 0)

    def fill(self, source: int, sink: int) -> None:
        """Sends as much as there is room for."""
        while sink in (level := self._levels(source)):
            following = [0] * len(self.edges)  # of each node, the edge to try next
            while path := self._path(source, sink, level, following):
                amount = min(self.room[e] for e in path)
                for e in path:
                    self.room[e] -= amount
                    self.room[e ^ 1] += amount

    def _levels(self, source: int) -> dict[int, int]:
        """How far each node is from the source, along edges with room."""
        level = {source: 0}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for e in self.edges[node]:
                if self.room[e] and self.to[e] not in level:
                    level[self.to[e]] = level[node] + 1
                    queue.append(self.to[e])
        return level

    def _path(self, source: int, sink: int, level: dict[int, int], following: list[int]) -> list[int]:
        """The edges of a shortest path with room, none if there is none left."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self.edges[node]
            while following[node] < len(edges):
                e = edges[following[node]]
                if self.room[e] and level.get(self.to[e]) == level[node] + 1:
                    break
                following[node] += 1
            else:
                if not path:
                    return []
                node = self.to[path.pop() ^ 1]
                following[node] += 1
                continue
            path.append(e)
            node = self.to[e]
        return path

    def before(self, sink: int) -> set[int]:
        """The nodes from which something could still flow to the sink."""
        reached = {sink}
        work = [sink]
        while work:
            for e in self.edges[work.pop()]:
                if self.room[e ^ 1] and self.to[e] not in reached:
                    reached.add(self.to[e])
                    work.append(self.to[e])
        return reached


# ---- arrays that cost little -----------------------------------------------------------------------------------------
# Arrays that cost less to make than to save: what an adjoint needs of them is saved element by element.
#
# In a loop, an arm or a recursion, an array that is changed in place, chosen, or handed on takes one operation however
# long it is. So the adjoint may not have it whole: it would be saved in every iteration.


def fleeting(block: anf.Block, params: Sequence[anf.Var]) -> frozenset[anf.Var]:
    """The arrays of a block and of the blocks in it that are made in less time than they have elements.

    params: what the block is given anew each time that it runs.
    """
    arrays = {p for p in params if isinstance(p.type, anf.Array)}
    for let in walk(block):
        op = let.op
        match op:
            case anf.If() | anf.Update() | anf.Assert() | anf.Call() | anf.Fields() | anf.Empty():
                bound = let.vars
            case _ if op.IS.view:
                bound = let.vars
            case anf.For() | anf.While():
                bound = (*op.params, *let.vars)
            case anf.Comp():
                bound = tuple([v for v, d in zip(let.vars, op.destinations, strict=True) if d.into is not None])
            case _:
                continue
        arrays.update(v for v in bound if isinstance(v.type, anf.Array))
    return frozenset(arrays)
