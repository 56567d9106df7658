"""Factors of the terms of a sum: which are multiplied by themselves, and what derivatives cost then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.interpret.interpreter import Interpreter
from dlang.ir.affine import dependencies
from dlang.ir.anf import Comp, Prim, Program
from dlang.ir.traverse import walk
from dlang.optimize.dce import dce
from dlang.optimize.factors import factors
from dlang.passes import same_functions
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.optimize.programs import assert_same, program, run, through
from tests.specialize.support import lowered

SUM = """
fn f(n.0: i64, c.1: f64[n.0, n.0], x.2: f64[n.0], t.3: f64[n.0], s.4: f64) -> (r.5: f64[n.0]) {
  r.6: f64[n.0] = comp k.7 in 0..n.0, j.8 in 0..n.0 {
    a.9: f64 = read c.1[k.7, j.8]
    b.10: f64 = read x.2[j.8]
    d.11: f64 = read t.3[j.8]
    BODY
  } to keep [n.0] [k.7] MONOID
  yield r.6
}
"""
ORDERED = {
    "a product": "u.12: f64 = mul(a.9, b.10)\nv.13: f64 = mul(u.12, d.11)\nyield v.13",
    "a quotient": "u.12: f64 = mul(a.9, b.10)\nv.13: f64 = div(u.12, d.11)\nyield v.13",
    "a divisor between": "u.12: f64 = div(a.9, d.11)\nv.13: f64 = mul(u.12, b.10)\nyield v.13",
    "a number": "u.12: f64 = mul(s.4, a.9)\nv.13: f64 = mul(u.12, b.10)\nyield v.13",
    "a sign": "u.12: f64 = mul(a.9, b.10)\nw.14: f64 = neg(u.12)\nv.13: f64 = div(w.14, d.11)\nyield v.13",
}
KEPT = {
    "in order": "u.12: f64 = mul(b.10, d.11)\nv.13: f64 = mul(a.9, u.12)\nyield v.13",
    "two factors": "v.13: f64 = mul(a.9, b.10)\nyield v.13",
    "one divisor": "v.13: f64 = div(a.9, d.11)\nyield v.13",
    "used twice": "u.12: f64 = mul(a.9, b.10)\nw.14: f64 = mul(u.12, d.11)\nv.13: f64 = add(u.12, w.14)\nyield v.13",
}


def text(body: str, monoid: str = "sum") -> Program:
    return program(SUM.replace("BODY", body).replace("MONOID", monoid))


def arguments(n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [n, rng.normal(size=(n, n)), rng.normal(size=n), rng.uniform(1.0, 2.0, n), 0.7]


@pytest.mark.parametrize("body", ORDERED.values(), ids=ORDERED)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_factors_of_fewer_axes_are_multiplied_by_themselves(body: str, n: int) -> None:
    before = text(body)
    after = through(before, factors, dce)
    assert_same(run(before, arguments(n)), run(after, arguments(n)), exact=False)
    assert same_functions(through(after, factors), after)
    (op,) = [let.op for let in walk(after.functions["f"].body) if isinstance(let.op, Comp)]
    depends = dependencies(op.body.lets, op.axes)
    products = [let for let in op.body.lets if isinstance(let.op, Prim) and let.op.name in ("mul", "div")]
    assert len(products) == 2 and sum(len(depends[let.vars[0]]) == 2 for let in products) == 1


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_what_would_be_no_fewer_operations_stays(body: str) -> None:
    before = text(body)
    assert same_functions(through(before, factors), before)


def test_only_sums_are_combined_in_another_order() -> None:
    before = text(ORDERED["a product"], "max")
    assert same_functions(through(before, factors), before)


MIXING = """
fn mixed(c: f64[n, n], x0: f64[n], t: f64[n], u: f64[n]) -> f64 {
  var x = x0
  for s < 6 { x = [sum(TERM for j) for k] }
  sum(x)
}
fn slopes(c: f64[n, n], x: f64[n], t: f64[n], u: f64[n]) -> (f64, (f64[n, n], f64[n], f64[n], f64[n])) =
  value_and_grad(mixed, wrt = (c, x0, t, u))(c, x, t, u)
fn tangent(c: f64[n, n], x: f64[n], t: f64[n], u: f64[n]) -> (f64, f64) = jvp(mixed, (c, x, t, u), (c, t, u, x))
"""


def operations(text: str, name: str, args: list[Any]) -> int:
    made = lowered(text, name)
    run = Interpreter(optimise(made.program, [made.entry.name], verify=True))
    run.run(made.entry.name, [len(args[0]), *args])
    return run.operations


@pytest.mark.parametrize("term", ["c[k, j] * x[j] / t[j]", "c[k, j] * x[j] / t[j] * u[j]", "c[k, j] * x[j] * t[j]"])
def test_derivatives_cost_what_those_of_a_product_of_arrays_do(term: str) -> None:
    args = [0.2 * np.random.default_rng(1).normal(size=(32, 32)), *np.random.default_rng(2).uniform(1.0, 2.0, (3, 32))]
    written = MIXING.replace("TERM", term)
    value = operations(written, "mixed", args)
    assert operations(written, "slopes", args) < 4 * value and operations(written, "tangent", args) < 3.2 * value
    compiled, interpreted = dlang.compile(written), dlang.compile(written, backend="interp")
    small = [args[0][:3, :3], *(a[:3] for a in args[1:])]
    for f in ("slopes", "tangent"):
        for a, b in zip(
            flat(getattr(compiled, f)(*small)), flat(meaning(getattr(interpreted, f), *small)), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def flat(value: Any) -> list[Any]:
    return [x for v in value for x in flat(v)] if isinstance(value, tuple) else [value]
