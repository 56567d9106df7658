"""The memory of nodes of datatypes: an arena that stays small, and one that is full."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from dlang.codegen.llvm.modules import print_llvm
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.platform import PORTABLE, stack
from dlang.ir.reader import read_program
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.codegen.nodes import GROWN, LISTS, MIB, NUMBERS, OF_NODES, ROWS, agrees, compiled, peak, row

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


def test_what_a_loop_makes_and_does_not_carry_ends_with_the_iteration() -> None:
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
    monkeypatch.setenv(PORTABLE, "1")
    program = compiled(STACK)
    assert program.run("main", [640]) == [sum(i for i in range(640) if i % 64 < 32)]
    assert program.engine.contexts[-1].arena.bytes == stack.FALLBACK


def test_nodes_are_copied_out_of_a_run_and_into_another() -> None:
    program = compiled(LISTS.replace("fn count_down", "fn main"))
    (kept,) = program.run("main", [3])
    program.run("main", [1000])
    values, node = [], kept
    while node.tag:
        head, node = node.fields
        values.append(head)
    assert values == [2, 1, 0]
    totals = compiled(LISTS.replace("fn total", "fn main").replace("call total", "call main"))
    assert totals.run("main", [kept, 10]) == [13]


def test_the_text_of_functions_that_take_and_give_nodes_can_be_printed() -> None:
    assert "dl_grow" in print_llvm(optimise(read_program(ENDLESS), ["main"], passes=OF_NODES))
