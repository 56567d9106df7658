"""Binders: what they range over, and what their names stand for at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dlang.inequalities import GREATEST
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Size, poly
from dlang.specialize.analysis import acts_in, mentioned
from dlang.specialize.emitter import Emitter
from dlang.specialize.frame import Frame
from dlang.specialize.indexing import Element, leading_shape, select
from dlang.specialize.patterns import bind_pattern
from dlang.specialize.randomness import Points, at, draws_in, points, restart
from dlang.specialize.values import ScalarV, Value
from dlang.typecheck import core, types as ty
from dlang.typecheck.trees import binder_children, pattern_locals, walk

Index = Sequence[Size]


@dataclass(frozen=True, slots=True)
class Bound:
    """A binder whose range is known: `bind` makes its names stand for a place.

    The place is given by the indices of the binders up to this one, the last its own: 0 <= index[-1] < size. stated: of
    a range of integers, how long the type says that it is, which is negative where it ends before it begins.
    """

    size: Size
    name: str
    bind: Callable[[Frame, Index], None]
    stated: ty.Size | None = None


def bound(f: Frame, b: core.Binder) -> Bound:
    """Evaluates what bounds a binder."""
    e = f.emitter
    match b:
        case core.Count(local, size, expression, span):
            with e.at(span):
                if expression is not None:
                    known = e.sized(e.cast("i64", f.atom(expression)))
                    bind_size(f, size, known)
                n = f.size(size)
                e.settle(n, "the end of a range")
            return Bound(n, local.name, lambda g, at: bind_index(g, local, at[-1]))
        case core.Each(pattern, array, size, span):
            xs = f.eval(array)
            n = leading_shape(xs)[0]
            bind_size(f, size, n)

            def each(g: Frame, at: Index) -> None:
                bind_pattern(g, pattern, select(g, xs, [Element(at[-1])]))

            return Bound(n, "i", each)
        case core.Range(pattern, low, high, step, size, span):
            with e.at(span):
                reach = reached(f, f.atom(low), f.atom(high), f.atom(step) if step is not None else Lit(1, "i64"))
                bind_size(f, size, reach.length)
            return Bound(
                reach.length, "k", lambda g, at: bind_pattern(g, pattern, ScalarV(reach.at(g.emitter, at[-1]))), size
            )


def axis_of(f: Frame, b: Bound) -> Bound:
    """The binder as an axis of an array, which is as long as the type says; ends the run where that is negative."""
    size = b.size if b.stated is None else f.size(b.stated)
    return replace(b, size=f.emitter.checked_size(size, "the size of a comprehension"))


def points_of(f: Frame, b: Bound) -> Bound:
    """The binder where its places are counted: a range that ends before it begins has none."""
    e, size = f.emitter, b.size
    if b.stated is not None and not e.facts.proves_nonnegative(size):
        size = poly(e.prim("maximum", e.atom(size), Lit(0, "i64")))
    return replace(b, size=e.checked_size(size, "the size of a comprehension"))


@dataclass(frozen=True, slots=True)
class Reach:
    """A range of integers: first, first + step, … `length` times. ends: what the number of a place is below, if each
    place is a step of one further.
    """

    first: Size
    step: Atom
    length: Size
    ends: tuple[Size, ...] = ()

    def at(self, e: Emitter, place: Size) -> Atom:
        """The integer at a place. It lies between the ends, but not always what it is computed of."""
        v = place.atom
        if v is not None and self.ends:
            e.facts.narrow(v, (), self.ends)
        covered = place * poly(self.step)
        if self.ends or e.exact(covered):
            integer = self.first + covered
            e.settled.add(integer)
            return e.atom(integer)
        return e.prim("add", e.atom(self.first), e.prim("mul", e.atom(place), self.step))


def reached(f: Frame, low: Atom, high: Atom, step: Atom) -> Reach:
    """A range, its step checked unless it is a literal. Its length is right also where it is no difference of i64s."""
    e = f.emitter
    zero = Lit(0, "i64")
    first, last = e.poly(low), e.poly(high)
    if isinstance(step, Lit) and step.value != 0:
        s = int(step.value)
        length = last - first if s > 0 else first - last
        ends = (length,) if abs(s) == 1 else ()
        if e.exact(length):
            return Reach(first, step, length if ends else e.floor(length + (abs(s) - 1), poly(abs(s))), ends)
        ordered = (low, high) if s > 0 else (high, low)
        return Reach(first, step, poly(distance(e, *ordered) if ends else steps(e, *ordered, Lit(abs(s), "u64"))), ends)
    (step,) = e.check(e.prim("ne", step, zero), "E0802", ("the step of a range is 0",), (), (step,))
    up = e.prim("gt", step, zero)
    size = e.cast("u64", e.prim("select", up, step, e.prim("neg", step)))
    near, far = e.prim("select", up, low, high), e.prim("select", up, high, low)
    return Reach(first, step, poly(steps(e, near, far, size)))


def distance(e: Emitter, low: Atom, high: Atom) -> Atom:
    """How many integers there are from one up to another: 2**63 - 1 if there are more."""
    apart = e.prim("sub", high, low)
    there = e.prim("select", e.prim("lt", apart, Lit(0, "i64")), Lit(GREATEST, "i64"), apart)
    return e.prim("select", e.prim("lt", low, high), there, Lit(0, "i64"))


def steps(e: Emitter, low: Atom, high: Atom, size: Atom) -> Atom:
    """How many steps of a size, an u64, lead from one integer to what is not below another."""
    one = Lit(1, "u64")
    apart = e.prim("sub", e.cast("u64", high), e.cast("u64", low))
    more = e.prim("floordiv", e.prim("sub", apart, one), size)
    count = e.prim("add", e.cast("i64", e.prim("minimum", more, Lit(GREATEST - 1, "u64"))), Lit(1, "i64"))
    return e.prim("select", e.prim("lt", low, high), count, Lit(0, "i64"))


# ---- binders that depend on those before them ------------------------------------------------------------------------
def with_chosen(binders: Sequence[core.Binder]) -> Iterator[tuple[core.Binder, bool]]:
    """Each binder with whether what it ranges over mentions what those before it bind."""
    before: set[object] = set()
    for b in binders:
        names = [n for source in binder_children(b) for n in mentioned(source)]
        yield b, bool(before.intersection(names))
        before.update([b.local] if isinstance(b, core.Count) else pattern_locals(b.pattern))


def ragged(f: Frame, binders: Sequence[core.Binder]) -> int | None:
    """The first binder of which it depends on those before it how long its range is."""
    for k, (b, chosen) in enumerate(with_chosen(binders)):
        if chosen and not f.knows(b.size):
            return k
    return None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A binder over what binders before it chose. drawn: the levels of what it draws, which are theirs."""

    binder: core.Binder
    drawn: Points | None

    def at(self, f: Frame, before: Index) -> Bound:
        """Its range where the binders before it are at a place."""
        with self.level(f, before):
            return bound(f, self.binder)

    def array(self, f: Frame, before: Index) -> Value:
        """The array that it ranges over."""
        assert isinstance(self.binder, core.Each)
        with self.level(f, before):
            return f.eval(self.binder.array)

    @contextmanager
    def level(self, f: Frame, before: Index) -> Iterator[None]:
        """At the same place the same is drawn, however often it is looked at."""
        if self.drawn is None:
            yield
            return
        restart(self.drawn)
        with at(f, self.drawn, [f.emitter.atom(i) for i in before]):
            yield


def chosen(f: Frame, b: core.Binder) -> Chosen:
    return Chosen(b, points(f, draws_in(f, *binder_children(b))))


def is_part(b: core.Binder | core.Expr) -> bool:
    """Tells whether a range has integers, or parts of an existing array: to find an element costs nothing."""
    match b:
        case core.Count() | core.Range() | core.Ref():
            return True
        case core.Each():
            return is_part(b.array)
        case core.Project():
            return is_part(b.value)
        case core.Builtin(name="zip" | "reverse"):
            return all(map(is_part, b.args))
        case core.Index():
            return is_part(b.base)
        case _:
            return False


def bind_size(f: Frame, size: ty.Size, known: Size) -> None:
    """A size that the checker left open is what the bound turned out to be."""
    a = ty.resolve_size(size).poly.atom
    if isinstance(a, ty.SizeVar) and a not in f.bindings:
        f.bindings[a] = known


def bind_index(f: Frame, local: core.Local, at: Size) -> None:
    f.env[local] = ScalarV(f.emitter.atom(at))
    if local.size is not None:
        f.bindings[local.size] = at
    f.name(local)


def bind_all(f: Frame, binders: Sequence[Bound], index: Index) -> None:
    for k, b in enumerate(binders):
        b.bind(f, index[: k + 1])


def open_variables(f: Frame, c: core.Comprehension) -> None:
    """Finds the sizes of each `var` of unknown size before the code that mentions it runs: they may bound an index."""
    for part in parts_of(c):
        for node in walk(part):
            if isinstance(node, core.Ref) and node.opened and node.local in f.env:
                f.bind_sizes(node.type, f.env[node.local], node.opened)


# ---- what runs at a point --------------------------------------------------------------------------------------------
@contextmanager
def inside(f: Frame, places: Points | None, index: Sequence[Atom], token: anf.Var | None = None) -> Iterator[None]:
    """At a point of a comprehension. Without a token nothing may touch the world there: points have no order."""
    before, f.world.token = f.world.token, token
    try:
        with at(f, places, index):
            yield
    finally:
        f.world.token = before


def places_of(f: Frame, c: core.Comprehension) -> Points | None:
    """The levels of the elements, where something is drawn."""
    return points(f, draws_in(f, *parts_of(c)))


def parts_of(c: core.Comprehension) -> list[core.Expr]:
    """Lists the expressions that run at every point."""
    return [c.element] if c.condition is None else [c.condition, c.element]


def acts(f: Frame, c: core.Comprehension) -> bool:
    """Tells whether the code that runs at the points touches the world: then they come in order."""
    if f.world.token is None:
        return False
    sources = [x for b, later in with_chosen(c.binders) if later for x in binder_children(b)]
    return acts_in(f.env, *parts_of(c), *sources)


def axes_of(f: Frame, binders: Sequence[Bound]) -> tuple[anf.Axis, ...]:
    return tuple([f.emitter.axis(b.size, b.name) for b in binders])
