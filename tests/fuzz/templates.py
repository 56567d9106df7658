"""The features that meet in the programs of `seams.py`, as templates: `name: text`, of one line or up to a bracket.

A template takes a vector `$v: f64[$n]` and gives one of that size. `#(u)` is the hole of one that another goes into,
with `u` as its vector; `#(u, m)` where that has the size m. What begins with `@` is a name of its own for each use.
"""

DECLARATIONS = """
import random

import linalg

struct Pair { u: f64, w: (f64, f64[2]) }

struct Box<n> { a: f64[n], b: f64, c: i64 }

struct Deep<n> { boxes: Box<n>[2], flags: bool[n] }

enum Item { One(f64), Two(f64, f64), Nothing }

enum Wide<n> { Plain(f64[n]), Scaled(f64[n], f64), Named(str) }

enum Tree { Leaf(f64), Node(Tree, Tree) }

enum Rope<n> { End, Piece(f64[n], Rope<n>) }

fn wide_of(v: f64[n], x: f64) -> Wide<n> =
  if x > 0.0 { Plain(v) } else if x < -1.0 { Named("no") } else { Scaled(v, x) }

fn built(v: f64[n], a: i64, b: i64) -> Tree =
  if b - a <= 1 { Leaf(if a < n and a >= 0 { v[a] } else { 0.5 }) }
  else { Node(built(v, a, (a + b) // 2), built(v, (a + b) // 2, b)) }

fn total(t: Tree) -> f64 = match t { Leaf(a) => sin(a), Node(l, r) => total(l) * 0.5 + total(r) }

fn listed(v: f64[n], i: i64) -> List<f64> = if i >= n { Nil } else { Cons(v[i], listed(v, i + 1)) }

fn added(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(h, t) => h * h + 0.5 * added(t) }

fn halved(v: f64[n]) -> f64 =
  if n <= 1 { sum(sin(v)) } else { halved(v[..n // 2]) * 0.5 + halved(v[n // 2..]) }

fn pairs_of(w: (f64, i64)[m]) -> f64[m] = [a * f64(c) for (a, c) in w]

fn ruled(v: f64[n]) -> f64[n] = sin(v)
pullback ruled(v) -> y = |g| g * cos(v)

fn pushed(v: f64[n]) -> f64[n] = sin(v)
pushforward pushed(v) -> y = |d| d * cos(v)

fn generic<a: Float>(v: a[m], s: a) -> a[m] = [s * e * e + s for e in v]

fn compose(f: b -> c, g: a -> b) -> a -> c = |x| f(g(x))

fn first_above(v: f64[n], s: f64) -> f64 {
  for i < n { if v[i] > s { return v[i] * f64(i + 1) } }
  s
}
"""

LEAVES = """
elementwise: sin(1.7 * $v + 0.3)
reversed: [$v[i] * $v[$n - 1 - i] for i < $n]
cumsum: cumsum($v)
scan: scan(|a, b| (0.5 * a + sin(b), a * b), x, $v).1
scan of pairs: scan(|(a, c), b| ((0.5 * a + sin(b), c + 1), (a * b, c)), (x, 0), $v).1 |> pairs_of
fold: $v * fold(|a, b| 0.5 * a + tanh(b), 0.0, $v)
reduce: $v * reduce(|a, b| a * b, 1.0, [1.0 + 0.1 * sin(e) for e in $v])
reduce of pairs: $v * reduce(|(a, b), (c, d)| (a * c, b * c + d), (1.0, 0.0), [(0.5, e) for e in $v]).1
sort: sort($v)
gather by argsort: $v[argsort(-$v)]
gather: $v[[(3 * i + 1) % $n for i < $n]]
scatter: { var o = zeros($n); for i < $n { o[(i * i) % $n] += sin($v[i]) }; o }
scatter by indices: { var o = $v; o[[$n - 1 - i for i < $n]] = $v * $v; o }
filter: { let kept = [e for e in $v if e > 0.0]; [sum(kept) * e + f64(len(kept)) for e in $v] }
filter and scatter: {
  let at = [i for i < $n if $v[i] > 0.0]
  var o = $v
  o[at] *= 2.0
  for i in at { o[i] += x }
  o
}
step: { var o = $v; o[.. by 2] = sin(o[.. by 2]); o }
step in place: { var o = $v; o[0..$n by 3] *= 2.0; o }
shift: { var o = $v; if $n > 1 { o[1..$n] += $v[0..$n - 1] }; o }
shift in place: { var o = $v; if $n > 1 { o[1..$n] += o[0..$n - 1] }; o }
recurrence: { var o = $v; for i in 1..$n { o[i] += 0.5 * sin(o[i - 1]) }; o }
concat: concat($v, $v)[$n..]
concat in the middle: concat(reverse($v), sin($v))[$n // 2..$n // 2 + $n]
reshape: reshape(transpose(reshape(concat($v, sin($v)), 2, $n)), 2 * $n)[..$n]
product: [$v[i] * $v[j] + (if i == j { 2.0 } else { 0.0 }) for i < $n, j < $n] @ $v
solve: linalg.solve([0.1 * $v[i] * $v[j] + (if i == j { 2.0 } else { 0.0 }) for i < $n, j < $n], $v)
cholesky: linalg.cholesky([0.1 * $v[i] * $v[j] + (if i == j { 2.0 } else { 0.0 }) for i < $n, j < $n]) @ $v
maximum of all: $v - (if $n > 0 { max($v) } else { 0.0 })
unguarded maximum: $v - max($v)
logsumexp: $v - logsumexp($v)
argmax: $v * $v[argmax($v)]
where: where($v > 0.0, log($v), $v * $v)
roots: where($v > 0.0, sqrt($v), 0.0)
prod: $v * prod(1.0 + 0.1 * sin($v))
triangle: [sum($v[j] for j < i) for i < $n]
mean: $v - mean($v)
stack: stack($v, 2.0 * $v, axis = 1)[.., 1] + stack($v, sin($v))[1]
column: { var m = [$v[i] * f64(c) for i < $n, c < 2]; m[.., 0] = sin($v); m[.., 1] += m[.., 0]; sum(m, axis = 1) }
stencil: [sum($v[(i + d) % $n] * [0.2, 0.5, 0.3][d] for d < 3) for i < $n]
clipped stencil: [$v[clip(i - 1, 0, $n - 1)] - 2.0 * $v[i] + $v[clip(i + 1, 0, $n - 1)] for i < $n]
axis: max([sin(e + f) for e in $v, f in [0.1, 0.7]], axis = 1) + sum([e * f for f in $v, e in $v], axis = 0)
newton: [{
  var y = 1.0
  while abs(y * y - 1.0 - e * e) > 1e-13 * (1.0 + e * e) { y = 0.5 * (y + (1.0 + e * e) / y) }
  y
} for e in $v]
break: { var s = 0.0; for e in $v { if s > 1.0 { break }; s += e * e }; s * $v }
continue: { var o = $v; for i < $n { if o[i] < 0.0 { continue }; o[i] = o[i] * o[0] }; o }
return: first_above($v, 0.1) * $v
bubble: {
  var o = $v
  for a < $n { for b in 0..$n - 1 - a { if o[b] > o[b + 1] { (o[b], o[b + 1]) = (o[b + 1], o[b]) } } }
  o
}
stack in an array: {
  var o = zeros($n + 1)
  var top = 0
  for e in $v { if e > 0.0 or top == 0 { o[top] = e; top += 1 } else { top -= 1; o[top] = o[top] * e } }
  o[..$n]
}
draws: random.run(3, || [e + random.normal() for e in $v])
draws in a loop: random.run(4, || {
  var o = $v
  for i < $n { if random.uniform() < 0.5 { o[i] *= random.normal() } }
  o
})
struct: { let s = Box($v, 2.0, 3); var t = s; t.a[0..$n by 2] *= t.b; t.c += 1; t.a + s.a * f64(t.c) }
structs as vectors: { let s = Box($v, 2.0, 3); (s - 0.5 * s + map_floats(|a, b| a * b, s, s)).a * sum_floats(s) }
array of structs: {
  var ps = [Pair(e, (sin(e), [e, 2.0 * e])) for e in $v]
  for i < $n { ps[i].w.1[1] += ps[i].u }
  [p.w.1[1] * p.u + p.w.0 for p in ps]
}
structs sorted: {
  let ps = [Pair(e, (sin(e), [e, 2.0 * e])) for e in $v]
  [p.w.0 for p in ps[argsort([p.u for p in ps])]]
}
deep: {
  var d = Deep([Box($v, 1.0, 1), Box(sin($v), 2.0, 2)], [e > 0.0 for e in $v])
  d.boxes[j % 2].a[.. by 2] *= 3.0
  d.boxes[1].b += sum($v)
  if $n > 0 { d.boxes[0].a[$n - 1] = d.boxes[1].b }
  where(d.flags, d.boxes[0].a, d.boxes[1].a)
}
enums: {
  let items = [if e > 0.5 { One(e) } else if e < -0.5 { Nothing } else { Two(e, x) } for e in $v]
  [match t { One(a) => a * a, Two(a, b) => a * b, Nothing => 0.5 } for t in items]
}
options: {
  var os = [if e > 0.0 { Some(e) } else { None } for e in $v]
  for i < $n { if os[i] == None { os[i] = Some($v[i] * x) } }
  [match o { Some(e) => sin(e), None => 0.0 } for o in os]
}
tuples: {
  var ts = [(e, (i, e > 0.0)) for (i, e) in enumerate($v)]
  if $n > 1 { (ts[0], ts[$n - 1]) = (ts[$n - 1], ts[0]) }
  [a * f64(i) + (if b { a } else { 0.1 }) for (a, (i, b)) in ts]
}
list: $v * added(listed($v, 0))
lists: [added(l) for l in [listed($v, i) for i < $n]]
tree: $v * total(built($v, 0, $n))
halves: $v * halved($v)
closures: [f(e) for (f, e) in zip([|y: f64| y * e + $v[i] for (i, e) in enumerate($v)], $v)]
chosen closures: [(if e > 0.0 { |y: f64| sin(y) * e } else { |y: f64| $v[0] * y })(x) for e in $v]
continuations: { var f = |y: f64| y; for e in $v { let g = f; f = |y: f64| sin(g(y) * e) + y }; f(x) * $v }
composed: map(compose(|a: f64| a * x, compose(sin, |a: f64| a + $v[0])), $v)
rule: ruled($v)
pushforward: pushed($v)
generic: generic($v, x) + generic(generic($v, 0.5), x)
text: {
  var s = ""
  for e in $v { s = if e > 0.0 { "{s}+" } else { "{s}-" } }
  if s == "+" or s == "+-" { 2.0 * $v } else { sin($v) }
}
texts: {
  let names = [if e > 0.0 { "a" } else { "b{i}" } for (i, e) in enumerate($v)]
  [if names[$n - 1 - i] == "a" { $v[i] } else { x * $v[i] } for i < $n]
}
integers: $v * f64(sum([(i * 7919) % 13 - bit_xor(i, 5) for i < $n]))
counts: {
  var c = [0, 0, 0]
  for i < $n { c[if $v[i] > 0.5 { 2 } else if $v[i] > 0.0 { 1 } else { 0 }] += i + 1 }
  [f64(c[i % 3]) * $v[i] for i < $n]
}
window sums: { let c = concat([0.0], cumsum($v)); c[1..] - c[..$n] }
growing: { var o: f64[?] = [x]; for e in $v { if e > 0.0 { o = concat(o, [e * e]) } }; sum(o) * $v }
parity: { var h = x; for i < $n { h = if i % 2 == 0 { tanh(h + $v[i]) } else { h * $v[i] } }; h + $v }
two states: { var (a, b) = (x, $v); for e in $v { (a, b) = (sum(b) * 0.3, sin(b) + a * e) }; b }
last: {
  var best = -1e3
  var at = 0
  for (i, e) in enumerate($v) { if e > best { best = e; at = i } }
  best * $v + f64(at)
}
"""

AROUND = """
rows: { let m = [$v * f for f in [0.5, 1.0, 2.0]]; sum([#(row) for row in m], axis = 0) }
rows of a size: sum([#(row) for row in [$v * f for f in q]], axis = 0)
a loop: { var u = $v; for t < 3 { u = tanh(#(u)) + 0.1 * $v }; u }
a loop of some iterations: { var u = $v; for t < j % 4 { u = 0.3 * #(u) }; u }
a loop that breaks: { var u = $v; for t < 5 { u = tanh(#(u)) + 0.3; if sum(u * u) > 4.0 { break } }; u }
a loop that goes on: { var u = $v; for y in q { if y < 0.0 { continue }; u = tanh(#(u)) * y }; u }
while: { var u = $v; var c = 3; while c > 0 and sum(u * u) < 9.0 { c -= 1; u = u + 0.5 * sin(#(u)) }; u }
a branch: if x > 0.2 { #($v) } else { 2.0 * $v }
both branches: { let u = if j % 2 == 0 { #($v) } else { sin($v) }; #(u) }
a branch in a loop: {
  var u = $v
  for t < 3 { if u[0] > 0.3 * f64(t) { u = tanh(#(u)) } else { u = u * x + 0.2 } }
  u
}
recursion: { fn go(d: i64, u: f64[$n]) -> f64[$n] = if d <= 0 { u } else { go(d - 1, tanh(#(u))) }; go(2, $v) }
recursion that adds: {
  fn go(d: i64, u: f64[$n]) -> f64[$n] = if d <= 0 { #(u) } else { go(d - 1, 0.5 * u) + go(d - 2, u) * f64(d) }
  go(2, $v)
}
a lambda: { let f = |u: f64[$n]| #(u); 0.5 * f($v) + f(sin(f($v))) }
a chosen lambda: (if x > 0.0 { |u: f64[$n]| #(u) } else { |u: f64[$n]| u * $v })($v)
an array of lambdas: [|u: f64[$n]| #(u), |u: f64[$n]| sin(u)][j % 2]($v)
a lambda that captures: { let w = #($v); let f = |y: f64| w * y + sum(w); f(x) + f(2.0) }
checkpoint: checkpoint(|u: f64[$n]| #(u))($v)
checkpoint of a loop: checkpoint(|u: f64[$n]| { var w = u; for t < 3 { w = tanh(#(w)) }; w })($v)
grad: grad(|u: f64[$n]| sum(sin(#(u))))($v)
value_and_grad: { let (y, g) = value_and_grad(|u: f64[$n]| sum(#(u) * u))($v); y * g }
vjp: { let (y, pull) = vjp(|u: f64[$n]| #(u), $v); pull(sin(y)) + pull($v) }
jvp: { let (y, d) = jvp(|u: f64[$n]| #(u), $v, cos($v)); y + d }
jacobian: jacobian(|u: f64[$n]| #(u))($v) @ $v
hessian: hessian(|u: f64[$n]| sum(sin(#(u))))($v) @ $v
grad in a loop: { var u = $v; for t < 2 { u -= 0.1 * grad(|w: f64[$n]| sum(#(w) ** 2))(u) }; u }
a scan: { let (u, ys) = scan(|u, y| { let w = tanh(#(u)); (w, sum(w) * y) }, $v, q); u * sum(ys) }
a key: $v[argsort(#($v))]
where: where(#($v) > 0.1, #($v), $v)
a matrix set by rows: { var m = zeros(k, $n); for i < k { m[i] = #(q[i] * $v) }; sum(m, axis = 0) }
rows added up: { var m = zeros(2, $n); for i < k { m[i % 2] += #(q[i] * $v) }; m[0] * m[1] }
columns: { var m = zeros($n, 2); m[.., 1] = #($v); m[.., 0] = #(m[.., 1]); m[.., 0] * m[.., 1] }
a field: { var s = Box($v, x, 1); s.a = #(s.a); s.a[.. by 2] += 1.0; s.b = sum(s.a); s.a * s.b }
fields of an array: {
  var ss = [Box($v * f, f, 1) for f in [0.5, 2.0]]
  for i < 2 { ss[i].a = #(ss[i].a); ss[1 - i].b += sum(ss[i].a) }
  ss[0].a * ss[1].b + ss[1].a
}
a variant: match wide_of($v, x) { Plain(u) => #(u), Scaled(u, y) => y * u, Named(_) => #($v) }
a rope: {
  fn along(r: Rope<$n>) -> f64[$n] = match r { End => $v, Piece(u, rest) => tanh(#(u)) + along(rest) }
  along(Piece($v, Piece(2.0 * $v, End)))
}
a list of arrays: {
  var l = Nil
  for y in q { l = Cons(#(y * $v), l) }
  fn all_of(l: List<f64[$n]>) -> f64[$n] = match l { Nil => $v, Cons(u, rest) => u * 0.5 + all_of(rest) }
  all_of(l)
}
an option: match (if x > 0.0 { Some(#($v)) } else { None }) { Some(u) => u * u, None => $v }
a tuple: { let (a, (b, c)) = (#($v), (sin($v), 2.0)); a * b + c }
kept: { let kept: f64[@m] = [e for e in $v if e > 0.0]; let w = #(kept, @m); sum(w) * $v }
a slice: { let h: f64[@m] = $v[$n // 2..]; let w = #(h, @m); concat($v[..$n // 2], w) }
a slice in place: { var o = $v; let h: f64[@m] = o[.. by 2]; o[.. by 2] = #(h, @m); o }
of one element: { let w = [#([e], 1)[0] for e in $v]; w }
of three: { let w = #([x, sum($v), 0.5], 3); w[2] * $v + w[0] }
twice as long: { let w = #(concat($v, sin($v)), 2 * $n); w[..$n] * w[$n..] }
rows of a triangle: [{ let h: f64[@m] = $v[..i]; sum(#(h, @m)) } for i < $n]
return: { fn go(u: f64[$n]) -> f64[$n] { for t < 3 { if sum(u) > f64(t) { return #(u) } }; sin(u) }; go($v) }
draws: random.run(j, || { let u = #([e * random.normal() for e in $v]); u + random.uniform() })
elements: [sum(#(e * $v)) for e in $v]
elements of two axes: [sum(#(e * $v) * f) for e in $v, f in q] @ q
"""

STARTS = """
of a size, n: p
of no element, 0: [q[i % k] * x for i < 0]
of one element, 1: [q[i % k] * x for i < 1]
of three elements, 3: [q[i % k] * x + f64(i) - 1.0 for i < 3]
of a product, twice: reshape([p[i] + 0.3 * f64(c) for i < n, c < 2], n * 2)
of what is kept, kept: [e * x for e in p if e > 0.0]
of a column, n: [[e, e * x, 1.0] for e in p][.., 1]
"""
