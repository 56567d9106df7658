"""Functions as values: known ones cost nothing, those that are not known are nodes."""

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.ops import figures
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.specialize.support import lowered, ops


def run(made, *args):
    plain = made.run(*args)
    assert made.run(*args, optimised=True) == plain
    return plain


def made_dynamic(made):
    return [op for op in ops(made.program) if isinstance(op, anf.Construct)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("let f = |y| y + x\n  f(f(x))", 6.0),
        ("let f = |g| |y| g(g(y))\n  f(|y| y * x)(1.0)", 4.0),
        ("var f = |y| y + x\n  f = |y| y * x\n  f(5.0)", 10.0),
        ("fn go(f: f64 -> f64, n: i64) -> f64 = if n == 0 { 0.0 } else { f(1.0) + go(f, n - 1) }\n  go(|y| x, 3)", 6.0),
        ("let f = if true { |y| y } else { |y| -y }\n  f(x)", 2.0),
        ("let o = Some(|y| y + x)\n  match o { Some(f) => f(1.0), None => 0.0 }", 3.0),
        ('let f = if x > 0.0 { |y| y + x } else { fail("no") }\n  f(1.0)', 3.0),
        ("let o = if x > 0.0 { Some(|y| y + x) } else { None }\n  match o { Some(f) => f(1.0), None => 0.0 }", 3.0),
        ("let fs = [|y| y + x * f64(i) for i < 3]\n  fs[2](0.0)", 4.0),
    ],
)
def test_known_functions_make_no_nodes(body, expected):
    made = lowered(f"fn f(x: f64) -> f64 {{\n  {body}\n}}")
    assert not made_dynamic(made)
    assert run(made, 2.0) == [expected]


def test_one_function_in_both_arms_stays_known():
    made = lowered(
        "fn f(x: f64, c: bool) -> f64 {\n  let g = |y| y + x\n"
        "  let (h, k) = if c { (g, 1.0) } else { (g, 2.0) }\n  h(k)\n}"
    )
    assert not made_dynamic(made)
    assert run(made, 1.0, True) == [2.0] and run(made, 1.0, False) == [3.0]


def test_a_choice_that_is_called_at_once_is_called_in_place():
    made = lowered("fn f(x: f64, c: bool) -> f64 {\n  let g = if c { |y| y + x } else { |y| y * x }\n  g(3.0)\n}")
    assert made_dynamic(made)
    assert len(optimise(made.program, [made.entry.name]).functions) == 1
    assert run(made, 2.0, True) == [5.0] and run(made, 2.0, False) == [6.0]


def test_functions_of_one_type_share_a_datatype_for_all_sizes():
    made = lowered("""
fn f(c: bool, n: size) -> f64 {
  let g = if c { |x: f64[3]| sum(x) } else { |x| x[0] }
  let h = if c { |x: f64[n]| sum(x) } else { |x| 2.0 * sum(x) }
  g([1.0, 2.0, 3.0]) + h(ones(n))
}
""")
    assert [d.label for d in made.program.datatypes.values()] == ["(f64[_]) -> f64"]
    assert run(made, 2, True, 2) == [8.0] and run(made, 2, False, 2) == [5.0]


def test_continuations_need_finitely_many_instances():
    made = lowered("""
fn f(n: i64) -> i64 = go(n, |x| x)
fn go(n: i64, k: i64 -> i64) -> i64 = if n == 0 { k(1) } else { go(n - 1, |x| k(n * x)) }
""")
    assert len(made.functions_of("go")) <= 3
    assert run(made, 5) == [120]


def test_a_recursive_function_gives_a_function():
    made = lowered("""
fn f(n: i64, x: f64) -> f64 = power(n)(x)
fn power(n: i64) -> f64 -> f64 = if n == 0 { |x| 1.0 } else { let rest = power(n - 1); |x| x * rest(x) }
""")
    assert run(made, 4, 2.0) == [16.0]


def test_a_loop_that_does_not_change_a_function_keeps_it_known():
    made = lowered("fn f(x: f64) -> f64 {\n  let g = |y| y + x\n  var y = 0.0\n  for k in 0..3 { y = g(y) }\n  y\n}")
    assert not made_dynamic(made)
    assert run(made, 2.0) == [6.0]


def test_a_loop_that_changes_a_function_makes_it_dynamic():
    made = lowered("""
fn f(x: f64) -> f64 {
  var g = |y: f64| y
  for k in 0..3 { let h = g; g = |y| h(y) + x }
  g(0.0)
}
""")
    assert made_dynamic(made)
    assert run(made, 2.0) == [6.0]


def test_effects_are_those_of_the_functions_that_were_joined():
    class Host:
        def __init__(self):
            self.lines = []

        def print(self, text):
            self.lines.append(text)

    text = """
fn f(c: bool) -> f64 {
  let say = if c { |x: f64| print("{x}") } else { |x| () }
  say(1.0)
  say(2.0)
  0.0
}
"""
    made = lowered(text)
    for c, expected in ((True, ["1.0", "2.0"]), (False, [])):
        host = Host()
        Interpreter(optimise(made.program, [made.entry.name], verify=True), host).run(made.entry.name, [c])
        assert host.lines == expected


def test_a_type_that_states_no_effect_refuses_a_function_that_has_one():
    with pytest.raises(DlangError) as caught:
        lowered("""
enum Deferred { Now(f64), Later(() -> Deferred) }
fn run(d: Deferred) -> f64 = match d { Now(x) => x, Later(f) => run(f()) }
fn loud(g: () -> f64) -> Deferred = Later(|| Now(g()))
fn f(x: f64) -> f64 = run(loud(|| { print("now"); x }))
""")
    assert caught.value.diagnostics[0].code == "E0690"


def test_the_derivative_of_a_function_is_a_value_too():
    made = lowered("fn f(x: f64, c: bool) -> f64 {\n  let g = if c { grad(|y| y ** 3.0) } else { |y| y }\n  g(x)\n}")
    assert made.run(2.0, True, optimised=True) == [12.0] and made.run(2.0, False, optimised=True) == [2.0]


def test_a_derivative_passes_through_functions_in_a_list():
    text = """
fn run(fs: List<f64 -> f64>, x: f64) -> f64 = match fs { Nil => x, Cons(g, rest) => run(rest, g(x)) }
fn f(x: f64) -> f64 {
  let fs = Cons(|y| y * y, Cons(|y| y + 1.0, Cons(|y| x * y, Nil)))
  grad(|y| run(fs, y))(x)
}
"""
    assert lowered(text).run(3.0, optimised=True) == [18.0]


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_elements_of_an_array_of_functions_have_numbers_of_their_own(backend: str) -> None:
    m = dlang.compile(
        """
fn f(k: i64) -> i64 {
  var fs = [|x: i64| x + sum(j for j < i + 1) for i < 3]
  fs[1] = |x: i64| x * 10 + k
  fs[0](1) + fs[1](1) + 100 * fs[2](2)
}
fn h(n: i64) -> f64 {
  var fs = [|x: f64| sum([x * f64(j) for j < i]) for i < n]
  for k < n - 1 { fs[k] = |x: f64| x + f64(k) }
  var t = 0.0
  for f in fs { t += f(2.0) }
  t
}
""",
        backend=backend,
    )
    assert m.f(5) == 1 + 15 + 500 and m.h(4) == 2.0 + 3.0 + 4.0 + 6.0


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_local_function_that_calls_itself_takes_sizes_from_its_own_parameters(backend: str) -> None:
    m = dlang.compile(
        """
fn tails(n: i64) -> i64 {
  fn go(k: i64) -> i64 = if k >= n { 0 } else { sum(i for i in k..n) + go(k + 1) }
  go(0)
}
fn permutations(n: size) -> i64 {
  fn go(k: i64, p: i64[n]) -> i64 {
    if k == n { return sum(p[i] * 10 ** i for i < n) }
    var total = 0
    for j in k..n {
      var q = p
      (q[k], q[j]) = (q[j], q[k])
      total += go(k + 1, q)
    }
    total
  }
  go(0, [i for i < n])
}
fn first_even(n: i64) -> i64 {
  fn go(k: i64) -> i64 {
    for j in k..n { if j % 2 == 0 { return 1 + go(j + 1) } }
    0
  }
  go(0)
}
fn halves(x: f64[n]) -> f64 {
  fn go(a: i64, b: i64) -> f64 {
    if b - a <= 1 { return sum(x[a..b]) }
    let z: f64[b - a] = x[a..b]
    sum(z[i] * z[b - a - 1 - i] for i < b - a) + go(a, (a + b) // 2) * go((a + b) // 2, b)
  }
  go(0, n)
}
""",
        backend=backend,
    )
    assert m.tails(4) == 6 + 6 + 5 + 3 and m.permutations(3) == 2 * 3 * 111 and m.first_even(7) == 4
    assert m.halves([1.0, 2.0, 3.0, 5.0]) == 2.0 * 5.0 + 2.0 * 6.0 + (4.0 + 2.0) * (30.0 + 15.0)


CALLED_AGAIN = """
struct Pair { a: f64, f: (f64) -> f64 }
fn twice(h: (f64) -> f64, y: f64) -> f64 = h(h(y))
fn compose(f: (f64) -> f64, g: (f64) -> f64) = |y: f64| f(g(y))
fn f(c: f64[n], x: f64) -> f64 {
  let w = [c[i] * x for i < n]
  fn dot(y: f64[n]) -> f64 = sum(y * w)
  fn rows(k: size, y: f64) -> f64[k + n] = [y * c[i % n] for i < k + n]
  fn g0(y: f64) -> f64 = sin(y) * x + w[0]
  fn g1(y: f64) -> f64 = g0(y) + g0(y * 0.5) * dot([y * v for v in c])
  let h = |y: f64| g1(y) - g1(g0(y))
  let both = compose(h, h)
  fn apart(a: f64) = |y: f64| if y > a { both(y) } else { h(y) * a }
  let p = Pair(a = 0.5, f = apart(0.1))
  fn falls(y: f64, k: i64) -> f64 = if k == 0 { g1(y) } else { falls(g0(y), k - 1) + h(y) }
  var s = twice(h, 0.3) + twice(g0, 0.2) + (p.f)(0.2) + apart(0.3)(0.1) + sum(rows(2, x)) + sum(rows(3, s0(x)))
  for i < 3 { s += both(c[i]) * h(s * 0.1) + falls(s * 0.1, i) }
  s + sum([g1(v) + apart(v)(x) for v in c]) + grad(h)(x) + grad(|y| twice(h, y))(x) * grad(grad(g1))(0.3)
}
fn s0(y: f64) -> f64 = y * 0.25
"""


def test_local_functions_that_are_called_again_mean_the_same(monkeypatch):
    c, x = np.array([0.4, -0.3, 0.9]), 0.7
    plain = dlang.compile(CALLED_AGAIN, backend="interp").f
    value = meaning(plain, c, x)
    slopes = [meaning(dlang.grad(plain, wrt=w), c, x) for w in "cx"]
    monkeypatch.setattr(figures, "COPIED_IN_PLACE", 0)
    called = dlang.compile(CALLED_AGAIN).f
    np.testing.assert_allclose(called(c, x), value, rtol=1e-12)
    for w, slope in zip("cx", slopes, strict=True):
        np.testing.assert_allclose(dlang.grad(called, wrt=w)(c, x), slope, rtol=1e-10)
    pushed = dlang.jvp(called, (c, x), (np.ones(3), 0.5))[1]
    np.testing.assert_allclose(pushed, np.sum(slopes[0]) + 0.5 * slopes[1], rtol=1e-10)


def test_a_large_local_function_is_called_again_and_a_small_one_is_not():
    def made(count):
        lines = "\n".join(f"    t = sin(t) * {k}.5" for k in range(count))
        text = f"  fn g(y: f64) -> f64 {{\n    var t = y\n{lines}\n    t\n  }}\n  g(x) + g(x + 1.0) + g(x + 2.0)"
        return len(lowered(f"fn f(x: f64) -> f64 {{\n{text}\n}}").functions_of("g"))

    assert made(20) == 0
    assert made(200) == 1


def test_a_large_local_function_in_a_loop_that_is_tried_twice_stands_in_its_place():
    lines = "\n".join(f"    t = sin(t) * {k}.5" for k in range(200))
    text = f"  fn g(y: f64) -> f64 {{\n    var t = y\n{lines}\n    t\n  }}\n  var a: f64[?] = [x]\n"
    text += "  for i < 3 { a = concat(a, [g(a[0])]) }\n  sum(a)"
    assert not lowered(f"fn f(x: f64) -> f64 {{\n{text}\n}}").functions_of("g")


def test_what_several_functions_captured_is_passed_once():
    made = lowered("""
fn apply(h: (f64) -> f64, y: f64) -> f64 = if y > 9.0 { apply(h, y - 1.0) } else { h(y) }
fn f(x: f64) -> f64 {
  let g = |y: f64| y * x
  let h = |y: f64| g(y) + x
  apply(|y| h(y) + g(y) + x, 10.0)
}
""")
    (function,) = made.functions_of("apply")
    assert len(function.params) == 2
    assert run(made, 2.0) == [2.0 * 9.0 * 2.0 + 4.0]


def test_a_derivative_in_two_functions_that_captured_the_same_has_a_slope_for_each():
    text = """
fn use(a: (f64) -> f64, b: (f64) -> f64) -> f64 = a(1.0) * b(2.0)
fn f(x: f64) -> f64 {
  let g = |y: f64| y * x
  let (_, back) = vjp(use, g, g)
  let (da, db) = back(1.0)
  da(1.0) - 10.0 * db(1.0)
}
"""
    assert meaning(dlang.compile(text, backend="interp").f, 3.0) == dlang.compile(text).f(3.0)
