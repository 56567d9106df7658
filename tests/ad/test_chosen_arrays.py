"""Elements of an array that is one of two, read in branches, loops and comprehensions, wherever the choice is made."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ad.four_ways import four_ways

READS = {
    "in an arm": "if x[1] >= 0.5 { s[1] * 2.0 } else { 0.5 }",
    "in both arms": "if x[0] > 0.3 { if x[1] >= 0.5 { s[1] * x[0] } else { s[0] } } else { s[0] }",
    "in a loop": "{\n  var t = 0.1\n  for i < n { t = sin(t) + s[i] * x[0] }\n  t\n}",
    "in a loop that ends by itself": """{
  var (t, i) = (0.1, 0)
  while i < n {
    t = sin(t) + s[i] * x[0]
    i += 1
  }
  t
}""",
    "in an arm in a loop": "{\n  var t = 0.1\n  for i < n { if t > 0.0 { t = sin(t) + s[i] * x[0] } }\n  t\n}",
    "of a choice of an iteration": """{
  var t = 0.1
  for i < n {
    let u = if i > j { s } else { x }
    t = sin(t) + (if t > 0.3 { u[i] } else { u[0] })
  }
  t
}""",
    "of a choice of a choice": """{
  let u = if j > 1 { s } else { y }
  if x[1] >= 0.5 { u[1] * 2.0 } else { u[0] }
}""",
    "in a comprehension": "sum(if x[i] > 0.6 { s[i] * x[i] } else { s[0] } for i < n)",
    "in a function": "(|k: i64| if x[k] > 0.5 { s[k] } else { s[0] })(1)",
    "of one of a tree": """{
  let u = match leaf(j % 3) { Leaf => s, Pair(_, _) => y }
  if x[1] >= 0.5 { u[1] } else { u[0] }
}""",
    "of a slice": """{
  let u = if j > 0 { s[1..] } else { x[..n - 1] }
  if x[1] >= 0.5 { u[1] * u[0] } else { 0.5 }
}""",
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("j", [0, 2, 4])
def test_the_array_that_was_chosen_gets_the_cotangent(read: str, j: int) -> None:
    text = f"""
enum Tree {{ Leaf, Pair(Tree, Tree) }}
fn leaf(d: i64) -> Tree = if d <= 0 {{ Leaf }} else {{ leaf(d - 1) }}
fn f(x: f64[n], j: i64) -> f64 {{
  let y = 3.0 * x
  let s = if j > 2 {{ x }} else {{ y }}
  {READS[read]}
}}"""
    slopes = four_ways(text, [3, np.array([0.4, 0.8, 0.7]), j])
    assert np.any(slopes[0])
