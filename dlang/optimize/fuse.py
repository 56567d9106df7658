"""Fusion of comprehensions, in a block at a time: merging those over the same points, and inlining cheap producers.

Merging: comprehensions with equal axes become one with the results of all, if they share an operand or one reads the
other's result at its own point; so chains of elementwise code, reductions of them, and what a forward and a backward
sweep have in common are one pass. Inlining: a result that is only read in comprehensions, each of its elements as often
as it was computed or so cheap that it does not matter, is computed where it is read; so are elements that are read
outside of comprehensions, if nothing else needs the array.

Nothing is computed more often than before, but for a few sums and products. A value that takes the place of a read may
depend on fewer axes than the read did; where something that takes long would then depend on fewer axes than there are
around it, against the law of sharing, nothing is fused. A comprehension that may end the run takes others that may not,
and joins none itself, so checks keep their order; its elements are not computed elsewhere.
`fusion_order.py` has the order of what depends on what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.affine import grows_less
from dlang.ir.comprehension_queries import point_of
from dlang.ir.rewriting import Rewriter
from dlang.ir.sharing import additions, repeated, takes_long
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    map_bodies,
    map_inner,
    mentioned,
    op_blocks,
    parts,
    pruned,
    used_by,
    walk,
    with_lets,
    with_op,
)
from dlang.ir.types import I64, array_type, product
from dlang.ir.writes import own_elements, reads_its_place
from dlang.ops import figures
from dlang.optimize.effects import consumed_by, effectful_functions, is_effectful
from dlang.optimize.fusion_order import Items, bits
from dlang.optimize.producers import Inliner, Producer
from dlang.optimize.structural_hash import Key, Keys


def fuse(program: anf.Program) -> anf.Program:
    """The program with its comprehensions fused."""
    effectful = effectful_functions(program)
    return map_bodies(program, _Fuser(effectful).block)


class _Fuser:
    def __init__(self, effectful: frozenset[str]) -> None:
        self.effectful = effectful

    def block(self, block: anf.Block) -> anf.Block:
        block = map_inner(block, self.block)
        if not any(isinstance(let.op, anf.Comp) for let in block.lets):
            return block
        new = inlined_producers(additions_apart(merged(block, self.effectful)))
        return block if new is block else merged(new, self.effectful)


# ---- comprehensions over the same points -----------------------------------------------------------------------------
def merged(block: anf.Block, effectful: frozenset[str]) -> anf.Block:
    """The block with comprehensions of equal axes merged where that is possible and useful; itself if nowhere."""
    if [type(let.op) for let in block.lets].count(anf.Comp) < 2:
        return block
    items, joined = Items(), False
    alike: dict[Key, int] = {}  # the comprehensions that have the same axes, a bit for each
    near: dict[anf.Var, int] = {}  # those that read or give an array
    merging: dict[int, _Merged] = {}
    seen: dict[anf.Var, anf.Var] = {}  # the array of which a view shows elements
    for let in block.lets:
        op = let.op
        if isinstance(op, anf.View | anf.Reshape):
            seen[let.vars[0]] = seen.get(op.array, op.array)
        effects = is_effectful(op, effectful)
        if not isinstance(op, anf.Comp) or not op.axes or (effects and not let.vars):
            items.append(let, effects)
            continue
        keys = Keys()
        key = tuple([keys.axis(a) for a in op.axes])
        arrays = {v for v in mentioned(op) if isinstance(v.type, anf.Array)}
        # one pass saves something if there is an operand in common, or a result of one is an operand of the other
        sharing = 0
        for v in arrays:
            sharing |= near.get(v, 0)
        for k in () if effects else bits(items.joinable(let, alike.get(key, 0) & sharing, effects)):
            if merging[k].takes(let, op, seen):
                items.join(k, let, effects)
                joined = True
                break
        else:
            k = items.append(let, effects)
            merging[k] = _Merged(let, op)
            alike[key] = alike.get(key, 0) | 1 << k
        for v in (*arrays, *let.vars):
            near[v] = near.get(v, 0) | 1 << k
    if not joined:
        return block
    for k, whole in merging.items():
        items.lets[k] = whole.let()
    return anf.Block(items.ordered(), block.results)


class _Merged:
    """A comprehension that others of equal axes become part of. first: the let that it was.

    places: which of its results is what it binds. read: what its body mentions; consumed: the arrays that it goes on
    from; changed: whether it reads one of them.
    """

    def __init__(self, first: anf.Let, op: anf.Comp) -> None:
        self.first, self.axes = first, op.axes
        self.lets, self.values, self.destinations = list(op.body.lets), list(op.body.results), list(op.destinations)
        self.places = {v: k for k, v in enumerate(first.vars)}
        self.read = set(mentioned(op.body))
        self.consumed = {d.into for d in op.destinations if d.into is not None}
        self.changed = not self.consumed.isdisjoint(self.read)

    def let(self) -> anf.Let:
        if len(self.places) == len(self.first.vars):
            return self.first
        return anf.Let(tuple(self.places), self.op([], [], []), self.first.span)

    def op(self, lets: list[anf.Let], values: list[anf.Atom], destinations: list[anf.Destination]) -> anf.Comp:
        """The comprehension, with more in it."""
        body = anf.Block((*self.lets, *lets), (*self.values, *values))
        return anf.Comp(self.axes, body, (*self.destinations, *destinations))

    def takes(self, second: anf.Let, b: anf.Comp, seen: Mapping[anf.Var, anf.Var]) -> bool:
        """Makes another comprehension a part of it, unless that needs more of this one than its own point.

        seen: the array of which a view shows elements.
        """
        places = self.places
        read = set(mentioned(b.body))
        consumed = {d.into for d in b.destinations if d.into is not None and d.into not in places}
        if self.changed:
            return False
        if any(v in read and v not in places for v in self.consumed):
            return False
        env = dict(zip([x.var for x in b.axes], [x.var for x in self.axes], strict=True))
        reader = PointReader(self.axes, self.values, self.destinations, places, env)
        body = reader.block(b.body)
        if not places.keys().isdisjoint(mentioned(body)):
            return False
        lets, values, destinations = list(body.lets), list[anf.Atom](), list[anf.Destination]()
        for value, d in zip(body.results, b.destinations, strict=True):
            new = renamed(d, reader)
            if new.into in places:
                k = places[new.into]
                base = self.destinations[k]
                if not (isinstance(new, anf.Reduce) and isinstance(base, anf.Reduce) and new.monoid == "sum"):
                    return False
                if base.monoid not in ("sum", "set") or base.index != new.index or isinstance(value.type, anf.Array):
                    return False
                both = anf.fresh("t", value.type)
                lets.append(anf.Let((both,), anf.Prim("add", (self.values[k], value)), second.span))
                value, new = both, base
            elif any(size.mentions(places) for size in (*new.shape, *new.index)):
                return False
            values.append(value)
            destinations.append(new)
        if any(s.mentions(places) for axis in b.axes for s in (*axis.lows, *axis.highs)):
            return False
        if any(takes_long(let.op) for let in b.body.lets):
            used = {v for let in lets for v in used_by(let)} | {v for v in values if isinstance(v, anf.Var)}
            earlier = pruned(self.lets, used)  # what nothing of it needs is as it was
            before = anf.Comp(self.axes, anf.Block(tuple(earlier), tuple(used)), ())
            after = anf.Comp(self.axes, anf.Block((*earlier, *lets), tuple(values)), tuple(destinations))
            if repeated(after) > repeated(before) + repeated(b):
                return False
        if consumed and any(v in self.read or v in read for v, array in seen.items() if array in consumed):
            return False
        changes = not consumed.isdisjoint(self.read | read)
        if changes:  # each point may change what it alone reads
            whole = self.op(lets, values, destinations)
            for k, d in enumerate(whole.destinations):
                if d.into in consumed and not reads_its_place(whole, k):
                    return False
        self.changed = changes
        self.lets += lets
        self.values += values
        self.destinations += destinations
        self.places.update(zip(second.vars, range(len(places), len(self.values))))
        self.read |= read
        self.consumed |= consumed
        return True


def renamed(d: anf.Destination, renaming: Renaming) -> anf.Destination:
    return replace(d, index=tuple(map(renaming.size, d.index)))


class PointReader(Rewriter):
    """Renames a body to the axes of another comprehension, whose results at the same point are known values.

    What mentions such a result afterwards needs more of it than that.
    """

    def __init__(
        self,
        axes: tuple[anf.Axis, ...],
        values: Sequence[anf.Atom],
        destinations: Sequence[anf.Destination],
        results: Mapping[anf.Var, int],
        env: dict[anf.Var, anf.Var],
    ) -> None:
        """axes, values, destinations: of the other comprehension. results: which of its results a variable is."""
        super().__init__(env)
        self.axes, self.values, self.destinations = axes, values, destinations
        self.known = results

    def rule(self, let: anf.Let) -> None:
        op = let.op
        if isinstance(op, anf.Read) and op.array in self.known:
            k = self.known[op.array]
            index = tuple(map(self.size, op.index))
            if index == self.destinations[k].index and self.is_at_its_point(self.destinations[k]):
                self.env[let.vars[0]] = self.values[k]
                return
        super().rule(let)

    def block(self, block: anf.Block) -> anf.Block:
        return block if self.untouched(block, self.known) else super().block(block)

    def is_at_its_point(self, destination: anf.Destination) -> bool:
        """Says whether a result of the other comprehension holds the value of each point."""
        return destination.into is None and own_elements(self.axes, destination) is not None


# ---- sums that join an array -----------------------------------------------------------------------------------------
def additions_apart(block: anf.Block) -> anf.Block:
    """The block in which an array that is added to, point by point, and then read once is a sum of two elements.

    What reads it can then compute it, and it is not changed in memory before.
    """
    if not any(
        isinstance(let.op, anf.Comp) and any(d.into is not None for d in let.op.destinations) for let in block.lets
    ):
        return block
    uses = Uses(block)
    lets = []
    for let in block.lets:
        op = let.op
        if isinstance(op, anf.Comp) and any(d.into is not None for d in op.destinations):
            op = _with_sums(op, let.vars, uses)
        lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def _with_sums(op: anf.Comp, vars: Sequence[anf.Var], uses: Uses) -> anf.Comp:
    lets = list(op.body.lets)
    values = list(op.body.results)
    destinations = list(op.destinations)
    for k, (var, d) in enumerate(zip(vars, op.destinations, strict=True)):
        reads = uses.reads.get(var, [])
        if d.into is None or var in uses.otherwise or uses.rare[var]:
            continue
        if not reads or any(r != reads[0] for r in reads):  # in a merged comprehension one read may stand twice
            continue
        if not reads[0][1]:
            continue  # of one element
        plain = sum_at_point(op.axes, d, values[k]) if read_once(*reads[0]) else None
        if plain is not None:
            more, values[k], destinations[k] = plain
            lets += more
    if len(lets) == len(op.body.lets):
        return op
    return anf.Comp(op.axes, anf.Block(tuple(lets), tuple(values)), tuple(destinations))


def sum_at_point(
    axes: Sequence[anf.Axis], d: anf.Destination, value: anf.Atom
) -> tuple[list[anf.Let], anf.Atom, anf.Reduce] | None:
    """The code at a point, its value and a destination that set the sums of the elements of an array and values.

    They stand for a destination that adds to the array; None if points have not each an element of their own.
    """
    if not isinstance(d, anf.Reduce) or d.into is None or d.monoid != "sum" or own_elements(axes, d) is None:
        return None
    old, both = anf.fresh("t", value.type), anf.fresh("t", value.type)
    lets = [anf.Let((old,), anf.Read(d.into, d.index)), anf.Let((both,), anf.Prim("add", (old, value)))]
    return lets, both, anf.Reduce(d.shape, d.index, "set")


# ---- producers computed where they are read --------------------------------------------------------------------------
def inlined_producers(block: anf.Block, fewer: bool = False) -> anf.Block:
    """The block with the results that are cheaper to compute at their reads computed there.

    fewer: only those that are read at fewer points than they have, as sizes grow.
    """
    uses = Uses(block)
    stored: set[anf.Var] = set()
    while True:
        chosen: dict[anf.Var, tuple[Producer, int]] = {}
        for let in block.lets:
            if isinstance(let.op, anf.Comp):
                producer = Producer(let.op)
                for k, var in enumerate(let.vars):
                    if var in stored or (fewer and not uses.at_fewer_points(var)):
                        continue
                    if uses.inlinable(producer, k, let.vars, chosen):
                        chosen[var] = producer, k
        if not chosen:
            return block
        new = Inliner(chosen).block(block)
        before = {let.vars[0]: let for let in block.lets if let.vars}
        pairs = [(before[let.vars[0]], let) for let in new.lets if let.vars and let.vars[0] in before]
        worse = [old for old, let in pairs if let is not old and repeated(let.op) > repeated(old.op)]
        if not worse:
            lets = [let for let in new.lets if not let.vars or any(v not in chosen for v in let.vars)]
            return anf.Block(tuple(lets), new.results)
        arrays = [let.op.array for let in walk(anf.Block(tuple(worse), ())) if isinstance(let.op, anf.Read)]
        read = [v for v in arrays if v in chosen]
        stored.update([v for v in read if _is_narrow(*chosen[v])] or read)


def _is_narrow(producer: Producer, k: int) -> bool:
    """Says whether the code of an element depends on fewer axes than its place in the array."""
    used = {v for let in producer.code(k) or () for v in used_by(let)} | {producer.op.body.results[k]}
    return not used.issuperset(point_of(producer.op, k) or ())


class Uses:
    """The reads of the arrays of a block, each with the axes that it runs over, those of loops among them.

    rare: how many others there are in arms that hardly ever run, where it does not matter how often light code is
    repeated. otherwise: arrays that are used in another way, or read by a loop itself.
    """

    def __init__(self, block: anf.Block) -> None:
        self.reads: dict[anf.Var, list[tuple[anf.Read, tuple[anf.Axis, ...]]]] = {}
        self.rare: Counter[anf.Var] = Counter()
        self.otherwise: set[anf.Var] = {r for r in block.results if isinstance(r, anf.Var)}
        self.consumed: set[anf.Var] = {v for let in block.lets for v in consumed_by(let.op)}
        for let in block.lets:
            self.let(let, (), in_order=False)

    def let(self, let: anf.Let, axes: tuple[anf.Axis, ...], in_order: bool, rarely: bool = False) -> None:
        """Notes what a let uses.

        in_order: whether a loop does it itself, not a comprehension in its iterations. rarely: whether it hardly ever
        does.
        """
        op = let.op
        p = parts(op)
        if isinstance(op, anf.Read) and not in_order:
            if rarely:
                self.rare[op.array] += 1
            else:
                self.reads.setdefault(op.array, []).append((op, axes))
        else:
            self.otherwise.update([a for a in p.atoms if isinstance(a, anf.Var)])
        match op:
            case anf.Comp():
                axes, in_order = (*axes, *op.axes), False
            case anf.For(index, low, high):
                axes, in_order = (*axes, anf.Axis(index, (low,), (high,))), True
            case anf.While():  # of as many iterations as nothing tells
                iteration, iterations = anf.fresh("iteration", I64), anf.fresh("iterations", I64)
                axes, in_order = (*axes, anf.Axis(iteration, (anf.poly(0),), (anf.poly(iterations),))), True
            case _:
                pass
        cold = op.then if isinstance(op, anf.If) and op.cold else None
        for b in p.blocks:
            self.otherwise.update([r for r in b.results if isinstance(r, anf.Var)])
            for inner in b.lets:
                self.let(inner, axes, in_order, rarely or b is cold)

    def at_fewer_points(self, var: anf.Var) -> bool:
        """Says whether the points at which an array is read grow with a smaller power of sizes than its elements."""
        if self.rare[var]:
            return False
        elements = product(array_type(var).shape) if isinstance(var.type, anf.Array) else anf.poly(1)
        for _, axes in self.reads.get(var, ()):
            if any(axis.lows != (anf.ZERO,) for axis in axes):
                return False
            most = [min(axis.highs, key=lambda high: max(map(len, high.terms), default=0)) for axis in axes]
            if not grows_less(product(most), elements):
                return False
        return True

    def is_used(self, var: anf.Var) -> bool:
        return var in self.reads or var in self.otherwise or self.rare[var] > 0

    def inlinable(self, producer: Producer, k: int, vars: Sequence[anf.Var], chosen: Container[anf.Var]) -> bool:
        """Tells whether a result is better computed at its reads, given those chosen before it.

        vars: what its comprehension binds.
        """
        op, var = producer.op, vars[k]
        reads, rare = self.reads.get(var, []), self.rare[var]
        if not (reads or rare) or var in self.otherwise or point_of(op, k) is None:
            return False
        alone = not any(self.is_used(v) and v not in chosen for v in vars if v is not var)
        single = len(reads) == 1 and not rare and alone
        most = figures.COPIED_TWICE if len(reads) + rare <= 2 else figures.COPIED_CODE
        code = producer.code(k, None if single else most)
        if code is None or not all(map(_is_point, code)):
            return False
        if any(let.op.IS.fails for let in walk(op.body)):  # a check that the result does not need would be gone
            return False
        everything = list(walk(anf.Block(tuple(code), ())))
        used = [let.op.array for let in everything if isinstance(let.op, anf.Read)]
        if any(array in self.consumed for array in used):
            return False
        if any(array in chosen for array in used):
            return single and all(read_once(read, axes) for read, axes in reads)
        count = len([let for let in code if not isinstance(let.op, anf.IndexExpr)])
        inside = {v for let in everything for v in let.vars}
        gathers = any(
            isinstance(o := let.op, anf.Read) and any(i.mentions(inside) for i in o.index) for let in everything
        )
        moves = (
            count <= 1 and all(isinstance(let.op, anf.Read | anf.Cast | anf.IndexExpr) for let in code) and not gathers
        )
        if moves:
            return True
        if not all(read_once(read, axes) for read, axes in reads):
            return False
        cheap = count <= most and not gathers and all(additions(let.op) <= figures.ADDITION for let in code)
        return single or (cheap and len(reads) + rare <= figures.COPIED_CODE)


def _is_point(let: anf.Let) -> bool:
    """Tells whether a let is the code of one point: scalar code, reads, and branches over these."""
    if isinstance(let.op, anf.If):
        return all(_is_point(inner) for arm in op_blocks(let.op) for inner in arm.lets)
    return let.op.IS.point


def read_once(read: anf.Read, axes: Sequence[anf.Axis]) -> bool:
    """Says whether no element is read twice: every axis has an entry for itself, but for axes that others determine."""
    names = {axis.var for axis in axes}
    separate: set[anf.Var] = set()
    while True:
        left = [{a for a in entry.atoms() if a in names and a not in separate} for entry in read.index]
        found = [mine for e, mine in zip(read.index, left, strict=True) if len(mine) == 1 and _multiple(e, *mine)]
        if not found:
            return separate == names
        separate.update(*found)


def _multiple(entry: anf.Size, axis: anf.Var) -> bool:
    return all(axis not in m or len(m) == 1 for m in entry.terms)
