"""Programs that were found by chance: each once broke the law of cost."""

from __future__ import annotations

import pytest

from tests.fuzz.costs import broken_law
from tests.fuzz.test_found import MAIN

FOUND = {
    "factors of a term that depend on one axis stand apart, behind one that depends on two": """
fn main(c: f64[n, n], x: f64[n], t: f64[n]) -> f64 {
  var u = x
  for i < 6 { u = tanh([sum(c[k, j] * u[j] / (1.0 + t[j] ** 2) * sin(t[j]) for j) for k]) }
  sum(u)
}
""",
    "most iterations compare, and change nothing": """
fn main(p: f64[n], q: f64[k], x: f64) -> f64 {
  let y = [{ var s = x; for t < k { if s > p[i] { s = q[t] } }; tanh(s) } for i < n]
  sum(sin(y)) + x
}
""",
    "an arm of an iteration reads one element of an array": """
fn main(p: f64[n], q: f64[k], x: f64) -> f64[n] {
  var u = q
  for i < k { u -= x }
  [{ var (s, r) = (p[i], 1); for t in 1..k { if s > p[i] { s = u[1] } }; tanh(s) } for i < n]
}
""",
    "what an inner array needs is checked at one point, not at all of them": """
MAIN = sum([[([x for i < k])[j % k] for b < n] for a < k])
""",
    "an inner sum that is checked and not used depends on none of the axes around it": """
MAIN {
  let a = [sum(q[j % k] for b < n) for v in p]
  x
}
""",
    "a function that a branch chooses at each point captures an array": """
MAIN = sum([(if p[1] > 1.0 { |y: f64| y } else { |y: f64| y * p[0] })(x) for i < n])
""",
    "such a function is called with what a loop computes, and does not need it": """
MAIN {
  sum([max([{
    let f = if q[i] > x { |y: f64| x } else { |y: f64| q[i] }
    f(fold(|a, v| sin(q[i]), 0.5, [x for t < 2]))
  } for v in p]) for i < k])
}
""",
    "a function that is chosen before a loop reads an element of an array that it captures": """
fn main(p: f64[n], q: f64[k], x: f64) -> f64 {
  let g = if x > 0.5 { |t: f64| t * q[i64(abs(t)) % k] } else { |t: f64| q[i64(t * t) % k] }
  var y = x
  for v in p { y += v * g(y) }
  y
}
""",
    "a function that calls itself is given one that is chosen, and captures an array": """
fn halves(f: f64 -> f64, a: f64, b: f64, d: i64) -> f64 {
  let m = 0.5 * (a + b)
  if d <= 0 { f(m) * (b - a) } else { halves(f, a, m, d - 1) + halves(f, m, b, d - 1) }
}
fn main(q: f64[n], x: f64) -> f64 {
  halves(if x > 0.5 { |t: f64| q[i64(t * 4.0) % n] * t } else { |t: f64| q[i64(t * 4.0) % n] }, 0.0, 1.0, 5)
}
""",
    "an iteration chooses another function that captures the same array": """
fn main(p: f64[n], q: f64[k], x: f64) -> f64 {
  var g = |y: f64| y
  var t = x
  for i < n { if p[i] > t { g = |y: f64| y * q[i % k] }; t = sin(g(t)) }
  t
}
""",
    "such a function is called with an element, and captures the same array": """
MAIN = sum([(if 1.0 >= p[1] { |y: f64| q[1] } else { |y: f64| y })(q[1]) for i < k])
""",
    "an iteration of a loop needs one row of an array": """
MAIN {
  var u = p
  for i < n { u *= ([u for a < 2, b < n] ** 2)[0, 0] }
  sum(u)
}
""",
    "an iteration of a loop needs one element of an array": """
MAIN {
  var u = x
  for i < n { u *= (1.0 + [u for a < 2, b < n] ** 2)[0, 0] }
  u
}
""",
    "an arm that is not taken saves nothing": """
MAIN {
  var u = x
  if j < 0 { for i < n, t < n { u *= sin(u) } }
  u + p[0]
}
""",
    "an arm that is not taken saves no two arrays of the size of one that it reads": """
MAIN {
  var u = x
  if j < 0 { for i < n { u *= tanh(prod(sin(v * u) for v in m[i])) } }
  u + p[0]
}
""",
    "an index that a way out of a recursion proves is the same in an arm behind it": """
fn go(v: f64[n], i: i64, a: f64) -> f64 {
  if i >= n { return a }
  var w = v
  w[i] = w[i] * a
  go(w, i + 1, if v[i] > a { a } else { a * v[i] })
}
MAIN = go(q, 0, x)
""",
    "a square is compared in a loop": """
MAIN {
  var c = 3
  var u = p
  while c > 0 {
    c -= 1
    if x > 0.5 and c * c + 1 < n { u[c * c + 1] *= x }
  }
  sum(u)
}
""",
    "the gradient of the gradient of a factorisation": """
import linalg { cholesky, diagonal, identity }
MAIN {
  let b = tanh([x for i < n, t < 2])
  sum(log(diagonal(cholesky(identity(n) + 0.3 * (b @ transpose(b))))))
}
""",
    "the gradient of the gradient of a determinant": """
import linalg { det, identity }
MAIN {
  let b = tanh([x for i < n, t < n])
  det(identity(n) + 0.1 * b)
}
""",
    "the gradient of the gradient of solutions with triangles": """
import linalg { cholesky, cholesky_solve, identity }
MAIN {
  let b = tanh([q[i] for i < k, t < n])
  sum(cholesky_solve(cholesky(identity(k) + 0.3 * (b @ transpose(b))), q))
}
""",
    "a matrix that is factored at each point, of which only that it is not singular is used": """
import linalg { identity, solve }
MAIN {
  let a = [{
    let (s, ys) = scan(|a, v| (x, j), x, solve(identity(n + k), [0.0 for t < n + k]))
    s
  } for i < n]
  sum(a)
}
""",
    "an array that is gathered from one of which all elements are one value": """
MAIN {
  sum([{
    let same = maximum(tanh([x for t < n]), sort([p[i] for t < n]))
    fold(|a, v| a * v * sum([sin(v) for t < n]), x, same)
  } for i < n])
}
""",
    "a loop that could end early, but for a condition that never holds": """
MAIN {
  var u = [x for i < n, t < k]
  for i < n {
    u = [v for t < n, v in q]
    if false { break }
  }
  sum(u)
}
""",
    "a loop each iteration of which sets an array to the same values": """
MAIN {
  var u = [x for a < n, b < k]
  for i < k {
    u = tanh([q[j % k] for a < n, b < k])
    u[j % n, j % k] *= x
  }
  sum(sin(u))
}
""",
    "a sum of what does not change along its axes": """
MAIN {
  sum(sum([v for i < n, j < n + 1]) for v in q) + max(max([v for i < n, j < n]) for v in p)
}
""",
    "rows that a product takes and that are used beside it, in a loop whose cotangents are data": """
MAIN {
  let w = [sin(x * f64(a + b)) for a < k, b < k]
  var h = sqrt(abs(q))
  for v in m { h = sin(h + w @ v) / sqrt(abs(h)) + v }
  sum(h)
}
""",
    "an array that is held while it is changed": """
MAIN {
  var d = p
  for r < n {
    let old = d
    for i < 3 { d[i % n] += old[(i + 1) % n] }
  }
  sum(d)
}
""",
    "neighbours at a border that is repeated, in a loop, differentiated twice": """
MAIN {
  var u = m * x
  for t < k { u = [sin(u[i, maximum(c - 1, 0)] * u[i, c]) for i < n, c < k] }
  sum(u * u)
}
""",
    "neighbours at a border that is repeated, times elements in the other order, in a loop": """
fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64) -> f64 {
  var u = m
  for t < k { u = [tanh(0.5 * tanh(p[i] * q[t]) * tanh(u[i, maximum(c - 1, 0)] * u[i, k - 1 - c])) for i < n, c < k] }
  sum(u * u) + x
}
""",
    "rows that are one row, computed from a choice among numbers": """
fn main(q: f64[k], m: f64[n, k], x: f64) -> f64 {
  var u = q
  for i < k {
    var c = i
    while c > 0 and u[c] < 2 { c = c // 2 }
  }
  var w = m
  for t < k { w = [tanh(0.5 * (if w[0, c] > u[c] { w[0, c] } else { u[c] }) * w[0, c]) for i < n, c < k] }
  sum(sin(u)) + sum(w * w) + x
}
""",
    "what is saved of a loop at each point stands before a loop that changes what the point reads": """
fn main(p: f64[n], q: f64[k], x: f64) -> f64 {
  var u = p
  var c = 0
  while c < n {
    c += 1
    if u[c - 1] > x { break }
    u[c - 1] = tanh(u[c - 1])
  }
  let y = [{ var s = p[i]; for t < k { s = sin(s) + s }; tanh(s) } for i < n]
  sum(sin(u)) + sum(sin(y)) + sum(q)
}
""",
    "distances from sums by labels are added up by labels": """
MAIN {
  let label = [i64(4.0 * v) for v in p]
  let sums = [sum(where(label[i] == g, p[i], 0.0) for i < n) for g < k]
  sum([sum(where(label[i] == g, (p[i] - sums[g]) ** 2, 0.0) for i < n) for g < k])
}
""",
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_programs_that_were_found_keep_the_law(text: str) -> None:
    assert broken_law(text.replace("MAIN", MAIN)) is None
