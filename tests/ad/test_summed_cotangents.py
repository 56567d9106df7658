"""Elements, rows and wholes of arrays that are found in nodes, or that a loop hands on, get the right cotangents."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ad.four_ways import four_ways

PARTS = """
enum Parts<n> { End, Part(row: f64[n], square: f64[n, n], scale: f64, rest: Parts<n>) }
enum Forest<n> { Leaf(f64[n]), Grove(trees: Forest<n>[n], weight: f64) }

fn parts(x: f64[n], m: i64) -> Parts<n> {
  var l = End
  for k < m { l = Part(x * f64(k + 1), [x[i] * x[j] for i < n, j < n], x[k % n], l) }
  l
}
fn turned(l: Parts<n>) -> Parts<n> {
  var from = l
  var to = End
  while match from { End => false, _ => true } {
    match from { End => {}, Part(a, b, c, rest) => { to = Part(a, b, c * 1.1, to)
      from = rest } }
  }
  to
}
fn row(l: Parts<n>, k: i64, x: f64[n]) -> f64[n] = match l {
  End => x * 0.5,
  Part(a, _, _, rest) => if k <= 0 { a } else { row(rest, k - 1, x) }
}
fn at(a: f64[n], i: i64) -> f64 = if i >= n { 0.1 } else if i % 3 == 2 { a[i] * 2.0 } else { a[i] * at(a, i + 1) }
fn forest(x: f64[n], depth: i64) -> Forest<n> =
  if depth == 0 { Leaf(sin(x)) } else { Grove([forest(x * f64(i + depth), depth - 1) for i < n], x[0]) }
fn value(t: Forest<n>, i: i64) -> f64 = match t {
  Leaf(a) => a[i % n] ** 2,
  Grove(trees, w) => w * value(trees[i % n], i + 1) + value(trees[0], i)
}
"""

USES = {
    "an element": "match l { Part(a, _, _, _) => a[k] ** 2, End => 0.0 }",
    "elements of both arrays": "match l { Part(a, b, s, _) => a[k] * b[k, 0] * s + b[0, k] ** 2, End => 0.0 }",
    "an element at each point": "sum(x[i] * (match l { Part(a, _, s, _) => a[i] * s, End => 0.0 }) for i < n)",
    "the greatest of few": "max(match l { Part(a, _, s, _) => a[i] * s, End => 0.0 } for i < 3) * x[0]",
    "the greatest of all": "max(match l { Part(a, b, _, _) => a[i] * b[k, j], End => 0.0 } for i < n, j < n)",
    "a row": "match l { Part(_, b, _, _) => sum(b[k, j] * x[j] for j < n), End => 0.0 }",
    "a column": "match l { Part(_, b, _, _) => sum(b[j, k] ** 2 for j < n), End => 0.0 }",
    "a row as a slice": "match l { Part(_, b, _, _) => sum(b[k] * x), End => 0.0 }",
    "parts": "match l { Part(a, b, _, _) => sum(b[k, 1..] * x[..n - 1]) + sum(a[1..k + 1] ** 2), End => 0.0 }",
    "the whole": "match l { Part(a, b, s, _) => sum(a * x) * s + sum(b @ a), End => 0.0 }",
    "whole and element": "match l { Part(a, b, _, _) => a[0] * sum(a * x) * a[k] + b[k, k] * sum(b), End => 0.0 }",
    "a reversed list": "match turned(l) { Part(a, b, s, _) => a[k] * s + sum(b[k]), End => 0.0 }",
    "an array that a function chooses": "row(l, k, x)[1] ** 2 + sum(row(l, 1, x) * x) + row(l, 7, x)[k]",
    "what a function takes": "match l { Part(a, _, s, _) => at(a, k) * s, End => 0.0 }",
    "a choice for a function": "match l { Part(a, _, _, _) => at(if x[0] > 0.3 { a } else { x }, k), End => 0.0 }",
    "an element in arms": "match l { Part(a, _, _, _) => a[0] * (if x[0] > 0.3 { a[k] } else { 0.1 }), End => 0.0 }",
    "the whole in an arm": "match l { Part(a, _, s, _) => if x[0] > 0.3 { sum(a * a) * s } else { a[0] }, End => 0.0 }",
    "a loop over all": """match l { End => 0.0, Part(a, b, _, _) => {
  var t = 0.1
  for i < n { t = sin(t) + a[i] * b[k, i] }
  t
} }""",
    "a loop over some": """match l { End => 0.0, Part(a, b, _, _) => {
  var (t, i) = (0.1, 0)
  while i <= k {
    t = sin(t) + a[i] * b[i, k]
    i += 1
  }
  t
} }""",
    "all nodes": """{
  var (t, left) = (0.5, l)
  while match left { End => false, _ => true } {
    left = match left {
      End => End,
      Part(a, b, s, rest) => {
        t = sin(t) * a[k] + sum(a * x) * s + b[0, 1]
        if t > 0.0 { rest } else { match rest { End => End, Part(a, _, _, last) => {
          t += a[0]
          last
        } } }
      }
    }
  }
  t
}""",
    "one node again and again": """{
  var t = 0.5
  for i < 2 * n { t = 0.5 * sin(t) + (match l { End => 0.0, Part(a, b, s, _) =>
    if i % 2 == 0 { a[i % n] * s } else { sum(a * x) + sum(b[i % n] * x) } }) }
  t
}""",
    "a changed copy": """match l { End => 0.0, Part(a, b, _, _) => {
  var c = a
  c[k] = c[k] * x[0] + b[k, 0]
  sum(c * a)
} }""",
    "trees in arrays": "value(forest(x, 2), k) + value(forest(x, 1), 0)",
    "nodes of a known size in an array": """{
  var stacks = [End for j < 2]
  for i < 6 {
    let top = stacks[i % 2]
    stacks[i % 2] = Part([x[i % n] * f64(j) for j < 3], [x[0] for j < 3, m < 3], 0.3, top)
  }
  var t = 0.0
  for i < 6 { t += match stacks[i % 2] { End => 0.0, Part(a, b, s, _) => a[i % 3] * s + sum(a) * b[k, i % 3] } }
  t
}""",
    "functions that capture": """{
  var (a, t) = (x * 2.0, 0.3)
  var f: i64 -> f64 = |i| a[i % n]
  for i < n {
    t = sin(t) + f(i) * x[i]
    a[i] = t
    if x[i] > 0.5 {
      let b = sin(a)
      f = |j| b[j % n] * x[i]
    }
  }
  t
}""",
    "arrays that take turns": """{
  var (a, b, t) = (x * 2.0, sin(x), 0.3)
  for i < 3 * n {
    t = 0.7 * sin(t) + a[i % n] * b[k]
    if x[i % n] > 0.5 { (a, b) = (b, a) }
  }
  t + sum(a * x) + b[0]
}""",
    "arrays that are chosen and read as a whole": """{
  var (a, b, t) = (x * 2.0, sin(x), 0.3)
  for i < n {
    t = 0.1 * sin(t) + sum(a * x)
    (a, b) = if x[i] > 0.5 { (b, x) } else { (b, a) }
  }
  t
}""",
    "few elements in a loop": """{
  var (t, left) = (0.1, l)
  for i < 2 * n {
    left = if t > 0.5 { l } else { match left { Part(_, _, _, Part(a, b, s, r)) => Part(a, b, s, r), _ => l } }
    t = 0.5 * sin(t) + (match left { End => 0.0, Part(a, b, s, _) =>
      sum(a[(i + k * j) % n] * x[j] for j < 2) + sum(if a[j] > 0.5 { b[j, (i + j) % n] * s } else { 0.1 } for j < 2) +
      sum(a[i % 2..i % 2 + 2] * t) + sum(b[(i + j) % 2 + m, k - j] for j < 2, m < 2) + sum(a[2 * j] for j < 2) })
  }
  t
}""",
    "no elements": """{
  var t = 0.1
  for i < n + 4 { t = 0.5 * sin(t) + (match l { End => 0.0, Part(a, b, _, _) =>
    sum(a[i + 2 * j] for j < (if i < n { 1 } else { 0 })) + sum(b[i + j, i] for j < (if i < n { 1 } else { 0 })) }) }
  t
}""",
    "rows of matrices that a branch chooses": """{
  let (u, v) = (x * 2.0, [sin(x[i] * x[j]) for i < n, j < n])
  let w = v * v
  var t = 0.1
  for i < 2 * n {
    let p = if x[i % n] > 0.5 { v } else { w }
    let q = match l { Part(_, b, _, _) => if t > 0.3 { b } else { p }, End => w }
    t = 0.5 * sin(t) + sum(p[i % n] * u) + sum(q[.., k]) * q[k, i % n]
  }
  t
}""",
    "an array that is handed on, made or set": """{
  var (h, g, t) = (x, sin(x), 0.1)
  for i < 2 * n {
    if x[i % n] > 0.7 { h = match l { End => x, Part(a, _, _, _) => a } } else if i == 3 { h = sin(h) * t }
    g = if t > 0.6 { h } else { g }
    g[i % n] = g[i % n] * t
    t = 0.5 * sin(t) + h[k] * g[(i + 1) % n]
  }
  t + sum(h * g)
}""",
    "a state of several forms": """{
  var (s, t) = (Part(x * 2.0, [x[i] * x[j] for i < n, j < n], 0.5, End), 0.0)
  for i < 2 * n { s = match s {
    End => End,
    Part(a, b, c, End) => {
      t += a[i % n] ** 2
      if x[i % n] > 0.5 { Part(b[k], b, c, s) } else { Part(a, b, c * 1.1, s) }
    },
    Part(a, b, c, Part(d, _, _, _)) => {
      t += a[k] * d[i % n] * c
      Part(d, b, c * 0.9, End)
    } } }
  t
}""",
}


def program(use: str) -> str:
    return f"{PARTS}fn f(x: f64[n], k: i64) -> f64 {{\n  let l = parts(x, 3)\n  {USES[use]}\n}}"


SECOND = ("an element at each point", "a row", "whole and element", "a reversed list", "what a function takes")
SECOND += (
    "few elements in a loop",
    "rows of matrices that a branch chooses",
    "an array that is handed on, made or set",
)
SECOND += ("a loop over some", "all nodes", "trees in arrays", "functions that capture", "a state of several forms")


@pytest.mark.parametrize("use", USES)
def test_an_array_gets_what_is_added_to_its_parts(use: str) -> None:
    slopes = four_ways(program(use), [3, np.array([0.4, 0.8, 0.7]), 2])
    assert np.any(slopes[0])


@pytest.mark.parametrize("use", SECOND)
def test_second_derivatives(use: str) -> None:
    text = f"""{program(use).replace("fn f(", "fn g(")}
fn f(x: f64[n], k: i64) -> f64 = sum(grad(|y| g(y, k))(x) * [cos(f64(i)) for i < n])"""
    four_ways(text, [3, np.array([0.4, 0.8, 0.7]), 1], looser=300.0)


AGAIN = ("all nodes", "few elements in a loop", "an array that is handed on, made or set", "functions that capture")
AGAIN += (
    "arrays that take turns",
    "rows of matrices that a branch chooses",
    "arrays that are chosen and read as a whole",
)


@pytest.mark.parametrize("use", AGAIN)
def test_a_checkpoint_of_loops(use: str) -> None:
    text = f"""{program(use).replace("fn f(", "fn g(")}
fn f(x: f64[n], k: i64) -> f64 = checkpoint(g)(x, k)"""
    four_ways(text, [3, np.array([0.4, 0.8, 0.7]), 2])
