"""The host copies the elements that it looks at in a loop, and not whole arrays in every iteration."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.cuda.placement import on_device
from dlang.codegen.loops import Hold, OnHost
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from tests.cuda.both import Both

PROGRAM = """
import linalg { solve }
fn rows(x: f64[n, m]) -> f64[n, m] = [sort(x[i]) for i]
fn in_place(x: f64[n, m]) -> f64[n, m] {
  var y = x
  for i < n { y[i] = sort(y[i]) }
  y
}
fn chain(x: f64[n, m]) -> f64[n, m] {
  var y = x
  for i in 1..n { y[i] = sort([y[i - 1, j] + x[i, j] for j]) }
  y
}
fn both_ways(x: f64[n, m]) -> f64[n, m] {
  var y = x
  for i in 1..n {
    let k = argsort(y[i - 1])
    y[i] = [y[i, j] + 0.5 * y[i - 1, k[j]] for j]
    y[i - 1] = sort([y[i, j] - x[0, j] for j])
  }
  y
}
fn nested(x: f64[n, m]) -> f64[n, m] {
  var y = [0.0 * v for v in x]
  for i < n { for k < 3 {
    let s = sort(x[(i + k) % n])
    y[i] = [y[i, j] + s[j] * f64(k + 1) for j]
  } }
  y
}
fn one(x: f64[m], y: f64[m]) -> f64[m] {
  var z = y
  for k < 3 {
    let s = sort(x)
    z = [z[j] + s[j] for j]
  }
  z
}
fn called(x: f64[n, m]) -> f64[n, m] {
  var y = x
  for i in 1..n { y[i] = one(y[i - 1], y[i]) }
  y
}
fn until(x: f64[n, m]) -> f64[n, m] {
  var (y, i) = (x, 0)
  while i < n and y[i, 0] < 100.0 {
    let s = sort(x[i])
    y[i] = [s[j] + y[0, j] for j]
    i += 1
  }
  y
}
fn solved(a: f64[n, m], b: f64[n, m]) -> f64[n, m] =
  [solve([[a[i, j] * a[i, k] + (if j == k { 9.0 } else { 0.0 }) for k < m] for j < m], b[i]) for i < n]
"""
LINEAR = ("rows", "in_place", "chain", "both_ways", "nested")
FUNCTIONS = (*LINEAR, "called", "until")


@cache
def program() -> Both:
    return Both(PROGRAM, (*FUNCTIONS, "solved"))


def given(n: int, m: int) -> Any:
    return np.random.default_rng(n).standard_normal((n, m))


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (20, 33)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_copies_are_right(name: str, shape: tuple[int, int]) -> None:
    program().agree(name, shape, [given(*shape)], 1e-9)


def copied(name: str, sizes: Sequence[int], args: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes that go between the host and the device, in either direction."""
    both = program()
    total = [0]
    upload, download = both.driver.upload, both.driver.download

    def up(target: int, source: int, size: int) -> None:
        total[0] += size
        upload(target, source, size)

    def down(target: int, source: int, size: int, partly: bool = False) -> None:
        total[0] += size
        download(target, source, size, partly)

    with monkeypatch.context() as patch:
        patch.setattr(both.driver, "upload", up)
        patch.setattr(both.driver, "download", down)
        both.found(name, sizes, args)
    return total[0]


@pytest.mark.parametrize("name", [*LINEAR, "solved"])
def test_bytes_grow_as_what_is_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (copied(name, (n, 9), [given(n, 9)] * (2 if name == "solved" else 1), monkeypatch) for n in (16, 64))
    assert 3 * few < many < 5 * few, "four times as many rows"


def test_what_a_loop_may_change_is_not_held() -> None:
    """An array that is held is changed by nothing until it is not held any more."""
    both = program()
    placed = on_device(schedule(both.program, device=True))
    regions = {name: [s for s in walk(f.body.stmts) if isinstance(s, OnHost)] for name, f in placed.functions.items()}
    holds = {name: [s for s in walk(f.body.stmts) if isinstance(s, Hold)] for name, f in placed.functions.items()}

    def of(name: str, found: dict[str, list[Any]]) -> list[Any]:
        return found[both.entries[name].name]

    assert [h.begins for h in of("rows", holds)] == [True, False] and all(r.still for r in of("rows", regions))
    assert not of("in_place", holds) and of("in_place", regions) and all(r.parts for r in of("in_place", regions))
    assert not any(r.still for r in of("both_ways", regions))
