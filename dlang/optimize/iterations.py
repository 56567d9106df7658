"""An iteration of a loop, and what depends on which one it is; and iterations as rows of an array.

A product in a body is moved by what its operands are in an iteration: the same in all (`is_fixed`), a part of an array
from outside that its number determines (`is_known`, and how the part moves: `slope`), or computed in it, so that what
all iterations compute has to be kept in an array, a row for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.affine import slope
from dlang.ir.axes import Location, Relocation
from dlang.ir.comprehension_queries import sizes_named
from dlang.ir.substitution import Renaming


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of a loop. computed: what it binds, except for its number. sizes: what it gives names, by these."""

    number: anf.Var
    computed: frozenset[anf.Var]
    sizes: Mapping[anf.Var, anf.Size]

    @staticmethod
    def of(loop: anf.For) -> Iteration:
        computed = frozenset([*loop.params, *(v for let in loop.body.lets for v in let.vars)])
        return Iteration(loop.index, computed, sizes_named(loop.body))

    def opened(self, size: anf.Size) -> anf.Size:
        """A size in terms of what its variables name."""
        return size.substitute(self.sizes.get)

    def moves(self, size: anf.Size) -> bool:
        """Tells whether a size mentions the number of the iteration."""
        return self.opened(size).mentions((self.number,))

    def is_known(self, *sizes: anf.Size) -> bool:
        """Tells whether sizes mention nothing that an iteration computes."""
        return not any(self.opened(s).mentions(self.computed) for s in sizes)

    def is_fixed(self, *sizes: anf.Size) -> bool:
        """Tells whether sizes are the same in all iterations."""
        return self.is_known(*sizes) and not any(map(self.moves, sizes))

    def names(self, *sizes: anf.Size) -> bool:
        """Tells whether sizes mention variables of an iteration, be it that these name what is known outside."""
        return any(s.mentions((self.number,)) or s.mentions(self.computed) for s in sizes)

    def slope(self, index: Sequence[anf.Size]) -> int:
        """By how much the only entry that moves grows with each iteration; 0 if there is no such number."""
        moving = [e for e in map(self.opened, index) if e.mentions((self.number,))]
        return slope(moving[0], self.number) if len(moving) == 1 else 0

    def apart(self, index: Sequence[anf.Size], inner: Collection[anf.Var] = ()) -> frozenset[tuple[int, anf.Size]]:
        """The entries of an index, each with its position, in which no two iterations are alike. inner: axes inside."""
        opened = list(enumerate(map(self.opened, index)))
        own = [(n, e) for n, e in opened if not any(v in self.computed or v in inner for v in e.atoms())]
        return frozenset([(n, e) for n, e in own if slope(e, self.number) in (1, -1)])


@dataclass(frozen=True, slots=True)
class Rows:
    """Iterations of a loop, `count` from `first` on, as rows of arrays; the last one is the first row if `reversed`.

    So what is read backwards stands in its order. end: the number behind the last one, if there is one; the sum of
    first and count may say so in other words.
    """

    one: Iteration
    first: anf.Size
    count: anf.Size
    reversed: bool = False
    end: anf.Size | None = None

    @property
    def last(self) -> anf.Size:
        """The number of the last iteration."""
        return (self.first + self.count if self.end is None else self.end) - 1

    @property
    def row(self) -> anf.Size:
        """The row of an iteration, by its number."""
        number = anf.poly(self.one.number)
        return self.last - number if self.reversed else number - self.first

    def iteration(self, row: anf.Var) -> anf.Size:
        """The number of the iteration of a row."""
        return self.last - row if self.reversed else self.first + row

    def parts(self, view: anf.View) -> anf.View:
        """The view with a row for what each of these iterations sees."""
        code = Renaming({}, renew=True)
        axes = (self._enter(code), *map(code.bind, view.axes))
        return anf.View(view.array, axes, (self.count, *view.shape), tuple(map(code.size, view.index)))

    def at_once(self, comp: anf.Comp, locations: Mapping[anf.Var, Location]) -> anf.Comp:
        """The comprehension of an iteration for all of these; it reads at `locations` what each of them computes."""
        code = Relocation({}, locations, renew=True)
        row = anf.Axis(self._enter(code), (anf.ZERO,), (self.count,))
        code.env |= {v: code.size(size) for v, size in self.one.sizes.items()}
        axes = (row, *map(code.axis, comp.axes))
        destinations = [replace(d, index=tuple(map(code.size, d.index))) for d in comp.destinations]
        return anf.Comp(axes, code.block(comp.body), tuple(destinations))

    def _enter(self, code: Renaming) -> anf.Var:
        """Has code be in the iteration of a row; returns the axis of the rows."""
        row = code.bind(self.one.number)
        code.env[self.one.number] = self.iteration(row)
        return row
