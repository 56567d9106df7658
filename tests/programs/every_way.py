"""Derivatives of a program to second order, computed in every way there is."""

from collections.abc import Callable
from functools import partial
from io import StringIO
from typing import Any

import numpy as np

from dlang.diagnostics import Source
from dlang.driver import check, errors_of, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.interpret.derivatives import Differentiable
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program
from dlang.runtime.engine import Engine

Results = list[Any]

# Of a function f of an array that gives one float: its gradient and its derivative along w, and the derivatives of
# w · gradient and of the derivative along w, in both modes.
DERIVATIVES = """
fn weight_(i: i64) -> f64 = cos(1.7 * f64(i) + 0.4)
fn gradient_along_(x: f64[n]) -> f64 { let g = grad(f)(x); sum(g[i] * weight_(i) for i) }
fn along_(x: f64[n]) -> f64 = jvp(f, x, [weight_(i) for i < n]).1
fn derivatives_(x: f64[n]) -> (f64, f64[n], f64, f64[n], f64[n], f64, f64) {
  let w = [weight_(i) for i < n]
  let (value, slope) = value_and_grad(f)(x)
  let second = (jvp(gradient_along_, x, w).1, jvp(along_, x, w).1)
  (value, slope, along_(x), grad(gradient_along_)(x), grad(along_)(x), second.0, second.1)
}
"""


def agree(text: str, x: list[float], rtol: float = 1e-5) -> str:
    """Compares compiled code, the interpreter, the reference and central differences; gives what the run printed."""
    point = np.array(x)
    compiled, interpreted, reference, printed = _evaluators(text + DERIVATIVES)
    _, slope, along, *second = found = compiled(point)
    output = printed()
    w = np.cos(1.7 * np.arange(len(x)) + 0.4)
    close = partial(np.testing.assert_allclose, rtol=rtol, atol=rtol * max(1.0, np.abs(slope).max()))
    close(slope, differences(lambda y: compiled(y)[0], point), err_msg="the gradient")
    np.testing.assert_allclose(along, slope @ w, rtol=1e-9, atol=1e-9)
    bend = differences(lambda y: compiled(y)[1] @ w, point)
    close = partial(np.testing.assert_allclose, rtol=10 * rtol, atol=10 * rtol * max(1.0, np.abs(bend).max()))
    for name, wanted, got in zip(ORDERS, (bend, bend, bend @ w, bend @ w), second, strict=True):
        close(got, wanted, err_msg=name)
    for evaluate in (interpreted, reference):
        for got, wanted in zip(evaluate(point), found, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(wanted).max()))
    return output


ORDERS = ("reverse over reverse", "reverse over forward", "forward over reverse", "forward over forward")


def differences(f: Callable[[Any], float], x: Any, step: float = 1e-5) -> Any:
    """Central differences of fourth order."""
    out = np.zeros_like(x)
    for i in range(len(x)):
        e = np.zeros_like(x)
        e[i] = step
        out[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step)
    return out


def _evaluators(
    text: str,
) -> tuple[Callable[[Any], Results], Callable[[Any], Results], Callable[[Any], Results], Callable[[], str]]:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked), [d.message for d in checked.diagnostics]
    (decl,) = [d for d in checked.module.functions.values() if d.name == "derivatives_"]
    kept: list[Program] = []

    def extend(program: Program, entries: Any) -> tuple[Program, list[str]]:
        kept.append(program)
        return program, []

    program, (entry,) = lower([request(decl)], verify=True, extend=extend)
    out = StringIO()
    engine = Engine(Host(out), level=0).compile(program, [entry.name])

    def run(runner: Any) -> Callable[[Any], Results]:
        return lambda x: list(runner.run(entry.name, [len(x), x.copy()]))[-7:]

    silent = Host(StringIO())
    return (
        run(engine),
        run(Interpreter(program, silent)),
        run(Interpreter(kept[0], silent, Differentiable())),
        out.getvalue,
    )
