"""Claims about the elements that comprehensions write and read hold in the interpreter, at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings

from dlang.interpret.interpreter import Interpreter
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Array, Axis, Block, Comp, Function, Let, Program, ScatterAdd, Size, Update, Var, poly
from dlang.ir.builder import f64, shape_of
from dlang.ir.types import I64
from dlang.ir.writes import (
    How,
    Segments,
    apart,
    arrays_at_own_points,
    choices,
    covers,
    determines,
    elements,
    links,
    ranges,
    reads_its_place,
    segment,
)
from tests.optimize.programs import arguments, assert_same, program, programs, run

N, M = poly(Var("n", I64)), poly(Var("m", I64))
SIZES = [{N: n, M: m} for n, m in ((0, 0), (0, 2), (1, 0), (1, 3), (2, 1), (2, 2), (3, 2))]
Sizes = dict[Size, int]


# ---- the elements that points write ----------------------------------------------------------------------------------
def value(size: Size, at: dict[Size, int]) -> int:
    return int(size.substitute(lambda v: poly(at[poly(v)])).constant or 0)


@dataclass(frozen=True)
class Place:
    """Points, and the element of a shape that each of them writes."""

    axes: tuple[Axis, ...]
    shape: tuple[Size, ...]
    index: tuple[Size, ...]

    def points(self, sizes: Sizes) -> list[dict[Size, int]]:
        """The axes and sizes at each point."""
        found = [dict(sizes)]
        for a in self.axes:
            found = [
                {**at, poly(a.var): i}
                for at in found
                for i in range(max(value(low, at) for low in a.lows), min(value(high, at) for high in a.highs))
            ]
        return found

    def is_valid(self, sizes: Sizes) -> bool:
        shape = [value(size, sizes) for size in self.shape]
        entries = [[value(e, at) for e in self.index] for at in self.points(sizes)]
        return min(shape) >= 0 and all(0 <= e < size for es in entries for e, size in zip(es, shape, strict=True))

    def is_empty(self, sizes: Sizes) -> bool:
        """Tells whether an axis that the index lacks has no points."""
        missing = [a for a in self.axes if not any(e.mentions((a.var,)) for e in self.index)]
        return bool(missing) and not self.points(sizes)

    @cached_property
    def interpreter(self) -> Interpreter:
        out = Var("r", Array("f64", self.shape))
        comp = Comp(self.axes, Block((), (f64(1.0),)), (ScatterAdd(self.shape, self.index),))
        params = tuple([size.atom for size in (N, M) if size.atom is not None])
        body = Block((Let((out,), comp),), (out,))
        return Interpreter(Program({"f": Function("f", params, (Var("r", out.type),), body)}))

    def counts(self, sizes: Sizes) -> Any:
        """How often each element is written."""
        return self.interpreter.run("f", [sizes[N], sizes[M]])[0]


def drawn(random: Random, shape: Sequence[Size], count: int) -> Place:
    """A random place, which may be out of range: most axes are along some size of the shape, most entries an axis."""
    lengths = [*shape, *shape, N - 1, poly(1), poly(2)]
    axes: list[Axis] = []
    for name in "ij"[:count]:
        low = random.choice([poly(0)] * 6 + [poly(1), N])
        highs = [low + random.choice(lengths)]
        if random.random() < 0.1:
            highs = [poly(axes[-1].var) + 1] if axes and random.random() < 0.5 else [*highs, random.choice(lengths)]
        axes.append(Axis(Var(name, I64), (low,), tuple(highs)))
    bases = [poly(a.var) for a in axes]
    random.shuffle(bases)

    def entry(size: Size) -> Size:
        base = bases.pop() if bases and random.random() < 0.9 else random.choice([poly(0), N - 1])
        if axes and random.random() < 0.05:
            base = base + poly(random.choice(axes).var)
        return random.choice([base] * 6 + [base + N, base - N, size - 1 - base, base + 1, base + base])

    return Place(tuple(axes), tuple(shape), tuple([entry(size) for size in shape]))


def places(random: Random, count: int) -> list[Place]:
    """Places in one shape."""
    shape = [random.choice([N, N, M, 2 * N, N + M, poly(1)]) for _ in range(random.randint(1, 2))]
    return [drawn(random, shape, random.randint(0, 2)) for _ in range(count)]


def valid(*made: Place) -> list[Sizes]:
    """The sizes for which places are in range."""
    return [sizes for sizes in SIZES if all(p.is_valid(sizes) for p in made)]


def test_points_write_the_elements_that_are_claimed() -> None:
    random = Random(1)
    claims = {"elements": 0, "covers": 0, "segment": 0}
    for _ in range(400):
        (p,) = places(random, 1)
        args = p.axes, p.shape, p.index
        once = determines(p.axes, p.index)
        for at in valid(p) if elements(*args) or covers(*args) or segment(*args) else ():
            found = p.counts(at)
            if elements(*args):
                claims["elements"] += 1
                assert once and covers(*args) and (found == 1).all(), p
            if p.is_empty(at):
                continue
            if covers(*args):
                claims["covers"] += 1
                assert (found > 0).all(), p
            if (one := segment(*args)) is not None:
                claims["segment"] += 1
                inside = np.moveaxis(np.zeros(found.shape), one.position, 0)
                low, high = value(one.low, at), value(one.high, at)
                inside[low : max(low, high)] = 1
                inside = np.moveaxis(inside, 0, one.position)
                assert ((found == inside) if once else ((found > 0) == inside)).all(), p
    assert min(claims.values()) > 50, claims


def test_ranges_are_the_values_of_entries() -> None:
    random = Random(2)
    for _ in range(100):
        (p,) = places(random, 1)
        for at, (k, r) in product(valid(p), enumerate(ranges(p.axes, p.index))):
            values = [value(p.index[k], point) for point in p.points(at)]
            if r is not None and values:
                own = [a for a in p.axes if a.var is r.axis]
                assert set(values) <= set(range(value(r.low, at), value(r.high, at)))
                assert len(set(values)) == len(range(value(r.low, at), value(r.high, at))) or len(p.axes) > len(own)


def test_places_apart_share_no_element_and_segments_cover_a_shape() -> None:
    random = Random(3)
    known = Knowledge()
    known.note_sizes([Array("f64", (N, M))])
    separate = whole = 0
    for _ in range(400):
        made = places(random, random.randint(2, 3))
        one, other, *_ = made
        if apart(ranges(one.axes, one.index), ranges(other.axes, other.index), known):
            for at in valid(one, other):
                separate += 1
                assert not (one.counts(at) * other.counts(at)).any(), (one, other)
        written = Segments()
        found = [(p, own) for p in made if (own := segment(p.axes, p.shape, p.index)) is not None]
        for _, own in found:
            written.add(own)
        if len(found) > 1 and written.cover(one.shape):
            for at in valid(*[p for p, _ in found]):
                whole += 1
                assert any(p.is_empty(at) for p, _ in found) or (sum(p.counts(at) for p, _ in found) > 0).all(), made
    assert separate > 50 and whole > 50, (separate, whole)


# ---- in whose place a result may be ----------------------------------------------------------------------------------
AT_ONCE = """
fn f(n.0: i64, x.1: f64[n.0, n.0], z.2: f64[n.0, n.0]) -> (y.3: f64[n.0, n.0]) {
  y.4: f64[n.0, n.0] = comp i.5 in 0..n.0, j.6 in 0..n.0 {
    t.7: f64 = read x.1[READ]
    u.8: f64 = read OTHER[AGAIN]
    v.9: f64 = sub(t.7, u.8)
    yield v.9
  } to keep [n.0, n.0] [PLACE] set INTO
  yield y.4
}
"""
IN_PLACE = """
fn f(n.0: i64, x.1: f64[n.0, n.0], z.2: f64[n.0, n.0]) -> (y.3: f64[n.0, n.0]) {
  y.4: f64[n.0, n.0] = for i.5 in 0..n.0 (a.10: f64[n.0, n.0] = x.1) {
    b.11: f64[n.0, n.0] = for j.6 in 0..n.0 (c.12: f64[n.0, n.0] = a.10) {
      t.7: f64 = read c.12[READ]
      u.8: f64 = read OTHER[AGAIN]
      v.9: f64 = sub(t.7, u.8)
      d.13: f64[n.0, n.0] = update c.12[PLACE] = v.9
      yield d.13
    }
    yield b.11
  }
  yield y.4
}
"""
INDICES = ["i.5, j.6", "j.6, i.5", "i.5, n.0 - 1 - j.6", "i.5, 0", "n.0 - 1 - i.5, j.6"]


def test_what_reads_its_own_points_alone_may_be_computed_in_their_place() -> None:
    args = [3, np.arange(9.0).reshape(3, 3), np.cos(np.arange(9.0)).reshape(3, 3)]
    claimed = 0
    for place, read, again, other, into in product(INDICES[:3], INDICES, INDICES, ("x", "z"), ("", "into x.1")):
        text = AT_ONCE.replace("INTO", into).replace("OTHER", {"x": "x.1", "z": "z.2"}[other])
        p = program(text.replace("READ", read).replace("AGAIN", again).replace("PLACE", place))
        (comp,) = [let.op for let in p.functions["f"].body.lets if isinstance(let.op, Comp)]
        x = p.functions["f"].params[1]
        own = x in arrays_at_own_points(comp, 0)
        if own or reads_its_place(comp, 0):
            claimed += 1
            text = IN_PLACE.replace("OTHER", {"x": "c.12", "z": "z.2"}[other])
            stepwise = program(text.replace("READ", read).replace("AGAIN", again).replace("PLACE", place))
            assert_same(run(p, args), run(stepwise, args))
        elif place == read == again == INDICES[0] and not into:
            raise AssertionError(f"nothing is claimed of {text}")
    assert claimed > 20


# ---- whose memory an array goes on with ------------------------------------------------------------------------------
def written(let: Let, var: Var, values: dict[Var, Any]) -> Any:
    """The elements of what a comprehension or an update gives that it wrote."""
    k = let.vars.index(var)
    match let.op:
        case Update(index=index):
            place = Place((), shape_of(var), index)
        case Comp(axes, _, destinations):
            place = Place(axes, destinations[k].shape, destinations[k].index)
        case op:
            raise AssertionError(op)
    sizes = {poly(v): int(value) for v, value in values.items() if v.type == I64}
    found = np.zeros(np.shape(values[var]), bool)
    for at in place.points(sizes):
        found[tuple([value(e, at) for e in place.index])] = True
    return found


@settings(max_examples=60)
@given(programs())
def test_what_goes_on_with_an_array_has_its_elements(p: Program) -> None:
    f = p.functions["f"]
    arrays = [v for v in (*f.params, *[v for let in f.body.lets for v in let.vars]) if isinstance(v.type, Array)]
    shown = replace(
        f, results=tuple([Var(v.name, v.type) for v in arrays]), body=replace(f.body, results=tuple(arrays))
    )
    args = arguments(2, 3)
    values = dict(zip(arrays, run(Program({"f": shown}), args), strict=True)) | dict(zip(f.params, args, strict=True))
    every = [(let, link) for let in f.body.lets for link in links(let)]
    for let, (var, source, how) in every:
        if var not in values or not isinstance(source, Var):
            continue
        match how:
            case How.SAME:
                np.testing.assert_array_equal(values[var], values[source])
            case How.SEEN:
                assert np.isin(values[var], values[source]).all()
            case How.CHANGED:
                kept = ~written(let, var, values)
                np.testing.assert_array_equal(values[var][kept], values[source][kept])


LINKED = """
fn grown(n.0: i64, x.1: f64[n.0]) -> (y.2: f64[n.0]) {
  y.3: f64[n.0] = update x.1[0] = 1.0
  yield y.3
}

fn f(n.0: i64, x.1: f64[n.0], c.2: bool) -> (r.3: f64[n.0], s.4: f64) {
  checked.5: f64[n.0] = check c.2 "E0800" ("no") () for (x.1)
  a.6: f64[n.0] = call grown(n.0, checked.5)
  b.7: f64[n.0], c.8: f64[n.0] = comp i.9 in 0..1 {
    yield 2.0, 3.0
  } to keep [n.0] [i.9] set into a.6, keep [n.0] [i.9 + 1] set after 0
  d.10: f64[n.0] = reshape c.8 [n.0]
  e.11: f64[n.0] = view j.12 in 0..n.0 of d.10[n.0 - 1 - j.12]
  g.13: f64[n.0] = if c.2 {
    yield d.10
  } else {
    yield e.11
  }
  t.14: f64 = read g.13[0]
  yield c.8, t.14
}
"""


def test_every_link_of_a_program() -> None:
    p = program(LINKED)
    lets = p.functions["f"].body.lets
    found = [(v.name, str(source)[0], how) for let in lets for v, source, how in links(let, {"grown": ((0, 1),)})]
    changed, same, seen = How.CHANGED, How.SAME, How.SEEN
    assert found == [("checked", "x", same), ("a", "c", changed), ("b", "a", changed), ("c", "b", changed),
                     ("d", "c", seen), ("e", "d", seen)]  # fmt: skip
    assert [v.name + "".join(str(a)[0] for a in atoms) for let in lets for v, atoms in choices(let)] == ["gde"]
