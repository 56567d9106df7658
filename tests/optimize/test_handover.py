"""Arrays that go into a call and come out changed: in place, copied only where something else holds them."""

from __future__ import annotations

import io

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.errors import IRError
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.ir.verify import verify
from dlang.optimize.ownership import handed_over, ownership
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine

# Adds 1 to the elements from `low` on, a half after the other.
HALVES = """\
fn raised(n.0: i64, x.1: f64[n.0], low.2: i64, high.3: i64) -> (r.4: f64[n.0]) {
  size.5: i64 = sub(high.3, low.2)
  small.6: bool = le(size.5, 1)
  r.7: f64[n.0] = if small.6 {
    old.8: f64 = read x.1[low.2]
    new.9: f64 = add(old.8, 1.0)
    y.10: f64[n.0] = update x.1[low.2] = new.9
    yield y.10
  } else {
    sum.11: i64 = add(low.2, high.3)
    mid.12: i64 = floordiv(sum.11, 2)
    y.13: f64[n.0] = call raised(n.0, x.1, low.2, mid.12)
    z.14: f64[n.0] = call raised(n.0, y.13, mid.12, high.3)
    yield z.14
  }
  yield r.7
}

fn main(n.0: i64, x.1: f64[n.0]) -> (r.2: f64[n.0]) {
  r.3: f64[n.0] = call raised(n.0, x.1, 0, n.0)
  yield r.3
}
"""


def run(text: str, n: int) -> tuple[list[float], int]:
    """The results of `main` for 0, 1, …, interpreted and compiled, and the number of arrays that are copied."""
    program = optimise(read_program(text), ["main"], verify=True)
    x = np.arange(float(n))
    interpreter = Interpreter(program)
    (found,) = interpreter.run("main", [n, x])
    (compiled,) = Engine(Host(io.StringIO())).compile(program, ["main"]).run("main", [n, x])
    np.testing.assert_array_equal(found, compiled)
    assert x.tolist() == list(range(n))
    return list(found), interpreter.copies


@pytest.mark.parametrize("n", [10, 100])
def test_a_recursion_that_changes_an_array_copies_it_once_at_any_size(n: int) -> None:
    assert run(HALVES, n) == ([k + 1.0 for k in range(n)], 1)


def test_what_is_handed_over_is_copied_where_it_is_still_held() -> None:
    text = (
        HALVES.partition("fn main")[0]
        + """\
fn main(n.0: i64, x.1: f64[n.0]) -> (r.2: f64[n.0]) {
  own.3: f64[n.0] = scan sum x.1
  y.4: f64[n.0] = call raised(n.0, own.3, 0, n.0)
  r.5: f64[n.0] = comp i.6 in 0..n.0 {
    a.7: f64 = read own.3[i.6]
    b.8: f64 = read y.4[i.6]
    c.9: f64 = mul(a.7, b.8)
    yield c.9
  } to keep [n.0] [i.6] sum
  yield r.5
}
"""
    )
    assert run(text, 4) == ([0.0, 2.0, 12.0, 42.0], 1)
    let_go = text.replace("a.7: f64 = read own.3", "a.7: f64 = read y.4")
    assert run(let_go, 4) == ([1.0, 4.0, 16.0, 49.0], 0)


def test_a_function_that_returns_something_else_on_one_path_continues_nothing() -> None:
    text = HALVES.replace(
        "    yield y.10\n",
        "    w.30: f64[n.0] = comp i.31 in 0..n.0 {\n      yield 7.0\n    } to keep [n.0] [i.31] set\n    yield w.30\n",
    )
    program = handed_over(read_program(text), ["main"])
    assert program.functions["raised"].continues == ()
    assert run(text, 5)[0] == [7.0] * 5


def test_what_is_called_from_outside_keeps_its_arguments() -> None:
    assert handed_over(read_program(HALVES), ["main", "raised"]).functions["raised"].continues == ()
    assert handed_over(read_program(HALVES), ["main"]).functions["raised"].continues == ((0, 1),)


def test_functions_that_call_one_another_hand_an_array_on() -> None:
    there, back = HALVES.partition("fn main")[0], HALVES.partition("fn main")[2]
    text = there.replace("call raised", "call other") + there.replace("fn raised", "fn other") + "fn main" + back
    program = handed_over(read_program(text), ["main"])
    assert (program.functions["raised"].continues, program.functions["other"].continues) == (((0, 1),), ((0, 1),))
    assert run(text, 20) == ([k + 1.0 for k in range(20)], 1)


def test_of_two_results_that_are_one_array_one_continues_it() -> None:
    text = """\
fn twice(n.0: i64, x.1: f64[n.0], k.2: i64) -> (a.3: f64[n.0], b.4: f64[n.0]) {
  end.5: bool = le(k.2, 0)
  a.6: f64[n.0], b.7: f64[n.0] = if end.5 {
    yield x.1, x.1
  } else {
    y.8: f64[n.0] = update x.1[k.2] = 5.0
    m.9: i64 = sub(k.2, 1)
    a.10: f64[n.0], b.11: f64[n.0] = call twice(n.0, y.8, m.9)
    z.12: f64[n.0] = update a.10[0] = 9.0
    yield z.12, b.11
  }
  yield a.6, b.7
}

fn main(n.0: i64, x.1: f64[n.0]) -> (r.2: f64[n.0]) {
  m.3: i64 = sub(n.0, 1)
  a.4: f64[n.0], b.5: f64[n.0] = call twice(n.0, x.1, m.3)
  r.6: f64[n.0] = comp i.7 in 0..n.0 {
    p.8: f64 = read a.4[i.7]
    q.9: f64 = read b.5[i.7]
    s.10: f64 = add(p.8, q.9)
    yield s.10
  } to keep [n.0] [i.7] set
  yield r.6
}
"""
    assert run(text, 3)[0] == [9.0, 10.0, 10.0]


def test_what_continues_is_printed_read_and_checked() -> None:
    program = handed_over(read_program(HALVES), ["main"])
    text = print_program(program)
    assert "-> (r.4: f64[n.0]) continues (0 1) {" in text
    assert print_program(read_program(text)) == text
    with pytest.raises(IRError, match="of another type"):
        verify(read_program(text.replace("continues (0 1)", "continues (0 2)")))


def test_an_array_that_a_call_has_consumed_may_not_be_used() -> None:
    program = handed_over(read_program(HALVES), ["main"])
    text = print_program(program).replace("call raised(n.0, y.13,", "call raised(n.0, x.1,")
    with pytest.raises(IRError, match="used after a call consumed it"):
        verify(read_program(text), ownership=True)


# Adds up what an array has at each place after all before it were changed; the array is not given back.
SPENT = """\
fn spent(n.0: i64, x.1: f64[n.0], i.2: i64) -> (r.3: f64) {
  end.4: bool = ge(i.2, n.0)
  r.5: f64 = if end.4 {
    yield 0.0
  } else {
    old.6: f64 = read x.1[i.2]
    first.7: f64 = read x.1[0]
    new.8: f64 = add(old.6, first.7)
    y.9: f64[n.0] = update x.1[i.2] = new.8
    j.10: i64 = add(i.2, 1)
    rest.11: f64 = call spent(n.0, y.9, j.10)
    sum.12: f64 = add(new.8, rest.11)
    yield sum.12
  }
  yield r.5
}

fn main(n.0: i64, x.1: f64[n.0]) -> (r.2: f64) {
  r.3: f64 = call spent(n.0, x.1, 0)
  yield r.3
}
"""
MADE = SPENT.replace(
    "  r.3: f64 = call spent(n.0, x.1, 0)", "  y.4: f64[n.0] = scan sum x.1\n  r.3: f64 = call spent(n.0, y.4, 0)"
)


def number(text: str, n: int) -> tuple[float, int]:
    """The results of `main` for 0, 1, …, interpreted and compiled, and the number of arrays that are copied."""
    program = optimise(read_program(text), ["main"], verify=True)
    x = np.arange(float(n))
    interpreter = Interpreter(program)
    (found,) = interpreter.run("main", [n, x])
    (compiled,) = Engine(Host(io.StringIO())).compile(program, ["main"]).run("main", [n, x])
    assert found == compiled and x.tolist() == list(range(n))
    return float(found), interpreter.copies


@pytest.mark.parametrize("n", [3, 50])
def test_what_a_recursion_changes_and_does_not_return_is_lent_to_it(n: int) -> None:
    """Of an argument the first call makes a copy; what nothing needs any more is changed where it is."""
    assert number(SPENT, n) == (n * (n - 1) / 2, 1)
    assert number(MADE, n) == (np.cumsum(np.arange(n)).sum(), 0)


def versions(text: str) -> dict[str, tuple[int, ...]]:
    return {name: f.consumes for name, f in ownership(read_program(text), ["main"]).functions.items()}


def test_a_version_of_a_function_is_made_for_what_its_calls_lend() -> None:
    assert versions(SPENT) == {"spent": (), "spent.lent.1": (1,), "main": ()}
    assert versions(MADE) == {"spent.lent.1": (1,), "main": ()}


def test_what_is_used_after_the_call_is_not_lent() -> None:
    """Nor is what is an argument twice."""
    later = MADE.replace("  yield r.3\n", "  k.20: i64 = cast i64 r.3\n  z.21: f64 = read y.4[k.20]\n  yield z.21\n")
    assert versions(later)["spent"] == ()
    head, _, main = MADE.partition("fn main")
    two = head.replace("x.1: f64[n.0], i", "x.1: f64[n.0], w.20: f64[n.0], i").replace("read x.1[0]", "read w.20[0]")
    two = two.replace("spent(n.0, y.9,", "spent(n.0, y.9, w.20,") + "fn main" + main.replace("y.4, 0", "y.4, y.4, 0")
    assert versions(two) == {"spent": (), "spent.lent.1": (1,), "main": ()}
    assert number(two, 4) == (0.0 + 1.0 + 3.0 + 6.0, 1)


def test_what_is_lent_is_not_returned() -> None:
    """A function that returns it on one path and something else on another gives a copy."""
    text = """\
fn some(n.0: i64, x.1: f64[n.0], i.2: i64) -> (r.3: f64[n.0]) {
  end.4: bool = ge(i.2, n.0)
  r.5: f64[n.0] = if end.4 {
    yield x.1
  } else {
    y.6: f64[n.0] = update x.1[i.2] = 7.0
    j.7: i64 = add(i.2, 2)
    z.8: f64[n.0] = call some(n.0, y.6, j.7)
    w.9: f64[n.0] = scan sum z.8
    yield w.9
  }
  yield r.5
}

fn main(n.0: i64, x.1: f64[n.0]) -> (r.2: f64[n.0]) {
  y.3: f64[n.0] = scan sum x.1
  r.4: f64[n.0] = call some(n.0, y.3, 0)
  yield r.4
}
"""
    assert versions(text) == {"some.lent.1": (1,), "main": ()}
    assert run(text, 3)[0] == [7.0, 15.0, 30.0]


def test_what_is_consumed_is_printed_read_and_checked() -> None:
    text = print_program(ownership(read_program(MADE), ["main"]))
    assert "-> (r.3: f64) consumes (1) {" in text
    assert print_program(read_program(text)) == text
    with pytest.raises(IRError, match="it is no array"):
        verify(read_program(text.replace("consumes (1)", "consumes (2)")))
    with pytest.raises(IRError, match="belongs to the caller"):
        verify(read_program(text.replace(" consumes (1)", "")), ownership=True)
    again = text.replace("  yield r.4\n", "  z.9: f64 = read y.3[0]\n  yield z.9\n")
    with pytest.raises(IRError, match="used after a call consumed it"):
        verify(read_program(again), ownership=True)
