"""What a person sees in backward passes: variables by the names of the source, with the values of that moment."""

import re

import pytest

from dlang.tools.debugger.timeline import Why
from dlang.tools.debugger.values import shown
from tests.tools.debugger.stepping import Talk, forward

TREE = """
enum Tree { Leaf(f64), Node(f64, Tree, Tree) }
fn total(t: Tree, w: f64) -> f64 = match t {
  Leaf(x) => {
    let y = x * w
    y ** 2
  }
  Node(v, l, r) => {
    let a = total(l, w)
    let b = total(r, w * 0.5)
    let s = a + v * b
    sin(s) + a * b
  }
}
fn loss(w: f64) -> f64 {
  let t = Node(0.5, Node(2.0, Leaf(1.0), Leaf(3.0)), Leaf(4.0))
  total(t, w) * 2.0
}
fn main() { print("{grad(loss)(0.7)}") }
"""
LSTM = """
fn cell(h: f64[k], x: f64, w: f64[k, k]) -> f64[k] {
  let a = w @ h + x
  tanh(a)
}
fn unroll(h: f64[k], xs: f64[n], w: f64[k, k], t: i64) -> f64[k] {
  if t >= n { return h }
  let x = xs[t]
  let next = cell(h, x, w)
  unroll(next, xs, w, t + 1)
}
fn loss(w: f64[k, k]) -> f64 = sum(unroll(zeros(k), [1.0, 2.0, -1.0], w, 0))
fn main() { print("{grad(loss)([[0.1, 0.2], [0.3, -0.1]])}") }
"""
LOOPS = """
fn cell(h: f64[k], x: f64) -> f64[k] {
  let z = tanh(h + x)
  z * 0.9
}
fn loss(x0: f64[k], limit: f64) -> f64 {
  var h = x0
  var c = 0.0
  for t in 0..2 {
    for j in 0..3 {
      let x = f64(t) - f64(j)
      h = cell(h, x)
    }
    let m = sum(h)
    c += m * m
  }
  while c < limit {
    let twice = 2.0 * c
    c = twice + 1.0
  }
  c
}
fn main() { print("{grad(loss)([0.1, 0.2], 50.0)}") }
"""
TWICE = """
fn f(x: f64) -> f64 {
  let a = x * x
  a * sin(a)
}
fn slope(x: f64) -> f64 {
  let d = grad(f)(x)
  d * d
}
fn total(x: f64) -> f64 {
  var s = 0.0
  for i in 0..2 {
    let y = slope(x + f64(i))
    s += y
  }
  s
}
fn main() { print("{grad(total)(0.7)}") }
"""
PULLED = """
fn f(w: f64) -> f64 {
  var p = 1.0
  for j in 0..3 {
    let q = p + f64(j)
    p = q * w
  }
  p
}
fn main() {
  let (y, pull) = vjp(f, 0.3)
  print("{y}")
  print("{pull(1.0)}")
}
"""
TREES = TREE.replace("  total(t, w) * 2.0", "  let ts = [t, Leaf(w)]\n  sum([total(t, w) for t in ts])")


def statements(talk):
    """Each statement that begins: whether in a backward pass, the line with the iterations around, and the
    variables."""
    d, out = talk.debugger, []
    while d.step() is Why.STEP:
        variables = {name: shown(s, d.trees) for name, s in d.seen().items()}
        place = d.view.spot.place
        line = place.source.line(place.line)
        out.append((d.view.backward, (f" {line}", d.view.frame.iterations), variables))
    return out


@pytest.mark.parametrize(
    "text", [TREE, LSTM, LOOPS, TWICE, PULLED, TREES], ids=["tree", "lstm", "loops", "twice", "pulled", "trees"]
)
def test_variables_have_the_values_that_they_had_when_the_statement_ran(text):
    """Those that the statement found, and the one that it gave."""
    seen = statements(Talk(text))
    compared = 0
    for _, (line, iterations), variables in [s for s in seen if s[0] and not re.match(r" +(for|while) ", s[1][0])]:
        found = [v for backward, place, v in seen if not backward and place == (line, iterations)]
        given = re.match(r" +(?:let |var )?(\w+) [-+]?= ", line)
        own = {given[1]} if given else set()
        if found:
            assert any(
                f.keys() | own == variables.keys() and all(variables[n] == f[n] for n in f.keys() - own) for f in found
            ), (line, iterations, variables)
            assert all(variables[n] in [v.get(n) for backward, _, v in seen if not backward] for n in own)
            compared += 1
    assert compared > 0.85 * sum(backward for backward, _, _ in seen)


def test_passes_and_iterations_of_a_gradient_of_a_gradient():
    """The inner pass is over before the function goes on, and iterations have the numbers that they had forward."""
    talk = Talk(TWICE)
    headings = [talk("step").splitlines()[0] for _ in range(35)]
    assert headings[2:10] == [
        "#3  p.dl:13 in total  (iteration 0)",
        "#4  p.dl:7 in slope  (iteration 0)",
        "#5  p.dl:3 in f  (iteration 0)",
        "#6  p.dl:4 in f  (iteration 0)",
        "#7  p.dl:4 in f  (iteration 0; backward pass)",
        "#8  p.dl:3 in f  (iteration 0; backward pass)",
        "#9  p.dl:8 in slope  (iteration 0)",
        "#10  p.dl:14 in total  (iteration 0)",
    ]
    assert [h.split("(")[1] for h in headings[21:35]] == ["iteration 1; backward pass)"] * 7 + [
        "iteration 0; backward pass)"
    ] * 7


def test_the_line_of_a_call_is_a_statement_in_a_gradient_too():
    """The code of the called function stands there in its place."""
    talk = Talk(LOOPS)
    talk("break 12")
    assert talk("continue").splitlines()[1] == "#6  p.dl:12 in loss  (iteration 0, 0)"
    assert talk("step").splitlines()[0] == "#7  p.dl:3 in cell  (iteration 0, 0)"
    assert talk("continue").splitlines()[:2] == ["breakpoint 1", "#10  p.dl:12 in loss  (iteration 0, 1)"]
    assert talk("rcontinue").splitlines()[1] == "#6  p.dl:12 in loss  (iteration 0, 0)"


def test_calls_in_whose_place_code_stands_are_all_among_the_calls():
    text = "fn a(x: f64) -> f64 {\n  let s = x * x\n  s\n}\nfn b(x: f64) -> f64 {\n  let t = a(x + 1.0)\n  t\n}\n"
    talk = Talk(text + 'fn c(x: f64) -> f64 {\n  let u = b(x)\n  u\n}\nfn main() { print("{grad(c)(2.0)}") }')
    chain = ["a", "b", "c", "main"]
    for going in ("run to 2", "run to 2"):
        talk(going)
        lines = [line[2:].split(":")[1].split()[2] for line in talk("where").splitlines()]
        assert [name.rstrip(":") for name in lines] == chain
    assert "backward pass" in talk("where").splitlines()[2] and talk("up") and talk("print x") == "x = 2.0"


def test_what_a_backward_pass_remembers_has_bounds():
    talk = Talk(LOOPS, memory=4000)
    assert any("backward pass" in talk("step") for _ in range(100))
    assert "no room to remember the variables" in talk("locals")
    assert any("iteration 0, 0; backward pass" in talk("step") for _ in range(100))
    assert "no room" not in talk("locals") and talk("print x") == "x = 0.0"


CASES = """
enum Shape { Circle(f64), Box(f64, f64) }
enum Tree { Leaf(f64), Node(i64, Tree, Tree) }
struct P { at: f64[2], count: i64, far: f64 }
fn area(s: Shape, p: P, w: (f64, f64)) -> f64 {
  let q = match s {
    Circle(r) => r * r * w.0
    Box(a, b) => a * b * w.1
  }
  q + p.at[1]
}
fn product(t: Tree) -> f64 = match t {
  Leaf(x) => x * x
  Node(_, l, r) => product(l) * product(r)
}
fn main() {
  print("{grad(area, wrt = (s, p, w))(Box(2.0, 3.0), P([1.0, 2.0], 3, 4.0), (1.0, 2.0))}")
  print("{grad(product)(Node(7, Leaf(2.0), Leaf(3.0)))}")
  print("end")
}
"""


def test_a_derivative_gives_the_cotangents_of_its_parameters():
    """In the structure of these, with `_` for what has none."""
    talk = Talk(CASES)
    talk("run to 6")
    assert talk("finish").splitlines()[2:] == [
        "     it gave the cotangent of `s` (line 5) = Box(6.0, 4.0)",
        "     it gave the cotangent of `p` (line 5) = P(at = [0. 1.], count = _, far = 0.0)",
        "     it gave the cotangent of `w` (line 5) = (0.0, 6.0)",
    ]
    assert "(backward pass)" in talk("goto 14")
    assert talk("finish").splitlines()[2:] == [
        "     it gave the cotangent of `t` (line 12) = Node(_, Leaf(36.0), Leaf(24.0))"
    ]


def test_the_cotangent_of_the_cotangent_of_a_tree():
    text = (
        CASES[: CASES.index("fn main")]
        + """
fn slope(w: f64) -> f64 = match grad(product)(Node(1, Leaf(w), Leaf(3.0))) {
  Node(_, Leaf(a), _) => a
  _ => 0.0
}
fn main() {
  let s = grad(slope)(2.0)
  print("{s}")
}
"""
    )
    found, _ = forward(Talk(text).debugger)
    told = [cotangents["t"] for _, _, _, cotangents, _ in found if "t" in cotangents]
    assert "Node(_, Leaf(1.0), Leaf(0.0))" in told
