"""What a person reads who steps through programs."""

import signal
import threading

import pytest

from dlang.tools.debugger.commands import COMMANDS
from tests.tools.debugger.stepping import Talk

GRADIENT = """
fn length(p: f64[n]) -> f64 {
  let q = sum(p ** 2)
  sqrt(q)
}

fn loss(points: f64[m, 2], target: f64) -> f64 {
  let lengths = [length(points[i]) for i]
  let miss = lengths - target
  sum(miss ** 2)
}

fn main() {
  let points = [[f64(i), 2.0 * f64(i)] for i < 3]
  let g = grad(loss)(points, 1.0)
  print("{g}")
}
"""
DATA = """\
struct P { at: f64[2], name: str }
enum Tree { Leaf(f64), Node(Tree, Tree) }
fn total(t: Tree) -> f64 = match t {
  Leaf(x) => x
  Node(l, r) => total(l) + total(r)
}
fn inner(k: i64) -> i64 {
  let twice = k * 2
  twice + 1
}
fn main() {
  let p = P(at = [1.0, 2.0], name = "a")
  let t = Node(Leaf(1.5), Leaf(2.5))
  let ps = [P(at = [f64(i), 0.0], name = "b") for i < 2]
  let f = |x: f64| x + 1.0
  let u = (total(t), true)
  for i < 3 {
    let v = inner(i)
    print("{v}")
  }
  let n = 7i32
  let squares = [f(f64(i)) for i < 4]
  print("{squares}")
}
"""
FAILS = """\
fn pick(xs: f64[n], k: i64) -> f64 = xs[k]
fn main() {
  let xs = [1.0, 2.0, 3.0]
  let ys = [pick(xs, i + 1) for i < 3]
  print("{ys}")
}
"""


# ---- values ----------------------------------------------------------------------------------------------------------
def test_variables_are_shown_as_they_are_written():
    talk = Talk(DATA)
    talk("run to 23")
    assert talk("locals").splitlines() == [
        'p = P(at = [1. 2.], name = "a")',
        "t = Node(Leaf(1.5), Leaf(2.5))",
        'ps = [P(at = [0. 0.], name = "b"), P(at = [1. 0.], name = "b")]',
        "f: (f64) -> f64",
        "u = (4.0, true)",
        "n = 7",
        "squares: f64[4] = [1. 2. 3. 4.]",
    ]


@pytest.mark.parametrize(
    "expression, value",
    [
        ("p.at[1] + u.0", "6.0"),
        ("total(Node(t, t))", "8.0"),
        ("[q.at[0] for q in ps]", "[0. 1.]"),
        ("grad(|x: f64| x ** 2)(u.0)", "8.0"),
        ("p.name", "a"),
        ("n + 1i32", "8"),
    ],
)
def test_an_expression_is_one_of_the_language_over_the_variables(expression, value):
    talk = Talk(DATA)
    talk("run to 22")
    assert talk(f"print {expression}") == f"{expression} = {value}"


@pytest.mark.parametrize(
    "command, message",
    [
        ("print m", "error[E0201]: unknown name `m`"),
        ("print n +", "error[E01"),
        ("print f(1.0)", "error[E0984]: `f` is a function, which an expression here cannot use"),
        ("print n + 1.0", "error[E03"),
        ("print", "error[E0985]: `print` takes an expression"),
        ("break 99", "error[E0983]: there is no statement in line 99 of `p.dl`"),
        ("break totl", "error[E0983]: there is no function `totl`"),
        ("break q.dl:1", "error[E0983]: the program has no file `q.dl`"),
        ("stepp", "error[E0985]: there is no command `stepp`"),
        ("r", "error[E0985]: `r` may be rnext, rfinish, rcontinue, run"),
        ("goto there", "error[E0985]: `goto` takes the number of a moment"),
        ("element 9", "error[E0985]: there is no element [9]"),
        ("cotangent p", "error[E0985]: this is no backward pass"),
        ("delete 5", "error[E0985]: there is no breakpoint or watch 5"),
    ],
)
def test_a_mistake_is_a_message_with_help(command, message):
    talk = Talk(DATA)
    talk("run to 22")
    said = talk(command)
    assert said.startswith(message)
    assert "  = help: " in said or "E098" not in message


# ---- movements -------------------------------------------------------------------------------------------------------
def test_what_a_lambda_has_captured_is_a_variable_there():
    text = "fn scaled(k: f64) -> f64 -> f64 {\n  let twice = 2.0 * k\n  |x: f64| {\n    x * twice\n  }\n}\n"
    talk = Talk(text + 'fn main() {\n  let f = scaled(3.0)\n  print("{f(1.0)} {grad(f)(2.0)}")\n}')
    talk("break 4")
    talk("continue")
    assert talk("locals").splitlines() == ["twice = 6.0", "x = 1.0"]
    talk("continue")
    talk("step")
    assert "backward pass" in talk("where") and talk("print twice + x") == "twice + x = 8.0"


def test_what_is_captured_stays_a_variable_outside():
    text = (
        "fn main() {\n  let v = 2.0\n  let s = grad(|w: f64| w * v)(3.0)\n  let g = |x: f64| x + v\n  let u = g(1.0)\n"
    )
    talk = Talk(text + '  print("{s} {u}")\n}')
    talk("run to 6")
    assert talk("locals").splitlines() == ["v = 2.0", "s = 2.0", "g: (f64) -> f64 with v = 2.0", "u = 3.0"]


def test_next_goes_over_a_call_and_step_goes_into_it():
    talk = Talk(DATA)
    talk("run to 18")
    assert "p.dl:19 in main  (iteration 0)" in talk("next")
    assert "p.dl:18 in main  (iteration 0)" in talk("rnext")
    assert "p.dl:8 in inner" in talk("step")
    assert talk("where").splitlines() == [
        "▸ 0  p.dl:8 in inner: let twice = k * 2",
        "  1  p.dl:18 in main: let v = inner(i)",
    ]
    assert talk("print k") == "k = 0"
    assert "p.dl:18 in main" in talk("up") and talk("print i") == "i = 0"
    assert "outermost" in talk("up") and "p.dl:8 in inner" in talk("down")
    said = talk("finish")
    assert "p.dl:19 in main  (iteration 0)" in said and said.endswith("it gave 1")
    assert "p.dl:9 in inner" in talk("back")
    assert "p.dl:18 in main" in talk("rfinish")


def test_the_statements_of_a_script_are_stepped_through():
    talk = Talk('print("one")\nlet x = 3\nprint("{x}")')
    assert "p.dl:1 in the script" in talk("goto 0")
    assert "p.dl:2 in the script" in talk("next")
    assert "p.dl:3 in the script" in talk("next")
    assert talk("locals") == "x = 3"
    assert talk("where") == '▸ 0  p.dl:3 in the script: print("{x}")'


def test_a_loop_shows_its_iterations():
    talk = Talk(DATA)
    talk("break 19")
    iterations = [talk("continue").splitlines()[1] for _ in range(3)]
    assert [t.split("(")[1] for t in iterations] == ["iteration 0)", "iteration 1)", "iteration 2)"]
    assert "iteration 1" in talk("rcontinue")


def test_the_condition_of_a_while_sees_what_the_iteration_before_has_left():
    talk = Talk('fn main() {\n  var k = 0\n  while k < 3 {\n    k += 1\n  }\n  print("{k}")\n}')
    talk("break 3")
    assert [talk("continue") and talk("print k") for _ in range(4)] == ["k = 0", "k = 1", "k = 2", "k = 3"]


def test_a_loop_over_an_array_begins_once():
    talk = Talk('fn main() {\n  for x in [1.0, 2.0] {\n    print("{x}")\n  }\n}')
    assert [talk("next").splitlines()[0] for _ in range(2)] == [
        f"#{k}  p.dl:3 in main  (iteration {k - 1})" for k in (1, 2)
    ]


def test_where_a_function_returns_before_its_end_the_last_line_is_no_statement():
    text = "fn f(xs: f64[n], most: f64) -> f64 {\n  var s = 0.0\n  for x in xs {\n    if x > most { return s }\n"
    text += "    s += x * x\n  }\n  s\n}\nfn main() {\n  let a = f([1.0, 2.0], 1.5)\n  let b = f([1.0, 2.0], 2.5)\n"
    talk = Talk(text + '  let c = grad(|v: f64[2]| f(v, 1.5))([1.0, 2.0])\n  print("{a} {b} {c}")\n}')
    found = [talk("step").splitlines() for _ in range(25)]
    lines = [int(said[0].split("p.dl:")[1].split()[0]) for said in found]
    assert lines[:13] == [2, 3, 4, 5, 4, 11, 2, 3, 4, 5, 4, 5, 7] and lines.count(7) == 1
    assert [said[2] for said in found if "p.dl:4 in f  (iteration 1; backward pass)" in said[0]] == [
        "     cotangent of the result = 1.0"
    ]
    talk("goto 0")
    assert talk("step") and talk("finish").endswith("it gave 1.0")


def test_a_watch_that_has_no_value_says_so():
    talk = Talk('fn main() {\n  var xs = [1.0]\n  var k = 0\n  k = 1\n  k = 2\n  print("{xs}{k}")\n}')
    talk("run to 4")
    assert talk("watch xs[k]") == "watch 1: xs[k] = 1.0"
    assert talk("next").splitlines()[-1] == "     xs[k] = (no value here)"
    assert "`type" not in talk("print xs[7]") and "parameter" not in talk("print xs[7]")
    talk("continue")
    assert talk("locals").splitlines() == ["the program has ended", "`back` goes to its last statement"]
    assert "the program has ended" in talk("print xs")


def test_a_watch_sees_changes_that_its_text_does_not_show():
    text = "fn main() {\n  var x = zeros(9, 9)\n  var y = [0.5]\n  x[5, 6] = 1.0\n  y[0] += 1e-13\n"
    talk = Talk(text + '  print("{x}{y}")\n}')
    talk("run to 4")
    talk("watch x")
    talk("watch y")
    said = talk("continue").splitlines()
    assert said[0] == "watch 1: `x` at [5, 6] was 0.0, is 1.0" and said[3] == "     x = f64[9, 9] from 0 to 1"
    assert talk("continue").splitlines()[0] == "watch 2: `y` at [0] was 0.5, is 0.5000000000001"
    assert talk("rcontinue").splitlines()[0] == "watch 2: `y` at [0] was 0.5000000000001, is 0.5"
    assert "y: f64[1] = [0.5]" in talk("locals") and len(talk("print x").splitlines()) == 7


def test_an_element_of_a_comprehension_is_stepped_into_or_over():
    talk = Talk(DATA)
    talk("run to 22")
    assert "element i = 0" in talk("step")
    assert "p.dl:15 in main  (element i = 0)" in talk("step")
    assert "element i = 1" in talk("step")
    assert "p.dl:23 in main" in talk("finish")
    assert "element i = 3" in talk("back")
    assert "element i = 2" in talk("element 2") and talk("print i") == "i = 2"
    assert "p.dl:22 in main" in talk("rfinish")
    assert "p.dl:23 in main" in talk("next")


def test_an_element_that_is_an_array_is_one_element():
    """Its own elements are those of the comprehension inside."""
    text = "fn w(i: i64, j: i64) -> f64 {\n  let d = f64(i - j)\n  d * d\n}\n"
    talk = Talk(text + 'fn main() {\n  let t = [[w(i, j) for j < 3] for i < 2]\n  print("{t}")\n}')
    headings = [talk("step").splitlines()[0] for _ in range(12)]
    assert headings[:5] == [
        "#0[0]  p.dl:6 in main  (element i = 0)",
        "#0[0][0]  p.dl:6 in main  (element i = 0, j = 0)",
        "#0[0][0].1  p.dl:2 in w  (element i = 0, j = 0)",
        "#0[0][0].2  p.dl:3 in w  (element i = 0, j = 0)",
        "#0[0][1]  p.dl:6 in main  (element i = 0, j = 1)",
    ]
    assert headings[10] == "#0[1]  p.dl:6 in main  (element i = 1)"
    assert talk("finish") and "#0[1]" in talk("back") and "#0[1][2]" in talk("back")
    assert talk("rfinish").splitlines()[0] == "#0[1][2]  p.dl:6 in main  (element i = 1, j = 2)"
    assert talk("rfinish").splitlines()[0] == "#0[1]  p.dl:6 in main  (element i = 1)"


def test_elements_over_an_array_have_no_names_but_numbers():
    text = "fn f(x: f64) -> f64 {\n  let y = x * 2.0\n  y\n}\n"
    talk = Talk(text + 'fn main() {\n  let ys = [f(x) for x in [1.0, -2.0, 3.0] if x > 0.0]\n  print("{ys}")\n}')
    assert [talk("step").splitlines()[0] for _ in range(2)] == [
        "#0[0]  p.dl:6 in main  (element 0)",
        "#0[0].1  p.dl:2 in f  (element 0)",
    ]
    assert talk("element 1") and talk("step") and talk("print x") == "x = 3.0"


def test_finish_ends_at_the_next_call_of_the_same_statement():
    """And tells what the call gave that has ended, not the last one of the statement."""
    text = "fn fib(n: i64) -> i64 {\n  if n < 2 { return n }\n  fib(n - 1) + fib(n - 2)\n}\n"
    talk = Talk(text + 'fn main() {\n  let k = fib(4)\n  print("{k}")\n}')
    talk("break fib if n == 3")
    talk("continue")
    said = talk("finish").splitlines()
    assert said[0].endswith("p.dl:2 in fib") and said[-1] == "     it gave 2" and talk("print n") == "n = 2"
    assert talk("where").splitlines()[1:] == [
        "  1  p.dl:3 in fib: fib(n - 1) + fib(n - 2)",
        "  2  p.dl:6 in main: let k = fib(4)",
    ]
    talk("delete")
    assert talk("rfinish").splitlines()[0].endswith("p.dl:3 in fib")


def test_a_place_is_found_where_there_is_no_statement():
    talk = Talk(DATA)
    talk("continue")
    assert talk("break 19") == "breakpoint 1 at p.dl:19"
    assert "p.dl:19 in main  (iteration 2)" in talk("rcontinue")
    talk("continue")
    assert "the program has ended" in talk("run to 7")
    assert "error[E0983]: there is no statement in line 99" in talk("run to 99")


def test_a_parameter_of_any_type_that_is_a_function_has_the_type_that_it_has_here():
    text = "fn twice(f: a -> a, x: a) -> a {\n  let y = f(x)\n  f(y)\n}\n"
    talk = Talk(text + 'fn main() { print("{twice(|k: i64| k * 3, 2)}") }')
    talk("run to 2")
    assert talk("locals").splitlines() == ["f: (i64) -> i64", "x = 2"]


def test_what_an_update_of_a_struct_is_made_from_is_no_variable():
    text = "struct P { x: f64, y: f64 }\nfn main() {\n  let p = P(1.0, 2.0)\n  let q = P(..p, x = 3.0)\n"
    talk = Talk(text + '  print("{q}")\n}')
    talk("run to 5")
    assert talk("locals").splitlines() == ["p = P(x = 1.0, y = 2.0)", "q = P(x = 3.0, y = 2.0)"]


def test_an_empty_line_does_the_last_command_again_and_a_number_repeats_it():
    talk = Talk(DATA)
    assert "p.dl:14 in main" in talk("next 2")
    assert "p.dl:15 in main" in talk("next")
    assert "p.dl:16 in main" in talk("")


# ---- breakpoints -----------------------------------------------------------------------------------------------------
def test_a_breakpoint_has_a_condition_and_holds_in_both_directions():
    talk = Talk(DATA)
    assert talk("break inner if k == 1") == "breakpoint 1 at p.dl:8, if k == 1"
    assert "p.dl:8 in inner" in talk("continue") and talk("print k") == "k = 1"
    assert "the program has ended" in talk("continue")
    assert "p.dl:8 in inner" in talk("rcontinue") and talk("print k") == "k = 1"
    assert talk("info break") == "1  break inner if k == 1, met 2 times"
    assert talk("delete 1") == "1 deleted"
    assert "this is the beginning" in talk("rcontinue")


def test_a_condition_that_cannot_be_evaluated_is_told():
    talk = Talk(DATA)
    talk("break inner if twice > 3")
    assert talk("continue").splitlines()[:3] == [
        "breakpoint 1, if twice > 3",
        "     this cannot be evaluated here: unknown name `twice`",
        "#11  p.dl:8 in inner",
    ]


def test_a_breakpoint_in_a_comprehension_stops_at_its_elements():
    talk = Talk(FAILS)
    talk("break pick if k == 2")
    assert "element i = 1" in talk("continue")
    assert talk("print xs[k]") == "xs[k] = 3.0"


def test_a_watch_stops_where_a_value_changes_forward_and_backward():
    talk = Talk('fn main() {\n  var s = 0\n  for i < 3 {\n    let t = i\n    s += 10 * t\n  }\n  print("{s}")\n}')
    talk("next")
    assert talk("watch s + 1") == "watch 1: s + 1 = 1"
    assert talk("continue").splitlines()[0] == "watch 1: `s + 1` was 1, is 11"
    assert talk("continue").splitlines()[0] == "watch 1: `s + 1` was 11, is 31"
    assert talk("rcontinue").splitlines()[0] == "watch 1: `s + 1` was 31, is 11"


# ---- failures --------------------------------------------------------------------------------------------------------
def test_a_failure_stops_with_everything_alive_and_one_can_go_back():
    talk = Talk(FAILS)
    said = talk("continue")
    assert "error[E0801]: index 3 is out of range for axis 0 of size 3" in said
    assert "p.dl:4 in main" in said and talk("print xs") == "xs: f64[3] = [1. 2. 3.]"
    said = talk("back")
    assert "element i = 2" in said
    assert talk("print k") == "k = 3"
    assert "element i = 1" in talk("back") + talk("back")


def test_an_endless_recursion_is_a_failure():
    talk = Talk('fn f(n: i64) -> i64 = f(n + 1) + 1\nfn main() { print("{f(0)}") }')
    talk.debugger.machine.interpreter.depth = 500
    assert "error[E0805]: the stack is exhausted" in talk("continue")
    assert "calls" in talk("where") and len(talk("where").splitlines()) < 30
    assert "p.dl:1 in f" in talk("back")


def test_a_run_that_goes_on_for_long_is_interrupted():
    talk = Talk('fn main() {\n  var k = 0\n  while k < 1000000000 { k += 1 }\n  print("{k}")\n}')
    machine = talk.debugger.machine
    threading.Timer(0.3, machine.interrupt).start()
    assert "interrupted" in talk("continue")
    assert "p.dl:3 in main" in talk("back")


# ---- backward passes -------------------------------------------------------------------------------------------------
def test_a_gradient_goes_through_the_lines_and_back_through_them():
    talk = Talk(GRADIENT)
    talk("run to 10")
    said = talk("step")
    assert "p.dl:10 in loss  (backward pass)" in said and said.endswith("cotangent of the result = 1.0")
    said = talk("next")
    assert "p.dl:9 in loss  (backward pass)" in said
    assert "cotangent of `miss` (line 9) = [-2.          2.47213595  6.94427191]" in said
    assert "p.dl:8 in loss  (backward pass)" in talk("next")
    assert talk("cotangent lengths").startswith("cotangent of `lengths` (line 8) = [-2. ")
    assert talk("print lengths[0] + 1.0") == "lengths[0] + 1.0 = 1.0"
    assert talk("grads").splitlines()[0] == "cotangent of the result = 1.0"
    assert "p.dl:9 in loss  (backward pass)" in talk("back")


def test_in_the_backward_pass_of_a_loop_variables_have_the_values_of_the_iteration():
    text = "fn f(x: f64) -> f64 {\n  var y = x\n  for i < 3 {\n    let t = y * y\n    y = t + 1.0\n  }\n  y\n}\n"
    talk = Talk(text + 'fn main() { print("{grad(f)(1.0)}") }')
    talk("run to 7")
    found = [talk("print t") for _ in range(15) if "cotangent of `t`" in talk("next")]
    assert found == ["t = 25.0", "t = 4.0", "t = 1.0"]


# ---- NaN -------------------------------------------------------------------------------------------------------------
def test_the_first_nan_of_a_backward_pass_has_its_variable_and_its_line():
    assert Talk(GRADIENT)("nan").splitlines() == [
        "inf in the backward pass of `sqrt(q)` at p.dl:4 in length",
        "   4 ▸   sqrt(q)",
        "     a cotangent of -2.0 times the derivative inf gives -inf",
        "     it goes into the cotangent of `q` (line 3): let q = sum(p ** 2)",
        "     q = 0.0",
        "#18  p.dl:4 in length  (iteration 0; backward pass)",
    ]


@pytest.mark.parametrize(
    "body, expected",
    [
        ("let y = log(0.0 - x)", "nan at p.dl:3 in main: `log(0.0 - x)`"),
        ("let y = [1.0 / (f64(i) - 2.0) for i < 4]", "inf at p.dl:3 in main: `1.0 / (f64(i) - 2.0)`"),
        ("let y = sum([1e308 for i < 3])", "inf at p.dl:3 in main: `sum([1e308 for i < 3])`"),
        ("let y = exp(800.0 * x)", "inf at p.dl:3 in main: `exp(800.0 * x)`"),
        ("let y = where(x < 0.0, log(x - 1.0), x)", "no NaN and no infinity is made"),
        ("let y = [where(x < 0.0, log(x - 1.0), x) for i < 2]", "no NaN and no infinity is made"),
        ("let y = grad(|v: f64| where(v > 0.0, sqrt(v), v))(x - 1.0)", "no NaN and no infinity is made"),
    ],
)
def test_where_a_nan_or_an_infinity_is_made(body, expected):
    talk = Talk(f'fn main() {{\n  let x = 1.0\n  {body}\n  print("{{y}}")\n}}')
    assert talk("nan").splitlines()[0] == expected


def test_the_next_nan_comes_when_it_is_asked_for_again():
    talk = Talk('fn main() {\n  let a = log(0.0)\n  let b = a + 1.0\n  let c = sqrt(-1.0)\n  print("{b}{c}")\n}')
    assert "p.dl:2" in talk("nan")
    assert "p.dl:4" in talk("nan")
    assert "from there on" in talk("nan")
    assert "p.dl:3 in main" in talk("goto 1")


ZERO = """fn root(x: f64) -> f64 = sqrt(x) * sqrt(x)
fn roots(x: f64[n]) -> f64 = sum(where(x > 0.0, sqrt(x), 0.0))
fn main() {
  let a = grad(root)(X)
  let b = grad(roots)([1.0, X, 4.0])
  print("{a} {b}")
}
"""


def test_a_product_that_is_zero_by_convention_is_found_and_the_next_one():
    talk = Talk(ZERO.replace("X", "0.0"))
    first = [
        "0 in the backward pass of `sqrt(x)` at p.dl:1 in root",
        "   1 ▸ fn root(x: f64) -> f64 = sqrt(x) * sqrt(x)",
        "     a cotangent of 0.0 times the derivative inf counts as 0.0",
        "     it goes into the cotangent of `x` (line 1): fn root(x: f64) -> f64 = sqrt(x) * sqrt(x)",
        "     x = 0.0",
    ]
    assert talk("zero").splitlines()[:-1] == first
    assert talk("zero").splitlines()[:-1] == first  # of the other root
    assert "at p.dl:2 in roots" in talk("zero")
    assert talk("zero").splitlines()[-1].endswith("from there on")
    assert "no NaN and no infinity is made" in talk("nan")  # that is another search


@pytest.mark.parametrize(
    "text",
    [
        ZERO.replace("X", "2.0"),
        'fn main() { print("{grad(|x: f64| 0.0 * x)(3.0)}") }',
        'fn main() { print("{grad(|x: f64| sqrt(x))(0.0)}") }',
        'fn main() { print("{0.0 / 1.0}") }',
    ],
)
def test_no_other_zero_is_one_by_convention(text):
    assert Talk(text)("zero").splitlines()[-1] == "no product of a derivative is 0 times what is not finite"


def test_one_in_an_element_of_a_comprehension_and_in_a_tangent_is_found():
    text = 'fn f(x: f64[n]) -> f64[n] = [sqrt(v) * sqrt(v) for v in x]\nfn main() { print("{SLOPE}") }'
    found = Talk(text.replace("SLOPE", "grad(|x: f64[3]| sum(f(x)))([1.0, 0.0, 4.0])"))("zero")
    assert "a cotangent of 0.0 times the derivative inf counts as 0.0" in found
    found = Talk(text.replace("SLOPE", "jvp(|x: f64[3]| f(x), [1.0, 0.0, 4.0], [1.0, 0.0, 0.0])"))("zero")
    assert "a tangent of 0.0 times the derivative inf counts as 0.0" in found


# ---- the rest --------------------------------------------------------------------------------------------------------
def test_help_has_every_command():
    said = Talk(DATA)("help")
    assert all(c.names[0] in said for c in COMMANDS)
    assert Talk(DATA)("help rnext").startswith("rnext, rn [N]")


def test_functions_of_the_library_are_passed_over_unless_they_are_asked_for():
    text = 'import stats\nfn main() {\n  let m = stats.variance([1.0, 2.0, 4.0])\n  print("{m}")\n}'
    talk = Talk(text)
    assert "`dlc debug --library` sees the standard library" in talk("break variance")
    assert "p.dl:4" in talk("step")
    talk = Talk(text, library=True)
    assert "stats.dl" in talk("break variance")
    assert "stats.dl" in talk("step")


def test_ctrl_c_is_only_taken_while_a_command_runs():
    from dlang.tools.debugger.commands import interruptible

    before = signal.getsignal(signal.SIGINT)
    talk = Talk(DATA)
    with interruptible(talk.conversation):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
