"""The gradients of products are products: contractions in the optimised program, not sums one scalar at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of, lower
from dlang.ir.anf import Block, Comp, Contract, For, Function, Op, ScatterAdd, poly
from dlang.ir.printer import print_function
from dlang.tools.gradients import FORWARD, REVERSE, with_derivatives
from tests.ad.four_ways import four_ways

# name: the program, the contractions of its value and gradient, the axes of the largest comprehension.
PROGRAMS = {
    "a product of matrices by index": (
        "fn f(a: f64[n, m], b: f64[m, k]) -> f64 = sum(sin([sum(a[i, l] * b[l, j] for l) for i, j]))",
        3,
        2,
    ),
    "a scaled product and a matrix": (
        "fn f(a: f64[n, m], b: f64[m, k], c: f64[n, k], s: f64) -> f64 = sum(sin(s * a @ b + 0.5 * c))",
        3,
        2,
    ),
    "a matrix and a vector": ("fn f(a: f64[n, m], x: f64[m]) -> f64 = sum(sin(a @ x))", 2, 2),
    "a matrix and many vectors": ("fn f(a: f64[n, m], x: f64[k, m]) -> f64 = sum(sin([a @ x[i] for i]))", 3, 2),
    "a chain of products": ("fn f(a: f64[n, n], b: f64[n, n], x: f64[n]) -> f64 = sum(sin(a @ (b @ x)))", 4, 2),
    "products of each of many matrices": (
        "fn f(a: f64[t, n, m], b: f64[t, m, k]) -> f64 = sum(sin(a @ b))",
        3,
        3,
    ),
    "solutions by elimination, a column at a time": (
        (
            "fn f(x: f64[n, n]) -> f64 { var a = x; for k < n { "
            "let l = [if i > k { a[i, k] / a[k, k] } else { 0.0 } for i < n]; let u = a[k]; "
            "a = [a[i, j] - l[i] * u[j] for i < n, j < n] }; sum(a * a) }"
        ),
        0,  # the sums over rows and columns are one pass, with the scaling and the difference
        2,
    ),
}


def gradient(text: str) -> Function:
    """The optimised value and gradient of `f`."""
    checked = check(Source("case.dl", text))
    assert not errors_of(checked), errors_of(checked)
    decl = checked.module.functions["f"]

    def extend(program, entries):
        program, function = with_derivatives(program, program.functions[entries[0].name])
        return program, [function.name, REVERSE, FORWARD]

    program, _ = lower([Request(decl, dict.fromkeys(decl.variables, poly(0)))], extend=extend)
    return program.functions[REVERSE]


def always(block: Block) -> Iterator[Op]:
    """The operations that run whatever the numbers are: where a product is NaN, the sums are made one by one."""
    for let in block.lets:
        yield let.op
        if isinstance(let.op, For):
            yield from always(let.op.body)


def is_zero(op: Comp) -> bool:
    """Whether it only makes an array of zeros."""
    return not op.body.lets


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_of_a_product_is_products(name: str) -> None:
    text, contractions, axes = PROGRAMS[name]
    function = gradient(text)
    ops = list(always(function.body))
    comps = [op for op in ops if isinstance(op, Comp)]
    assert sum(isinstance(op, Contract) for op in ops) == contractions, print_function(function)
    assert max(len(op.axes) for op in comps if not is_zero(op)) <= axes, print_function(function)
    assert not any(isinstance(d, ScatterAdd) for op in comps for d in op.destinations)


def test_a_matrix_on_both_sides_of_a_product_and_beside_it_has_the_sum_of_all_cotangents() -> None:
    text = """
    fn f(b: f64[n, m], v: f64[n], w: f64[n, n]) -> f64 {
      let slope = v @ b
      let bend = transpose(b) @ w @ b
      sum((bend @ slope)[i] * cos(f64(i)) for i)
    }
    """
    rng = np.random.default_rng(2)
    four_ways(text, [4, 3, rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=(4, 4))])
