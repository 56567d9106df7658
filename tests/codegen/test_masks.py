"""Branches in loops of lanes: each lane reads, stores and checks what its own arm does, whatever the others do."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen import loops
from dlang.codegen.llvm.modules import emit
from dlang.codegen.llvm.objects import LEVELS, Processor
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.specialize.support import lowered

PROGRAM = """
fn both(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[n] {
  var z = zeros(n)
  for i < n { if x[i] > 0.5 { z[i] = x[n - 1 - i] * 3.0 } else { z[i] = x[i] - 1.0 } }
  z
}

fn updated(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[n] {
  var z = x
  for i < n { if x[i] > 0.25 { z[i] += x[k[i]] * x[i] } }
  z
}

fn nested(x: f64[n], k: Idx<n>[n], c: f64[m]) -> (f64[n], i64[n]) {
  var z = zeros(n)
  var w = full(7, n)
  for i < n {
    if x[i] > 0.25 {
      let y = x[k[i]]
      if y > 0.5 { z[i] = y } else { w[i] += k[i] }
      z[i] += 1.0
    } else if x[i] < 0.125 {
      w[i] = -1
    }
  }
  (z, w)
}

fn shared(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[n] {
  var z = zeros(n)
  for i < n { if x[i] > 0.5 { z[i] = c[2] * x[i] } }
  z
}

fn looped(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[n] {
  var z = zeros(n)
  for i < n {
    if x[i] > 0.5 {
      var s = x[i]
      for j < m { s = s * c[j] + x[k[i]] }
      z[i] = s
    } else {
      z[i] = -x[i]
    }
  }
  z
}

fn summed(x: f64[n], k: Idx<n>[n], c: f64[m]) -> (f64, f64) {
  var s = 0.0
  var t = 0.0
  for i < n {
    if x[i] > 0.5 { s += exp(x[k[i]]) } else { t += x[n - 1 - i] * x[i] }
  }
  (s, t)
}

fn far(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[n, 3] {
  var z = zeros(n, 3)
  for i < n { if x[i] > 0.5 { z[i, 1] = x[i] } else { z[i, 2] = x[k[i]] } }
  z
}

fn agreed(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[m, n] {
  var z = zeros(m, n)
  for j < m { for i < n { if c[j] > 0.5 { z[j, i] = x[k[i]] } else { z[j, i] = x[i] } } }
  z
}

fn halves(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f32[n] {
  var z = full(f32(1.0), n)
  for i < n { if x[i] > 0.5 { z[i] = f32(x[k[i]]) } else { z[i] *= f32(x[i]) } }
  z
}

fn checked(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64[n] {
  var z = zeros(n)
  for i < n { if x[i] > 0.5 { z[i] = c[i64(x[i] * 8.0)] } }
  z
}

fn loss(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64 = sum(updated(x, k, c) ** 2) + sum(looped(x, k, c))
"""
NAMES = ["both", "updated", "nested", "shared", "looped", "summed", "far", "agreed", "halves", "checked"]
COMPILED, MEANING = dlang.compile(PROGRAM), dlang.compile(PROGRAM, backend="interp")


def results(f: Any, *args: Any) -> list[Any]:
    value = f(*args)
    return list(value) if isinstance(value, tuple) else [value]


def arguments() -> Iterator[tuple[Any, ...]]:
    rng = np.random.default_rng(0)
    for n in (0, 1, 3, 7, 8, 9, 16, 31, 64, 100):
        for low, high in ((0.0, 1.0), (0.6, 1.0), (0.0, 0.1)):  # lanes that differ, and that are all alike
            x, m = rng.uniform(low, high, n), 9
            yield x, rng.integers(0, max(n, 1), n), rng.uniform(size=m)


@pytest.mark.parametrize("name", NAMES)
def test_each_lane_does_what_its_arm_does(name: str) -> None:
    for args in arguments():
        for got, wanted in zip(
            results(getattr(COMPILED, name), *args), results(getattr(MEANING, name), *args), strict=True
        ):
            np.testing.assert_allclose(got, wanted, rtol=1e-6 if getattr(got, "dtype", None) == np.float32 else 1e-13)


def nests(name: str, bits: int) -> tuple[loops.Program, str]:
    found = lowered(PROGRAM, name)
    return schedule(optimise(found.program, [found.entry.name]), Lanes(bits)), found.entry.name


def loops_with_branches(name: str, bits: int) -> list[loops.Loop]:
    """The loops of lanes of a function in which there are branches."""
    program, _ = nests(name, bits)
    within = [s for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, loops.Loop)]
    return [s for s in within if s.lanes > 1 and any(isinstance(b, loops.Branch) for b in walk(s.stmts))]


@pytest.mark.parametrize("name", ["updated", "nested", "shared", "looped", "summed", "halves"])
def test_a_branch_keeps_no_loop_from_lanes_where_registers_have_masks(name: str) -> None:
    assert loops_with_branches(name, 256) and loops_with_branches(name, 512)
    assert not loops_with_branches(name, 128)


def test_an_arm_that_fails_does_so_in_its_own_lane_alone() -> None:
    x = np.linspace(0.0, 0.9, 37)
    c = np.arange(8.0)
    np.testing.assert_array_equal(COMPILED.checked(x, np.zeros(37, int), c), MEANING.checked(x, np.zeros(37, int), c))
    x[5] = 0.4  # beside an index that is out of range, in an arm that is not taken
    x[[0, 20]] = -9.0, 1.25
    messages = []
    for program in (COMPILED, MEANING):
        with pytest.raises(dlang.DlangError, match="index 10 is out of range for axis 0 of size 8") as failure:
            program.checked(x, np.zeros(37, int), c)
        messages.append(str(failure.value))
    assert messages[0] == messages[1]


def test_gradients_through_masks() -> None:
    for args in arguments():
        np.testing.assert_allclose(
            dlang.grad(COMPILED.loss)(*args), dlang.grad(MEANING.loss)(*args), rtol=1e-11, atol=1e-12
        )


@pytest.mark.parametrize("name", NAMES)
def test_code_that_is_sanitised_touches_what_is_chosen(name: str) -> None:
    found = lowered(PROGRAM, name)
    engine = Engine(Host(io.StringIO()), sanitize=True)
    compiled = engine.compile(optimise(found.program, [found.entry.name]), [found.entry.name])
    rng = np.random.default_rng(1)
    for n in (1, 8, 37):
        x, k, c = rng.uniform(size=n), rng.integers(0, n, n), rng.uniform(size=9)
        got = compiled.run(found.entry.name, [n, 9, x, k, c])
        for one, wanted in zip(got, results(getattr(MEANING, name), x, k, c), strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-6)


@pytest.mark.parametrize("processor", [p for p in LEVELS.values() if p.bits >= 256], ids=lambda p: p.name)
def test_elements_anywhere_are_masked_where_the_processor_gathers_and_chosen_where_it_does_not(
    processor: Processor,
) -> None:
    program, name = nests("updated", processor.bits)
    alone = emit(program, [name], processor).llvm
    gathered = emit(program, [name], replace(processor, gathers=True)).llvm
    assert "%nothing" in alone and "%nothing" not in gathered
    assert "+prefer-no-gather" in processor.target_features
    assert "gather" not in replace(processor, gathers=True).target_features


FLAGS = "fn kept(x: f64[n], keep: bool[n]) -> f64 = sum(x[i] for i < n if keep[i])"


@pytest.mark.parametrize("processor", LEVELS.values(), ids=lambda p: p.name)
def test_what_vectors_leave_of_a_loop_over_flags_goes_in_vectors(processor: Processor) -> None:
    found = lowered(FLAGS, "kept")
    program = schedule(optimise(found.program, [found.entry.name]), Lanes(processor.bits))
    text = emit(program, [found.entry.name], processor).llvm
    one_register = processor.bits // 64
    assert ("llvm.masked.load.v8i8" in text) == processor.avx512
    assert processor.avx512 or f"load <{one_register} x i8>" in text
