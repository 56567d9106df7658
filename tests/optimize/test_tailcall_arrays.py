"""Tail calls that hand on arrays become loops in which these stay in place."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import Source
from dlang.driver import check
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Call, Copy, While
from dlang.ir.reader import read_program
from dlang.optimize.tailcalls import tail_calls_to_loops
from dlang.pipeline import optimise
from dlang.tools.law import prepared
from tests.meaning import meaning
from tests.optimize.tailcalls import agrees, count, fast, looped, loops_and_calls

FILL = """\
fn fill(i.0: i64, n.1: i64, x.2: f64[n.1]) -> (r.3: f64[n.1]) {
  end.4: bool = eq(i.0, n.1)
  r.5: f64[n.1] = if end.4 {
    yield x.2
  } else {
    v.6: f64 = cast f64 i.0
    y.7: f64[n.1] = update x.2[i.0] = v.6
    j.8: i64 = add(i.0, 1)
    r.9: f64[n.1] = call fill(j.8, n.1, y.7)
    yield r.9
  }
  yield r.5
}

fn main(n.0: i64) -> (r.1: f64[n.0]) {
  x.2: f64[n.0] = comp i.3 in 0..n.0 {
    yield 0.0
  } to keep [n.0] [i.3] sum
  r.4: f64[n.0] = call fill(0, n.0, x.2)
  yield r.4
}
"""


def copies(text: str, n: int) -> int:
    """How often the optimised program copies an array."""
    interpreter = Interpreter(optimise(read_program(text), ["main"], verify=True))
    interpreter.run("main", [n])
    return interpreter.copies


def test_an_array_that_is_handed_on_is_changed_in_place() -> None:
    assert loops_and_calls(looped(FILL)) == (1, 1)
    assert agrees(FILL, 5)[0].tolist() == [0, 1, 2, 3, 4]
    assert copies(FILL, 50) <= 1  # what the caller hands over, once
    assert fast(FILL, 200_000)[0][-1] == 199_999  # 160 GB of copies otherwise


def test_an_array_whose_last_value_is_made_anew_is_changed_in_place_until_then() -> None:
    text = FILL.replace(
        "    yield x.2\n  } else",
        """\
    z.20: f64[n.1] = comp k.21 in 0..n.1 {
      a.22: f64 = read x.2[n.1 - 1 - k.21]
      yield a.22
    } to keep [n.1] [k.21] sum
    yield z.20
  } else""",
    )
    assert agrees(text, 5)[0].tolist() == [4, 3, 2, 1, 0]
    assert copies(text, 50) <= 1
    assert fast(text, 200_000)[0][0] == 199_999


def test_an_array_that_is_only_looked_at_by_the_end_costs_nothing_on_the_way() -> None:
    text = FILL.replace("(r.3: f64[n.1])", "(r.3: f64)").replace("r.5: f64[n.1]", "r.5: f64")
    text = text.replace("r.9: f64[n.1]", "r.9: f64").replace("(r.1: f64[n.0])", "(r.1: f64)")
    text = text.replace("r.4: f64[n.0]", "r.4: f64").replace(
        "    yield x.2\n  } else",
        "    w.20: f64[n.1] = update x.2[0] = 5.0\n    a.21: f64 = read w.20[0]\n    yield a.21\n  } else",
    )
    assert agrees(text, 5) == [5.0]
    assert copies(text, 50) <= 1
    assert fast(text, 200_000) == [5.0]


GROW = """\
fn grow(n.0: i64, x.1: f64[n.0], end.2: i64) -> (m.3: i64, r.4: f64[m.3]) {
  stop.5: bool = ge(n.0, end.2)
  m.6: i64, r.7: f64[m.6] = if stop.5 {
    yield n.0, x.1
  } else {
    y.8: f64[n.0 + n.0] = concat(x.1, x.1)
    k.9: i64 = size n.0 + n.0
    z.10: f64[k.9] = comp i.11 in 0..k.9 {
      v.12: f64 = read y.8[i.11]
      w.13: f64 = add(v.12, 1.0)
      yield w.13
    } to keep [k.9] [i.11] sum
    m.14: i64, r.15: f64[m.14] = call grow(k.9, z.10, end.2)
    yield m.14, r.15
  }
  yield m.6, r.7
}

fn main(n.0: i64) -> (m.1: i64, r.2: f64[m.1]) {
  x.3: f64[1] = comp i.4 in 0..1 {
    yield 0.5
  } to keep [1] [i.4] sum
  m.5: i64, r.6: f64[m.5] = call grow(1, x.3, n.0)
  yield m.5, r.6
}
"""


def test_an_array_may_have_another_size_in_each_iteration() -> None:
    assert loops_and_calls(looped(GROW))[0] == 1
    size, values = agrees(GROW, 100)
    assert (size, values.tolist()) == (128, [7.5] * 128)


REST = """\
fn total(n.0: i64, x.1: f64[n.0], s.2: f64) -> (r.3: f64) {
  end.4: bool = eq(n.0, 0)
  r.5: f64 = if end.4 {
    yield s.2
  } else {
    v.6: f64 = read x.1[0]
    t.7: f64 = add(s.2, v.6)
    m.8: i64 = size n.0 - 1
    rest.9: f64[n.0 - 1] = view i.10 in 0..n.0 - 1 of x.1[i.10 + 1]
    r.11: f64 = call total(m.8, rest.9, t.7)
    yield r.11
  }
  yield r.5
}

fn main(n.0: i64, x.1: f64[n.0]) -> (r.2: f64) {
  r.3: f64 = call total(n.0, x.1, 0.0)
  yield r.3
}
"""


def test_a_part_of_an_array_is_handed_on_by_where_it_begins() -> None:
    program = looped(REST)
    assert (count(program, While), count(program, Call), count(program, Copy)) == (1, 1, 0)
    program = optimise(read_program(REST), ["main"], verify=True)  # it counts, by the size of what is left
    assert (count(program, While), count(program, Call), count(program, Copy)) == (0, 0, 0)
    assert agrees(REST, 4, np.arange(4.0)) == [6.0]
    assert fast(REST, 10**6, np.ones(10**6)) == [10.0**6]


def test_a_call_that_hands_on_another_view_stays_a_call() -> None:
    text = REST.replace("x.1[i.10 + 1]", "x.1[n.0 - 1 - i.10]")
    program = read_program(text)
    assert tail_calls_to_loops(program).functions["total"] is program.functions["total"]
    assert agrees(text, 4, np.arange(4.0)) == [6.0]


SWAP = """\
fn swap(k.0: i64, n.1: i64, x.2: f64[n.1], y.3: f64[n.1]) -> (r.4: f64[n.1], s.5: f64[n.1]) {
  end.6: bool = eq(k.0, 0)
  r.7: f64[n.1], s.8: f64[n.1] = if end.6 {
    yield x.2, y.3
  } else {
    z.9: f64[n.1] = update x.2[0] = 3.0
    j.10: i64 = sub(k.0, 1)
    r.11: f64[n.1], s.12: f64[n.1] = call swap(j.10, n.1, y.3, z.9)
    yield r.11, s.12
  }
  yield r.7, s.8
}

fn main(k.0: i64, n.1: i64, x.2: f64[n.1], y.3: f64[n.1]) -> (r.4: f64[n.1], s.5: f64[n.1]) {
  r.6: f64[n.1], s.7: f64[n.1] = call swap(k.0, n.1, x.2, y.3)
  yield r.6, s.7
}
"""


@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_two_arrays_may_change_places(k: int) -> None:
    agrees(SWAP, k, 3, np.arange(3.0), np.ones(3))


OTHERS = {
    "a number that is no size": """
fn f(x: f64[n], y: f64[m], i: i64, a: f64) -> f64 =
  if i <= 0 { a * x[0] + y[m - 1] } else { g(x, 5 - 7 * i, i - 1, a + y[0]) }
fn g(x: f64[n], j: i64, i: i64, a: f64) -> f64 =
  if i <= 0 { a + f64(j) } else { f(x, concat(x, [a]), i - 1, a * x[0]) }
fn main(x: f64[n], i: i64, a: f64) -> f64 = f(x, [a], i, a)
""",
    "a size that is less than another": """
fn diff(x: f64[n]) -> f64[n - 1] = [x[i + 1] - x[i] for i < n - 1]
fn f(x: f64[n], d: f64[n - 1], i: i64, a: f64) -> f64 =
  if i <= 0 { a * x[0] + sum(d) } else { g(x[..n // 9], i - 1, a) }
fn g(y: f64[m], i: i64, a: f64) -> f64 {
  if i <= 0 { return a + f64(m) }
  let z = concat(y, [a, a * a])
  f(z, diff(z), i - 1, a + 0.1)
}
fn main(x: f64[n], i: i64, a: f64) -> f64 = f(x, diff(x), i, a)
""",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_no_array_for_another_of_functions_that_call_one_another_has_a_negative_size(text: str) -> None:
    compiled, interpreted = dlang.compile(text).main, dlang.compile(text, backend="interp").main
    x = np.array([0.3, 0.4])
    wanted = [meaning(interpreted, x, i, 0.7) for i in range(6)]
    interpreted = dlang.compile(text, backend="interp").main  # once more, as it is optimised
    assert [interpreted(x, i, 0.7) for i in range(6)] == pytest.approx(wanted)
    assert [compiled(x, i, 0.7) for i in range(6)] == pytest.approx(wanted)


MIXED = """
fn plus(x: f64[n], i: i64, w: i64) -> f64[n] =
  if w == 1 {
    var y = x
    y[i] += 1.0
    y
  } else { plus(plus(x, i, w // 2), i + w // 2, w - w // 2) }
fn fill(x: f64[n], i: i64, w: i64) -> f64[n] =
  if w == 1 {
    var y = x
    y[i] *= 2.0
    y
  } else if w == 3 { plus(plus(x, i, 2), i + 2, 1) } else { fill(fill(x, i, w // 2), i + w // 2, w - w // 2) }
fn main(x: f64[n]) -> f64[n] = fill(x, 0, n)
"""


AT_ALL_ENDS = """
fn along(x: f64[n], i: i64) -> f64[n] {
  if i >= n { return x }
  var y = x
  y[i] += 1.0
  along(y, 2 * i + 1)
}
fn fill(x: f64[n], i: i64, w: i64) -> f64[n] =
  if w == 1 { along(x, i) } else { fill(fill(x, i, w // 2), i + w // 2, w - w // 2) }
fn main(x: f64[n]) -> f64[n] = fill(x, 0, n)
"""


@pytest.mark.parametrize("text", [MIXED, AT_ALL_ENDS], ids=["at some end", "at all ends"])
def test_an_array_that_another_function_goes_on_with_is_changed_in_place(text: str) -> None:
    x = np.arange(30.0)
    module, interpreted = dlang.compile(text), dlang.compile(text, backend="interp")
    np.testing.assert_array_equal(module.main(x), meaning(interpreted.main, x))
    small, large = (operations(text, n) for n in (96, 192))
    assert large < 2.1 * small


def operations(text: str, n: int) -> int:
    """The operations of the optimised `main` of an array of n numbers."""
    decl = check(Source("program.dl", text)).module.functions["main"]
    return prepared(decl, ()).costs({"n": n})["value"].operations
