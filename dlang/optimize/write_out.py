"""Axes of few known values, written out: the code of a comprehension at each of them, one after another.

An array whose every use is of elements at known places along such axes is taken apart: it is its elements, or arrays
along what other axes it has. So is a small array that is changed element by element, comes out of a branch, or is the
state of a loop. `short_axes.py` and `unroll.py` say which comprehensions are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from dlang.ir import anf
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import substitute
from dlang.ir.traverse import block_mentions, mentioned, op_blocks, parts, with_lets, with_op
from dlang.ir.types import BOOL, I64, array_type, dtype_of, type_of
from dlang.ops import figures
from dlang.ops.monoids import COMBINE, MONOIDS, STAYS
from dlang.optimize.algebra import evaluated
from dlang.optimize.lifting import zero

Place = tuple[int, ...]
Best = dict[Place, tuple[int, anf.Atom]]
"""At each place the last position that was looked at, and the extreme value so far."""


@dataclass(frozen=True, slots=True)
class Short:
    """The axes along which an operation is written out, and of each of its results the dimensions along them.

    What is no comprehension has no axes: all dimensions of the small arrays that it gives are known. A result that is
    a large array, of which elements are changed, has no dimensions, and each change becomes an update (`stores`).
    """

    axes: tuple[anf.Axis, ...]
    dimensions: tuple[tuple[int, ...], ...]

    def points(self) -> Iterator[dict[anf.Var, anf.Lit]]:
        """The axes at each of their points, in order."""
        for point in product(*[values(axis) or () for axis in self.axes]):
            yield {axis.var: anf.Lit(value, "i64") for axis, value in zip(self.axes, point, strict=True)}


Chosen = Mapping[tuple[anf.Var, ...], Short]
"""The operations to write out, by what they bind; and the state of a loop, of one variable each."""


@dataclass(frozen=True, slots=True)
class Around:
    """The uses that a block has around it.

    whole: what is used as a whole. state: small arrays that may be the elements of a loop's state, each with what it is
    in the next iteration. beside: other blocks that use these.
    """

    whole: tuple[anf.Atom, ...] = ()
    state: Mapping[anf.Var, anf.Atom] = field(default_factory=dict)
    beside: tuple[anf.Block, ...] = ()


# ---- questions -------------------------------------------------------------------------------------------------------
def values(axis: anf.Axis) -> range | None:
    """The values of an axis, where they are few and known."""
    if len(axis.lows) != 1 or len(axis.highs) != 1:
        return None
    low, high = axis.lows[0].constant, axis.highs[0].constant
    if low is None or high is None or not 0 < high - low <= figures.WRITTEN_OUT_AXIS:
        return None
    return range(int(low), int(high))


def are_few(axes: Sequence[anf.Axis], code: int = 0) -> bool:
    """Tells whether code of so many operations may be written out at each point of some axes."""
    points = prod([len(values(axis) or ()) for axis in axes])
    return 0 < points <= figures.WRITTEN_OUT_POINTS and points * code <= figures.WRITTEN_OUT


def is_choice(d: anf.Destination) -> bool:
    """Tells whether a result is one of the values of the points."""
    return isinstance(d, anf.Reduce) and MONOIDS[d.monoid].derivative == "choice"


def adds_products(op: anf.Comp, axes: Sequence[anf.Axis]) -> bool:
    """Tells whether a result is a sum of products over one of some axes; squares are no products of two matrices."""
    code = [(let.vars[0], let.op) for let in op.body.lets if isinstance(let.op, anf.Prim)]
    products = {v for v, prim in code if prim.name == "mul" and prim.args[0] is not prim.args[1]}
    return any(
        value in products and any(not mentions(d.index, axis.var) for axis in axes)
        for value, d in zip(op.body.results, op.destinations, strict=True)
    )


def mentions(index: Sequence[anf.Size], var: anf.Var) -> bool:
    """Tells whether an index has an entry that mentions a variable."""
    return any(entry.mentions((var,)) for entry in index)


# ---- what can be written out -----------------------------------------------------------------------------------------
def written(block: anf.Block, candidates: Chosen, around: Around) -> Writer | None:
    """The writer that has gone through a block, if it has written out some of the candidates; None if not."""
    if not candidates and not around.state:
        return None
    chosen = _of_use(block, _apart(block, {**candidates, **_by_elements(block)}, around), around)
    if not any(vars in candidates or vars[0] in around.state for vars in chosen):
        return None  # elements of what is only filled are known where they are read
    writer = Writer(chosen)
    writer.open(around.state)
    for let in block.lets:
        writer.rule(let)
    return writer


def places(type: anf.Type) -> list[Place]:
    """The places of the elements of a small array of numbers; none of anything else."""
    if not isinstance(type, anf.Array) or type.dtype in anf.HALF or anf.is_reference(type.dtype):
        return []
    sizes = [s.constant for s in type.shape]
    if None in sizes or not 0 < prod([int(s or 0) for s in sizes]) <= figures.STATE_IN_NUMBERS:
        return []
    return _all_places(type)


def _all_places(type: anf.Array) -> list[Place]:
    """The places of the elements of an array of known sizes, in order."""
    return list(product(*[range(int(s.constant or 0)) for s in type.shape]))


def _by_elements(block: anf.Block) -> dict[tuple[anf.Var, ...], Short]:
    """The operations of a block, and of the arms in it, that give small arrays and are no comprehensions."""
    out: dict[tuple[anf.Var, ...], Short] = {}
    for let in with_arms(block):
        match let.op:
            case anf.Empty() | anf.If():
                pass
            case anf.Update(index=index) if all(entry.constant is not None for entry in index):
                pass
            case anf.Concat(arrays) if all(places(a.type) for a in arrays):
                pass
            case _:
                continue
        if any(dimensions := tuple([_all_dimensions(v) if places(v.type) else () for v in let.vars])):
            out[let.vars] = Short((), dimensions)
    return out


def with_arms(block: anf.Block) -> list[anf.Let]:
    """The lets of a block and of the arms of branches in it, in order."""
    lets: list[anf.Let] = []
    for let in block.lets:
        if isinstance(let.op, anf.If):
            lets += with_arms(let.op.then)
            lets += with_arms(let.op.otherwise)
        lets.append(let)
    return lets


def _all_dimensions(var: anf.Var) -> tuple[int, ...]:
    return tuple(range(len(var.type.shape))) if isinstance(var.type, anf.Array) else ()


def _apart(block: anf.Block, candidates: Chosen, around: Around) -> dict[tuple[anf.Var, ...], Short]:
    """The operations to write out: all that is made of what they bind is known to be apart, too.

    None if that is not known after some rounds, each of which refuses what the one before shows to be used as a whole.
    """
    left = dict(candidates) | {(v,): Short((), (_all_dimensions(v),)) for v in around.state}
    changes = [change for part in (block, *around.beside) for change in _changes(part, left)]
    for _ in range(figures.ROUNDS_OF_REFUSALS):
        apart: dict[anf.Atom, tuple[int, ...]] = {
            v: d for vars, short in left.items() for v, d in zip(vars, short.dimensions, strict=True) if d
        }
        wrong = {a for a in around.whole if a in apart}
        wrong.update([a for v, a in around.state.items() if a in apart and apart[a] != apart.get(v)])
        for used in (block, *around.beside):
            _used_whole(used, apart, left, frozenset(), wrong)
        for vars, before in changes:
            if vars not in left:
                continue
            if before in apart and before not in wrong:
                one_form = apart[before] in left[vars].dimensions
            else:
                one_form = bool(places(before.type))  # whose elements are read
            if not one_form:
                wrong.update(vars)
        # what is changed in place stays whole
        for vars, before in reversed(changes):
            if before in apart and (vars not in left or not wrong.isdisjoint(vars)):
                wrong.add(before)
        bad = [vars for vars in left if not wrong.isdisjoint(vars)]
        if not bad:
            return left
        for vars in bad:
            del left[vars]
    return {}


def stores(d: anf.Destination, dimensions: tuple[int, ...]) -> bool:
    """Tells whether a result is a large array of which elements are changed."""
    return d.into is not None and not dimensions


def _of_use(block: anf.Block, chosen: Chosen, around: Around) -> Chosen:
    """The chosen operations, but those that only change large arrays just where they read what is taken apart."""
    gone = {v for vars, short in chosen.items() for v, d in zip(vars, short.dimensions, strict=True) if d}
    out = dict(chosen)
    for let in (let for part in (block, *around.beside) for let in with_arms(part)):
        short = chosen.get(let.vars)
        if short is None or not short.axes or not isinstance(let.op, anf.Comp):
            continue
        if not all(map(stores, let.op.destinations, short.dimensions)):
            continue
        if gone.isdisjoint(mentioned(let.op)):
            del out[let.vars]
    return out


def _changes(block: anf.Block, chosen: Chosen) -> Iterator[tuple[tuple[anf.Var, ...], anf.Var]]:
    """The chosen lets of a block that change an array, each with that array, in order."""
    for let in with_arms(block):
        match let.op:
            case anf.Update(array) if let.vars in chosen:
                yield let.vars, array
            case anf.Comp(destinations=destinations) if let.vars in chosen:
                known = zip(destinations, chosen[let.vars].dimensions, strict=True)
                yield from [(let.vars, d.into) for d, k in known if d.into is not None and not stores(d, k)]
            case _:
                pass


def _used_whole(
    block: anf.Block,
    apart: Mapping[anf.Atom, tuple[int, ...]],
    chosen: Chosen,
    known: frozenset[anf.Var],
    whole: set[anf.Atom],
) -> None:
    """Finds the arrays that are used otherwise than by elements at known places. known: axes that are written out."""
    for let in block.lets:
        op = let.op
        if isinstance(op, anf.Read) and op.array in apart:
            if not all(known.issuperset(op.index[k].atoms()) for k in apart[op.array]):
                whole.add(op.array)
            continue
        short = chosen.get(let.vars)
        if short is None:
            whole.update([a for a in parts(op).atoms if a in apart])
        elif isinstance(op, anf.Comp):
            changed = zip(op.destinations, short.dimensions, strict=True)
            whole.update([d.into for d, k in changed if d.into is not None and stores(d, k) and d.into in apart])
        inside = known if short is None else known.union([a.var for a in short.axes])
        for inner in op_blocks(op):
            if short is None or not isinstance(op, anf.If):
                whole.update([r for r in inner.results if r in apart])
            else:
                whole.update([r for r, d in zip(inner.results, short.dimensions, strict=True) if apart.get(r, d) != d])
            if not apart.keys().isdisjoint(block_mentions(inner)[0]):
                _used_whole(inner, apart, chosen, inside, whole)


# ---- writing ---------------------------------------------------------------------------------------------------------
class Writer(Rewriter):
    """A walk that writes out what is chosen. apart: the parts of each array that is gone, and along which dimensions.

    A part is a scalar, or an array of what is left of the shape.
    """

    def __init__(self, chosen: Chosen) -> None:
        super().__init__()
        self.chosen = chosen
        self.apart: dict[anf.Var, tuple[tuple[int, ...], Mapping[Place, anf.Atom]]] = {}

    def open(self, state: Mapping[anf.Var, anf.Atom]) -> None:
        """Begins with the numbers that are the chosen arrays of a loop's state."""
        for var in state:
            if (short := self.chosen.get((var,))) is not None:
                (dimensions,) = short.dimensions
                self.apart[var] = dimensions, {**_numbers(var)}

    def block(self, block: anf.Block) -> anf.Block:
        return block if self.untouched(block, self.apart) else super().block(block)

    def elements(self, array: anf.Atom) -> dict[Place, anf.Atom]:
        """The elements of a small array, in order: its parts, 0 where nothing is set, or what is read of it."""
        if isinstance(array, anf.Var) and array in self.apart:
            parts_of = self.apart[array][1]
            unset = zero(array)
            return {place: parts_of.get(place, unset) for place in _all_places(array_type(array))}
        source = self.atom(array)
        assert isinstance(source, anf.Var)
        scalar = anf.Scalar(dtype_of(source))
        view = self.definition(source)
        reads: dict[Place, anf.Read] = {}
        for place in places(source.type):
            index = tuple(map(anf.poly, place))
            if isinstance(view, anf.View):
                at = dict(zip(view.axes, index, strict=True))
                reads[place] = anf.Read(view.array, tuple([substitute(entry, at) for entry in view.index]))
            else:
                reads[place] = anf.Read(source, index)
        return {place: self.emit(read, scalar) for place, read in reads.items()}

    def known(self, array: anf.Var) -> Mapping[Place, anf.Atom]:
        """The parts of an array that is gone, or the elements of a small one."""
        return self.apart[array][1] if array in self.apart else self.elements(array)

    def rule(self, let: anf.Let) -> None:
        short = self.chosen.get(let.vars)
        match let.op:
            case anf.If() as branch:
                self.branch(let, branch, ((),) * len(let.vars) if short is None else short.dimensions)
                return
            case anf.Comp() as comp if short is not None:
                self.comprehension(let, comp, short)
                return
            case anf.Empty() if short is not None:
                self.apart[let.vars[0]] = short.dimensions[0], {}
                return
            case anf.Update(array, index, value) if short is not None:
                place = tuple([int(entry.constant or 0) for entry in index])
                self.apart[let.vars[0]] = short.dimensions[0], {**self.known(array), place: self.atom(value)}
                return
            case anf.Concat(arrays) if short is not None:
                rows = [row for a in arrays for row in _rows(self.elements(a))]
                elements = {(k, *place): atom for k, row in enumerate(rows) for place, atom in row.items()}
                self.apart[let.vars[0]] = short.dimensions[0], elements
                return
            case _:
                pass
        op = self.op(let.op)
        known = evaluated(op)
        if isinstance(op, anf.Read) and op.array in self.apart:
            dimensions, atoms = self.apart[op.array]
            part = atoms.get(tuple([int(op.index[k].constant or 0) for k in dimensions]), zero(op.array))
            if isinstance(part, anf.Var) and isinstance(part.type, anf.Array):
                op = anf.Read(part, _without(op.index, dimensions))
            else:
                known = part
        if known is None:
            self.keep(let, op)
        else:
            self.env[let.vars[0]] = known

    def branch(self, let: anf.Let, op: anf.If, dimensions: Sequence[tuple[int, ...]]) -> None:
        """Writes a branch; results with dimensions are the numbers that the arms give in their places."""
        condition = self.atom(op.condition)
        arms: list[anf.Block] = []
        for arm in (op.then, op.otherwise):
            outer, self.lets = self.lets, []
            for inner in arm.lets:
                self.rule(inner)
            results: list[anf.Atom] = []
            for result, known in zip(arm.results, dimensions, strict=True):
                results += self.elements(result).values() if known else [self.atom(result)]
            arms.append(
                with_lets(arm, self.lets, results)
                if len(results) == len(arm.results)
                else anf.Block(tuple(self.lets), tuple(results))
            )
            self.lets = outer
        vars: list[anf.Var] = []
        for var, known in zip(let.vars, dimensions, strict=True):
            if known:
                numbers = _numbers(var)
                self.apart[var] = known, {**numbers}
                vars += numbers.values()
            else:
                vars.append(self.bind(var))
        self.write(with_op(let, tuple(vars), replace(op, condition=condition, then=arms[0], otherwise=arms[1])))

    def comprehension(self, let: anf.Let, op: anf.Comp, short: Short) -> None:
        """The code at each point; what is left of the comprehension, if it has longer axes, is around all of it."""
        axes = tuple([axis for axis in op.axes if axis not in short.axes])
        parts_of: list[dict[Place, anf.Atom]] = []
        large = list(map(stores, op.destinations, short.dimensions))
        changes: list[list[tuple[tuple[anf.Size, ...], anf.Atom]]] = [[] for _ in op.destinations]
        for d, store in zip(op.destinations, large, strict=True):
            parts_of.append({} if d.into is None or store else {**self.known(d.into)})
        around = self.lets
        if axes:
            self.lets = []
        extremes: list[Best] = [{} for _ in op.destinations]
        for point in short.points():
            self.env.update(point)
            self.renew = True
            for inner in op.body.lets:
                self.rule(inner)
            self.renew = False
            for k, (value, d, dimensions, atoms, best) in enumerate(
                zip(op.body.results, op.destinations, short.dimensions, parts_of, extremes, strict=True)
            ):
                assert isinstance(d, anf.Reduce)
                if large[k]:
                    changes[k].append((tuple(map(self.size, d.index)), self.atom(value)))
                    continue
                place = tuple([int(self.size(d.index[k]).constant or 0) for k in dimensions])
                atom = self.atom(value)
                if d.monoid in STAYS:
                    self.extreme(let, d.monoid, place, atom, best, atoms)
                elif d.monoid == "set" or place not in atoms:
                    atoms[place] = atom
                else:
                    atoms[place] = self.combined(let, d.monoid, atoms[place], atom)
        body, self.lets = self.lets, around
        if axes:
            parts_of = self.longer(let, op, short, axes, body, parts_of)
        for k, (var, dimensions, atoms) in enumerate(zip(let.vars, short.dimensions, parts_of, strict=True)):
            if large[k]:
                self.env[var] = self.changed(let, op.destinations[k], changes[k])
            elif dimensions:
                self.apart[var] = dimensions, atoms
            elif atoms[()] is not var:
                self.env[var] = atoms[()]

    def changed(
        self, let: anf.Let, d: anf.Destination, changes: Sequence[tuple[tuple[anf.Size, ...], anf.Atom]]
    ) -> anf.Atom:
        """A large array with elements changed, one after another; all are read before."""
        assert isinstance(d, anf.Reduce) and d.into is not None
        array = self.atom(d.into)
        assert isinstance(array, anf.Var)
        if d.monoid != "set":
            old = [self.emit(anf.Read(array, index), value.type, span=let.span) for index, value in changes]
            changes = [
                (index, self.prim(let, value.type, COMBINE[d.monoid], before, value))
                for (index, value), before in zip(changes, old, strict=True)
            ]
        for index, value in changes:
            array = self.emit(anf.Update(array, index, value), array.type, array.name, let.span)
        return array

    def longer(
        self,
        let: anf.Let,
        op: anf.Comp,
        short: Short,
        axes: tuple[anf.Axis, ...],
        body: Sequence[anf.Let],
        parts_of: Sequence[Mapping[Place, anf.Atom]],
    ) -> list[dict[Place, anf.Atom]]:
        """Writes the comprehension over the longer axes; returns the parts of each of its results."""
        vars: list[anf.Var] = []
        results: list[anf.Atom] = []
        destinations: list[anf.Destination] = []
        out: list[dict[Place, anf.Atom]] = []
        for var, d, dimensions, atoms in zip(let.vars, op.destinations, short.dimensions, parts_of, strict=True):
            assert isinstance(d, anf.Reduce)
            shape = _without(d.shape, dimensions)
            type = type_of(dtype_of(var), shape)
            named = {place: anf.fresh(var.name, type) if dimensions else var for place in atoms}
            vars += named.values()
            results += atoms.values()
            reduced = any(not mentions(d.index, axis.var) for axis in axes)
            destination = anf.Reduce(shape, _without(d.index, dimensions), d.monoid if reduced else "set")
            destinations += [destination] * len(atoms)
            out.append({**named})
        comp = anf.Comp(axes, anf.Block(tuple(body), tuple(results)), tuple(destinations))
        self.write(anf.Let(tuple(vars), comp, let.span))
        return out

    def combined(self, let: anf.Let, monoid: str, first: anf.Atom, second: anf.Atom) -> anf.Atom:
        if monoid == "sum" and (_is_zero(first) or _is_zero(second)):
            return second if _is_zero(first) else first
        return self.prim(let, first.type, COMBINE[monoid], first, second)

    def extreme(
        self, let: anf.Let, monoid: str, place: Place, atom: anf.Atom, best: Best, positions: dict[Place, anf.Atom]
    ) -> None:
        """Takes one more value: the first NaN is the extreme, else the first of the greatest or the least values."""
        if place not in best:
            best[place], positions[place] = (0, atom), anf.Lit(0, "i64")
            return
        last, old = best[place]
        better = self.prim(let, BOOL, "not", self.prim(let, BOOL, STAYS[monoid], atom, old))
        if dtype_of(atom) in anf.FLOATS:
            better = self.prim(let, BOOL, "and", better, self.prim(let, BOOL, "eq", old, old))
        best[place] = last + 1, self.prim(let, atom.type, "select", better, atom, old)
        positions[place] = self.prim(let, I64, "select", better, anf.Lit(last + 1, "i64"), positions[place])

    def prim(self, let: anf.Let, type: anf.Type, name: str, *args: anf.Atom) -> anf.Var:
        return self.emit(anf.Prim(name, args), type, span=let.span)


def _numbers(array: anf.Var) -> dict[Place, anf.Var]:
    """Variables for the elements of a small array, in order."""
    return {place: anf.fresh(array.name, anf.Scalar(dtype_of(array))) for place in places(array.type)}


def _rows(elements: Mapping[Place, anf.Atom]) -> Iterator[dict[Place, anf.Atom]]:
    """The elements of each row of a small array, by their places in the row."""
    for k in range(max(place[0] for place in elements) + 1):
        yield {place[1:]: atom for place, atom in elements.items() if place[0] == k}


def _is_zero(atom: anf.Atom) -> bool:
    return isinstance(atom, anf.Lit) and not isinstance(atom.value, bool | str) and atom.value == 0


def _without(sizes: Sequence[anf.Size], dimensions: Sequence[int]) -> tuple[anf.Size, ...]:
    return tuple([size for k, size in enumerate(sizes) if k not in dimensions])
