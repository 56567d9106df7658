"""Compiled code for nodes of datatypes: values as the interpreter gives them, and an arena that stays small."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from dlang.codegen.data import words
from dlang.codegen.llvm.modules import print_llvm
from dlang.codegen.loops import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import DlangError
from dlang.ir.interpreter import Interpreter
from dlang.ir.reader import read_program
from dlang.optimize.pipeline import optimise
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.errors import RunError
from dlang.runtime.host import Host
from dlang.runtime.platform import arena

MIB = 1 << 20

NUMBERS = 'data "L" { Nil(), Cons(head.0: i64, tail.1: "L") }\n'

LISTS = (
    NUMBERS
    + """
fn total(l.0: "L", sum.1: i64) -> (s.2: i64) {
  t.3: i64 = tag l.0
  nil.4: bool = eq(t.3, 0)
  s.5: i64 = if nil.4 {
    yield sum.1
  } else {
    head.6: i64, tail.7: "L" = fields "L" 1 l.0
    more.8: i64 = add(sum.1, head.6)
    s.9: i64 = call total(tail.7, more.8)
    yield s.9
  }
  yield s.5
}

fn count_down(n.0: i64) -> (l.1: "L") {
  nil.2: "L" = construct "L" 0 ()
  l.3: "L" = for i.4 in 0..n.0 (l.5: "L" = nil.2) {
    l.6: "L" = construct "L" 1 (i.4, l.5)
    yield l.6
  }
  yield l.3
}
"""
)

TREES = """\
data "T" { Leaf(x.0: f64), Branch(l.1: "T", r.2: "T") }

fn build(d.0: i64, x.1: f64) -> (t.2: "T") {
  leaf.3: bool = eq(d.0, 0)
  t.4: "T" = if leaf.3 {
    n.5: "T" = construct "T" 0 (x.1)
    yield n.5
  } else {
    e.6: i64 = sub(d.0, 1)
    y.7: f64 = mul(x.1, 0.5)
    l.8: "T" = call build(e.6, x.1)
    r.9: "T" = call build(e.6, y.7)
    n.10: "T" = construct "T" 1 (l.8, r.9)
    yield n.10
  }
  yield t.4
}

fn total(t.0: "T") -> (s.1: f64) {
  k.2: i64 = tag t.0
  leaf.3: bool = eq(k.2, 0)
  s.4: f64 = if leaf.3 {
    x.5: f64 = fields "T" 0 t.0
    yield x.5
  } else {
    l.6: "T", r.7: "T" = fields "T" 1 t.0
    a.8: f64 = call total(l.6)
    b.9: f64 = call total(r.7)
    c.10: f64 = add(a.8, b.9)
    yield c.10
  }
  yield s.4
}

fn main(d.0: i64) -> (s.1: f64) {
  t.2: "T" = call build(d.0, 1.0)
  s.3: f64 = call total(t.2)
  yield s.3
}
"""


def compiled(text: str, engine: Engine | None = None) -> CompiledProgram:
    program = optimise(read_program(text), ["main"], verify=True)
    return (engine or Engine(Host(io.StringIO()))).compile(program, ["main"])


def agrees(text: str, *args: Any) -> list[Any]:
    """What compiled code gives, which is what the interpreter gives before and after the passes."""
    program = read_program(text)
    wanted = Interpreter(program).run("main", list(args))
    optimised = optimise(program, ["main"], verify=True)
    for found in (
        Interpreter(optimised).run("main", list(args)),
        compiled(text).run("main", list(args)),
    ):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(f, w)
    return wanted


def peak(program: CompiledProgram) -> int:
    """The most bytes of the arena that its last run touched."""
    return int(program.engine.contexts[-1].peak)


# ---- values ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_a_list_is_built_by_a_loop_and_summed_by_tail_calls(n: int) -> None:
    main = 'fn main(n.0: i64) -> (s.1: i64) {\n  l.2: "L" = call count_down(n.0)\n'
    main += "  s.3: i64 = call total(l.2, 0)\n  yield s.3\n}\n"
    assert agrees(LISTS + main, n) == [n * (n - 1) // 2]


@pytest.mark.parametrize("depth", [0, 1, 6])
def test_a_tree_is_built_and_summed_by_recursion(depth: int) -> None:
    assert agrees(TREES, depth) == [1.5**depth]


def test_two_million_nodes_come_and_go() -> None:
    program = compiled(TREES)
    for _ in range(2):
        assert program.run("main", [20]) == [pytest.approx(1.5**20)]
    assert peak(program) < 64 * MIB


def test_a_node_holds_values_of_every_dtype() -> None:
    dtypes = ("f64", "f32", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool", "str", "f16", "bf16")
    formals = ", ".join(f"a.{k}: {dtype}" for k, dtype in enumerate(dtypes))
    names = ", ".join(f"a.{k}" for k in range(len(dtypes)))
    others = ", ".join(f"b.{k + 20}: {dtype}" for k, dtype in enumerate(dtypes))
    results = ", ".join(f"r.{k + 40}: {dtype}" for k, dtype in enumerate(dtypes))
    given = ", ".join(f"b.{k + 20}" for k in range(len(dtypes)))
    text = f"""\
data "D" {{ No(), All({formals}), Two(x.98: "D", y.99: i8) }}

fn made(which.70: bool, {formals}) -> (d.60: "D") {{
  d.61: "D" = if which.70 {{
    d.62: "D" = construct "D" 1 ({names})
    yield d.62
  }} else {{
    no.63: "D" = construct "D" 0 ()
    d.64: "D" = call made(which.70, {names})
    d.65: "D" = construct "D" 2 (d.64, 0i8)
    yield no.63
  }}
  yield d.61
}}

fn main({formals}) -> ({results}) {{
  d.62: "D" = call made(true, {names})
  {others} = fields "D" 1 d.62
  yield {given}
}}
"""
    smallest = [-1.5e300, -0.0, -(2**63), -(2**31), -(2**15), -128, 0, 0, 0, 0, True, "ä", -1.5, 2.5]
    largest = [np.inf, np.float32(3e38), 2**63 - 1, 2**31 - 1, 2**15 - 1, 127, 2**64 - 1, 2**32 - 1, 65535, 255, False]
    largest += ["", 65504.0, -0.0]
    assert agrees(text, *smallest) == smallest
    assert agrees(text, *largest) == largest


def test_references_are_the_first_words_of_a_node() -> None:
    text = 'data "D" { All(n.0: i64, d.1: "D", x.2: f64[n.0], b.3: bool) }\nfn f() -> () {\n  yield\n}\n'
    assert words(read_program(text).datatypes["D"].variants[0]) == (2, 0, 1, 3)


def test_null_stands_where_nothing_looks() -> None:
    text = """\
fn main(n.0: i64) -> (s.1: i64) {
  some.2: bool = gt(n.0, 0)
  l.3: "L" = if some.2 {
    l.4: "L" = call count_down(n.0)
    yield l.4
  } else {
    yield null "L"
  }
  s.5: i64 = if some.2 {
    s.6: i64 = call total(l.3, 0)
    yield s.6
  } else {
    yield -1
  }
  yield s.5
}
"""
    assert agrees(LISTS + text, 4) == [6]
    assert agrees(LISTS + text, 0) == [-1]


ROWS = """\
data "R" { End(), Row(n.0: i64, x.1: f64[n.0], next.2: "R") }

fn total(r.0: "R", sum.1: f64) -> (s.2: f64) {
  t.3: i64 = tag r.0
  end.4: bool = eq(t.3, 0)
  s.5: f64 = if end.4 {
    yield sum.1
  } else {
    n.6: i64, x.7: f64[n.6], next.8: "R" = fields "R" 1 r.0
    here.9: f64 = comp i.10 in 0..n.6 {
      v.11: f64 = read x.7[i.10]
      w.12: f64 = mul(v.11, v.11)
      yield w.12
    } to keep [] [] sum
    more.13: f64 = add(sum.1, here.9)
    s.14: f64 = call total(next.8, more.13)
    yield s.14
  }
  yield s.5
}
"""


def row(k: str, serial: int) -> str:
    """The lets that make an array of the size k."""
    return f"""\
    row.{serial}: f64[{k}] = comp i.{serial + 1} in 0..{k} {{
      x.{serial + 2}: f64 = cast f64 i.{serial + 1}
      yield x.{serial + 2}
    }} to keep [{k}] [i.{serial + 1}] sum
"""


GROWN = (
    ROWS
    + """
fn main(n.0: i64) -> (s.1: f64) {
  end.2: "R" = construct "R" 0 ()
  r.3: "R" = for k.4 in 0..n.0 (r.5: "R" = end.2) {
"""
    + row("k.4", 30)
    + """\
    r.6: "R" = construct "R" 1 (k.4, row.30, r.5)
    yield r.6
  }
  s.7: f64 = call total(r.3, 0.0)
  yield s.7
}
"""
)


def test_arrays_of_nodes_have_sizes_of_their_own() -> None:
    assert agrees(GROWN, 9) == [sum(i * i for k in range(9) for i in range(k))]


def test_an_array_for_a_node_is_written_where_the_node_holds_it() -> None:
    text = print_program(schedule(optimise(read_program(GROWN), ["main"]), Lanes(256)))
    assert "= room f64[" in text and "= collect mark" in text
    assert "move" not in text and "allocate" not in text


def test_an_array_that_is_used_afterwards_is_not_changed_in_a_node() -> None:
    text = ROWS + (
        """
fn main(n.0: i64) -> (s.1: f64, t.2: f64) {
"""
        + row("n.0", 30)
        + """\
  end.3: "R" = construct "R" 0 ()
  before.4: "R" = construct "R" 1 (n.0, row.30, end.3)
  other.5: f64[n.0] = update row.30[0] = 100.0
  after.6: "R" = construct "R" 1 (n.0, other.5, end.3)
  m.20: i64, x.21: f64[m.20], next.22: "R" = fields "R" 1 after.6
  z.23: f64[m.20] = update x.21[1] = 10.0
  third.24: "R" = construct "R" 1 (m.20, z.23, before.4)
  s.7: f64 = call total(before.4, 0.0)
  t.8: f64 = call total(after.6, 0.0)
  u.25: f64 = call total(third.24, 0.0)
  v.26: f64 = mul(u.25, 0.001)
  w.27: f64 = add(t.8, v.26)
  yield s.7, w.27
}
"""
    )
    assert agrees(text, 3) == [5.0, 10005.0 + (10104.0 + 5.0) * 0.001]


ARRAYS = (
    'data "F" { Forest(n.0: i64, trees.1: "L"[n.0]) }\n'
    + LISTS
    + """
fn forest(n.0: i64) -> (f.1: "F") {
  trees.2: "L"[n.0] = comp i.3 in 0..n.0 {
    l.4: "L" = call count_down(i.3)
    yield l.4
  } to keep [n.0] [i.3] set
  some.5: bool = gt(n.0, 2)
  changed.6: "L"[n.0] = if some.5 {
    extra.7: "L" = call count_down(10)
    c.8: "L"[n.0] = update trees.2[1] = extra.7
    yield c.8
  } else {
    yield trees.2
  }
  back.9: "L"[n.0] = view i.10 in 0..n.0 of changed.6[n.0 - 1 - i.10]
  twice.11: "L"[2*n.0] = concat(changed.6, back.9)
  m.12: i64 = size 2*n.0
  f.13: "F" = construct "F" 0 (m.12, twice.11)
  yield f.13
}

fn main(n.0: i64) -> (s.1: i64, w.9: i64) {
  f.2: "F" = call forest(n.0)
  m.3: i64, trees.4: "L"[m.3] = fields "F" 0 f.2
  s.5: i64 = comp i.6 in 0..m.3 {
    l.7: "L" = read trees.4[i.6]
    s.8: i64 = call total(l.7, i.6)
    yield s.8
  } to keep [] [] sum
  yield s.5, m.3
}
"""
)


def test_arrays_of_nodes_are_made_changed_joined_and_held_by_nodes() -> None:
    (total, count) = agrees(ARRAYS, 6)
    one = [0, 45, 1, 3, 6, 10]
    assert (total, count) == (2 * sum(one) + sum(range(12)), 12)


def test_loops_over_nodes_take_one_trip_at_a_time() -> None:
    optimised = optimise(read_program(ARRAYS), ["main"])
    lines = print_program(schedule(optimised, Lanes(512))).splitlines()
    copies = [k for k, line in enumerate(lines) if "= &trees" in line and "loop" in lines[k - 1]]
    assert copies and not any(" by " in lines[k - 1] for k in copies)


# ---- an arena that stays small ---------------------------------------------------------------------------------------
STACK = (
    NUMBERS
    + """
fn main(n.0: i64) -> (s.1: i64) {
  nil.2: "L" = construct "L" 0 ()
  l.3: "L", s.4: i64 = for i.5 in 0..n.0 (l.6: "L" = nil.2, s.7: i64 = 0) {
    k.8: i64 = mod(i.5, 64)
    push.9: bool = lt(k.8, 32)
    l.10: "L", s.11: i64 = if push.9 {
      l.12: "L" = construct "L" 1 (i.5, l.6)
      yield l.12, s.7
    } else {
      head.13: i64, tail.14: "L" = fields "L" 1 l.6
      s.15: i64 = add(s.7, head.13)
      yield tail.14, s.15
    }
    yield l.10, s.11
  }
  yield s.4
}
"""
)


def test_a_stack_is_pushed_and_popped_ten_million_times_in_little_memory() -> None:
    assert agrees(STACK, 640) == [sum(i for i in range(640) if i % 64 < 32)]
    program = compiled(STACK)
    (total,) = program.run("main", [10_000_000])
    assert total == sum(range(10_000_000)) - sum(i for i in range(10_000_000) if i % 64 >= 32)
    assert peak(program) <= 4 * MIB


KEPT = (
    LISTS
    + """
fn main(n.0: i64, size.1: i64) -> (s.2: i64) {
  nil.3: "L" = construct "L" 0 ()
  rows.4: "L"[size.1] = comp i.5 in 0..size.1 {
    yield nil.3
  } to keep [size.1] [i.5] set
  rows.6: "L"[size.1], last.7: "L" = for i.8 in 0..n.0 (rows.9: "L"[size.1] = rows.4, last.10: "L" = nil.3) {
    k.11: i64 = mod(i.8, size.1)
    old.12: "L" = read rows.9[k.11]
    t.13: i64 = tag old.12
    empty.14: bool = eq(t.13, 0)
    rest.15: "L" = if empty.14 {
      yield old.12
    } else {
      head.16: i64, tail.17: "L" = fields "L" 1 old.12
      kept.18: "L" = construct "L" 1 (head.16, nil.3)
      yield kept.18
    }
    new.19: "L" = construct "L" 1 (i.8, rest.15)
    rows.20: "L"[size.1] = update rows.9[k.11] = new.19
    yield rows.20, old.12
  }
  s.21: i64 = comp i.22 in 0..size.1 {
    l.23: "L" = read rows.6[i.22]
    s.24: i64 = call total(l.23, 0)
    yield s.24
  } to keep [] [] sum
  s.25: i64 = call total(last.7, s.21)
  yield s.25
}
"""
)


def test_what_an_array_in_the_state_reaches_is_kept() -> None:
    agrees(KEPT, 1000, 7)
    program = compiled(KEPT)
    n, size = 2_000_000, 1000
    (found,) = program.run("main", [n, size])
    rows = 2 * sum(range(n - size, n)) - size * size
    assert found == rows + (n - 1 - size) + (n - 1 - 2 * size)
    assert peak(program) <= 4 * MIB


QUEUE = (
    ROWS
    + """
fn main(n.0: i64) -> (s.1: f64) {
  end.2: "R" = construct "R" 0 ()
  r.3: "R" = for k.4 in 0..n.0 (r.5: "R" = end.2) {
    m.6: i64 = mod(k.4, 50)
"""
    + row("m.6", 30)
    + """\
    t.7: i64 = tag r.5
    none.8: bool = eq(t.7, 0)
    r.9: "R" = if none.8 {
      yield r.5
    } else {
      a.10: i64, x.11: f64[a.10], next.12: "R" = fields "R" 1 r.5
      u.13: i64 = tag next.12
      one.14: bool = eq(u.13, 0)
      r.15: "R" = if one.14 {
        yield r.5
      } else {
        b.16: i64, y.17: f64[b.16], after.18: "R" = fields "R" 1 next.12
        short.19: "R" = construct "R" 1 (b.16, y.17, end.2)
        two.20: "R" = construct "R" 1 (a.10, x.11, short.19)
        yield two.20
      }
      yield r.15
    }
    r.21: "R" = construct "R" 1 (m.6, row.30, r.9)
    yield r.21
  }
  s.22: f64 = call total(r.3, 0.0)
  yield s.22
}
"""
)


def test_arrays_move_with_the_nodes_that_hold_them() -> None:
    agrees(QUEUE, 200)
    program = compiled(QUEUE)
    (found,) = program.run("main", [200_000])
    assert found == sum(i * i for m in (49, 48, 47) for i in range(m))
    assert peak(program) <= 4 * MIB


SEARCH = """\
data "B" { Nil(), Node(l.0: "B", k.1: i64, n.2: i64, x.3: f64[n.2], r.4: "B") }

fn insert(t.0: "B", k.1: i64) -> (u.2: "B") {
  g.3: i64 = tag t.0
  nil.4: bool = eq(g.3, 0)
  u.5: "B" = if nil.4 {
    n.6: i64 = mod(k.1, 5)
    x.7: f64[n.6] = comp i.8 in 0..n.6 {
      a.9: f64 = cast f64 k.1
      yield a.9
    } to keep [n.6] [i.8] sum
    e.10: "B" = construct "B" 0 ()
    b.11: "B" = construct "B" 1 (e.10, k.1, n.6, x.7, e.10)
    yield b.11
  } else {
    l.12: "B", h.13: i64, m.14: i64, y.15: f64[m.14], r.16: "B" = fields "B" 1 t.0
    less.17: bool = lt(k.1, h.13)
    v.18: "B" = if less.17 {
      w.19: "B" = call insert(l.12, k.1)
      b.20: "B" = construct "B" 1 (w.19, h.13, m.14, y.15, r.16)
      yield b.20
    } else {
      w.21: "B" = call insert(r.16, k.1)
      b.22: "B" = construct "B" 1 (l.12, h.13, m.14, y.15, w.21)
      yield b.22
    }
    yield v.18
  }
  yield u.5
}

fn total(t.0: "B", depth.9: i64) -> (s.1: f64) {
  g.2: i64 = tag t.0
  nil.3: bool = eq(g.2, 0)
  s.4: f64 = if nil.3 {
    yield 0.0
  } else {
    l.5: "B", h.6: i64, m.7: i64, y.8: f64[m.7], r.10: "B" = fields "B" 1 t.0
    d.11: i64 = add(depth.9, 1)
    a.12: f64 = call total(l.5, d.11)
    b.13: f64 = call total(r.10, d.11)
    w.14: f64 = comp i.15 in 0..m.7 {
      v.16: f64 = read y.8[i.15]
      yield v.16
    } to keep [] [] sum
    e.17: f64 = cast f64 d.11
    f.18: f64 = mul(w.14, e.17)
    p.19: f64 = add(a.12, b.13)
    q.20: f64 = add(p.19, f.18)
    yield q.20
  }
  yield s.4
}

fn main(n.0: i64, keys.1: i64[n.0], size.2: i64) -> (s.3: f64) {
  nil.4: "B" = construct "B" 0 ()
  old.5: "B"[size.2] = comp i.6 in 0..size.2 {
    yield nil.4
  } to keep [size.2] [i.6] set
  t.7: "B", all.8: "B"[size.2] = for i.10 in 0..n.0 (t.11: "B" = nil.4, all.12: "B"[size.2] = old.5) {
    k.14: i64 = read keys.1[i.10]
    u.15: "B" = call insert(t.11, k.14)
    j.16: i64 = mod(i.10, size.2)
    all.17: "B"[size.2] = update all.12[j.16] = u.15
    z.18: i64 = mod(i.10, 1000)
    reset.19: bool = eq(z.18, 999)
    v.20: "B" = if reset.19 {
      yield nil.4
    } else {
      yield u.15
    }
    yield v.20, all.17
  }
  w.24: f64 = comp i.25 in 0..size.2 {
    b.26: "B" = read all.8[i.25]
    q.27: f64 = call total(b.26, 0)
    yield q.27
  } to keep [] [] sum
  yield w.24
}
"""


def sum_of_versions(keys: Any, size: int) -> float:
    """What `SEARCH` gives: over the last versions of a search tree, what its nodes hold times their depth."""

    def insert(t: Any, k: int) -> Any:
        if t is None:
            return None, k, None
        left, key, right = t
        return (insert(left, k), key, right) if k < key else (left, key, insert(right, k))

    def total(t: Any, depth: int) -> float:
        if t is None:
            return 0.0
        left, key, right = t
        return total(left, depth + 1) + total(right, depth + 1) + float(key * (key % 5) * (depth + 1))

    versions: list[Any] = [None] * size
    tree = None
    for i, k in enumerate(keys):
        tree = versions[i % size] = insert(tree, int(k))
        if i % 1000 == 999:
            tree = None
    return sum((total(t, 0) for t in versions), 0.0)


def test_versions_of_a_search_tree_share_their_nodes_through_many_collections() -> None:
    keys = np.random.default_rng(1).integers(0, 10**6, 20_000)
    agrees(SEARCH, 100, keys[:100], 7)
    program = compiled(SEARCH)
    assert program.run("main", [len(keys), keys, 50]) == [sum_of_versions(keys, 50)]
    assert peak(program) <= 4 * MIB


def test_what_a_loop_makes_and_does_not_carry_ends_with_the_trip() -> None:
    main = """
fn main(n.0: i64, k.1: i64) -> (s.2: i64) {
  s.3: i64 = for i.4 in 0..n.0 (s.5: i64 = 0) {
    l.6: "L" = call count_down(k.1)
    t.7: i64 = call total(l.6, s.5)
    yield t.7
  }
  yield s.3
}
"""
    assert agrees(LISTS + main, 3, 4) == [18]
    program = compiled(LISTS + main)
    assert program.run("main", [10_000, 1000]) == [10_000 * 499_500]
    assert peak(program) <= 2 * MIB


def test_what_a_point_of_a_comprehension_makes_ends_with_it() -> None:
    main = """
fn main(n.0: i64, k.1: i64) -> (s.2: i64) {
  s.3: i64 = comp i.4 in 0..n.0 {
    l.6: "L" = call count_down(k.1)
    t.7: i64 = call total(l.6, i.4)
    yield t.7
  } to keep [] [] sum
  yield s.3
}
"""
    program = compiled(LISTS + main)
    assert program.run("main", [10_000, 1000]) == [10_000 * 499_500 + sum(range(10_000))]
    assert peak(program) <= 2 * MIB


def test_pages_beyond_a_bound_are_given_back_and_found_zero_or_written_again() -> None:
    main = 'fn main(n.0: i64) -> (s.1: i64) {\n  l.2: "L" = call count_down(n.0)\n'
    program = compiled(LISTS + main + "  s.3: i64 = call total(l.2, 0)\n  yield s.3\n}\n")
    n = 4_000_000
    for _ in range(2):
        assert program.run("main", [n]) == [n * (n - 1) // 2]
    assert peak(program) >= 24 * n


# ---- failures --------------------------------------------------------------------------------------------------------
ENDLESS = (
    LISTS
    + """
fn main(n.0: i64) -> (s.1: i64) {
  l.2: "L" = call count_down(n.0)
  s.3: i64 = call total(l.2, 0)
  yield s.3
}
"""
)


def test_an_arena_that_is_full_ends_the_run_and_the_next_run_starts_afresh() -> None:
    program = compiled(ENDLESS, Engine(Host(io.StringIO()), arena=8 * MIB))
    with pytest.raises(RunError) as failure:
        program.run("main", [1_000_000])
    assert failure.value.code == "E0806"
    assert program.run("main", [1000]) == [499_500]


def test_an_array_that_does_not_fit_into_the_arena_ends_the_run() -> None:
    program = compiled(GROWN.replace("k.4 in 0..n.0 (", "k.4 in n.0..n.0 + 1 ("), Engine(Host(), arena=8 * MIB))
    with pytest.raises(RunError) as failure:
        program.run("main", [1 << 40])
    assert failure.value.code == "E0806"


def test_half_of_an_arena_may_be_live() -> None:
    engine = Engine(Host(io.StringIO()), arena=16 * MIB)
    assert compiled(ENDLESS, engine).run("main", [300_000]) == [300_000 * 299_999 // 2]


def test_the_fallback_for_other_systems_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(arena.PORTABLE, "1")
    program = compiled(STACK)
    assert program.run("main", [640]) == [sum(i for i in range(640) if i % 64 < 32)]
    assert program.engine.contexts[-1].arena.bytes == arena.FALLBACK


def test_nodes_do_not_leave_a_run() -> None:
    text = LISTS.replace("fn count_down", "fn main")
    with pytest.raises(DlangError) as refused:
        compiled(text)
    assert refused.value.diagnostics[0].code == "E0901"
    assert "a value of `L` as a result to outside" in refused.value.diagnostics[0].message


def test_the_text_of_functions_that_take_and_give_nodes_can_be_printed() -> None:
    assert "dl_grow" in print_llvm(optimise(read_program(ENDLESS), ["main"]))
