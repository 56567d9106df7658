"""Loops in order that do nothing but add to elements of arrays are kernels, and no others are."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Comp, For, ScatterAdd
from dlang.ir.traverse import walk
from tests.cuda.both import Both

ADDING = """
fn totals(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = [0.0 for g < m]
  for i < n { out[k[i]] += x[i] }
  out
}
fn less(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = y
  for i < n { out[k[i]] -= 2.0 * x[i] * y[k[i]] }
  out
}
fn turned(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = y
  for i < n { out[k[n - 1 - i]] = x[i] + out[k[n - 1 - i]] }
  out
}
fn several(x: f64[n], k: i64[n], y: f64[m]) -> (f64[m], i64[m]) {
  var (out, count) = (y, [0 for g < m])
  for i < n {
    out[k[i]] += x[i]
    count[k[i]] += 1
  }
  (out, count)
}
"""
OTHERS = """
fn running(x: f64[n], k: i64[n], y: f64[m]) -> f64[n] {
  var out = x
  for i < n { out[k[i]] += out[i] }
  out
}
fn twice(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = y
  for i < n { out[k[i]] += x[i] * out[k[i]] }
  out
}
fn last(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = y
  for i < n { out[k[i]] = x[i] }
  out
}
fn opposite(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = y
  for i < n { out[k[i]] = x[i] - out[k[i]] }
  out
}
fn shifted(x: f64[n], k: i64[n], y: f64[m]) -> f64[m] {
  var out = y
  for i < n { out[k[i]] = x[i] + out[(k[i] + 1) % m] }
  out
}
fn counted(x: f64[n], k: i64[n], y: f64[m]) -> (f64[m], i64) {
  var (out, seen) = (y, 0)
  for i < n {
    out[k[i]] += x[i] * f64(seen)
    seen = (seen * 3 + k[i]) % 1000
  }
  (out, seen)
}
"""
SCATTERS = ("totals", "less", "turned", "several")
LOOPS = ("running", "twice", "last", "opposite", "shifted", "counted")


@cache
def program() -> Both:
    return Both(ADDING + OTHERS, (*SCATTERS, *LOOPS))


def given(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal(n), rng.integers(0, m, n), rng.standard_normal(m)]


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (700, 5), (200, 200)])
@pytest.mark.parametrize("name", [*SCATTERS, *LOOPS])
def test_a_loop_gives_what_the_interpreter_gives(name: str, sizes: tuple[int, int]) -> None:
    sizes = (sizes[0], max(sizes)) if name == "running" and sizes[0] else sizes
    args = given(sizes[0], sizes[0] if name == "running" and sizes[0] else sizes[1])
    program().agree(name, [sizes[0], len(args[2])], args, 1e-9, fixed=False)


@pytest.mark.parametrize("name", [*SCATTERS, *LOOPS])
def test_only_what_adds_to_elements_is_a_scatter(name: str) -> None:
    both = program()
    lets = list(walk(both.program.functions[both.entries[name].name].body))
    adds = [d for let in lets if isinstance(let.op, Comp) for d in let.op.destinations if isinstance(d, ScatterAdd)]
    loops = [let for let in lets if isinstance(let.op, For)]
    assert (bool(adds), bool(loops)) == (name in SCATTERS, name in LOOPS)
    if name in SCATTERS:
        assert any("dl_atomic_sum" in kernel.text for kernel in both.kernels(name))


def test_the_first_index_that_is_out_of_range_is_told() -> None:
    totals = dlang.compile(ADDING, backend="cuda-emulated").totals
    k = np.arange(300) % 7
    k[[40, 200]] = 9, 11
    with pytest.raises(dlang.DlangError, match=r"E0801.*index 9"):
        totals(np.ones(300), k, np.ones(7))
