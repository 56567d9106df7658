"""What the two halves of a derivative keep between them, as the whole compiler leaves it."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import Source
from dlang.driver import check, errors_of, lower
from dlang.dump_ir import request
from dlang.ir.anf import Construct, For, Program, While
from dlang.ir.traverse import walk
from tests.meaning import meaning

CHOICE = "fn choice(v: f64) -> f64 = if v > 0.0 { v * v * exp(v) } else { sin(v) * v }\n"


def optimised(text: str) -> Program:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked)
    return lower([request(checked.module.functions["f"])], verify=True)[0]


def nodes(program: Program) -> int:
    return sum(isinstance(let.op, Construct) for f in program.functions.values() for let in walk(f.body))


@pytest.mark.parametrize(
    "function",
    [
        "fn f(x: f64[n]) -> f64[n] = [{ let (y, pull) = vjp(choice, v); pull(y) } for v in x]",
        "fn f(x: f64) -> f64 { let (y, pull) = vjp(choice, x); pull(pull(y)) }",
        "fn f(x: f64[n]) -> f64[n] { let (y, pull) = vjp(|x: f64[n]| [choice(v) for v in x], x); pull(y) }",
        "fn f(x: f64[5]) -> f64[2, 5] = jacobian(|v: f64[5]| [choice(v[0]), v[2] * choice(v[1])])(x)",
    ],
)
def test_a_tape_that_stays_in_the_function_that_made_it_is_no_node(function: str) -> None:
    assert nodes(optimised(CHOICE + function)) == 0


def test_a_tape_that_is_handed_on_is_a_node_of_a_variant_for_each_arm() -> None:
    assert nodes(optimised(CHOICE + "fn f(x: f64) -> f64 = [vjp(choice, v).1 for v in [x, 2.0]][0](1.0)")) >= 2


EITHER = """
fn either(x: f64[n]) -> f64[n] = if sum(x) > 0.0 { let y = sin(x); y * y[0] } else { exp(x) * x[0] }
"""


def test_a_tape_has_nothing_of_large_arms_that_were_not_taken() -> None:
    text = EITHER + "fn f(xs: f64[m, n]) -> f64[n] { let pulls = [vjp(either, x).1 for x in xs]; pulls[0](xs[1]) }"
    assert nodes(optimised(text)) == 2


def test_there_is_no_tape_where_the_arm_that_was_taken_is_known() -> None:
    text = EITHER + "fn f(x: f64[n]) -> f64[n] { let (y, pull) = vjp(either, x); pull(y) }"
    assert nodes(optimised(text)) == 0


def test_a_loop_that_prints_runs_once_and_keeps_a_node_for_each_iteration() -> None:
    text = 'fn f(x: f64) -> f64 = grad(|a: f64| { var y = a; while y < 9.0 { print("."); y *= a }; y })(x)'
    program = optimised(text)
    assert nodes(program) == 2  # the empty list, and one that is longer by an iteration
    assert sum(isinstance(let.op, While) for f in program.functions.values() for let in walk(f.body)) == 2


def test_arms_of_which_one_runs_take_turns_with_what_they_save() -> None:
    arms = "\n".join(f"  A{k}(a, b) => g(a, z) * {k}.5 + g(b, z) * sin(z)," for k in range(6))
    variants = ", ".join(f"A{k}(E, E)" for k in range(6))
    text = f"""
    enum E {{ {variants}, End(f64) }}
    fn g(e: E, z: f64) -> f64 = match e {{
    {arms}
      End(y) => y * z * z
    }}
    fn f(e: E, z: f64) -> f64 = grad(|z: f64| g(e, z))(z)
    """
    program = optimised(text)
    made = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, Construct)]
    assert max(len(op.args) for op in made) == 6  # the variant, z and its sine, the result of a call, and two tapes


@pytest.mark.parametrize("size", ["8", "n"])
def test_arrays_of_arms_of_which_one_runs_share_the_tapes_of_a_loop(size: str) -> None:
    def loops(arms: int) -> list[For]:
        code = "u = u * x"
        for k in range(arms):
            code = f"if u[0] > {k}.0 {{ u = sin(u * {k}.5) * exp(u) * u }} else {{ {code} }}"
        text = f"fn loss(x: f64[{size}]) -> f64 {{ var u = x; for i < 8 {{ {code} }}; sum(u) }}\n"
        program = optimised(f"{text}fn f(x: f64[{size}]) -> f64[{size}] = grad(loss)(x)")
        return [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, For)]

    few, many = (max(len(op.params) for op in loops(arms)) for arms in (2, 6))
    assert many == few


def test_an_arm_saves_arrays_without_elements_of_a_size_that_it_makes() -> None:
    text = """
fn f(q: f64[k], x: f64) -> f64 {
  let g = if x > 0.0 {
    |u: f64[0]| {
      var v = u
      for y in q {
        if y < 0.0 { continue }
        v = tanh(v) * y
      }
      v
    }
  } else { |u: f64[0]| u }
  sum(g(q[..0])) + sum(q) * x
}
"""
    for backend in ("interp", "cpu"):
        f = dlang.compile(text, backend=backend).f
        np.testing.assert_allclose(meaning(dlang.grad(f), np.array([1.0, -2.0, 3.0]), 0.5), 0.5)


def nest(depth: int) -> str:
    loops = "".join([f"for i{k} < m - {k} {{ " for k in range(depth)])
    return f"""fn loss(x: f64[n], m: i64) -> f64 {{
  var t = 0.1
  {loops}t = 0.9 * sin(t) + x[i0 % n]{" }" * depth}
  t
}}
fn f(x: f64[n], m: i64) -> f64[n] = grad(loss)(x, m)"""


def test_loops_in_loops_share_a_tape_whose_code_is_linear_in_their_depth() -> None:
    """A number of iterations that may be negative is a size of the tape, at least 0: no iteration looks it up."""
    few, many = [sum(1 for f in optimised(nest(depth)).functions.values() for _ in walk(f.body)) for depth in (3, 6)]
    assert many <= 2 * few, (few, many)
    fn, text = dlang.compile(nest(3)).f, nest(3)
    for m in (-1, 0, 1, 2, 3, 5):
        x = np.array([0.3, -0.7])
        expected = meaning(dlang.compile(text, backend="interp").f, x, m)
        np.testing.assert_allclose(fn(x, m), expected, rtol=1e-12)


CHANGED = """
fn changed(p: f64[n], q: f64[k], j: i64, u: f64[l], x: f64) -> f64 {
  var a: f64[?] = p * x
  for i < k { if u[j] > x { a = q * sin(x) } else { a = concat(a, p) } }
  sum(v * v for v in a)
}
fn f(p: f64[n], q: f64[k], j: i64, u: f64[l], x: f64) = grad(changed, wrt = (p, q, x))(p, q, j, u, x)
"""


def test_what_was_checked_for_a_loop_is_certified_where_its_list_of_iterations_is_walked() -> None:
    """Such a check holds where there is no iteration: an access at what it certifies is in range in one alone."""
    optimised(CHANGED)
    f = dlang.compile(CHANGED).f
    rng = np.random.default_rng(0)
    for k, j in ((0, 7), (0, -1), (1, 0), (3, 1)):
        p, q, u = rng.normal(size=2), rng.normal(size=k), rng.normal(size=2)
        found, expected = f(p, q, j, u, 0.3), meaning(dlang.compile(CHANGED, backend="interp").f, p, q, j, u, 0.3)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    with pytest.raises(dlang.DlangError, match="out of range"):
        f(p, q, 2, u, 0.3)
