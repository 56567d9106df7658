"""How values are kept where nothing is known of their sizes: every size first, then the leaves over these sizes.

So are the fields of a node, and the arguments and results of a function that is known only when the program runs. What
a function captured that several functions captured is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dlang.identity import ByIdentity
from dlang.ir import anf
from dlang.ir.anf import Atom, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.frame import Frame
from dlang.specialize.passing import Met, formals
from dlang.specialize.types import Mono, map_mono
from dlang.specialize.values import Value, leaf_var, leaves, mono_of, sizes_of, template


@dataclass(frozen=True, slots=True)
class Layout:
    """values: formal values, whose sizes are literals and the formal variables `sizes`."""

    sizes: tuple[Var, ...]
    values: tuple[Value, ...]

    @property
    def vars(self) -> tuple[Var, ...]:
        return (*self.sizes, *map(leaf_var, kept(self.values)))


def kept(values: Iterable[Value]) -> list[Atom]:
    """The leaves that are kept of some values."""
    met = Met(repeated=True)
    return [a for v in values for a in met.leaves(v)]


def layout_of(values: Iterable[Value]) -> Layout:
    """The layout of values like these: equal sizes are one."""
    sizes: dict[Size, Var] = {}

    def one(s: Size) -> Size:
        if s.constant is not None:
            return s
        if s not in sizes:
            sizes[s] = fresh("n", I64)
        return poly(sizes[s])

    new, met = formals(one, repeated=True), ByIdentity[Value, None]()
    formal_values = []
    for v in values:
        for s in sizes_of(v, met=met):
            one(s)
        formal_values.append(new.of(v))
    return Layout(tuple(sizes.values()), tuple(formal_values))


def placeholders(monos: Iterable[Mono]) -> list[Value]:
    """Values of types, over variables that nothing binds."""
    return [template(m, lambda t: fresh("x", t)) for m in monos]


def marked(m: Mono) -> Mono:
    """The type with another size in every place."""
    return map_mono(m, lambda _: poly(fresh("n", I64)))


def packed(f: Frame, layout: Layout, values: Sequence[Value]) -> list[Atom]:
    """Returns the sizes and leaves that a layout asks for, from values of the same structure."""
    sizes_known: dict[Var, Size] = {}
    met, met_here = ByIdentity[Value, None](), ByIdentity[Value, None]()
    for wanted, actual in zip(layout.values, values, strict=True):
        for s, known in zip(sizes_of(wanted, met=met), sizes_of(actual, met=met_here), strict=True):
            if s.atom is not None:
                sizes_known.setdefault(s.atom, known)
    new = formals(into(sizes_known), repeated=True)
    fitted = [f.fit(v, mono_of(new.of(w))) for w, v in zip(layout.values, values, strict=True)]
    sizes = [f.emitter.atom(sizes_known[s]) for s in layout.sizes]
    return [*sizes, *kept(fitted)]


def unpacked(f: Frame, layout: Layout) -> tuple[tuple[Var, ...], tuple[Value, ...]]:
    """Fresh variables for a layout, and the values that they are; sizes are at least 0."""
    sizes_known: dict[Var, Size] = {}
    sizes = [fresh("n", I64) for _ in layout.sizes]
    for s, k in zip(layout.sizes, sizes, strict=True):
        sizes_known[s] = poly(k)
        f.emitter.facts.size(k)
    new = formals(into(sizes_known), repeated=True)
    values = tuple(map(new.of, layout.values))
    return (*sizes, *map(leaf_var, kept(values))), values


def array_sizes(v: Value) -> Iterator[Size]:
    """The sizes of the arrays that a value consists of."""
    for a in leaves(v):
        if isinstance(a.type, anf.Array):
            yield from a.type.shape


def inner_sizes(result: Value, known: Container[Var]) -> dict[Size, Var]:
    """The sizes of a function's result that only the function knows, with a variable for each, in their order.

    known: the variables that its caller knows.
    """
    inside: dict[Size, Var] = {}
    for s in sizes_of(result, met=ByIdentity()):
        if s not in inside and not all(v in known for v in s.atoms()):
            inside[s] = fresh("k", I64)
    return inside


def into(sizes: dict[Var, Size]) -> Callable[[Size], Size]:
    """Translates sizes by what some of their variables stand for."""
    return lambda s: s.substitute(sizes.get)
