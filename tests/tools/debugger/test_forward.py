"""What a person sees in forward mode: tangents beside the variables, and beside the cotangents of a backward pass."""

import re

import pytest

from dlang.tools.debugger.expressions import WITHOUT
from dlang.tools.debugger.timeline import Why
from tests.tools.debugger.stepping import Talk, backward, forward

PUSHED = """
fn length(p: f64[n], k: f64) -> f64 {
  let q = sum(p ** 2)
  let unit = k * 2.0
  sqrt(q) * unit
}
fn total(ps: f64[m, 2]) -> f64 {
  var s = 0.0
  for i in 0..2 {
    let l = length(ps[i], 1.0)
    s += l * l
  }
  s
}
fn main() {
  let dy = jvp(total, [[3.0, 4.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).1
  print("{dy}")
}
"""
HVP = PUSHED.replace("jvp(total,", "jvp(grad(total),")


def test_each_line_has_the_tangents_of_what_it_mentions():
    talk = Talk(PUSHED)
    assert [talk("step").splitlines()[2:] for _ in range(7)] == [
        [],
        [],
        ["     tangent of `ps` (line 7) = [[1. 0.] [0. 1.]]"],
        ["     tangent of `p` (line 2) = [1. 0.]"],
        [],
        ["     tangent of `q` (line 3) = 6.0"],
        ["     tangent of `s` (line 8) = 0.0", "     tangent of `l` (line 10) = 1.2000000000000002"],
    ]
    assert talk("where").splitlines() == [
        "▸ 0  p.dl:11 in total  (forward mode): s += l * l",
        "  1  p.dl:16 in main: let dy = jvp(total, [[3.0, 4.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).1",
    ]
    assert "forward mode" not in talk("up")


def test_the_tangent_of_a_variable_stands_beside_it():
    talk = Talk(PUSHED)
    talk("run to 5")
    assert talk("locals").splitlines() == [
        "p: f64[2] = [3. 4.]  tangent [1. 0.]",
        "k = 1.0",
        "q = 25.0  tangent 6.0",
        "unit = 2.0",
    ]
    assert talk("print q") == "q = 25.0  tangent 6.0"
    assert talk("tangents").splitlines() == ["tangent of `p` (line 2) = [1. 0.]", "tangent of `q` (line 3) = 6.0"]
    assert talk("tangent q") == "tangent of `q` (line 3) = 6.0"
    assert talk("tangent k") == "`k` has no tangent: " + WITHOUT
    assert "   3     let q = sum(p ** 2)                   tangent of `q` = 6.0" in talk("list").splitlines()
    talk("up")
    assert talk("print ps") == "ps: f64[2, 2] = [[3. 4.]\n [1. 0.]]\ntangent of `ps` = [[1. 0.]\n [0. 1.]]"
    talk("down")
    assert talk("finish").endswith("tangent of `l` (line 10) = 1.2000000000000002")
    talk("run to 13")
    assert talk("finish").endswith("it gave 104.0  tangent 24.000000000000004")


def test_tangents_and_cotangents_are_values_in_expressions():
    talk = Talk(PUSHED)
    talk("run to 5")
    assert talk("print tangent(q) / (2.0 * sqrt(q))") == "tangent(q) / (2.0 * sqrt(q)) = 0.6"
    assert talk("print tangent(p)[0] + k") == "tangent(p)[0] + k = 2.0"
    assert "error[E0984]: no tangent of `k` is known here" in talk("print tangent(k)")
    assert talk("watch q") == "watch 1: q = 25.0  tangent 6.0"
    assert talk("continue").splitlines()[0] == "watch 1: `q` was 25.0  tangent 6.0, is 1.0  tangent 0.0"
    talk("delete")
    talk("break 11 if tangent(l) == 0.0")
    assert "iteration 1; forward mode" in talk("continue")
    talk = Talk(HVP)
    talk("break length")
    talk("break 5 if cotangent(q) > 0.0")
    talk("continue 2")
    assert "error[E0984]: no cotangent of `q` is known here" in talk("print cotangent(q)")
    assert "error[E0984]: there is no variable `zero` here" in talk("print tangent(zero)")
    talk("goto 0")
    assert "there are no tangents here" in talk("tangent s") and talk("tangents") == "there are no tangents here"


def test_the_value_and_the_tangent_that_change_are_both_watched():
    text = "fn f(x: f64) -> f64 {\n  var y = x * 0.0\n  y = x * x - 4.0\n  y\n}\n"
    talk = Talk(text + 'fn main() { print("{jvp(f, 2.0, 1.0)}") }')
    talk("run to 3")
    assert talk("watch y") == "watch 1: y = 0.0"
    assert talk("continue").splitlines()[0] == "watch 1: `y` was 0.0, is 0.0  tangent 4.0"


def test_a_variable_that_becomes_a_constant_has_no_tangent_any_more():
    text = "fn f(x: f64) -> f64 {\n  var y = x\n  let a = y\n  y = 1.0\n  a * y\n}\n"
    talk = Talk(text + 'fn main() { print("{jvp(f, 2.0, 1.0)}") }')
    talk("run to 4")
    assert talk("print y") == "y = 2.0  tangent 1.0"
    assert talk("next") and talk("print y") == "y = 1.0"


def test_a_product_with_the_hessian_has_tangents_of_cotangents():
    """The cotangent of `l` is 2 l, and that of `q` is 4 everywhere."""
    found, why = forward(Talk(HVP).debugger)
    assert why is Why.END
    said = [line for _, position, *_ in found for line in position]
    of_l = [re.findall(r"= (\S+)  tangent (\S+)", line)[0] for line in said if "cotangent of `l`" in line]
    of_q = [re.findall(r"= (\S+)  tangent (\S+)", line)[0] for line in said if "cotangent of `q`" in line]
    assert [tuple(map(float, pair)) for pair in of_l] == [(4.0, 0.0), (20.0, pytest.approx(2.4))]
    assert [tuple(map(float, pair)) for pair in of_q] == [(4.0, 0.0), (4.0, pytest.approx(0.0, abs=1e-12))]
    assert any("(iteration 1; forward mode; backward pass)" in line for line in said)


def test_a_gradient_of_a_tangent_has_cotangents_of_both():
    text = "fn cube(y: f64) -> f64 {\n  let z = y * y\n  z * y\n}\nfn slope(x: f64) -> f64 = jvp(cube, x, 1.0).1\n"
    found, _ = forward(Talk(text + 'fn main() { print("{grad(slope)(2.0)}") }').debugger)
    said = [line for _, position, *_ in found for line in position]
    assert "     cotangent of tangent of `z` (line 2) = 2.0" in said
    assert "     cotangent of `z` (line 2) = 1.0" in said


def test_derivatives_inside_of_one_another_have_tangents_of_their_own():
    text = "fn cube(y: f64) -> f64 {\n  let z = y * y\n  z * y\n}\nfn slope(x: f64) -> f64 = jvp(cube, x, 1.0).1\n"
    talk = Talk(text + 'fn main() { print("{jvp(slope, 2.0, 10.0)}") }')
    talk("run to 3")
    assert talk("print z") == "z = 4.0  outer tangent 40.0  tangent 4.0  outer tangent of tangent 20.0"
    assert talk("print tangent(z)") == "tangent(z) = 4.0"


def test_structures_and_trees_have_tangents_in_their_structure():
    text = """
enum Tree { Leaf(f64), Node(i64, Tree, Tree) }
struct P { at: f64[2], count: i64, far: f64 }
fn product(t: Tree, p: P) -> f64 {
  let q = P(..p, far = p.far * 2.0)
  match t {
    Leaf(x) => x * q.far
    Node(_, l, r) => product(l, q) * product(r, q)
  }
}
fn main() {
  let p = P([1.0, 2.0], 3, 4.0)
  let t = Node(7, Leaf(2.0), Leaf(3.0))
  print("{jvp(product, (t, p), (t, P([0.5, 0.0], 3, 1.0))).1}")
}
"""
    talk = Talk(text)
    talk("run to 6")
    said = talk("locals").splitlines()
    assert said == [
        "t = Node(7, Leaf(2.0), Leaf(3.0))  tangent Node(_, Leaf(2.0), Leaf(3.0))",
        "p = P(at = [1. 2.], count = 3, far = 4.0)  tangent P(at = [0.5 0. ], count = _, far = 1.0)",
        "q = P(at = [1. 2.], count = 3, far = 8.0)  tangent P(at = [0.5 0. ], count = _, far = 2.0)",
    ]
    assert talk("print tangent(q).far + f64(tangent(q).count)").endswith(" = 5.0")
    assert "error[E0984]: that of `t` is no value that an expression can use" in talk("print tangent(t)")


def test_an_element_of_a_comprehension_has_tangents():
    text = "fn f(x: f64[n]) -> f64 {\n  let y = [x[i] * x[i]\n    for i]\n  sum(y)\n}\n"
    talk = Talk(text + 'fn main() { print("{jvp(f, [1.0, 2.0], [0.5, 0.25])}") }')
    talk("run to 2")
    talk("step")
    assert "(element i = 0; forward mode)" in talk("where") + talk("element 0") and "tangent [0.5" in talk("locals")


@pytest.mark.parametrize("text", [PUSHED, HVP], ids=["jvp", "hvp"])
def test_tangents_are_the_same_on_the_way_back(text):
    d = Talk(text).debugger
    there, why = forward(d)
    assert why is Why.END and backward(d)[:-1] == there[::-1]
