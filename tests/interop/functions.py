"""Functions of the language as other libraries call them, for the tests of these libraries."""

TEXT = """
import random { uniform }
struct Net<n, m> { w: f64[n, m], b: f64[m] }
struct Deep<n> { first: Net<n, n>, scale: f64 }
fn loss(p: Net<n, m>, x: f64[k, n], y: f64[k, m]) -> f64 = mean((tanh(x @ p.w + p.b) - y) ** 2)
fn deep(d: Deep<n>, x: f64[n]) -> (Deep<n>, f64) =
  (Deep(first = Net(w = d.first.w * d.scale, b = exp(d.first.b)), scale = sum(d.first.b * x)), d.scale ** 3)
fn grown(x: f64[n], s: f64 = 2.0) -> f64[n] = exp(s * x) + 1.0
fn cube(x) = x * x * x
fn odd(x: f64[n], lambda: f64) -> f64[n] = lambda * x
fn same(x: f64[n]) -> f64[n] = x
fn every_other(x: f64[n]) -> f64[n // 2] = [x[2 * i] ** 3 for i < n // 2]
fn gathered(x: f64[n], k: Idx<n>[m]) -> f64[m] = [x[j] ** 2 for j in k]
fn joined(x: f64[n], y: f64[m]) -> f64[n + m] = concat(x * x, y)
fn repeated(x: f64, n: size) -> f64[n] = full(x * x, n)
fn noisy(x: f64[n]) -> f64[n] ! random = [v * uniform() for v in x]
fn ranks(x: f64[n]) -> (i64, f64[n]) = (argmax(x), x * x)
fn held(x: f64[n], nodiff s: f64) -> f64[n] = x * x * s
fn steps(x: f64[n], nodiff k: i64) -> f64[n] {
  var y = x
  for i < k { y = y * x }
  y
}
fn narrow(x: f32[n]) -> f32[n] = sin(x)
fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]
fn shown(x: f64[n]) -> str = "{sum(x)}"
fn shout(x: f64[n]) -> f64[n] ! print {
  print("x")
  x
}
fn maybe(x: Option<f64>) -> f64 = match x { None => 0.0, Some(y) => y }
fn applied(f: (f64) -> f64, x: f64) -> f64 = f(x)
"""

CASES = {
    "loss": [(3, 2), (2,), (4, 3), (4, 2)],
    "deep": [(3, 3), (3,), (), (3,)],
    "grown": [(3,)],
    "cube": [(2, 3)],
    "every_other": [(5,)],
    "gathered": [(4,)],
    "joined": [(2,), (3,)],
    "repeated": [()],
    "noisy": [(3,)],
    "held": [(3,)],
    "steps": [(3,)],
}
"""Functions, and the shapes of what they are differentiated in."""


def of_arrays(m, name, operator, indices):
    """A function of the module for a library, as one of arrays alone. operator: makes it; indices: an array of the
    library, of whole numbers."""
    f = operator(getattr(m, name))
    match name:
        case "loss":
            return lambda w, b, x, y: f(m.Net(w, b), x, y)
        case "deep":

            def deep(w, b, s, x):
                made, number = f(m.Deep(m.Net(w, b), s), x)
                return made.first.w, made.first.b, made.scale, number

            return deep
        case "gathered":
            return lambda x: f(x, indices([0, 0, 2]))
        case "steps":
            return lambda x: f(x, 3)
        case "held":
            return lambda x: f(x, 2.0)
        case "repeated":
            return lambda x: f(x, n=3)
        case "noisy":
            return lambda x: f(x, seed=7)
    return f
