"""Sums over both sides of pairs: which are one, and that the results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.codegen.loops import Parallel
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk as walk_loops
from dlang.codegen.vectorize import Lanes
from dlang.ir.anf import Comp, Program, Reduce
from dlang.ir.traverse import walk
from dlang.optimize.symmetry import symmetry
from dlang.pipeline import optimise
from tests.optimize.programs import assert_same, program, run, through
from tests.specialize.support import lowered

PAIRS = """
fn value(r: f64[n, 3], m: f64[n]) -> f64 = sum(
  m[i] * m[j] / sqrt((r[i, 0] - r[j, 0]) ** 2 + (r[i, 1] - r[j, 1]) ** 2 + (r[i, 2] - r[j, 2]) ** 2 + 0.01) for i, j
)

fn f(r: f64[n, 3], m: f64[n]) -> (f64, (f64[n, 3], f64[n])) = value_and_grad(value, wrt = (r, m))(r, m)
"""
SUMS = """
fn f(n.0: i64, m.1: i64, x.2: f64[n.0], y.3: f64[n.0]) -> (a.4: f64[n.0], b.5: f64[n.0]) {
  a.6: f64[n.0], b.7: f64[n.0] = comp i.8 in 0..n.0, j.9 in 0..n.0 {
    p.10: f64 = read x.2[i.8]
    q.11: f64 = read x.2[j.9]
    u.12: f64 = read y.3[i.8]
    v.13: f64 = read y.3[j.9]
    d.14: f64 = sub(p.10, q.11)
    BODY
  } to keep [n.0] [i.8] sum, keep [n.0] [j.9] sum
  yield a.6, b.7
}
"""
SAME = {
    "of the other sign": """e.15: f64 = mul(d.14, d.14)
    g.16: f64 = mul(e.15, d.14)
    yield g.16, g.16""",
    "negated in one": """e.15: f64 = mul(u.12, v.13)
    g.16: f64 = mul(e.15, d.14)
    h.17: f64 = neg(g.16)
    yield g.16, h.17""",
    "exchanged": """e.15: f64 = mul(u.12, q.11)
    g.16: f64 = mul(p.10, v.13)
    yield e.15, g.16""",
    "over a function of the distance": """e.15: f64 = abs(d.14)
    g.16: f64 = exp(e.15)
    h.17: f64 = div(d.14, g.16)
    yield h.17, h.17""",
    "a sum of differences": """e.15: f64 = sub(v.13, u.12)
    g.16: f64 = add(d.14, e.15)
    yield g.16, g.16""",
}
DIFFERENT = {
    "zeros of two signs": """e.15: f64 = div(1.0, d.14)
    yield e.15, e.15""",
    "a product of two signs": """e.15: f64 = sub(u.12, v.13)
    g.16: f64 = mul(e.15, d.14)
    h.17: f64 = div(1.0, g.16)
    yield h.17, h.17""",
    "a function that is not odd": """e.15: f64 = exp(d.14)
    yield e.15, e.15""",
    "another array": """e.15: f64 = mul(p.10, v.13)
    yield e.15, e.15""",
    "another number": """e.15: f64 = mul(2.0, d.14)
    yield e.15, d.14""",
    "an index": """i.15: f64 = cast f64 i.8
    e.16: f64 = mul(i.15, q.11)
    yield e.16, e.16""",
}


def sums(body: str) -> Program:
    return program(SUMS.replace("BODY", body))


def pairs(p: Program) -> list[Comp]:
    """The comprehensions over two axes."""
    lets = (let for f in p.functions.values() for let in walk(f.body))
    return [let.op for let in lets if isinstance(let.op, Comp) and len(let.op.axes) == 2]


def arguments(n: int) -> list[Any]:
    return [n, 0, np.sin(np.arange(float(n)) * 3), np.cos(np.arange(float(n)))]


@pytest.mark.parametrize("case", SAME)
def test_the_sum_of_one_side_is_that_of_the_other(case: str) -> None:
    p = sums(SAME[case])
    after = through(p, symmetry)
    (comp,) = pairs(after)
    assert len(comp.destinations) == 1
    for n in (0, 1, 2, 9):
        assert_same(run(p, arguments(n)), run(after, arguments(n)), exact=False)


@pytest.mark.parametrize("case", DIFFERENT)
def test_sums_that_may_differ_are_both_there(case: str) -> None:
    p = sums(DIFFERENT[case])
    assert through(p, symmetry) is p or len(pairs(through(p, symmetry))[0].destinations) == 2


def test_sides_of_two_ranges_are_not_compared() -> None:
    text = SUMS.replace("j.9 in 0..n.0", "j.9 in 1..n.0").replace("BODY", SAME["negated in one"])
    (comp,) = pairs(through(program(text), symmetry))
    assert len(comp.destinations) == 2


IN_A_COLUMN = """
fn f(n.0: i64, k.1: i64, l.2: i64, x.3: f64[n.0], u.4: f64[l.2], c.5: i64) -> (a.6: f64[n.0, k.1], b.7: f64[n.0, k.1])
  sizes (k.1) {
  low.8: bool = ge(c.5, 0)
  high.9: bool = lt(c.5, k.1)
  both.10: bool = and(low.8, high.9)
  none.11: bool = le(l.2, 0)
  holds.12: bool = or(both.10, none.11)
  ok.13: i64 = check holds.12 "E0801" ("index ", "", " is out of range for size ", "", "") (c.5, k.1) for (c.5)
  a.14: f64[n.0, k.1], b.15: f64[n.0, k.1] = comp i.16 in 0..n.0, j.17 in 0..n.0, m.18 in 0..l.2 {
    p.19: f64 = read x.3[i.16]
    q.20: f64 = read x.3[j.17]
    d.21: f64 = sub(p.19, q.20)
    u.22: f64 = read u.4[m.18]
    g.23: f64 = mul(d.21, u.22)
    yield g.23, g.23
  } to keep [n.0, k.1] [i.16, ok.13] sum, keep [n.0, k.1] [j.17, ok.13] sum
  yield a.14, b.15
}
"""


def test_no_element_is_read_that_need_not_be_there() -> None:
    p = program(IN_A_COLUMN)
    after = through(p, symmetry)
    for n, k, l, c in [(3, 2, 0, 7), (3, 2, 2, 1), (2, 0, 0, 0), (0, 2, 2, 1)]:
        args = [n, k, l, np.sin(np.arange(float(n))), np.ones(l), c]
        assert_same(run(p, args), run(after, args), exact=False)


def test_the_gradient_of_an_energy_is_one_pass_with_sums_in_registers() -> None:
    found = lowered(PAIRS)
    p = optimise(found.program, [found.entry.name])
    (comp,) = pairs(p)
    kept = {i for d in comp.destinations if isinstance(d, Reduce) for i in d.index}
    assert len(comp.destinations) == 5 and len(kept) == 1  # the energy, three coordinates, a mass
    pieces = [s for f in schedule(p, Lanes(512), 1_000_000).functions.values() for s in walk_loops(f.body.stmts)]
    assert not any(s.partials for s in pieces if isinstance(s, Parallel))


def test_the_gradient_of_an_energy_is_what_it_was() -> None:
    found = lowered(PAIRS)
    rng = np.random.default_rng(0)
    args: list[Any] = [5, rng.normal(size=(5, 3)), rng.uniform(1.0, 2.0, 5)]
    energy, forces, of_masses = found.run(*args, optimised=True)
    r, m = args[1:]
    d = r[:, None] - r
    k = 1 / np.sqrt((d**2).sum(2) + 0.01)
    np.testing.assert_allclose(energy, (m[:, None] * m * k).sum())
    np.testing.assert_allclose(forces, -2 * ((m[:, None] * m * k**3)[:, :, None] * d).sum(1), rtol=1e-10)
    np.testing.assert_allclose(of_masses, 2 * (k * m).sum(1))
