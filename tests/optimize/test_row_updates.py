"""Rows of arrays that loops compute from themselves are computed where they are, unless they need more of the array."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir import anf
from dlang.ir.builder import shape_of
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

IN_PLACE = {
    "scaled, with a number of the state": "a[k[i]] = 0.5 * a[k[i]] + s * x[i]",
    "added to": "a[k[i]] += s * sin(x[i])",
    "a part": "a[k[i], 1..] = a[k[i], 1..] * s - x[i, ..m - 1]",
    "an element of the row": "a[k[i]] = a[k[i]] * s + a[k[i], 0]",
    "a column": "a[.., j] = a[.., j] * s + x[.., j]",
}
APART = {
    "another row": "a[k[i]] = 0.5 * a[k[i]] + s * a[k[n - 1 - i]]",
    "a shifted row": "a[k[i], 1..] = s * a[k[i], ..m - 1] + a[k[i], 1..]",
    "reversed": "a[k[i]] = s * reverse(a[k[i]]) + x[i]",
}


def text(step: str) -> str:
    return f"""
fn f(x: f64[n, m], k: i64[n]) -> f64 {{
  var a = x
  var s = 0.5
  for i < n {{
    let j = k[i] % m
    {step}
    s = 0.5 * s + 0.1 * a[k[i], j]
  }}
  s + sum(a ** 2)
}}"""


def arguments() -> list[object]:
    return [5, 4, np.random.default_rng(2).normal(size=(5, 4)), np.array([3, 0, 3, 1, 4])]


def comprehensions_in_loops(step: str) -> int:
    made = lowered(text(step), "f")
    p = optimise(made.program, [made.entry.name], verify=True)
    loops = [let.op for let in walk(p.functions[made.entry.name].body) if isinstance(let.op, anf.For)]
    return sum(isinstance(let.op, anf.Comp) for loop in loops for let in walk(loop.body))


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_row_is_computed_where_it_is(name: str) -> None:
    assert comprehensions_in_loops(IN_PLACE[name]) == 1


@pytest.mark.parametrize("name", APART)
def test_a_row_that_needs_more_of_the_array_is_computed_apart(name: str) -> None:
    assert comprehensions_in_loops(APART[name]) > 1


@pytest.mark.parametrize("name", [*IN_PLACE, *APART])
def test_the_result_and_its_derivatives(name: str) -> None:
    program = text({**IN_PLACE, **APART}[name])
    same_in_the_end(program, "f", arguments())
    four_ways(program, arguments())


OTHER_ROWS = {
    "elimination": "for k < n { let f = m[.., k] / (9.0 + m[k, k])\n for i in k + 1..n { m[i] -= f[i] * m[k] } }",
    "elimination upward": "for k < n { let f = 2.0 * m[.., k]\n for i in 0..k { m[i] -= f[i] * m[k] } }",
    "running sums": "for j in 1..n { m[.., j] += m[.., j - 1] }",
    "running sums from the end": "for j in 1..n { m[n - 1 - j] += m[n - j] }",
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_rows_that_read_others_that_are_not_set_are_set_in_place(name: str) -> None:
    text = f"fn f(a: f64[n, n]) -> f64 {{\n  var m = a\n  {OTHER_ROWS[name]}\n  sum(m ** 2)\n}}\n"
    made = lowered(text, "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    lets = [let for f in program.functions.values() for let in walk(f.body)]
    copies = [let for let in lets if isinstance(let.op, anf.Copy) and len(shape_of(let.op.array)) == 2]
    assert len(copies) == 1  # what the caller holds
    comps = [let.op for let in lets if isinstance(let.op, anf.Comp)]
    assert all(d.into is not None for op in comps for d in op.destinations if len(d.shape) == 2)
    for n in (1, 2, 5):
        same_in_the_end(text, "f", [n, np.random.default_rng(n).normal(size=(n, n))])
    four_ways(text, [3, np.random.default_rng(3).normal(size=(3, 3))])
