"""A matrix is factored once, for what is made of it and for all derivatives of that."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Contract, For, LinalgOp, Program
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

TEXT = """
import linalg { det, inverse, logdet, solve }
fn solved(a: f64[n, n], b: f64[n, n]) -> f64 = sum(solve(a, b) ** 2)
fn inverted(a: f64[n, n], b: f64[n, n]) -> f64 = sum(inverse(a) * b)
fn logarithm(a: f64[n, n], b: f64[n, n]) -> f64 = logdet(a)
fn determinant(a: f64[n, n], b: f64[n, n]) -> f64 = det(a)
fn all(a: f64[n, n], b: f64[n, n]) -> f64 = solved(a, b) + sum(solve(a, b[0])) + inverted(a, b) + logarithm(a, b)
fn repeated(a: f64[n, n], b: f64[n, n]) -> f64 {
  var x = b[0]
  for _ in 0..n { x = solve(a, x) }
  sum(x)
}
fn again(a: f64[n, n], b: f64[n, n]) -> f64 = sum(grad(solved)(a, b) * b)
fn slope_of_solved(a: f64[n, n], b: f64[n, n]) -> (f64[n, n], f64[n, n]) = grad(solved, wrt = (a, b))(a, b)
fn slope_of_inverted(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = grad(inverted, wrt = a)(a, b)
fn slope_of_logarithm(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = grad(logarithm, wrt = a)(a, b)
fn slope_of_determinant(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = grad(determinant, wrt = a)(a, b)
fn slope_of_all(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = grad(all, wrt = a)(a, b)
fn slope_of_repeated(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = grad(repeated, wrt = a)(a, b)
fn slope_of_again(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = grad(again, wrt = a)(a, b)
fn along(a: f64[n, n], b: f64[n, n]) -> (f64, f64) = jvp(|a| solved(a, b) + logarithm(a, b), (a), (b))
"""


def program(name: str) -> tuple[Program, str]:
    made = lowered(TEXT, name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def operations(p: Program) -> list[str]:
    """The names of the operations of linear algebra, and `product` for each product."""
    lets = [let.op for f in p.functions.values() for let in walk(f.body)]
    return sorted(
        op.name if isinstance(op, LinalgOp) else "product" for op in lets if isinstance(op, LinalgOp | Contract)
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("slope_of_solved", ["lu", "lu_solve", "lu_solve_transposed", "product"]),
        ("slope_of_inverted", ["lu", "lu_inverse", "product", "product"]),
        ("slope_of_logarithm", ["lu", "lu_inverse"]),
    ],
)
def test_a_gradient_is_made_of_the_factors_of_the_value(name: str, wanted: list[str]) -> None:
    assert operations(program(name)[0]) == wanted


@pytest.mark.parametrize("name", ["all", "slope_of_all", "slope_of_again", "repeated", "slope_of_repeated", "along"])
def test_several_solutions_and_their_derivatives_share_the_factors(name: str) -> None:
    assert operations(program(name)[0]).count("lu") == 1


@pytest.mark.parametrize("name", ["repeated", "slope_of_repeated"])
def test_a_matrix_that_a_loop_does_not_change_is_factored_in_front_of_it(name: str) -> None:
    p, _ = program(name)
    loops = [let.op for f in p.functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    inside = [let.op.name for loop in loops for let in walk(loop.body) if isinstance(let.op, LinalgOp)]
    assert inside and "lu" not in inside


@pytest.mark.parametrize(
    ("name", "most"), [("logarithm", 3.0), ("determinant", 3.0), ("inverted", 3.0), ("solved", 2.6)]
)
def test_a_gradient_costs_no_more_than_three_values(name: str, most: float) -> None:
    n = 60
    a, b = np.random.default_rng(1).normal(size=(2, n, n))
    value, slope = (_counted(f, [n, a, b]) for f in (name, f"slope_of_{name}"))
    assert slope <= (most + 0.1) * value


def _counted(name: str, args: list[object]) -> int:
    p, entry = program(name)
    interpreter = Interpreter(p)
    interpreter.run(entry, args)
    return interpreter.counts["LinalgOp"] + interpreter.counts["Contract"] // 2  # which counts loads and stores too
