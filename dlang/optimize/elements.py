"""Elements of arrays that are known where they are read: behind views and reshapes, in comprehensions of one value, and
after changes of single elements.

The rules are those of a walk that knows what it has written; `simplify.py` is it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import is_

from dlang.ir import anf
from dlang.ir.affine import far_fewer
from dlang.ir.comprehension_queries import point_of
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import substitute
from dlang.ir.types import BOOL, array_type, dtype_of, product
from dlang.ir.writes import differ
from dlang.ops import figures
from dlang.polynomials import Poly

_LONGEST = 4  # terms of a polynomial that may stand for an i64 variable in an index


@dataclass(slots=True)
class _History:
    """Changes of single elements of an array, one after another, at places that differ by constants.

    first: the array before; last: that after the last change. shift: the indices without their constants. values: what
    was stored last at each index.
    """

    first: anf.Var
    shift: tuple[anf.Size, ...]
    last: anf.Var
    values: dict[tuple[anf.Size, ...], anf.Atom] = field(default_factory=dict)


def _shift(index: tuple[anf.Size, ...]) -> tuple[anf.Size, ...]:
    """An index without its constants; two of one shift are the same, or surely differ."""
    return tuple([Poly({m: c for m, c in entry.terms.items() if m}) for entry in index])


class Elements(Rewriter):
    """A walk that knows elements of the arrays that it has written.

    sums: i64 variables that are polynomials in others. histories: of arrays that were changed in an element. bound: the
    variables of comprehensions that were read, by the first that one gives. points: the number of comprehensions
    around. local: the variables bound at each point of one. changing: arrays that something consumes; None where
    elements of copies are read as they lie there.
    """

    def __init__(self, changing: Container[anf.Var] | None = None) -> None:
        super().__init__()
        self.changing = changing
        self.sums: dict[anf.Var, anf.Size] = {}
        self.histories: dict[anf.Var, _History] = {}
        self.bound: dict[anf.Var, Set[anf.Var]] = {}
        self.points = 0
        self.local: set[anf.Var] = set()

    def write(self, let: anf.Let) -> None:
        super().write(let)
        if self.points:
            self.local.update(let.vars)
        match let.op:
            case anf.Update() as op:
                self.changed(let.vars[0], op)
            case anf.IndexExpr(size) if len(size.terms) <= _LONGEST:
                self.sums[let.vars[0]] = size  # no other sum is a polynomial, because it may wrap
            case _:
                pass

    def changed(self, var: anf.Var, op: anf.Update) -> None:
        """Notes what an array that has been changed in one element holds."""
        history, shift = self.histories.get(op.array), _shift(op.index)
        if history is None or history.last is not op.array or history.shift != shift:
            history = _History(op.array, shift, var)
        history.values[op.index] = op.value
        history.last = var
        self.histories[var] = history

    def opened(self, size: anf.Size) -> anf.Size:
        """A polynomial in terms of what the variables in it are sums of: for indices, as types keep the variables."""
        size = self.size(size)
        for m in size.terms:
            for a in m:
                if a in self.sums:
                    return size.substitute(self.sums.get)
        return size

    def located(self, op: anf.Op) -> anf.Op:
        """An operation whose indices are polynomials of the parts of what they are made of."""
        if self.sums and isinstance(op, anf.Read | anf.Update | anf.View):
            index = tuple([self.opened(i) for i in op.index])
            return op if all(map(is_, index, op.index)) else replace(op, index=index)
        if self.sums and isinstance(op, anf.Comp):
            indices = [tuple(map(self.opened, d.index)) for d in op.destinations]
            to = [replace(d, index=index) for d, index in zip(op.destinations, indices, strict=True)]
            return op if all(map(is_, to, op.destinations)) else replace(op, destinations=tuple(to))
        return op

    def element(self, op: anf.Op) -> anf.Op | anf.Atom | None:
        """Returns what an operation that only reads, or shows elements, equals; None if there is nothing simpler."""
        match op:
            case anf.Read():
                return self.read(op)
            case anf.View():
                return self.view(op)
            case anf.Reshape(array, shape):
                inner = self.definition(array)
                if isinstance(inner, anf.Reshape):
                    return anf.Reshape(inner.array, shape)
                return array if array_type(array).shape == shape else None
            case _:
                return None

    def read(self, op: anf.Read) -> anf.Op | anf.Atom | None:
        """A read of what moves no data is a read of what it shows; of what is known at the index, that."""
        let = self.defined.get(op.array)
        if let is None:
            return None
        match let.op:
            case anf.View() as view:
                at = dict(zip(view.axes, op.index, strict=True))
                return anf.Read(view.array, tuple([substitute(i, at) for i in view.index]))
            case anf.Reshape(array=array):
                index = _without_units(op.index, array_type(op.array).shape, array_type(array).shape)
                return None if index is None else anf.Read(array, index)
            case anf.Update():
                return self.stored(op.array, op.index)
            case anf.Comp() as comp:
                k = let.vars.index(op.array)
                entries = point_of(comp, k)
                if entries is None:
                    return None
                value = comp.body.results[k]
                if isinstance(value, anf.Lit):
                    return value
                for entry, at_entry in zip(entries, op.index, strict=True):
                    if entry is value:
                        return anf.IndexExpr(at_entry)
                inside = self.inside(let, comp)
                if value not in inside:
                    return value
                copied = self.definition(value)
                return self.original(op, copied, entries, inside) if isinstance(copied, anf.Read) else None
            case _:
                return None

    def inside(self, let: anf.Let, comp: anf.Comp) -> Set[anf.Var]:
        """The variables of a comprehension, which are gathered once."""
        found = self.bound.get(let.vars[0])
        if found is None:
            found = self.bound[let.vars[0]] = {a.var for a in comp.axes} | {v for x in comp.body.lets for v in x.vars}
        return found

    def original(
        self, op: anf.Read, copied: anf.Read, entries: Sequence[anf.Var | None], inside: Set[anf.Var]
    ) -> anf.Read | None:
        """The read of what a comprehension copies in another order, or repeats along axes, for a read of the copy.

        None where the original is far larger: what keeps it for the sake of these elements would keep all of it. None,
        too, where something changes it, which would have to copy it first. inside: the variables of the comprehension.
        """
        if self.changing is None or copied.array in self.changing or copied.array in inside:
            return None
        if far_fewer(product(array_type(op.array).shape), product(array_type(copied.array).shape)):
            return None
        at = {axis: entry for axis, entry in zip(entries, op.index, strict=True) if axis is not None}
        if any(v in inside and v not in at for entry in copied.index for v in entry.atoms()):
            return None
        return anf.Read(copied.array, tuple([substitute(entry, at) for entry in copied.index]))

    def stored(self, array: anf.Var, index: tuple[anf.Size, ...]) -> anf.Atom | None:
        """Returns the element of an array just changed at an index, if that is known without reading an array.

        A small array made and filled at each point of a comprehension is just its elements.
        """
        shift = _shift(index)
        writes: list[anf.Update] = []  # that may be elsewhere or not
        value: anf.Atom | None = None
        while isinstance(below := self.definition(array), anf.Update):
            history = self.histories[array]
            if history.shift == shift and history.last is array:
                value = history.values.get(index)
                if value is not None:
                    break
                array = history.first
                continue
            if below.index == index:
                value = below.value
                break
            if not differ(below.index, index):
                writes.append(below)
                if len(writes) > figures.ENTRY_OF_SMALL_ARRAY:
                    return None
            array = below.array
        if value is None:
            element = self.read(anf.Read(array, index)) if isinstance(below, anf.Comp) else None
            if not isinstance(element, anf.Lit):
                return None
            value = element
        if not writes:
            return value
        if array not in self.local or len(index) > 1 or not is_atom(index[0]):
            return None
        if anf.is_handle(dtype_of(array)) or any(w.index[0].constant is None for w in writes):
            return None  # a node is chosen by a branch
        at: anf.Atom = anf.Lit(int(index[0].constant or 0), "i64") if index[0].atom is None else index[0].atom
        for write in reversed(writes):
            is_there = self.emit(anf.Prim("eq", (at, anf.Lit(int(write.index[0].constant or 0), "i64"))), BOOL)
            value = self.emit(anf.Prim("select", (is_there, write.value, value)), value.type)
        return value

    def view(self, op: anf.View) -> anf.Op | anf.Atom | None:
        if [i.atom for i in op.index] == list(op.axes) and array_type(op.array).shape == op.shape:
            return op.array
        inner = self.definition(op.array)
        if isinstance(inner, anf.View):
            at = dict(zip(inner.axes, op.index, strict=True))
            return anf.View(inner.array, op.axes, op.shape, tuple([substitute(i, at) for i in inner.index]))
        return None


def is_atom(size: anf.Size) -> bool:
    """Tells whether a polynomial may stand where an atom is wanted."""
    return isinstance(size.constant, int) or size.atom is not None


def _without_units(
    index: tuple[anf.Size, ...], shown: tuple[anf.Size, ...], under: tuple[anf.Size, ...]
) -> tuple[anf.Size, ...] | None:
    """The index below a reshape that only adds and removes axes of size 1."""
    one = anf.poly(1)
    entries = [(i, s) for i, s in zip(index, shown, strict=True) if s != one]
    if [s for _, s in entries] != [s for s in under if s != one]:
        return None
    remaining = iter(entries)
    return tuple([anf.ZERO if s == one else next(remaining)[0] for s in under])
