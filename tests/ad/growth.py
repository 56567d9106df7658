"""Programs that change arrays under conditions: what `test_growth.py` counts. Each is a function f of x and k."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A program; the two sizes at which it is counted; how x is ordered: "up", "down", or "" for as it is drawn."""

    text: str
    sizes: tuple[int, int] = (24, 48)
    order: str = ""


FOURFOLD = (24, 96)  # a level more of a binary recursion shows here
HALVES = """
fn changed(q: f64[m], i: i64) -> f64[m] {
  var p = q
  p[i] = sin(p[i]) * p[(i + 1) % m]
  p
}
fn go(q: f64[m], low: i64, high: i64) -> f64[m] {
  if high - low < 2 { return changed(q, low) }
  let mid = (low + high) // 2
  go(go(q, low, mid), mid, high)
}
"""

CASES = {
    "elements of rows that data chooses": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = [x[i] * f64(j + 1) for i < n, j < 6]
  for i < n, j < 6 { q[k[i], j] = q[k[i], j] * x[i] + x[k[n - 1 - i]] }
  sum(q ** 2)
}
"""),
    "elements of rows that are made of others": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = [x[i] * f64(j + 1) for i < n, j < 6]
  for i < n, j < 6 { q[k[i], j] = q[k[i], j] + x[i] * q[k[(i + 1) % n], j] ** 2 }
  sum(q ** 2)
}
"""),
    "columns that data chooses": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = [x[i] * f64(j + 1) for j < 6, i < n]
  for i < n, j < 6 { q[j, k[i]] = sin(q[j, k[i]]) }
  sum(q ** 2)
}
"""),
    "a scatter under a condition": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i < n { if x[i] > 0.5 { q[k[i]] += x[i] } }
  sum(q ** 2)
}
"""),
    "a scatter of products under a condition": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i < n { if x[i] > 0.5 { q[k[i]] *= x[i] } }
  sum(q ** 2)
}
"""),
    "a scatter beside continue": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i < n {
    if x[i] < 0.5 { continue }
    q[k[i]] += x[i]
  }
  sum(q ** 2)
}
"""),
    "a recurrence in both arms": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 1..n { if x[i] > 0.5 { q[i] = 0.5 * q[i - 1] + x[i] } else { q[i] = x[i] } }
  sum(q ** 2)
}
"""),
    "swaps": Case(
        """
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 1..n { if q[i - 1] > q[i] { (q[i], q[i - 1]) = (q[i - 1], q[i]) } }
  sum(q ** 2)
}
""",
        order="down",
    ),
    "a loop that breaks": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 1..n { if i + 1 == n { break }
 q[i] = q[i] + 0.5 * q[i - 1] ** 2 }
  sum(q ** 2)
}
"""),
    "arrays written in one arm and read in the other": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  var p = q
  for i in 1..n { if x[i] > 0.5 { q[i] = p[i - 1] * x[i] } else { p[i] = q[i - 1] * x[i] } }
  q = q * p
  sum(q ** 2)
}
"""),
    "three arms": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 1..n { if x[i] > 0.7 { q[i] = q[i] * q[i - 1] }
    else if x[i] > 0.3 { q[i - 1] = sin(q[i]) }
    else { q[k[i]] += 1.0 } }
  sum(q ** 2)
}
"""),
    "an arm that only reads": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  var s = 0.0
 for i in 1..n { if x[i] > 0.5 { s += q[i] * q[i - 1] } else { q[i] = s * 0.1 } }
  s + sum(q)
}
"""),
    "a slice set under a condition": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 3..n { if x[i] > 0.5 { q[i - 3..i] = [0.5 * q[i - 3 + j] for j < 3] } }
  sum(q ** 2)
}
"""),
    "a window read under a condition": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 3..n { if x[i] > 0.5 { q[i] = sum(q[i - j - 1] ** 2 for j < 3) } }
  sum(q ** 2)
}
"""),
    "a function called in an arm": Case("""
fn step(q: f64[m], i: i64) -> f64[m] {
 var p = q
 p[i] = p[i] * p[i - 1]
 p }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for i in 1..n { if x[i] > 0.5 { q = step(q, i) } }
  sum(q ** 2)
}
"""),
    "a stack": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var stack = zeros(n)
  var top = 0
  for i < n {
    if x[i] > 0.3 or top == 0 {
      stack[top] = x[i]
      top += 1
    } else {
      top -= 1
      if top > 0 { stack[top - 1] = stack[top - 1] * stack[top] }
    }
  }
  sum(stack[..top])
}
"""),
    "a heap that is emptied": Case(
        """
struct Heap<c> { keys: f64[c], count: i64 }
fn pop(h: Heap<c>) -> (f64, Heap<c>) {
  var q = h
  let key = q.keys[0]
  q.count -= 1
  q.keys[0] = q.keys[q.count]
  var i = 0
  while true {
    var least = i
    if 2 * i + 1 < q.count and q.keys[2 * i + 1] < q.keys[least] { least = 2 * i + 1 }
    if 2 * i + 2 < q.count and q.keys[2 * i + 2] < q.keys[least] { least = 2 * i + 2 }
    if least == i { break }
    (q.keys[i], q.keys[least]) = (q.keys[least], q.keys[i])
    i = least
  }
  (key, q)
}
fn f(x: f64[n], k: i64[n]) -> f64 {
  var h = Heap(keys = x, count = n)
  var total = 0.0
  while h.count > 0 {
    let (k, rest) = pop(h)
    h = rest
    total += k * f64(h.count)
  }
  total
}
""",
        order="up",
    ),
    "shortest paths by Dijkstra": Case("""
struct Heap<c> { keys: f64[c], ids: i64[c], count: i64 }
fn push(h: Heap<c>, key: f64, id: i64) -> Heap<c> {
  var q = h
  q.keys[q.count] = key
  q.ids[q.count] = id
  var i = q.count
  q.count += 1
  while i > 0 {
    let p = (i - 1) // 2
    if q.keys[p] <= q.keys[i] { break }
    (q.keys[i], q.keys[p]) = (q.keys[p], q.keys[i])
    (q.ids[i], q.ids[p]) = (q.ids[p], q.ids[i])
    i = p
  }
  q
}
fn pop(h: Heap<c>) -> (f64, i64, Heap<c>) {
  var q = h
  let key = q.keys[0]
  let id = q.ids[0]
  q.count -= 1
  q.keys[0] = q.keys[q.count]
  q.ids[0] = q.ids[q.count]
  var i = 0
  while true {
    var least = i
    if 2 * i + 1 < q.count and q.keys[2 * i + 1] < q.keys[least] { least = 2 * i + 1 }
    if 2 * i + 2 < q.count and q.keys[2 * i + 2] < q.keys[least] { least = 2 * i + 2 }
    if least == i { break }
    (q.keys[i], q.keys[least]) = (q.keys[least], q.keys[i])
    (q.ids[i], q.ids[least]) = (q.ids[least], q.ids[i])
    i = least
  }
  (key, id, q)
}
fn f(x: f64[n], k: i64[n]) -> f64 {
  var dist = [1e30 for i < n]
  dist[0] = 0.0
  var h = push(Heap(keys = zeros(3 * n), ids = [0 for i < 3 * n], count = 0), 0.0, 0)
  while h.count > 0 {
    let (d, u, rest) = pop(h)
    h = rest
    if d > dist[u] { continue }
    for e < 2 {
      let v = if e == 0 { (u + 1) % n } else { k[u] % n }
      let nd = d + x[u] * f64(e + 1)
      if nd < dist[v] {
        dist[v] = nd
        h = push(h, nd, v)
      }
    }
  }
  sum(dist)
}
"""),
    "elimination with pivots by rows": Case(
        """
fn f(x: f64[n], k: i64[n]) -> f64 {
  var a = [if i == j { 2.0 + x[i] } else { sin(x[i] * f64(j) + 1.0) } for i < n, j < n]
  var det = 1.0
  for c < n {
    var p = c
    for r in c + 1..n { if abs(a[r, c]) > abs(a[p, c]) { p = r } }
    if p != c {
      let row = a[c]
      a[c] = a[p]
      a[p] = row
      det = -det
    }
    det *= a[c, c]
    for r in c + 1..n {
      if a[r, c] != 0.0 { a[r] = a[r] - a[r, c] / a[c, c] * a[c] }
    }
  }
  det
}
""",
        (8, 16),
    ),
    "bubble sort": Case(
        """
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for a < n { for i in 1..n - a { if q[i - 1] > q[i] { (q[i], q[i - 1]) = (q[i - 1], q[i]) } } }
  sum(q[i] * f64(i) for i < n)
}
""",
        (12, 24),
    ),
    "union and find with path compression": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var parent = [i for i < n]
  var weight = x
  for e < n {
    var a = e
    while parent[a] != a { parent[a] = parent[parent[a]]
      a = parent[a] }
    var b = k[e]
    while parent[b] != b { parent[b] = parent[parent[b]]
      b = parent[b] }
    if a != b {
      parent[b] = a
      weight[a] = weight[a] + 0.5 * weight[b] * weight[a]
    }
  }
  sum(weight)
}
"""),
    "a rule of a grid in place": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x * 0.5
  for t < 3 { for i in 1..n - 1 { if q[i - 1] + q[i + 1] > q[i] { q[i] = 0.9 * q[i] }
    else { q[i] = q[i] + 0.1 * q[i - 1] * q[i + 1] } } }
  sum(q ** 2)
}
"""),
    "rows that borders decide": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  let u = [[v, v * v] for v in x]
  var q = u
  for i < n { if k[i] > 0 {
    for c < 2 { q[i, c] = x[1] * (q[i, c] + 0.1 * (if i == 0 { 0.2 } else { u[i - 1, c] })) } } }
  sum(q ** 3)
}
"""),
    "a table filled row by row": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var a = zeros(n + 1, n)
  for i < n { for j < n { a[i + 1, j] = if j >= k[i] { a[i, j] + a[i, j - k[i]] * x[i] } else { a[i, j] + x[j] } } }
  sum(a[n, j] for j < n)
}
"""),
    "a loop that ends by convergence": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  var i = 0
  while i < 4 * n {
    let j = i % n
    let before = q[j]
    q[j] = 0.5 * cos(q[j]) + 0.1 * q[(j + 1) % n]
    i += 1
    if abs(q[j] - before) < 1e-9 { break }
  }
  sum(q)
}
"""),
    "a ring buffer": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var ring = zeros(n)
  var head = 0
  var count = 0
  var s = 0.0
  for i < n {
    if count == n // 2 { s += ring[head] * x[i]
      head = (head + 1) % n
      count -= 1 }
    ring[(head + count) % n] = x[i] * x[i]
    count += 1
  }
  s + sum(ring)
}
"""),
    "a table of a knapsack": Case(
        """
fn f(x: f64[n], k: i64[n]) -> f64 {
  var best = zeros(n + 1, n + 1)
  for i < n {
    for c < n + 1 {
      let w = k[i] % 5 + 1
      if c >= w and best[i, c - w] + x[i] > best[i, c] { best[i + 1, c] = best[i, c - w] + x[i] }
      else { best[i + 1, c] = best[i, c] }
    }
  }
  best[n, n]
}
""",
        (10, 20),
    ),
    "rows set under a condition": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var a = [x[i] * f64(j) for i < n, j < 4]
  for i in 1..n { if x[i] > 0.5 { a[i] = a[i] * a[i - 1] } else { a[k[i]] = sin(a[i]) } }
  sum(a)
}
"""),
    "a failure table": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var fail = [0 for i < n]
  var w = x
  var j = 0
  for i in 1..n {
    while j > 0 and k[i] % 3 != k[j] % 3 { j = fail[j - 1] }
    if k[i] % 3 == k[j] % 3 { j += 1
      w[i] = w[i] * w[j] }
    fail[i] = j
  }
  sum(w)
}
"""),
    "the best path of states": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var v = zeros(n, 3)
  for t in 1..n {
    for s < 3 {
      var best = v[t - 1, 0] + x[t]
      for r in 1..3 { let c = v[t - 1, r] + x[t] * f64(r * s) * 0.3
        if c > best { best = c } }
      v[t, s] = best
    }
  }
  max(v[n - 1])
}
"""),
    "a match in a loop": Case("""
enum Op { Add(i64), Mul(i64, i64), Skip }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 1..n {
    let o = if k[i] % 3 == 0 { Add(i) } else if k[i] % 3 == 1 { Mul(i, i - 1) } else { Skip }
    match o {
      Add(j) => { q[j] = q[j] + 1.0 }
      Mul(a, b) => { q[a] = q[a] * q[b] }
      Skip => {}
    }
  }
  sum(q)
}
"""),
    "an array of structs": Case("""
struct P { a: f64, b: f64 }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var ps = [P(a = x[i], b = 1.0) for i < n]
  for i in 1..n {
    if x[i] > 0.5 { ps[i].a = ps[i].a * ps[i - 1].b } else { ps[i] = P(a = 0.0, b = ps[i - 1].a) }
  }
  sum(p.a * p.b for p in ps)
}
"""),
    "a search that returns early": Case("""
fn find(q: f64[m], i0: i64) -> f64 {
  for i in i0..m { if q[i] > 0.5 { return q[i] * q[i] } }
  0.0
}
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i < n { q[i] = find(q, i) * 0.7 + q[i] }
  sum(q)
}
"""),
    "a function that returns its array early": Case("""
fn step(q: f64[m], i: i64) -> f64[m] {
  if q[i] > 0.5 { return q }
  var p = q
  p[i] = p[i] * p[i - 1] + 1.0
  p
}
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 1..n { q = step(q, i) }
  sum(q)
}
"""),
    "the greatest of a window": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 4..n { let m = max(q[i - j - 1] for j < 4)
    if m > 0.2 { q[i] = q[i] * m } }
  sum(q)
}
"""),
    "a slice whose ends only the run knows": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 4..n { let a = i - k[i] % 4
    q[i] = 0.5 * sum(q[j] * q[j] for j in a..i) }
  sum(q)
}
"""),
    "a window whose size only the run knows": Case(
        """
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  let w = k[0] % 3 + 2
  for i in w..n { q[i] = 0.5 * sum(q[i - j - 1] * q[i - 1] * x[l] for j < w, l < 2) }
  sum(q)
}
""",
        (28, 56),
    ),  # of which both have a window of three
    "a window of another array's size": Case("""
fn g0(x: f64[n], w: f64[m], k: i64[n]) -> f64 {
  var q = x
  for i in 1..n { q[i] = sum(q[(i + j) % n] ** 2 * w[j] for j < m) }
  sum(q)
}
fn f(x: f64[n], k: i64[n]) -> f64 = g0(x, x[0..3], k)
"""),
    "maxima of rows": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 4..n { let m = [max(q[i - j - 1 - l] ** 2 for j < 3) for l < 2]
     q[i] = m[0] * m[1] }
  sum(q)
}
"""),
    "elements read in an arm of a comprehension": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 4..n { q[i] = sum(if k[i - j] > 10 { 0.2 * q[i - j - 1] ** 2 } else { 0.1 } for j < 4) }
  sum(q)
}
"""),
    "a loop in a comprehension": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i in 4..n { q[i] = sum({ var s = 0.1
       for l < 3 { if s < 0.5 { s = s * q[i - l - 1] + q[i - j - 1] } }
       s } for j < 2) }
  sum(q)
}
"""),
    "indices read from an array that changes": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var p = [i for i < n]
  var s = 1.0
  for i in 4..n { p[i] = p[k[i]]
     s = s * 0.9 + sum(x[p[i - j]] ** 2 for j < 3) }
  s
}
"""),
    "a whole array changed in one iteration": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i < n { if i == 3 { q = q * q * 0.9 }
     q[i] = q[i] * 0.5 }
  sum(q)
}
"""),
    "a whole array changed in one iteration of a while": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  var i = 0
  while i < n { if i == 3 { q = q * q * 0.9 }
     q[i] = q[i] * 0.5
     i += 1 }
  sum(q)
}
"""),
    "an array that a branch chooses": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  let a = x
  let b = x * 2.0
  var s = 0.0
  for i < n { let t = if k[i] % 2 == 0 { a } else { b }
    s = s * 0.5 + sin(t[i]) * t[n - 1 - i] }
  s
}
"""),
    "a recursion on slices": Case("""
fn go(x: f64[m], y: f64[m]) -> f64 = if m == 0 { 0.0 } else { x[0] * y[m - 1] ** 2 + go(x[1..], y[0..m - 1]) }
fn f(x: f64[n], k: i64[n]) -> f64 = go(x, x * 0.5)
"""),
    "functions that call one another on slices": Case("""
fn first(x: f64[m], w: f64[p]) -> f64 = if m <= 1 { sum(x) } else { x[0] * w[m % p] + second(w, x[1..]) }
fn second(w: f64[p], x: f64[m]) -> f64 = if m <= 3 { w[0] } else { x[2] ** 2 + first(x[1..m - 1], w) }
fn f(x: f64[n], k: i64[n]) -> f64 = first(x, x[0..3])
"""),
    "halves of an array by recursion": Case("""
fn go(x: f64[m]) -> f64 = if m <= 2 { sum(x) ** 2 } else { go(x[0..m // 2]) + 0.5 * go(x[m // 2..]) * x[0] + max(x) }
fn f(x: f64[n], k: i64[n]) -> f64 = go(x)
"""),
    "columns of a matrix by recursion": Case("""
fn go(a: f64[3, m]) -> f64 = if m == 0 { 0.0 } else { prod(a[.., 0]) + go(a[.., 1..]) }
fn f(x: f64[n], k: i64[n]) -> f64 = go([x[j] * f64(i) + 0.1 for i < 3, j < n])
"""),
    "a recursion that changes an array": Case("""
fn go(q: f64[m], x: f64[m], i: i64) -> f64[m] {
  if i == m { return q }
  var p = q
  if x[i] > 0.5 { p[i] = p[i] * p[i - 1] }
  go(p, x, i + 1)
}
fn f(x: f64[n], k: i64[n]) -> f64 = sum(go(x * 0.5, x, 1))
"""),
    "two recursive calls that change an array": Case("""
fn go(q: f64[m], i: i64) -> f64[m] {
  if i >= m { return q }
  var p = go(q, 2 * i + 1)
  p = go(p, 2 * i + 2)
  if p[i] > 0.2 { p[i] = p[i] * 0.5 + p[(i + 1) % m] }
  p
}
fn f(x: f64[n], k: i64[n]) -> f64 = sum(go(x, 0))
"""),
    "a recursion with a table of results": Case("""
fn fib(memo: f64[m], x: f64[m], i: i64) -> (f64, f64[m]) {
  if i < 2 { return (x[i], memo) }
  if memo[i] > 0.0 { return (memo[i], memo) }
  let (a, m1) = fib(memo, x, i - 1)
  let (b, m2) = fib(m1, x, i - 2)
  var m3 = m2
  m3[i] = 0.5 * a * b + x[i]
  (m3[i], m3)
}
fn f(x: f64[n], k: i64[n]) -> f64 { let (v, m) = fib(zeros(n), x, n - 1)
  v + sum(m) }
"""),
    "a search of a graph by recursion": Case("""
fn dfs(seen: f64[m], x: f64[m], k: i64[m], u: i64) -> f64[m] {
  if seen[u] > 0.0 { return seen }
  var s = seen
  s[u] = 1.0 + x[u] * x[u]
  for e < 2 { let v = if e == 0 { (u + 1) % m } else { k[u] }
    s = dfs(s, x, k, v)
    s[u] = s[u] + 0.1 * s[v] }
  s
}
fn f(x: f64[n], k: i64[n]) -> f64 = sum(dfs(zeros(n), x, k, 0))
"""),
    "a bisection of an array that changes": Case("""
fn go(x: f64[m], y: f64, lo: i64, hi: i64) -> f64 {
  if hi - lo < 2 { return x[lo] * y }
  let mid = (lo + hi) // 2
  if x[mid] > y { go(x, y, lo, mid) * 0.9 } else { go(x, y, mid, hi) }
}
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  for i < n { q[i] = go(q, q[i] * 0.5, 0, n) }
  sum(q)
}
"""),
    "quicksort": Case("""
fn sort_in(q: f64[m], lo: i64, hi: i64) -> f64[m] {
  if hi - lo < 2 { return q }
  var p = q
  var at = lo
  for i in lo + 1..hi {
    if p[i] < p[lo] { at += 1
      (p[i], p[at]) = (p[at], p[i]) }
  }
  (p[lo], p[at]) = (p[at], p[lo])
  p = sort_in(p, lo, at)
  sort_in(p, at + 1, hi)
}
fn f(x: f64[n], k: i64[n]) -> f64 { let s = sort_in(x, 0, n)
  sum(s[i] * f64(i) for i < n) }
"""),
    "a recursion over elements": Case(
        """
fn total(x: f64[m], i: i64) -> f64 = if i == m { 0.0 } else { sin(x[i]) * x[i] + total(x, i + 1) }
fn f(x: f64[n], k: i64[n]) -> f64 = total(x, 0)
""",
        FOURFOLD,
    ),
    "a recursion over two arrays that take turns": Case(
        """
fn total(x: f64[m], y: f64[m], i: i64) -> f64 =
  if i == m { 0.0 } else { sin(x[i]) * y[m - 1 - i] + x[i] * total(y, x, i + 1) }
fn f(x: f64[n], k: i64[n]) -> f64 = total(x, x * 0.3, 0)
""",
        FOURFOLD,
    ),
    "functions that call one another on elements": Case(
        """
fn first(x: f64[m], i: i64) -> f64 = if i >= m { 1.0 } else { sin(x[i]) * second(x, i + 1) }
fn second(x: f64[m], i: i64) -> f64 = if i >= m { 0.5 } else { x[i] ** 2 + first(x, i + 1) }
fn f(x: f64[n], k: i64[n]) -> f64 = first(x, 0)
""",
        FOURFOLD,
    ),
    "a recursion over elements in a loop": Case(
        """
fn total(x: f64[m], i: i64, end: i64) -> f64 =
  if i >= end or i >= m { 0.0 } else { sin(x[i]) * x[i] + total(x, i + 1, end) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var s = 0.0
  for t < n { s = 0.5 * s + total(x, t, t + 3) * x[t] }
  s
}
""",
        FOURFOLD,
    ),
    "a recursion that changes an array and does not give it back": Case(
        """
fn go(q: f64[m], x: f64[m], i: i64) -> f64 {
  if i == m { return sum(q) }
  var p = q
  if x[i] > 0.5 { p[i] = p[i] * p[i - 1] } else { p[0] = p[0] + sin(p[i]) }
  go(p, x, i + 1) * 0.9 + x[i]
}
fn f(x: f64[n], k: i64[n]) -> f64 = go(x * 0.5, x, 1)
""",
        FOURFOLD,
    ),
    "halves of an array in place": Case(f"{HALVES}fn f(x: f64[n], k: i64[n]) -> f64 = sum(go(x, 0, n))\n", FOURFOLD),
    "halves of an array in place under checkpoint": Case(
        f"{HALVES}fn f(x: f64[n], k: i64[n]) -> f64 = sum(checkpoint(|q: f64[n]| go(q, 0, n))(x))\n", FOURFOLD
    ),
    "a tree of places in an array": Case(
        """
enum Tree { Leaf, Node(Tree, i64, Tree) }
fn grown(low: i64, high: i64) -> Tree {
  if low >= high { return Leaf }
  let mid = (low + high) // 2
  Node(grown(low, mid), mid, grown(mid + 1, high))
}
fn go(t: Tree, x: f64[m]) -> f64 = match t { Leaf => 0.5, Node(l, i, r) => sin(x[i]) * go(l, x) + go(r, x) * x[i] }
fn f(x: f64[n], k: i64[n]) -> f64 = go(grown(0, n), x)
""",
        FOURFOLD,
    ),
    "arrays in a list": Case("""
enum L { Nil, Cons(f64[3], L) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var l = Nil
  for i in 3..n { l = Cons(x[i - 3..i], l) }
  var s = 1.0
  var go = true
  while go { match l { Nil => { go = false }
    Cons(a, rest) => { if a[0] > 0.5 { s = 0.9 * s + a[1] * a[2] }
      l = rest } } }
  s
}
"""),
    "an element of a table in a list at each point": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var l = Nil
  for j < 3 { l = Cons(x * f64(j + 1), l) }
  sum(match l { Nil => 0.0, Cons(a, rest) => a[i] * (match rest { Nil => 1.0, Cons(b, _) => b[k[i]] }) } for i < n)
}
"""),
    "a row of a matrix in a node": Case("""
enum Weights<n> { None, Some(f64[n, 4]) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let w = if x[0] > 5.0 { None } else { Some([x[i] * f64(j) for i < n, j < 4]) }
  var s = 0.1
  for i < n { s = sin(s) + (match w { None => 0.0, Some(a) => sum(a[k[i], j] ** 2 for j < 4) + sum(a[i]) }) }
  s
}
"""),
    "few elements of a table in a list that data chooses": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let l = if x[0] > 5.0 { Nil } else { Cons(sin(x), Nil) }
  var s = 0.1
  for i < n { s = 0.5 * sin(s) + (match l {
      Cons(t, _) => sum(t[k[(i + j) % n]] * x[i] for j < 5)
      Nil => 0.0
    }) }
  s
}
"""),
    "few elements in an arm of a table in a list": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let l = if x[0] > 5.0 { Nil } else { Cons(sin(x), Nil) }
  var s = 0.1
  for r < 2, i < n - 6 { s = 0.5 * sin(s) + (match l {
      Cons(t, _) => sum(if x[i + j] > 0.4 { t[i + j] ** 2 } else { 0.1 } for j < 7)
      Nil => 0.0
    }) }
  s
}
"""),
    "windows of an array in a list": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let l = if x[0] > 5.0 { Nil } else { Cons(sin(x), Nil) }
  let w = x[..9]
  var s = 0.1
  for r < 2, i < n { s = 0.5 * sin(s) + (match l {
      Cons(t, _) => if i + 9 > n { 0.0 } else { sum(t[i + 8 - j] * w[j] for j < 9) }
      Nil => 0.0
    }) }
  s
}
"""),
    "elements that lie apart in a list": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let l = if x[0] > 5.0 { Nil } else { Cons(sin(x), Nil) }
  let step = n // 6
  var s = 0.1
  for i < n { s = 0.5 * sin(s) + (match l {
      Cons(t, _) => sum(t[step * j] * x[j] for j < 6) + cumsum(t[0..6 * step by step])[i % 6]
      Nil => 0.0
    }) }
  s
}
"""),
    "slices of an array in a list by recursion": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn parts(l: L<m>, i: i64) -> f64 = match l {
  Nil => 0.1
  Cons(t, _) => if i + 6 > m { 0.5 } else { sum(t[i..i + 6] * t[i]) + sin(parts(l, i + 3)) }
}
fn f(x: f64[n], k: i64[n]) -> f64 = parts(if x[0] > 5.0 { Nil } else { Cons(sin(x), Nil) }, 0)
"""),
    "leaves of a tree": Case("""
enum Tree<n> { Leaf(f64[n]), Split(f64, Tree<n>, Tree<n>) }
fn leaf(t: Tree<m>, v: f64, i: i64) -> f64 =
  match t { Leaf(a) => a[i] ** 2, Split(at, l, r) => if v < at { leaf(l, v, i) } else { leaf(r, v, i) } }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let t = Split(0.5, Split(0.25, Leaf(x), Leaf(x * 2.0)), Leaf(sin(x)))
  sum(leaf(t, x[i], k[i]) for i < n)
}
"""),
    "a recursion over an array in a leaf": Case("""
enum Tree<n> { Leaf(f64[n]), Split(f64, Tree<n>, Tree<n>) }
fn pieces(a: f64[n], low: i64, high: i64, v: f64) -> f64 {
  if high - low <= 1 { return a[low % n] * v }
  let mid = (low + high) // 2
  if a[mid % n] < v { pieces(a, mid, high, v) + sin(pieces(a, mid, mid + 1, v)) } else { pieces(a, low, mid, v) }
}
fn found(t: Tree<n>, v: f64) -> f64 =
  match t { Leaf(a) => pieces(a, 0, n, v), Split(at, l, r) => if v < at { found(l, v) } else { found(r, v) } }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let t = Split(0.5, Split(0.25, Leaf(x), Leaf(x * 2.0)), Leaf(sin(x)))
  sum(found(t, x[i]) for i < n)
}
"""),
    "functions that capture an array at two times": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var (a, s) = (x * 2.0, 0.1)
  let before = a
  var g: i64 -> f64 = |i| before[i % n]
  for i < n {
    s = 0.5 * s + g(i) * x[k[i]]
    a[i] = s
    if i == n // 2 {
      let then = a
      g = |j| then[j % n] * x[i]
    }
  }
  s
}
"""),
    "arrays that take turns and stay": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var (a, b, s) = (x * 2.0, sin(x), 0.1)
  for i < n {
    s = 0.5 * s + a[i] * b[k[i]]
    if x[i] > 0.5 { (a, b) = (b, a) }
  }
  s
}
"""),
    "rows of matrices that a branch chooses": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  let a = [x[i] * x[j] for i < n, j < n]
  let b = sin(a)
  var s = 0.1
  for i < n {
    let p = if x[i] > 0.5 { a } else { b }
    let q = if s > 0.3 { p } else { a }
    s = 0.5 * sin(s) + sum(p[k[i]] * x) + sum(q[.., i]) + q[i, k[i]]
  }
  s
}
"""),
    "an array that is handed on, and seldom made": Case("""
enum L<n> { Nil, Cons(f64[n], L<n>) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  let l = if x[0] > 5.0 { Nil } else { Cons(sin(x), Nil) }
  var h = x
  var s = 0.1
  for i < n {
    if x[i] > 0.5 { h = match l { Nil => x, Cons(a, _) => a } } else if i == 3 { h = h * 0.5 }
    s = 0.5 * sin(s) + h[k[i]]
  }
  s
}
"""),
    "a state that changes its form": Case("""
enum State<n> { Idle, Run(f64[n], i64), Stop(f64[n]) }
fn f(x: f64[n], k: i64[n]) -> f64 {
  var (s, y) = (Run(x * 2.0, 0), 0.0)
  for t < n {
    s = match s {
      Idle => Idle,
      Run(h, j) => {
        y += h[j % n] ** 2
        if x[t] > 0.5 { Stop(h) } else { Run(h, j + 1) }
      },
      Stop(h) => {
        y += h[k[t]]
        Run(h, t)
      }
    }
  }
  y
}
"""),
    "small vectors in an array": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var p = [[x[i], 0.1 * x[i], 0.2] for i < n]
  for t < 2 { for i in 1..n {
      let d = p[i] - p[k[i]]
      let r = sum(d * d)
      if r > 0.1 { p[i] = p[i] - 0.1 * d / (r + 1.0)
        p[k[i]] = p[k[i]] + 0.1 * d / (r + 1.0) } } }
  sum(p * p)
}
"""),
    "loops over arrays in a comprehension": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  let y = [{ var q = [x[(i + j) % n] for j < 6]
    for j in 1..6 { if q[j] > 0.3 { q[j] = q[j] * q[j - 1] } }
    sum(q) } for i < n]
  sum(y ** 2)
}
"""),
    "a while in a while": Case("""
fn f(x: f64[n], k: i64[n]) -> f64 {
  var q = x
  var i = 0
  while i < n {
    var j = i
    while j > 0 {
      if q[j] > 0.5 { q[j] = q[j] * q[j - 1]
        break }
      j = j // 2
    }
    i += 1
  }
  sum(q)
}
"""),
}
