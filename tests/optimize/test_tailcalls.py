"""Tail calls become loops: of one function, of several, and with the world."""

from __future__ import annotations

import io

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Copy, While
from dlang.ir.reader import read_program
from dlang.ir.verify import verify
from dlang.optimize.tailcalls import tail_calls_to_loops
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.optimize.tailcalls import agrees, count, fast, looped, loops_and_calls

SUM = """\
fn main(n.0: i64, s.1: f64) -> (r.2: f64) {
  z.3: bool = eq(n.0, 0)
  r.4: f64 = if z.3 {
    yield s.1
  } else {
    m.5: i64 = sub(n.0, 1)
    x.6: f64 = cast f64 n.0
    t.7: f64 = add(s.1, x.6)
    r.8: f64 = call main(m.5, t.7)
    yield r.8
  }
  yield r.4
}
"""


def test_a_program_without_recursion_is_left_as_it_is() -> None:
    program = read_program(SUM.replace("call main(m.5, t.7)", "add(t.7, t.7)"))
    assert tail_calls_to_loops(program) is program


def test_a_function_that_tail_calls_itself_is_a_loop() -> None:
    assert loops_and_calls(looped(SUM)) == (1, 0)
    assert agrees(SUM, 20, 0.5) == [210.5]
    assert fast(SUM, 10**8, 0.0) == [10**8 * (10**8 + 1) / 2]


@pytest.mark.parametrize(("effect", "found"), [(True, (1, 0)), (False, (0, 1))])
def test_a_function_that_no_arm_ends_is_a_loop_where_the_world_sees_it(effect: bool, found: tuple[int, int]) -> None:
    text = """
fn main(a.0: i64, w.1: token) -> (r.2: i64, w.3: token) {
  t.4: str = format ("", "") (a.0)
  w.5: token = effect "print" w.1 (t.4)
  b.6: i64 = add(a.0, 1)
  r.7: i64, w.8: token = call main(b.6, w.5)
  yield r.7, w.8
}
"""
    pure = "fn main(a.0: i64) -> (r.2: i64) {\n  b.6: i64 = add(a.0, 1)\n  r.7: i64 = call main(b.6)\n  yield r.7\n}\n"
    assert loops_and_calls(tail_calls_to_loops(read_program(text if effect else pure))) == found


def test_the_interpreter_needs_no_stack_for_it() -> None:
    assert Interpreter(optimise(read_program(SUM), ["main"])).run("main", [5000, 0.0]) == [5000 * 5001 / 2]


def test_a_call_that_is_not_in_tail_position_stays() -> None:
    text = SUM.replace("yield r.8", "more.9: f64 = add(r.8, 1.0)\n    yield more.9")
    program = read_program(text)
    assert tail_calls_to_loops(program).functions["main"] is program.functions["main"]
    assert agrees(text, 5, 0.0) == [20.0]


EVEN_AND_ODD = """\
fn even(n.0: i64) -> (r.1: bool) {
  z.2: bool = eq(n.0, 0)
  r.3: bool = if z.2 {
    yield true
  } else {
    m.4: i64 = sub(n.0, 1)
    r.5: bool = call odd(m.4)
    yield r.5
  }
  yield r.3
}

fn odd(n.0: i64) -> (r.1: bool) {
  z.2: bool = eq(n.0, 0)
  r.3: bool = if z.2 {
    yield false
  } else {
    m.4: i64 = sub(n.0, 1)
    r.5: bool = call even(m.4)
    yield r.5
  }
  yield r.3
}

fn main(n.0: i64) -> (a.1: bool, b.2: bool) {
  a.3: bool = call even(n.0)
  b.4: bool = call odd(n.0)
  yield a.3, b.4
}
"""


def test_two_functions_that_tail_call_each_other_are_one_loop() -> None:
    program = looped(EVEN_AND_ODD)
    assert loops_and_calls(program) == (1, 4)  # those of main, and the two functions as calls of the loop
    assert agrees(EVEN_AND_ODD, 7) == [False, True]
    assert fast(EVEN_AND_ODD, 10**7) == [True, False]


# Reads digits: outside of a number, in its whole part, and in its fraction; 10 is a point, 11 a space.
MACHINE = """\
fn outside(i.0: i64, n.1: i64, x.2: i64[n.1], sum.3: f64) -> (r.4: f64) {
  end.5: bool = ge(i.0, n.1)
  r.6: f64 = if end.5 {
    yield sum.3
  } else {
    c.7: i64 = read x.2[i.0]
    j.8: i64 = add(i.0, 1)
    digit.9: bool = lt(c.7, 10)
    r.10: f64 = if digit.9 {
      d.11: f64 = cast f64 c.7
      r.12: f64 = call whole(d.11, j.8, n.1, x.2, sum.3)
      yield r.12
    } else {
      r.13: f64 = call outside(j.8, n.1, x.2, sum.3)
      yield r.13
    }
    yield r.10
  }
  yield r.6
}

fn whole(v.0: f64, i.1: i64, n.2: i64, x.3: i64[n.2], sum.4: f64) -> (r.5: f64) {
  end.6: bool = ge(i.1, n.2)
  r.7: f64 = if end.6 {
    s.8: f64 = add(sum.4, v.0)
    yield s.8
  } else {
    c.9: i64 = read x.3[i.1]
    j.10: i64 = add(i.1, 1)
    digit.11: bool = lt(c.9, 10)
    r.12: f64 = if digit.11 {
      d.13: f64 = cast f64 c.9
      w.14: f64 = mul(v.0, 10.0)
      u.15: f64 = add(w.14, d.13)
      r.16: f64 = call whole(u.15, j.10, n.2, x.3, sum.4)
      yield r.16
    } else {
      point.17: bool = eq(c.9, 10)
      r.18: f64 = if point.17 {
        r.19: f64 = call fraction(j.10, n.2, x.3, sum.4, v.0, 0.1)
        yield r.19
      } else {
        s.20: f64 = add(sum.4, v.0)
        r.21: f64 = call outside(j.10, n.2, x.3, s.20)
        yield r.21
      }
      yield r.18
    }
    yield r.12
  }
  yield r.7
}

fn fraction(i.0: i64, n.1: i64, x.2: i64[n.1], sum.3: f64, v.4: f64, unit.5: f64) -> (r.6: f64) {
  end.7: bool = ge(i.0, n.1)
  r.8: f64 = if end.7 {
    s.9: f64 = add(sum.3, v.4)
    yield s.9
  } else {
    c.10: i64 = read x.2[i.0]
    j.11: i64 = add(i.0, 1)
    digit.12: bool = lt(c.10, 10)
    r.13: f64 = if digit.12 {
      d.14: f64 = cast f64 c.10
      p.15: f64 = mul(d.14, unit.5)
      u.16: f64 = add(v.4, p.15)
      less.17: f64 = mul(unit.5, 0.1)
      r.18: f64 = call fraction(j.11, n.1, x.2, sum.3, u.16, less.17)
      yield r.18
    } else {
      s.19: f64 = add(sum.3, v.4)
      r.20: f64 = call outside(j.11, n.1, x.2, s.19)
      yield r.20
    }
    yield r.13
  }
  yield r.8
}

fn main(n.0: i64, x.1: i64[n.0]) -> (r.2: f64) {
  r.3: f64 = call outside(0, n.0, x.1, 0.0)
  yield r.3
}
"""


def test_a_machine_of_three_functions_is_one_loop_that_only_looks_at_its_input() -> None:
    text = np.array([11, 1, 2, 11, 3, 10, 5, 2, 5, 11, 11, 7], np.int64)
    (found,) = agrees(MACHINE, len(text), text)
    assert found == pytest.approx(12 + 3.525 + 7)
    program = optimise(read_program(MACHINE), ["main"], verify=True)
    assert (count(program, While), count(program, Copy)) == (1, 0)
    many = np.tile(text, 100_000)
    assert fast(MACHINE, len(many), many)[0] == pytest.approx(100_000 * 22.525)


NOISY = """\
fn ping(world.0: token, n.1: i64) -> (world.2: token, r.3: i64) {
  end.4: bool = le(n.1, 0)
  world.5: token, r.6: i64 = if end.4 {
    yield world.0, n.1
  } else {
    said.7: str = format ("ping ", "", "")(n.1)
    world.8: token = effect "print" world.0 (said.7)
    m.9: i64 = sub(n.1, 1)
    world.10: token, r.11: i64 = call pong(world.8, m.9)
    yield world.10, r.11
  }
  yield world.5, r.6
}

fn pong(world.0: token, n.1: i64) -> (world.2: token, r.3: i64) {
  world.8: token = effect "print" world.0 ("pong")
  m.9: i64 = sub(n.1, 2)
  world.10: token, r.11: i64 = call ping(world.8, m.9)
  yield world.10, r.11
}

fn main(world.0: token, n.1: i64) -> (world.2: token, r.3: i64) {
  world.4: token, r.5: i64 = call ping(world.0, n.1)
  yield world.4, r.5
}
"""


def test_what_a_tail_recursive_function_prints_comes_in_order() -> None:
    program = read_program(NOISY)
    verify(program)
    optimised = optimise(program, ["main"], verify=True)
    assert count(optimised, While) == 1
    out = io.StringIO()
    (left,) = Engine(Host(out)).compile(optimised, ["main"]).run("main", [7])
    assert left == -2
    assert out.getvalue() == "ping 7\npong\nping 4\npong\nping 1\npong\n"


MIXED = """\
fn climb(n.0: i64, s.1: i64) -> (r.2: i64) {
  end.3: bool = le(n.0, 0)
  r.4: i64 = if end.3 {
    yield s.1
  } else {
    m.5: i64 = sub(n.0, 3)
    inner.6: i64 = call climb(m.5, 1)
    t.7: i64 = add(s.1, inner.6)
    k.8: i64 = sub(n.0, 1)
    r.9: i64 = call climb(k.8, t.7)
    yield r.9
  }
  yield r.4
}

fn main(n.0: i64) -> (r.1: i64) {
  r.2: i64 = call climb(n.0, 0)
  yield r.2
}
"""


def test_calls_that_are_not_in_tail_position_go_to_the_loop() -> None:
    assert loops_and_calls(looped(MIXED)) == (1, 2)
    agrees(MIXED, 15)


RETURNS = """\
fn main(a.0: i64, b.1: i64) -> (r.2: i64) {
  first.3: bool = le(a.0, 0)
  done.4: bool, x.5: i64 = if first.3 {
    yield true, b.1
  } else {
    yield false, 0
  }
  late.6: bool, y.7: i64 = if done.4 {
    yield true, x.5
  } else {
    t.8: i64 = mod(a.0, 3)
    second.9: bool = eq(t.8, 1)
    found.10: bool, z.11: i64 = if second.9 {
      m.12: i64 = sub(a.0, 2)
      c.13: i64 = add(b.1, 1)
      r.14: i64 = call main(m.12, c.13)
      yield true, r.14
    } else {
      yield done.4, x.5
    }
    yield found.10, z.11
  }
  last.15: i64 = if late.6 {
    yield 0
  } else {
    m.16: i64 = sub(a.0, 1)
    c.17: i64 = add(b.1, a.0)
    r.18: i64 = call main(m.16, c.17)
    yield r.18
  }
  all.19: i64 = if late.6 {
    yield y.7
  } else {
    yield last.15
  }
  yield all.19
}
"""


@pytest.mark.parametrize("a", [0, 1, 2, 3, 10, 50])
def test_calls_behind_early_returns_are_tail_calls(a: int) -> None:
    assert loops_and_calls(looped(RETURNS)) == (1, 0)
    n, expected = a, 5
    while n > 0:
        n, expected = (n - 2, expected + 1) if n % 3 == 1 else (n - 1, expected + n)
    assert agrees(RETURNS, a, 5) == [expected]


def test_a_recursive_function_without_tail_calls_keeps_its_branches() -> None:
    text = RETURNS.replace("yield r.18\n", "k.20: i64 = add(r.18, 1)\n    yield k.20\n")
    text = text.replace("yield true, r.14", "k.21: i64 = add(r.14, 1)\n      yield true, k.21")
    program = read_program(text)
    assert tail_calls_to_loops(program).functions["main"] is program.functions["main"]
    agrees(text, 20, 1)
