"""Programs that were found by chance: each was once compiled wrongly, or not at all."""

from __future__ import annotations

import pytest

from tests.fuzz.compare import disagreement
from tests.fuzz.derivatives import wrong_derivative

MAIN = "fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> f64"

FOUND = {
    "an arm takes from an element what is computed from it": """
MAIN {
  var u = q * x
  for i < k { if i > 0 { u[i] -= (f64(i) + u[i]) / (1.0 + q[i] ** 2) } }
  sum(sin(u))
}
""",
    "a node of one variant is compared with one of another, field by field, where that is never reached": """
enum Sized<n> { One(f64[n], f64), Two(Sized<n>, f64) }
MAIN = f64(len([i for i < 3 if (if x < 0.5 { One(q, x) } else { One(q, 0.0) }) == Two(One(q, x), x)]))
""",
    "an arm for another variant than the one that is known chooses a function": """
enum Tree { Leaf(f64, i64), Node(i64, Tree, f64) }
fn walk(q: f64[k], t: Tree, x: f64) -> f64 = match t {
  Leaf(a, j) => (if j >= 1 { |y: f64| q[1] } else { |y: f64| x })(a)
  Node(_, l, a) => walk(q, l, a)
}
MAIN = walk(q, Leaf(x, j), x)
""",
    "functions that call one another last, with arrays of different sizes": """
fn chained(q: f64[k], d: i64, s: f64, step: f64 -> f64) -> f64 =
  if d <= 0 { step(s) } else { chained(q, d - 1, s, |r: f64| step(r * q[1])) }
MAIN = [|y: f64| y * p[0], |y: f64| chained(q, j % 7, y, |r| r)][j % 2](x)
""",
    "what a check certifies is stored over more axes than it needs": """
fn middle(p: f64[n], q: f64[k], m: f64[n, k], j: i64) -> f64[2, k] =
  if j >= 1 {
    [
      (if p[1] > q[i] { |a: f64| a } else { |a: f64| a })(
        sum_floats(map_floats(|v| sin(v), ([m[1, i] for b < n + k], (j, j))))
      )
      for _ in [m[0, j % k] for d < 2], (i, _) in enumerate(q)
    ]
  } else { [p[0] for a < 2, b < k] }
MAIN = sum(middle(p, q, m, j))
""",
    "what a call reads lies in the memory where its result would be handed on": """
fn even(p: f64[n], d: i64, a: f64[n]) -> f64[n] {
  if d <= 0 { return if p[1] > a[1] { p } else { a } }
  odd(tanh(a), d - 1, a)
}
fn odd(p: f64[n], d: i64, a: f64[n]) -> f64[n] {
  if d <= 0 { return a * a[0] }
  even(p, d - 2, even(p, d - 1, p))
}
MAIN = sum(sin(even(tanh(p), j % 5, p + p))) + sum(sin(even(tanh(p), 3, p + p)))
""",
    "two results of a comprehension are parts of an array that nothing else may change": """
fn cps(q: f64[k], d: i64, s: f64, step: f64 -> f64) -> f64 = if d <= 0 { step(s) } else {
  cps(q, d - 1, 0.9 * s, |r: f64| step(tanh(sum(reduce(|a, b| a @ b, [[1.0, 0.0], [0.0, 1.0]],
    [[[cos(v), v], [0.5, tanh(v)]] for v in scan(|acc, _| (tanh(r), s), r, [q[1] for _ < 2]).1])) + 0.5 * r)))
}
MAIN {
  let chosen = if (if q[0] > p[j % n] { false } else { -0.75 > x }) { |y: f64| q[1] > y } else { |y: f64| q[0] > 0.5 }
  (if chosen(q[j % k]) {
    m[0, minimum(maximum(j, 0), k - 1)]
  } else {
    var u = p[0]
    var c = 1
    while c > 0 and (fold(|(a, b), v| (tanh(a), sin(a)), (m[j % n, j % k], 0.5), [p[0] for _ < n + 1]).1
        == cps(p, j % 7, u, |r| 2.0 * r * u)) {
      c -= 1
      u *= 1.2 * tanh(u)
      if [q[j % k] > u for _ < n][j % n] { continue }
      u /= 1.0 + p[1] ** 2
    }
    u
  }) + sum_floats(map_floats(|v| sin(1.7 * v + 0.3), q))
}
""",
    "an array that a node holds goes on in one arm of a branch": """
fn again(p: f64[n], q: f64[k], d: i64, a: (f64, f64[k])) -> (f64, f64[k]) {
  if d <= 0 { return a }
  let r = again(p, q, d - 1, (0.9 * a.0, tanh(a.1)))
  if r.0 > r.1[0] or q[0] < r.0 { (if p[0] > q[0] { |_: f64| r } else { |_: f64| r })(p[0]) } else { (2.0, r.1) }
}
MAIN {
  let (a, b) = again(p, q, 1 + j % 4, (0.5, q))
  a + sum(sin(1.7 * b))
}
""",
    "the condition of a loop checks, and gives nothing by that": """
fn more(c: i64, s: f64) -> bool {
  assert s < 1e9
  c > 0
}
MAIN {
  var c = 3
  var s = 0.0
  while more(c, s) {
    c -= 1
    s += p[0] * x
  }
  s
}
""",
    "one element of each row has a cotangent, and that is the same for all of them": """
MAIN {
  let a = [x * p[i] * f64(c) for i < n, c < 4]
  sum(a[i, (i * i) % 4] for i < n) + sum(a[i, i % 4] for i < n, b < k)
}
""",
    "what a loop gives is one number, and then what a branch chooses depends on one axis": """
MAIN = sum([(if j == 0 or j == 1 { sin(q[i]) } else { v }) for v in scan(|a, b| (1, 1), 1, p).1, i < k])
""",
    "what is sorted has one tangent, and nothing else depends on an axis around it": """
fn firsts(p: f64[n], x: f64) -> f64 {
  let a = [x * p[i] + f64(b - c) for i < n, b < 3, c < 4]
  sum(cumsum([sort([a[i, b, c] for b < 2])[0] for i < n])[0] for c < 4)
}
MAIN = jvp(firsts, (p, x), (p, x)).1
""",
    "loops in two comprehensions change copies of one array, and one follows from the other": """
fn turns(p: f64[n], x: f64) -> f64 =
  sum({
    var s = x
    var w = [0.1 * p[i] for z < 3]
    for a in 0..i + 1 {
      s = s * sin(s)
      w[a % 3] = w[(a + 1) % 3] * 0.3 + s
    }
    sum(w)
  } for i < n)
MAIN {
  let (u, v) = grad(turns, wrt = (p, x))(p, x)
  sum(u ** 2) + v ** 2
}
""",
    "what a loop begins with at each point is a sum over another axis, so the same at all of them": """
fn weighed(p: f64[n], q: f64[k], x: f64) -> f64 =
  sum([{
    var s = p[i]
    var w = [x for z < 3]
    for a in 0..i + 1 {
      if s > 0.4 { s = sin(s) }
      w[a % 3] = w[(a + 1) % 3] * 0.3 + s
    }
    sum(w)
  } for i < n, l < k] @ q)
MAIN = sum(grad(weighed, wrt = p)(p, q, x))
""",
    "a gradient sets rows of what arms inside of loops have saved, and is differentiated": """
fn changed(p: f64[n], q: f64[k], i: i64, a: f64) -> f64 {
  var w = [0.3 for z < k]
  if i == 0 {
    var s = 0.3
    for t < 2 {
      if a < 1.0 {
        w = s * w
        s -= p[0] * p[0]
      }
    }
  }
  sum(w)
}
fn total(p: f64[n], q: f64[k]) -> f64 = sum(changed(p, q, i, p[i]) for i < n)
MAIN = sum(grad(total)(p, q))
""",
}


@pytest.mark.parametrize("name", FOUND)
def test_all_ways_to_run_and_to_differentiate_it_agree(name: str) -> None:
    text = FOUND[name].replace("MAIN", MAIN)
    assert disagreement(text) is None and wrong_derivative(text) is None
