"""Comprehensions: gradients against central differences, costs as sizes grow, second derivatives, scatters."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Comp, Contract, Program, ScatterAdd
from dlang.ir.traverse import walk
from dlang.optimize.contractions import contractions
from tests.ad.four_ways import four_ways
from tests.ad.models import CASES
from tests.ad.support import (
    check_gradient,
    check_second,
    close,
    cost,
    differentiated,
    expanded,
    program_of,
    ratio,
    run,
    tidy,
)
from tests.meaning import meaning


def scatters(program: Program) -> int:
    return sum(
        isinstance(d, ScatterAdd)
        for f in program.functions.values()
        for let in walk(f.body)
        if isinstance(let.op, Comp)
        for d in let.op.destinations
    )


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_central_differences_and_only_an_embedding_scatters(name: str) -> None:
    program = check_gradient(*CASES[name](3))
    assert scatters(program) == (name == "embedding")


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_cost_at_most_four_times_the_value_at_any_size(name: str) -> None:
    small, large = ratio(*CASES[name](6)), ratio(*CASES[name](12))
    assert small <= 4 and large <= 4 and large <= 1.05 * small


@pytest.mark.parametrize("name", CASES)
def test_the_normal_form_has_the_value_and_costs_about_what_was_written(name: str) -> None:
    f, _, args = CASES[name](4)
    program = program_of(f)
    normal = tidy(program)
    close(run(normal, f.name, args)[0], run(program, f.name, args)[0])
    f, _, args = CASES[name](12)
    assert cost(tidy(program_of(f)), f.name, args) <= 1.4 * cost(program_of(f), f.name, args)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_those_of_central_differences(name: str) -> None:
    f, wrt, args = CASES[name](3)
    assert check_second(f, wrt[0], args) <= 4


def test_the_gradient_of_three_layers_is_eight_products_and_no_other_large_sum() -> None:
    f, _, _ = CASES["mlp"](2)
    program = expanded(differentiated(program_of(f), f.name, [3, 5, 7]))
    lets = [let for g in contractions(program).functions.values() if g.name != f.name for let in g.body.lets]
    assert sum(isinstance(let.op, Contract) for let in lets) == 8
    assert not [let for let in lets if isinstance(let.op, Comp) and len(let.op.axes) > 2]


def test_an_unused_output_of_the_derivative_costs_nothing() -> None:
    f, wrt, args = CASES["mlp"](4)
    all_of_them = expanded(differentiated(program_of(f), f.name, wrt))
    last_only = expanded(differentiated(program_of(f), f.name, wrt[-1:]))
    assert cost(last_only, "grad", args) < 0.6 * cost(all_of_them, "grad", args)


def test_empty_arrays_have_empty_gradients() -> None:
    f, wrt, _ = CASES["layer_norm"](2)
    program = expanded(differentiated(program_of(f), f.name, wrt, seeds=["param"]))
    for n, m in ((0, 3), (3, 0)):
        args = [n, m, np.ones((n, m)), np.ones(m), np.ones(m), np.ones((n, m))]
        got = run(program, "grad", args)
        assert [g.shape for g in got] == [(n, m), (n, m), (m,), (m,)]
        assert not np.any(got[2]) and not np.any(got[3])


@pytest.mark.parametrize("reduction", ["sum", "prod", "max", "min", "mean", "logsumexp"])
@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1)])
def test_an_axis_of_one_element(reduction: str, shape: tuple[int, int]) -> None:
    n, k = shape
    parts = " + ".join([f"sum({reduction}(y, axis = {axis}) ** 2)" for axis in (0, 1)])
    x = np.linspace(0.3, 1.7, n * k).reshape(shape)
    four_ways(f"fn f(x: f64[{n}, {k}]) -> f64 {{\n  let y = sin(x) * x\n  {parts}\n}}", [x])


ELEMENTS_OF_WHAT_MOVES = """
struct Box { a: f64[1], b: f64 }
fn plain(v: f64[n]) -> f64 = sum([{
  var d = [1.0, 2.0]
  d[1] += e
  d[1] * d[0] * e
} for e in v])
fn boxes(v: f64[n], w: f64[2]) -> f64 = sum([{
  var d = [Box([e], w[0]), Box([sin(e)], w[1] * w[0])]
  d[1].b += e
  d[0].a[0] = d[1].b
  d[0].a[0] + d[1].a[0]
} for e in v])
"""


def test_elements_are_read_of_an_array_that_is_the_same_at_every_point() -> None:
    m, i = dlang.compile(ELEMENTS_OF_WHAT_MOVES), dlang.compile(ELEMENTS_OF_WHAT_MOVES, backend="interp")
    v, w = np.array([0.5, 2.0]), np.array([3.0, 4.0])
    for function in (m.plain, i.plain):
        np.testing.assert_allclose(meaning(dlang.grad(function), v), 2.0 + 2.0 * v)
    for function in (m.boxes, i.boxes):
        np.testing.assert_allclose(meaning(dlang.grad(function), v, w), 1.0 + np.cos(v))
        np.testing.assert_allclose(meaning(dlang.hessian(function), v, w), np.diag(-np.sin(v)), atol=1e-15)
