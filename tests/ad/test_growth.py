"""A derivative grows no faster than its function: with twice the input, its operations and bytes grow by as much.

Loops, branches and recursions over arrays that change in place are where this is won or lost: one array of zeros, one
copy or one array saved in each iteration makes a linear program quadratic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.pipeline import optimise
from tests.ad.growth import CASES, Case
from tests.specialize.support import lowered

DERIVATIVES = """
fn slope(x: f64[n], k: i64[n]) -> f64[n] = grad(|y: f64[n]| f(y, k))(x)
fn along(x: f64[n], k: i64[n]) -> f64 = jvp(|y: f64[n]| f(y, k), x, [cos(f64(i)) for i < n]).1
fn curved(x: f64[n], k: i64[n]) -> f64[n] = jvp(|z: f64[n]| slope(z, k), x, [cos(f64(i)) for i < n]).1
fn twice(x: f64[n], k: i64[n]) -> f64[n] = grad(|z: f64[n]| sum([cos(f64(i)) for i < n] * slope(z, k)))(x)
fn pushed(x: f64[n], k: i64[n]) -> f64[n] = grad(|z: f64[n]| along(z, k))(x)
fn thrice(x: f64[n], k: i64[n]) -> f64[n] = grad(|z: f64[n]| sum([cos(f64(i)) for i < n] * twice(z, k)))(x)
fn bent(x: f64[n], k: i64[n]) -> f64[n] = jvp(|z: f64[n]| twice(z, k), x, [cos(f64(i)) for i < n]).1
fn again(x: f64[n], k: i64[n]) -> f64[n] = grad(|y: f64[n]| checkpoint(f)(y, k))(x)
"""
SECOND = (
    "a scatter of products under a condition",
    "three arms",
    "rows that borders decide",
    "a stack",
    "a heap that is emptied",
    "a while in a while",
)
SECOND += (
    "a whole array changed in one iteration of a while",
    "the greatest of a window",
    "two recursive calls that change an array",
)
SECOND += (
    "a recursion over elements",
    "a recursion over two arrays that take turns",
    "functions that call one another on elements",
    "a recursion over elements in a loop",
    "a recursion on slices",
    "functions that call one another on slices",
    "halves of an array by recursion",
    "columns of a matrix by recursion",
    "a recursion that changes an array",
    "a recursion that changes an array and does not give it back",
    "halves of an array in place",
    "halves of an array in place under checkpoint",
    "a recursion with a table of results",
    "a tree of places in an array",
)
SECOND += ("a row of a matrix in a node", "leaves of a tree", "a state that changes its form")
THIRD = ("a recursion over elements", "halves of an array in place", "a tree of places in an array")
AGAIN = ("a scatter of products under a condition", "swaps", "a rule of a grid in place", "a table filled row by row")
AGAIN += ("a search that returns early",)


def arguments(case: Case, n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    x = rng.uniform(size=n)
    if case.order:
        x = np.sort(x) if case.order == "up" else np.sort(x)[::-1].copy()
    return [n, x, rng.integers(0, n, n)]


def run(case: Case, name: str) -> tuple[float, float, Any]:
    """By how much the operations and the bytes of arrays grow from one size to the other; the result at the larger."""
    made = lowered(case.text + DERIVATIVES, name)
    program = optimise(made.program, [made.entry.name], verify=True)
    runs = []
    for n in case.sizes:
        interpreter = Interpreter(program)
        (result,) = interpreter.run(made.entry.name, arguments(case, n))
        runs.append((interpreter.operations, interpreter.allocated, result))
    (few, small, _), (many, large, result) = runs
    return many / few, large / max(small, 8 * case.sizes[0]), result


def grows_alike(case: Case, name: str, work: float, bytes: float) -> Any:
    """Fails if a derivative grows faster than its function; gives its result."""
    more_work, more_bytes, result = run(case, name)
    assert more_work <= 1.12 * work, f"{name}: operations grow by {more_work:.2f}, those of the function by {work:.2f}"
    most = max(work, bytes)
    assert more_bytes <= 1.12 * most, f"{name}: bytes grow by {more_bytes:.2f}, the function by {most:.2f}"
    return result


@pytest.mark.parametrize("name", CASES)
def test_a_derivative_grows_no_faster_than_its_function(name: str) -> None:
    case = CASES[name]
    work, bytes, _ = run(case, "f")
    slope = grows_alike(case, "slope", work, bytes)
    along = grows_alike(case, "along", work, bytes)
    v = np.cos(np.arange(float(len(slope))))
    np.testing.assert_allclose(v @ slope, along, rtol=1e-9)
    if name in SECOND:
        curved, twice, pushed = (grows_alike(case, way, work, bytes) for way in ("curved", "twice", "pushed"))
        np.testing.assert_allclose(curved, twice, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(pushed, twice, rtol=1e-9, atol=1e-12)
    if name in THIRD:
        thrice, bent = (grows_alike(case, way, work, bytes) for way in ("thrice", "bent"))
        np.testing.assert_allclose(thrice, bent, rtol=1e-9, atol=1e-12)
    if name in AGAIN:
        np.testing.assert_allclose(grows_alike(case, "again", work, bytes), slope, rtol=1e-12)
