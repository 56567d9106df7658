"""Branches in loops of which one arm hands an array on: whether the other arm may write into its memory."""

from __future__ import annotations

import io

import numpy as np
import pytest

import dlang
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Block
from dlang.ir.reader import read_program
from dlang.ir.traverse import walk
from dlang.ir.update_chains import UpdateChains
from dlang.optimize.ownership import ownership
from dlang.runtime.engine import CHECKS, Engine
from tests.meaning import meaning

LOOP = """\
fn main(n.0: i64, m.1: i64) -> (r.2: f64[n.0], s.3: f64) {{
  x.4: f64[n.0] = comp i.5 in 0..n.0 {{
    v.6: f64 = cast f64 i.5
    yield v.6
  }} to keep [n.0] [i.5] sum
  r.7: f64[n.0], s.8: f64 = for k.9 in 0..m.1 (y.10: f64[n.0] = x.4, t.11: f64 = 0.0) {{
    u.12: f64[n.0] = update y.10[0] = 7.0
    odd.13: i64 = mod(k.9, 2)
    c.14: bool = eq(odd.13, 0)
{before}
    z.15: f64[n.0] = if c.14 {{
      yield u.12
    }} else {{
{first}
      w.16: f64[n.0] = comp i.17 in 0..n.0 {{
        {value}
        yield a.18
      }} to keep [n.0] [i.17] sum
{last}    }}
    {after}
    t.20: f64 = add(t.11, b.19)
    yield z.15, t.20
  }}
  yield r.7, s.8
}}
"""

CASES = {
    "made of nothing": (
        "",
        "a.18: f64 = cast f64 k.9",
        "b.19: f64 = read z.15[1]",
        True,
    ),
    "made of the old one, backwards": (
        "",
        "a.18: f64 = read u.12[n.0 - 1 - i.17]",
        "b.19: f64 = read z.15[1]",
        False,
    ),
    "made of a view": (
        "    back.21: f64[n.0] = view i.22 in 0..n.0 of u.12[n.0 - 1 - i.22]",
        "a.18: f64 = read back.21[i.17]",
        "b.19: f64 = read z.15[1]",
        False,
    ),
    "the old one is read afterwards": (
        "",
        "a.18: f64 = cast f64 k.9",
        "b.19: f64 = read u.12[1]",
        False,
    ),
    "made after the last look at the old one": (
        "",
        "a.18: f64 = add(g.23, g.23)",
        "b.19: f64 = read z.15[1]",
        True,
        "      g.23: f64 = read u.12[2]",
    ),
    "made before the last look at the old one": (
        "",
        "a.18: f64 = cast f64 k.9",
        "b.19: f64 = read z.15[1]",
        False,
        "",
        """      v.24: f64[n.0] = comp i.25 in 0..n.0 {
        c.26: f64 = read w.16[i.25]
        d.27: f64 = read u.12[n.0 - 1 - i.25]
        e.28: f64 = add(c.26, d.27)
        yield e.28
      } to keep [n.0] [i.25] set
      h.29: f64 = read v.24[0]
      w.30: f64[n.0] = update w.16[1] = h.29
      yield w.30
""",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 4])
def test_the_old_array_is_overwritten_only_where_nothing_looks_at_it(name: str, iterations: int) -> None:
    before, value, after, shared, *arm = CASES[name]
    first, last = [*arm, "", ""][0], (arm[1] if len(arm) > 1 else "      yield w.16\n")
    text = LOOP.format(before=before, value=value, after=after, first=first, last=last)
    program = ownership(read_program(text))
    wanted = Interpreter(program).run("main", [5, iterations])
    found = Engine(Host(io.StringIO())).compile(program, ["main"]).run("main", [5, iterations])
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f, w)
    assert continues(program.functions["main"].body) == shared


SIZED = """\
fn main(n.0: i64, m.1: i64) -> (r.2: f64) {
  x.3: f64[n.0] = comp i.4 in 0..n.0 {
    yield 2.0
  } to keep [n.0] [i.4] set
  c.5: bool = lt(m.1, 9)
  z.6: f64[m.1] = if c.5 {
    d.7: bool = eq(n.0, m.1)
    y.8: f64[m.1] = check d.7 "E0706" ("", "", "") (n.0) for (x.3)
    u.9: f64[m.1] = update y.8[0] = 7.0
    yield u.9
  } else {
    w.10: f64[m.1] = comp i.11 in 0..m.1 {
      v.12: f64 = cast f64 i.11
      yield v.12
    } to keep [m.1] [i.11] set
    yield w.10
  }
  r.13: f64 = read z.6[m.1 - 1]
  yield r.13
}
"""
"""An array of which one arm checks that it has the size that is wanted, and the other makes one of that size."""

TURNED = """\
fn main(n.0: i64, m.1: i64) -> (r.2: f64) {
  x.3: f64[n.0, m.1] = comp i.4 in 0..n.0, j.5 in 0..m.1 {
    yield 2.0
  } to keep [n.0, m.1] [i.4, j.5] set
  c.6: bool = eq(n.0, m.1)
  z.7: f64[m.1, n.0] = if c.6 {
    y.8: f64[m.1, n.0] = check c.6 "E0706" ("", "", "") (n.0) for (x.3)
    u.9: f64[m.1, n.0] = update y.8[0, 1] = 7.0
    yield u.9
  } else {
    w.10: f64[m.1, n.0] = comp i.11 in 0..m.1, j.12 in 0..n.0 {
      k.13: i64 = size 10*i.11 + j.12
      v.14: f64 = cast f64 k.13
      yield v.14
    } to keep [m.1, n.0] [i.11, j.12] set
    yield w.10
  }
  r.15: f64 = read z.7[m.1 - 1, 0]
  yield r.15
}
"""
"""The same of a matrix that has as many elements, in rows of another length."""

GROWN = """
fn halved(x: f64[n]) -> f64 {
  var y: f64[?] = x
  var s = 0.0
  for v in x {
    let p = if v > 0.2 { y } else { y[..len(y) // 2] }
    if v > 0.0 { s += sum(p); y = concat(p, [1.0]) }
  }
  s + sum(y)
}
fn main(x: f64[n]) -> f64[n] = grad(halved)(x)
"""


@pytest.mark.parametrize("text", [SIZED, TURNED])
@pytest.mark.parametrize("size", [4, 4000])
def test_an_array_whose_size_one_arm_checks_has_no_room_for_that_of_the_other(
    text: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHECKS, "1")
    program = ownership(read_program(text))
    found = Engine(Host(io.StringIO())).compile(program, ["main"]).run("main", [4, size])
    assert found == Interpreter(program).run("main", [4, size])
    assert not continues(program.functions["main"].body)


def test_cotangents_of_what_shrinks_in_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHECKS, "1")
    x = np.random.default_rng(3).uniform(-0.9, 0.9, 11)
    slope = meaning(dlang.compile(GROWN, backend="interp").main, x)
    np.testing.assert_allclose(dlang.compile(GROWN).main(x), slope, rtol=1e-12)


STARTS = """
fn f(x: f64[n], m: i64) -> f64 {{
  var a = x * 2.0
  let (b, c) = (x * 3.0, x * 5.0)
  var t = 0.0
  var s = 0
  while s < m {{
    let before = a
    {loop} {{
      if x[(s + j) % n] > 0.5 {{ {change} }}
      j += 1
    }}
    t = 0.5 * t + {read}
    s += 1
  }}
  t + a[0]
}}
"""
LOOPS = {"for": "var j = 0\n    for l < 3", "while": "var j = 0\n    while j < 3"}
CHANGES = {
    "chosen": "a = if x[(s + 2 * j) % n] > 0.3 { b } else { c }",
    "made": "a = x * f64(s + j)",
    "updated": "a[j] = f64(s)",
}
READS = {
    "all": "sum(before[i] * a[i] for i < n)",
    "an element": "before[s % n] * a[1]",
    "a part": "sum(before[..2]) * a[0]",
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_what_a_loop_in_a_loop_begins_with_is_there_afterwards(loop: str, change: str, read: str) -> None:
    text = STARTS.format(loop=LOOPS[loop], change=CHANGES[change], read=READS[read])
    x = np.random.default_rng(7).uniform(0.05, 0.95, 7)
    expected = meaning(dlang.compile(text, backend="interp").f, x, 9)
    np.testing.assert_allclose(dlang.compile(text).f(x, 9), expected, rtol=1e-12)


def continues(body: Block) -> bool:
    """Tells whether the branch continues the array that is there before."""
    chains = UpdateChains()
    chains.add(body)
    (branch,) = (let.vars[0] for let in walk(body) if let.vars[0].name == "z")
    return branch in chains.step
