"""How much memory runs need is counted by the allocator."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import pool as layout, support
from dlang.diagnostics import Source
from dlang.driver import Request, check, lower
from dlang.host.effects import Host
from dlang.runtime.engine import Engine
from dlang.runtime.memory import Context, in_units
from dlang.runtime.threads import new_pool
from tests.patience import looks


@pytest.fixture(autouse=True)
def one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take one way through Python and then another; with tiers that is decided anew now and then."""
    monkeypatch.setenv("DLANG_TIERS", "off")


module = dlang.compile("""
fn two(x: f64[n]) -> f64 {
  let y = cumsum(x)
  let z = cumsum(y)
  sum(z) + sum(y)
}

fn one(x: f64[n]) -> f64[n] = cumsum(x)

enum Tree { Leaf(x: f64), Fork(a: Tree, b: Tree) }

fn grown(x: f64, n: i64) -> Tree = if n == 0 { Leaf(x) } else { Fork(grown(x + 1.0, n - 1), grown(x, n - 1)) }

fn total(t: Tree) -> f64 = match t { Leaf(x) => x, Fork(a, b) => total(a) + total(b) }

fn forest(x: f64, n: i64) -> f64 = total(grown(x, n))
""")
N = 1 << 17
MIB = N * 8


def test_arrays_that_are_held_at_once_count_together() -> None:
    x = np.ones(N)
    for _ in range(3):  # what an earlier run has left in free lists is not in use
        with dlang.memory_use() as used:
            module.two(x)
        assert (used.arrays, used.nodes, used.peak) == (2 * MIB, 0, 2 * MIB)


def test_what_was_held_before_is_not_counted() -> None:
    x = np.ones(N)
    kept = module.one(x)
    with dlang.memory_use() as used:
        more = module.one(x)
    assert used.peak == MIB
    with dlang.memory_use() as both:
        more = [module.one(x), module.one(x)]
    assert both.peak == 2 * MIB and len(more) + len(kept) > 0


def test_nodes_are_counted_apart() -> None:
    with dlang.memory_use() as large:
        module.forest(0.0, 18)
    with dlang.memory_use() as small:
        module.forest(0.0, 3)
    nodes = 24 * (2**18 - 1) + 16 * 2**18
    assert nodes <= large.nodes <= nodes + 2 * MIB and large.arrays == 0
    assert small.nodes < large.nodes / 4  # though the arena has been large


def test_a_program_that_is_gone_has_been_counted() -> None:
    with dlang.memory_use() as used:
        dlang.compile("fn f(x: f64[n]) -> f64[n] = cumsum(x)").f(np.ones(N))
    assert used.peak == MIB


def test_a_measure_inside_another_takes_nothing_from_it() -> None:
    with dlang.memory_use() as outer:
        module.two(np.ones(N))
        with dlang.memory_use() as inner:
            module.one(np.ones(N))
    assert inner.peak == MIB and outer.peak == 2 * MIB


def test_bytes_are_shown_in_units_that_suit_them() -> None:
    assert [in_units(n) for n in (0, 1023, 2048, 3 << 20, 5 << 30)] == [
        "0 bytes",
        "1023 bytes",
        "2 KiB",
        "3 MiB",
        "5 GiB",
    ]


def test_what_helping_threads_held_is_added() -> None:
    pool = new_pool(2)
    pool.start()
    context = Context(support.MESSAGE_ROOM, pool)
    ((_, given),) = pool.helpers
    try:
        given[layout.WORKER_CONTEXT + support.PEAK] = 3 * MIB  # of a run before
        with dlang.memory_use() as outer:
            given[layout.WORKER_CONTEXT + support.PEAK] = 2 * MIB
            with dlang.memory_use() as inner:
                given[layout.WORKER_CONTEXT + support.PEAK] = MIB
        assert (inner.arrays, outer.arrays) == (MIB, 2 * MIB)
    finally:
        del context
        pool.close()


def test_the_allocator_counts_for_helping_threads_too() -> None:
    text = """
fn row(i: i64) -> f64 {
  let x = [f64(i + k) for k < 16384]
  sum(cumsum(x) * cumsum(x + 1.0))
}
fn main(m: i64) -> f64 = sum(row(i) for i < m)
"""
    checked = check(Source("rows.dl", text))
    program, (entry,) = lower([Request(checked.module.functions["main"])])
    pool = new_pool(1)
    run = Engine(Host(), pool=pool).compile(program, [entry.name]).run
    try:
        with dlang.memory_use() as alone:
            run(entry.name, [64])
        pool.limit(2)
        with dlang.memory_use() as both:
            for _ in looks():
                run(entry.name, [64])
                if pool.held:
                    break
        held = pool.held
    finally:
        pool.close()
    # A helper that is quick may do all of a loop, so what the caller holds is no lower bound.
    assert 0 < held <= both.arrays <= 2 * alone.arrays
