"""Derivatives through nodes of datatypes: built, matched, shared, in loops and arrays; and as trees themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array
from dlang.pipeline import optimise
from tests.ad.recursive import check, cost
from tests.specialize.support import lowered

TREE = """\
enum Tree { Leaf(f64), Node(Tree, Tree) }
fn product(t: Tree) -> f64 = match t { Leaf(x) => x, Node(l, r) => product(l) * product(r) }
fn build(x: f64, n: i64) -> Tree = if n == 0 { Leaf(sin(x)) } else { Node(build(0.9 * x, n - 1), Leaf(x + 1.0)) }
"""
VALUES = np.array([0.7, 1.3, -0.4, 2.1, 0.9])

CASES: dict[str, tuple[str, list[Any], list[int]]] = {
    "a tree": (
        TREE
        + """
fn f(x: f64) -> f64 = product(build(x, 3))
""",
        [0.8],
        [0],
    ),
    "a list folded": (
        """
fn fold(l: List<f64>, s: f64) -> f64 = match l { Nil => s, Cons(x, rest) => fold(rest, sin(s) + x * s) }
fn list(x: f64[n], i: i64) -> List<f64> = if i == n { Nil } else { Cons(x[i], list(x, i + 1)) }
fn f(x: f64[n]) -> f64 = fold(list(x, 0), 1.0)
""",
        [5, VALUES],
        [1],
    ),
    "a tree that is shared": (
        TREE
        + """
fn f(x: f64) -> f64 {
  let a = build(x, 2)
  let b = Node(a, a)
  product(Node(b, b)) + product(a)
}
""",
        [0.8],
        [0],
    ),
    "a field that is not used": (
        """
enum Pairs { End, More(f64, f64, Pairs) }
fn firsts(p: Pairs) -> f64 = match p { End => 1.0, More(a, _, rest) => a * firsts(rest) }
fn make(x: f64, n: i64) -> Pairs = if n == 0 { End } else { More(sin(x), cos(x), make(x * 1.1, n - 1)) }
fn f(x: f64) -> f64 = firsts(make(x, 3))
""",
        [0.8],
        [0],
    ),
    "arrays of several sizes in functions in a list": (
        """
fn run(fs: List<f64 -> f64>, x: f64) -> f64 = match fs { Nil => x, Cons(g, rest) => run(rest, g(x)) }
fn holding(x: f64[n]) -> f64 -> f64 = |y| sin(y) * sum(x * x)
fn make(x: f64[n], k: i64) -> List<f64 -> f64> = if k == 0 { Cons(|y| y + x[0], Nil) }
  else { Cons(holding(x[0 .. k]), make(x, k - 1)) }
fn f(x: f64[n]) -> f64 = run(make(x, n - 1), 0.3)
""",
        [5, VALUES],
        [1],
    ),
    "arrays in nodes": (
        """
enum Vec<n> { V(f64[n]), Cat(Vec<n>, Vec<n>), Scaled(f64, Vec<n>) }
fn total(v: Vec<n>) -> f64 = match v {
  V(x) => sum(x * x)
  Cat(a, b) => total(a) * sin(total(b))
  Scaled(k, a) => k * total(a)
}
fn f(x: f64[n], y: f64) -> f64 {
  let v = V(x)
  total(Cat(Cat(v, Scaled(y, v)), Scaled(y * y, V(sin(x)))))
}
""",
        [5, VALUES, 0.7],
        [1, 2],
    ),
    "a tree that a loop builds": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  var t = Leaf(1.0)
  for i in 0..n { t = if x[i] > 0.0 { Node(t, Leaf(x[i])) } else { Node(Leaf(sin(x[i])), t) } }
  product(t)
}
""",
        [5, VALUES],
        [1],
    ),
    "a tree that a loop reads": (
        TREE
        + """
fn f(x: f64, n: i64) -> f64 {
  let t = build(x, 2)
  var s = x
  for i in 0..n { s = sin(s) * product(t) }
  s
}
""",
        [0.8, 3],
        [0],
    ),
    "an array of trees": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  let trees = [build(e, 2) for e in x]
  sum(product(trees[i]) * product(trees[n - 1 - i]) for i < n)
}
""",
        [5, VALUES],
        [1],
    ),
    "an array of trees that changes": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  var trees = [Leaf(e) for e in x]
  for i in 1..n { trees[i] = Node(trees[i - 1], Leaf(sin(x[i]))) }
  sum(product(t) for t in trees)
}
""",
        [5, VALUES],
        [1],
    ),
    "slices of an array of trees": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  let trees = [build(e, 1) for e in x]
  let some = trees[1 .. n - 1]
  sum(product(t) for t in some) * product(trees[0])
}
""",
        [5, VALUES],
        [1],
    ),
    "a tree in a comprehension": (
        TREE
        + """
fn f(x: f64[n], y: f64) -> f64 {
  let t = build(y, 2)
  sum(product(t) * sin(e) for e in x)
}
""",
        [5, VALUES, 0.6],
        [1, 2],
    ),
    "options in a list": (
        """
fn total(l: List<Option<f64>>) -> f64 = match l { Nil => 1.0, Cons(o, rest) => {
    let here = match o { Some(x) => sin(x), None => 0.5 }
    here * total(rest) } }
fn list(x: f64[n], i: i64) -> List<Option<f64>> = if i == n { Nil }
  else { Cons(if x[i] > 0.0 { Some(x[i]) } else { None }, list(x, i + 1)) }
fn f(x: f64[n]) -> f64 = total(list(x, 0))
""",
        [5, VALUES],
        [1],
    ),
    "functions in a list": (
        """
fn run(fs: List<f64 -> f64>, x: f64) -> f64 = match fs { Nil => x, Cons(g, rest) => run(rest, g(x)) }
fn f(x: f64) -> f64 {
  let fs = Cons(|y| y * x, Cons(|y| sin(y) + x, Nil))
  run(fs, x)
}
""",
        [0.8],
        [0],
    ),
    "a function chosen when it runs": (
        """
fn f(x: f64, c: bool) -> f64 {
  let g = if c { |y| y * x } else { |y| sin(y) + x * x }
  g(g(x))
}
""",
        [0.8, True],
        [0],
    ),
    "a tree that a tree is made of": (
        TREE
        + """
fn squares(t: Tree) -> Tree = match t {
  Leaf(x) => Leaf(x * x)
  Node(l, r) => Node(squares(r), squares(l))
}
fn f(x: f64) -> f64 = product(squares(build(x, 3)))
""",
        [0.8],
        [0],
    ),
    "slices with a step of an array of trees": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  let t = [build(e, 1) for e in x]
  let r = t[1 .. n by 2]
  sum(product(r[i]) * product(t[i]) * f64(i + 1) for i < 2)
}
""",
        [5, VALUES],
        [1],
    ),
    "a matrix of trees": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  let t = [Leaf(x[i] * x[j]) for i < n, j < n]
  let r = [t[j, i] for i < n, j < n]
  sum(product(Node(r[i, j], t[0, 1])) for i < n, j < n)
}
""",
        [5, VALUES],
        [1],
    ),
    "arrays in a list": (
        """
fn total(l: List<f64[n]>) -> f64 = match l { Nil => 1.0, Cons(v, rest) => sum(v * v) * total(rest) }
fn make(x: f64[n], k: i64) -> List<f64[n]> = if k == 0 { Nil } else { Cons(sin(x) * f64(k), make(x * 1.1, k - 1)) }
fn f(x: f64[n]) -> f64 = total(make(x, 3))
""",
        [5, 0.3 * VALUES],
        [1],
    ),
    "a tree that a while loop builds": (
        TREE
        + """
fn f(x: f64) -> f64 {
  var t = Leaf(x)
  while product(t) < 10.0 { t = Node(t, Node(Leaf(1.0 + x * x), Leaf(x))) }
  product(t)
}
""",
        [1.3],
        [0],
    ),
    "a tree that a loop builds until it breaks": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  var t = Leaf(1.0)
  for i in 0..n {
  if i == 3 { break }
  t = Node(t, Leaf(x[i]))
  }
  product(t)
}
""",
        [5, VALUES],
        [1],
    ),
    "a tree in a struct": (
        TREE
        + """
struct S { t: Tree, w: f64 }
fn go(s: S, n: i64) -> S = if n == 0 { s } else { go(S(t = Node(s.t, Leaf(s.w)), w = s.w * product(s.t)), n - 1) }
fn f(x: f64) -> f64 { let s = go(S(t = Leaf(x), w = x + 1.0), 3)
  product(s.t) * s.w }
""",
        [0.6],
        [0],
    ),
    "expressions that hold functions": (
        """
enum E { Var, Num(f64), Add(E, E), Mul(E, E), Fn(f64 -> f64, E) }
fn ev(e: E, x: f64) -> f64 = match e {
  Var => x
  Num(c) => c
  Add(a, b) => ev(a, x) + ev(b, x)
  Mul(a, b) => ev(a, x) * ev(b, x)
  Fn(g, a) => g(ev(a, x))
}
fn f(x: f64, y: f64) -> f64 = ev(Mul(Add(Var, Num(y)), Fn(|z| sin(z) * y, Mul(Var, Var))), x)
""",
        [0.6, 0.4],
        [0, 1],
    ),
    "a tree of shared subtrees": (
        TREE
        + """
fn f(x: f64) -> f64 {
  var t = Leaf(x)
  for _ < 6 { t = Node(t, t) }
  product(t)
}
""",
        [1.05],
        [0],
    ),
    "a tree or another": (
        TREE
        + """
fn f(x: f64, c: bool) -> f64 {
  let t = build(x, 2)
  let u = if c { t } else { Node(t, t) }
  match u { Leaf(y) => y, Node(l, _) => product(l) * product(u) }
}
""",
        [0.8, True],
        [0],
    ),
    "trees in nested loops": (
        TREE
        + """
fn f(x: f64[n]) -> f64 {
  var s = 0.0
  for i in 0..n { for j in 0..i { s = s + product(Node(Leaf(x[i]), Leaf(x[j]))) } }
  s
}
""",
        [5, VALUES],
        [1],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_through_nodes_are_those_of_central_differences(name: str) -> None:
    check(*CASES[name], order=2)


def test_the_gradient_of_a_tree_costs_at_most_four_times_the_tree_at_any_size() -> None:
    text = (
        TREE
        + """
fn even(x: f64, n: i64) -> Tree = if n == 0 { Leaf(x) } else { Node(even(x, n - 1), even(x + 0.1, n - 1)) }
fn value(t: Tree) -> f64 = product(t)
fn slope(t: Tree) -> Tree = grad(product)(t)
"""
    )
    ratios = []
    for depth in (4, 8):
        made = lowered(text, "even")
        (tree,) = made.run(1.0, depth)
        operations = []
        for name in ("value", "slope"):
            made = lowered(text, name)
            operations.append(cost(optimise(made.program, [made.entry.name]), made.entry.name, [tree]))
        value, slope = operations
        returned = 2**depth + 2 * (2**depth - 1)
        ratios.append(slope / (value + returned))
    assert max(ratios) <= 4 and ratios[1] <= 1.05 * ratios[0]


NETWORK = """
enum Sentence { Word(i64), Pair(Sentence, Sentence) }

fn full(n: i64) -> Sentence = if n == 0 { Word(0) } else { Pair(full(n - 1), full(n - 1)) }

fn state(words: f64[m, h], w: f64[2, h, h], bias: f64[h], tree: Sentence) -> f64[h] = match tree {
  Word(k) => words[k]
  Pair(a, b) => tanh(state(words, w, bias, a) @ w[0] + state(words, w, bias, b) @ w[1] + bias)
}

fn value(words: f64[m, h], w: f64[2, h, h], bias: f64[h], depth: i64) -> f64 =
  sum(state(words, w, bias, full(depth)) ** 2)

fn slope(words: f64[m, h], w: f64[2, h, h], bias: f64[h], depth: i64) -> (f64[m, h], f64[2, h, h], f64[h]) =
  grad(value, wrt = (words, w, bias))(words, w, bias, depth)
"""


@pytest.mark.parametrize("depth", [3, 7])
@pytest.mark.parametrize("words", [2, 500])
def test_a_recursive_network_costs_what_it_reads_of_its_weights_and_its_table(words: int, depth: int) -> None:
    h = 8
    args = [words, h, np.ones((words, h)), 0.1 * np.ones((2, h, h)), np.ones(h), depth]
    found = []
    for name in ("value", "slope"):
        made = lowered(NETWORK, name)
        program = optimise(made.program, [made.entry.name])
        interpreter = Interpreter(program)
        interpreter.run(made.entry.name, args)
        found.append((interpreter.operations, program))
    (value, _), (slope, program) = found
    assert slope <= 4 * (value + words * h + 2 * h * h + h)
    saved = [f.type for d in program.datatypes.values() if "tape" in d.name for v in d.variants for f in v.fields]
    assert max(len(t.shape) for t in saved if isinstance(t, Array)) == 1  # states, but no weights


def test_the_derivative_of_a_recursive_network_is_that_of_central_differences() -> None:
    text = NETWORK + "fn f(words: f64[3, 2], w: f64[2, 2, 2], bias: f64[2]) -> f64 = value(words, w, bias, 2)"
    rng = np.random.default_rng(1)
    check(text, [rng.normal(size=(3, 2)), rng.normal(size=(2, 2, 2)), rng.normal(size=2)], [0, 1, 2], order=2)
