"""Exact division in sizes is checked where such a size is made."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.host.errors import RunError
from tests.specialize.support import lowered

HALF = "fn half(x: f64[n]) -> f64[n / 2] = x[..n // 2] as f64[n / 2]\n"


@pytest.mark.parametrize("optimised", [False, True])
def test_half_of_an_odd_size_ends_the_run(optimised):
    made = lowered(HALF + "fn f(n: i64) -> f64 { let x: f64[m] = [1.0 for i < n]; sum(half(x)) }")
    assert made.run(4, optimised=optimised) == [2.0]
    with pytest.raises(RunError, match="3 / 2 is not a whole number") as caught:
        made.run(3, optimised=optimised)
    assert caught.value.code == "E0807"


def test_half_of_an_odd_literal_ends_the_run():
    with pytest.raises(RunError, match="not a whole number"):
        lowered(HALF + "fn f() -> f64 = sum(half([1.0, 2.0, 3.0]))").run()


def test_a_size_is_checked_once():
    made = lowered(HALF + "fn f(x: f64[n]) -> f64[n] = concat(half(x), half(x))")
    (f,) = made.functions_of("half")
    assert sum("whole" in str(let) for let in f.body.lets) == 1


DIVIDED = """
fn same(x: f64[n], s: size) -> f64[(s * n - s) // s + 1] = x
fn made(n: size, s: size) -> f64[n] {
  let k = (s * n) // s
  zeros(k)
}
fn rest(n: size, s: size) -> f64[n // s] = zeros(n // s)
"""


@pytest.mark.parametrize("optimised", [False, True])
def test_a_size_that_is_divided_out_holds_for_every_number(optimised):
    same = lowered(DIVIDED + "fn f(s: i64) -> i64 { let x: f64[m] = [1.0 for i < 5]; len(same(x, s)) }")
    assert [same.run(s, optimised=optimised) for s in (0, 1, 3, 2**40)] == [[5]] * 4
    made = lowered(DIVIDED + "fn f(n: i64, s: i64) -> f64 = sum(made(n, s))")
    assert made.run(20, 3, optimised=optimised) == [0.0]
    for n, s, code in (
        (2**40, 2**40, "E0807"),  # a product of i64s that wraps
        (20, 0, "E0803"),  # a division of i64s
        (20, 2**60, "E0806"),  # no size
    ):
        with pytest.raises(RunError) as caught:
            made.run(n, s, optimised=optimised)
        assert caught.value.code == code
    rest = lowered(DIVIDED + "fn f(n: i64, s: i64) -> i64 = len(rest(n, s))")
    assert rest.run(7, 2, optimised=optimised) == [3]
    with pytest.raises(RunError) as caught:
        rest.run(7, 0, optimised=optimised)
    assert caught.value.code == "E0803"


RECURSIVE = {
    "half": """
fn half(v: f64[n], d: i64) -> f64[n // 2] = if d <= 0 { v[..n // 2] } else { 0.5 * half(v, d - 1) }
fn f(v: f64[n]) -> f64 = sum(half(v, 1) * v[..n // 2])
""",
    "half of an even size": """
fn half(v: f64[n], d: i64) -> f64[n / 2] = if d <= 0 { v[..n // 2] as f64[n / 2] } else { 0.5 * half(v, d - 1) }
fn f(v: f64[n]) -> f64 = sum(half(v, 1) * (v[..n // 2] as f64[n / 2]))
""",
    "the size of a local": """
fn f(v: f64[n]) -> f64 {
  let h: f64[k] = v[n // 2..]
  fn go(d: i64, u: f64[k]) -> f64[k] = if d <= 0 { u } else { go(d - 1, 0.5 * u) }
  sum(go(1, h) * v[n // 2..])
}
""",
    "of one another": """
fn even(v: f64[n], d: i64) -> f64[n // 2] = if d <= 0 { v[..n // 2] } else { odd(v, d - 1)[..n // 2] }
fn odd(v: f64[n], d: i64) -> f64[(n + 1) // 2] =
  if d <= 0 { v[..(n + 1) // 2] } else { concat(even(v, d - 1), [v[n - 1] for i < (n + 1) // 2 - n // 2]) }
fn f(v: f64[n]) -> f64 = sum(even(v, 2)) + sum(odd(v, 3))
""",
    "of nodes": """
enum Rope<n> { End, Piece(f64[n], Rope<n>) }
fn rope(v: f64[n], d: i64) -> Rope<n // 2> = if d <= 0 { End } else { Piece(v[..n // 2], rope(v, d - 1)) }
fn total(r: Rope<n>) -> f64 = match r { End => 0.0, Piece(u, rest) => sum(u) + 0.5 * total(rest) }
fn f(v: f64[n]) -> f64 = total(rope(v, 2))
""",
    "of nodes that are taken": """
enum Rope<n> { End, Piece(f64[n], Rope<n>) }
fn along(v: f64[n], r: Rope<n // 2>) -> f64[n // 2] =
  match r { End => v[..n // 2], Piece(u, rest) => u + along(v, rest) }
fn f(v: f64[n]) -> f64 = sum(along(v, Piece(v[..n // 2], Piece(v[..n // 2], End))))
""",
    "of nodes beside functions": """
enum Rope<n> { End, Piece(f64[n], Rope<n>) }
fn f(v: f64[n]) -> f64 {
  let h: f64[k] = v[.. by 2]
  fn along(rs: Rope<k>[2], l: List<f64[k]>, g: f64[k] -> f64) -> f64 = match rs[0] {
    End => (match l { Nil => sum(h), Cons(a, rest) => g(a) + along(rs, rest, g) })
    Piece(u, rest) => sum(u) + along([rest, rs[1]], l, g)
  }
  along([Piece(h, Piece(2.0 * h, End)), End], Cons(h, Nil), |u: f64[k]| sum(u * h))
}
""",
    "beside one that is only known inside": """
fn both(v: f64[n], d: i64) -> (f64[?], f64[n // 2]) =
  if d <= 0 { ([e for e in v if e > 2.0], v[..n // 2]) } else { let (a, b) = both(v, d - 1); (concat(a, a), 2.0 * b) }
fn f(v: f64[n]) -> f64 { let (a, b) = both(v, 2); sum(a) + sum(b) }
""",
}


@pytest.mark.parametrize("name", RECURSIVE)
@pytest.mark.parametrize("optimised", [False, True])
def test_a_recursive_function_gives_an_array_of_a_size_that_is_divided(name, optimised):
    v = np.array([1.0, 2.0, 3.0, 4.0])
    expected = {
        "half": 0.5 * (v[:2] ** 2).sum(), "half of an even size": 0.5 * (v[:2] ** 2).sum(),
        "the size of a local": 0.5 * (v[2:] ** 2).sum(), "of one another": v[:2].sum() * 2,
        "of nodes": 1.5 * v[:2].sum(), "of nodes that are taken": 3 * v[:2].sum(),
        "of nodes beside functions": 4 * v[::2].sum() + (v[::2] ** 2).sum(),
        "beside one that is only known inside": 4 * v[2:].sum() + 4 * v[:2].sum(),
    }  # fmt: skip
    assert lowered(RECURSIVE[name]).run(4, v, optimised=optimised) == [expected[name]]


NAMED = """
fn kept(p: f64[n]) -> f64[?] = [e for e in p if e > 0.0]
"""
"""Functions of `f`, in whose body `v: f64[k]` has a size that is known only when it runs, or is computed."""
USED = {
    "grad": "sum(grad(|u: f64[k]| sum(reshape(concat(u, u * u), 2, k)[1]))(v))",
    "jvp": "sum(jvp(|u: f64[k]| reshape(concat(u, u * u), 2, k)[1], v, ones(k)).1)",
    "jacobian": "sum(jacobian(|u: f64[k]| reshape(concat(u, u * u), 2, k)[1])(v))",
    "checkpoint": "2.0 * sum(checkpoint(|u: f64[k]| reshape(concat(u, u), 2, k)[1])(v))",
    "recursion": """{
    fn go(u: f64[k], d: i64) -> f64[k] = if d <= 0 { zeros(k) } else { reshape(concat(u, u), 2, k)[1] + go(u, d - 1) }
    sum(go(v, 2))
  }""",
}


@pytest.mark.parametrize("value", ["kept(p)", "p[n // 2..]", "p[1.. by 2]", "p[n - 2..]"])
@pytest.mark.parametrize("name", USED)
def test_the_name_of_a_size_is_that_size_in_a_function_of_its_own(name, value):
    made = lowered(NAMED + f"fn f(p: f64[n]) -> f64 {{\n  let v: f64[k] = {value}\n  {USED[name]}\n}}")
    p = np.array([-1.0, 2.0, -3.0, 4.0])
    expected = 2 * {"kept(p)": p[p > 0], "p[1.. by 2]": p[1::2]}.get(value, p[2:]).sum()
    found = [made.run(4, p, optimised=True)] if name != "recursion" else [made.run(4, p, optimised=o) for o in (0, 1)]
    assert all(one == [expected] for one in found)
