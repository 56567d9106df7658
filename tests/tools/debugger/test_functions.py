"""Variables that are functions: their types, what they have captured, and where they were written."""

from tests.tools.debugger.stepping import Talk, backward, forward

PROGRAM = """\
enum Op { Plain, With(f64 -> f64) }
struct Layer { w: f64[2], act: f64 -> f64 }
fn scaled(k: f64) -> f64 -> f64 {
  let twice = 2.0 * k
  |x: f64| {
    x * twice
  }
}
fn compose(f: f64 -> f64, g: f64 -> f64) -> f64 -> f64 = |x: f64| f(g(x))
fn cube(x: f64) -> f64 = x ** 3
fn apply(f: f64 -> f64, x: f64) -> f64 {
  let y = f(x)
  y + 1.0
}
fn main() {
  let (n, v) = (3, 2.0)
  let a = [1.0, 2.0, 3.0]
  let f = scaled(v)
  let g = |x: f64| x + v + sum(a)
  let h = compose(f, g)
  let c = cube
  let d = grad(cube)
  let e = grad(h)
  let l = Layer([1.0, 2.0], f)
  var acc = f
  for i in 0..n {
    let old = acc
    acc = |x: f64| old(x) * f64(i)
  }
  fn local(x: f64) -> f64 = x * v
  let pair = (1, local)
  let (y, pull) = vjp(cube, 2.0)
  let op = if n > 2 { With(f) } else { Plain }
  print("{apply(h, 1.0)} {acc(1.0)} {d(1.0)} {e(1.0)} {pair.1(2.0)} {l.act(2.0)} {c(2.0)} {pull(1.0)}")
  match op { Plain => print("p"), With(q) => print("{q(1.0)}") }
  print("{grad(|t: f64| apply(scaled(t), 2.0))(1.0)}")
}
"""


def test_a_function_is_its_type_and_what_it_has_captured():
    talk = Talk(PROGRAM)
    talk("run to 34")
    f = "(f64) -> f64 with twice = 4.0"
    g = "(f64) -> f64 with v = 2.0, a = [1. 2. 3.]"
    said = talk("locals").splitlines()
    assert said == [
        "n = 3",
        "v = 2.0",
        "a: f64[3] = [1. 2. 3.]",
        f"f: {f}",
        f"g: {g}",
        f"h: (f64) -> f64 with f = ({f}), g = ({g})",
        "c: (f64) -> f64",
        "d: (f64) -> f64, grad of cube",
        f"e: (f64) -> f64, grad of (f64) -> f64 with f = ({f}), g = ({g})",
        f"l = Layer(w = [1. 2.], act = {f})",
        f"acc: (f64) -> f64 with old = ((f64) -> f64 with old = ((f64) -> f64 with old = ({f}), i = 0), i = 1), i = 2",
        "local: (f64) -> f64 with v = 2.0",
        "pair = (1, (f64) -> f64 with v = 2.0)",
        "y = 8.0",
        "pull: (f64) -> f64",
        f"op = With({f})",
    ]


def test_print_shows_where_a_function_was_written():
    talk = Talk(PROGRAM)
    talk("run to 34")
    assert talk("print f").splitlines() == [
        "f: (f64) -> f64 with twice = 4.0",
        "   5     |x: f64| {",
        "   6       x * twice",
        "   7     }",
    ]
    assert talk("print c").splitlines()[1:] == ["  10   fn cube(x: f64) -> f64 = x ** 3"]
    assert talk("print acc").splitlines()[1:] == ["  28       acc = |x: f64| old(x) * f64(i)"]


def test_a_parameter_that_is_a_function_is_shown_in_a_backward_pass():
    talk = Talk(PROGRAM)
    talk("break 12")
    talk("run to 36")
    talk("continue")
    assert talk("locals").splitlines() == ["f: (f64) -> f64 with twice = 2.0", "x = 2.0"]
    said = ""
    while "in apply  (backward pass)" not in said:
        said = talk("step")
    assert talk("print f").splitlines()[0] == "f: (f64) -> f64 with twice = 2.0"


def test_a_watch_sees_what_a_function_has_captured():
    talk = Talk(PROGRAM)
    talk("run to 26")
    talk("delete")
    talk("next 2")
    assert talk("watch acc") == "watch 1: acc = (f64) -> f64 with twice = 4.0"
    assert (
        talk("continue").splitlines()[0].endswith("is (f64) -> f64 with old = ((f64) -> f64 with twice = 4.0), i = 0")
    )


def test_functions_are_the_same_on_the_way_back():
    d = Talk(PROGRAM).debugger
    there, _ = forward(d)
    assert backward(d)[:-1] == there[::-1]


def test_of_many_functions_inside_of_one_another_the_outer_ones_are_shown():
    text = "fn main() {\n  var f = |x: f64| x\n  for i in 0..50 {\n    let g = f\n    f = |x: f64| g(x) + 1.0\n  }\n"
    talk = Talk(text + '  print("{f(0.0)}")\n}')
    talk("run to 7")
    assert talk("print f").splitlines()[0].endswith("g = ((f64) -> f64 with …))))") and len(talk("print f")) < 300
