"""Loops inside of loops and comprehensions that multiply vectors by shared matrices: a step is one product for all."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir.anf import For, Function
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.meaning import as_written, meaning
from tests.specialize.support import lowered

TEXT = """
fn last(h: f64[n], w: f64[n, n], us: f64[t, n]) -> f64[n] {
  var x = h
  for u in us { x = tanh(w @ x + u) }
  x
}

fn cost(h: f64[n], w: f64[n, n], us: f64[t, n]) -> f64 {
  var (x, c) = (h, 1.0)
  for k < t {
    let old = x
    x = tanh(w @ x + us[k])
    x[k % n] += c
    c += sum(x * old)
  }
  c
}

fn all_rows(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 = sum([last(hs[i], w, us[i]) for i] ** 2)
fn all_terms(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 = sum(sum(last(hs[i], w, us[i]) ** 2) for i)

fn all_added(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 {
  var total = 0.0
  for i < b { total += sum(last(hs[i], w, us[i]) ** 2) }
  total
}

fn costs(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 = sum(cost(h, w, u) for (h, u) in zip(hs, us))

fn twice(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 {
  var (total, x) = (0.0, zeros(n))
  for i < b {
    let h = last(2.0 * hs[i], w, us[i])
    x = last(h, w, us[i])
    total += x @ hs[i] + sum(h)
  }
  total * sum(x)
}

fn matrix_steps(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 {
  var x = hs
  for k < t { x = tanh(x @ transpose(w) + us[.., k]) }
  sum(x ** 2)
}

fn of_the_state(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 {
  var x = zeros(n)
  for i < b { x = last(x + hs[i], w, us[i]) }
  sum(x)
}

fn of_their_own(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 = sum(sum(last(hs[i], hs[i] * w, us[i])) for i)

fn many_rows(hs: f64[b, n], w: f64[n, n], us: f64[b, t, n]) -> f64 {
  var total = 0.0
  for i < b {
    var x = us[i]
    for k < t { x = tanh(x @ w) }
    total += sum(x)
  }
  total
}
"""
DONE = ["all_rows", "all_terms", "all_added", "costs", "twice"]
LEFT = ["of_the_state", "of_their_own", "many_rows"]


@cache
def both() -> tuple[Any, Any]:
    return dlang.compile(TEXT), dlang.compile(TEXT, backend="interp")


def arguments(b: int, t: int, n: int) -> list[Any]:
    random = np.random.default_rng(b + t + n)
    return [random.normal(size=(b, n)), 0.3 * random.normal(size=(n, n)), random.normal(size=(b, t, n))]


@cache
def optimised(name: str) -> Function:
    made = lowered(TEXT, name)
    return optimise(made.program, [made.entry.name], verify=True).functions[made.entry.name]


def depth(name: str) -> int:
    """How many loops an operation is in, at most."""

    def of(lets: Any) -> int:
        return max((isinstance(let.op, For) + of(inner(let)) for let in lets), default=0)

    def inner(let: Any) -> list[Any]:
        return list(walk(let.op.body)) if isinstance(let.op, For) else []

    return of(list(walk(optimised(name).body)))


@pytest.mark.parametrize("name", DONE)
def test_steps_are_done_for_all_iterations(name: str) -> None:
    assert depth(name) == 1


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_need_the_state_or_have_matrices_stay(name: str) -> None:
    assert any(isinstance(let.op, For) for let in walk(optimised(name).body))


@pytest.mark.parametrize("name", DONE)
@pytest.mark.parametrize("sizes", [(0, 2, 2), (1, 3, 2), (5, 0, 3), (3, 2, 5)])
def test_values_and_gradients_are_those_of_the_program_as_written(name: str, sizes: tuple[int, int, int]) -> None:
    compiled, interpreted = (getattr(module, name) for module in both())
    args = arguments(*sizes)
    with as_written():
        value, slopes = interpreted(*args), dlang.grad(interpreted, wrt=("hs", "w", "us"))(*args)
    np.testing.assert_allclose(compiled(*args), value, rtol=1e-12, atol=1e-13)
    for found, slope in zip(dlang.grad(compiled, wrt=("hs", "w", "us"))(*args), slopes, strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("before", ["s += y[p[i]]", 'print("{i}")', "assert p[i] < 3"])
def test_no_check_of_a_step_passes_a_check_or_an_effect_of_an_earlier_iteration(
    before: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f"""fn f(w: f64[n, n], y: f64[m], p: i64[b]) -> f64 {"! print " if "print" in before else ""}{{
  var s = 0.0
  for i < b {{
    {before}
    var h = w[0]
    for k < 2 {{ h = tanh(w @ h + y[p[i] + 1 + k]) }}
    s += sum(h)
  }}
  s
}}"""
    compiled, interpreted = dlang.compile(text).f, dlang.compile(text, backend="interp").f
    for p in ([0, 9, 1], [2, 0, 9], [0, 1, 1]):
        found = []
        for call in (compiled, partial(meaning, interpreted)):
            try:
                found.append(call(np.eye(5), np.arange(5.0), np.array(p)))
            except dlang.DlangError as error:
                found.append(error.diagnostics[0].message)
            found[-1] = found[-1], capfd.readouterr().out
        assert found[0][1] == found[1][1]
        assert found[0][0] == (pytest.approx(found[1][0]) if isinstance(found[1][0], float) else found[1][0])
