"""Loops whose iterations are said to be independent give the same in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dlang.codegen.control import are_independent
from dlang.ir.anf import For, Function, Let, Program, poly
from dlang.ir.substitution import Renaming
from tests.optimize.programs import program, run

LOOP = """fn f(n.0: i64, x.1: f64[n.0, 3], k.2: i64[n.0]) -> (y.3: f64[n.0, 3]) {{
  y.4: f64[n.0, 3] = for i.5 in 0..n.0 (s.6: f64[n.0, 3] = x.1) {{
{}
  }}
  yield y.4
}}"""
OWN = {
    "an element": """t.10: f64 = read x.1[i.5, 1]
    s.11: f64[n.0, 3] = update s.6[i.5, 0] = t.10
    yield s.11""",
    "a row": """s.11: f64[n.0, 3] = comp j.12 in 0..3 {
      t.10: f64 = read x.1[i.5, 2 - j.12]
      yield t.10
    } to keep [n.0, 3] [i.5, j.12] set into s.6
    yield s.11""",
    "a row from the end": """t.10: f64 = read s.6[n.0 - i.5 - 1, 1]
    s.11: f64[n.0, 3] = update s.6[n.0 - i.5 - 1, 0] = t.10
    yield s.11""",
    "a loop that goes on with it": """s.11: f64[n.0, 3] = for j.12 in 0..3 (s.13: f64[n.0, 3] = s.6) {
      t.10: f64 = read s.13[i.5, 0]
      t.14: f64 = add(t.10, 1.0)
      s.15: f64[n.0, 3] = update s.13[i.5, j.12] = t.14
      yield s.15
    }
    yield s.11""",
    "a branch that goes on with it": """t.10: f64 = read s.6[i.5, 0]
    b.11: bool = gt(t.10, 0.0)
    s.12: f64[n.0, 3] = if b.11 {
      s.13: f64[n.0, 3] = update s.6[i.5, 1] = t.10
      yield s.13
    } else {
      yield s.6
    }
    yield s.12""",
}
SHARED = {
    "the element of another": """t.10: f64 = read s.6[0, 1]
    s.11: f64[n.0, 3] = update s.6[i.5, 0] = t.10
    yield s.11""",
    "an element found by data": """m.10: i64 = read k.2[i.5]
    t.12: f64 = read x.1[i.5, 0]
    s.11: f64[n.0, 3] = update s.6[m.10, 0] = t.12
    yield s.11""",
    "different entries": """s.10: f64[n.0, 3] = update s.6[i.5, 0] = 1.0
    t.11: f64 = read s.10[n.0 - i.5 - 1, 0]
    s.12: f64[n.0, 3] = update s.10[i.5, 1] = t.11
    yield s.12""",
    "an index of a loop inside": """s.11: f64[n.0, 3] = for j.12 in 0..n.0 (s.13: f64[n.0, 3] = s.6) {
      t.10: f64 = read x.1[i.5, 0]
      s.15: f64[n.0, 3] = update s.13[j.12, 0] = t.10
      yield s.15
    }
    yield s.11""",
    "all of it": """t.10: f64 = comp j.12 in 0..n.0 {
      t.13: f64 = read s.6[j.12, 0]
      yield t.13
    } to keep [] [] sum
    s.11: f64[n.0, 3] = update s.6[i.5, 0] = t.10
    yield s.11""",
    "another array": """s.11: f64[n.0, 3] = comp j.12 in 0..n.0, l.13 in 0..3 {
      t.10: f64 = read x.1[j.12, l.13]
      u.14: f64 = mul(t.10, 2.0)
      yield u.14
    } to keep [n.0, 3] [j.12, l.13] set
    yield s.11""",
    "what may fail and is done once more": """t.10: f64 = read s.6[i.5, 0]
    b.11: bool = lt(t.10, 5.0)
    t.12: f64 = check b.11 "E0801" ("large") () for (t.10)
    s.13: f64[n.0, 3] = update s.6[i.5, 0] = t.12
    yield s.13""",
}


def loop_of(p: Program) -> tuple[Function, Let, For]:
    f = p.functions["f"]
    (let,) = f.body.lets
    assert isinstance(let.op, For)
    return f, let, let.op


@pytest.mark.parametrize("name", OWN)
def test_independent_iterations_give_the_same_in_the_opposite_order(name: str) -> None:
    p = program(LOOP.format(OWN[name]))
    f, let, loop = loop_of(p)
    assert are_independent(loop)
    last = loop.high - 1 + loop.low
    turned = Renaming({loop.index: last - poly(loop.index)}).block(loop.body)
    block = replace(f.body, lets=(replace(let, op=replace(loop, body=turned)),))
    other = replace(p, functions={"f": replace(f, body=block)})
    args = [5, np.linspace(-2.0, 3.0, 15).reshape(5, 3), np.array([2, 2, 0, 1, 4])]
    np.testing.assert_array_equal(run(p, args)[0], run(other, args)[0])


@pytest.mark.parametrize("name", SHARED)
def test_iterations_that_may_need_each_other_are_not_independent(name: str) -> None:
    _, _, loop = loop_of(program(LOOP.format(SHARED[name])))
    assert not are_independent(loop)
