"""Random functions whose gradients are taken where numbers are extreme: with the guards that are needed, and with all.

An expression is made of scalars, of sums over vectors, and of loops; a point has zeros, ties, and numbers whose
products overflow or whose exponentials vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from dlang import pipeline
from dlang.interpret.interpreter import Interpreter
from tests.specialize.support import lowered

ONES = ("exp({})", "log({})", "sqrt({})", "tanh({})", "sin({})", "cos({})", "erf({})", "abs({})", "-{}", "{} ** 2.0")
ONES += ("{} ** 3.0", "1.0 / (1.0 + exp(-{}))", "1.0 / {}", "atan({})", "log(1.0 + exp({}))", "expm1({})", "2.5 * {}")
TWOS = ("({} + {})", "({} - {})", "({} * {})", "({} * {})", "({} * {})", "({} / {})", "maximum({}, {})")
TWOS += ("({} * {}) ** 1.5",)
CHOICES = ("where({0} > {1}, {2}, {3})", "where({0} > 0.0, {2}, 0.0)", "(if {0} < {1} {{ {2} }} else {{ {3} }})")
NUMBERS = (0.0, 0.0, 0.0, 1.0, -1.0, 0.5, 2.0, 800.0, -800.0, 1e200, -1e200, 1e-200)


def function(random: Random) -> str:
    """The text of `f(x, y, a, u, v)`, u and v vectors."""

    def scalar(depth: int, names: Sequence[str]) -> str:
        kind = random.randrange(12) if depth else 0
        if kind == 0:
            return random.choice([*names, *names, "0.5", "1.0"])
        if kind < 4:
            return random.choice(ONES).format(scalar(depth - 1, names))
        if kind < 9:
            return random.choice(TWOS).format(scalar(depth - 1, names), scalar(depth - 1, names))
        if kind < 10:
            return random.choice(CHOICES).format(*[scalar(depth - 1, names) for _ in range(4)])
        if kind < 11 and "u[j]" not in names:
            return f"sum({scalar(depth - 1, [*names, 'u[j]', 'v[j]'])} for j < n)"
        return random.choice(TWOS).format(scalar(depth - 1, names), scalar(depth - 1, names))

    names = ["x", "y", "a"]
    lines = []
    if random.randrange(2):
        lines += [f"let z = {scalar(2, names)}"]
        names.append("z")
    if random.randrange(2):
        inner = [*names, "s", "s", "r"]
        lines += [f"var s = {random.choice([*names, '0.0', '1.0'])}", f"var r = {random.choice([*names, '0.0'])}"]
        over = random.choice(["_ < 3", "e in u", "_ < 1"])
        if over == "e in u":
            inner.append("e")
        lines += [f"for {over} {{ s = {scalar(2, inner)}; r = {random.choice(['r', scalar(2, inner)])} }}"]
        names += ["s", "s", "r"]
    if random.randrange(3) == 0:
        lines += [f"let w = [{scalar(2, [*names, 'u[j]', 'v[j]'])} for j < n]", "let t = sum(w * u)"]
        names += ["t", "t"]
    body = "; ".join([*lines, scalar(3, names)])
    return f"fn f(x: f64, y: f64, a: f64, u: f64[n], v: f64[n]) -> f64 {{ {body} }}"


GRADIENT = """
fn gradient(x: f64, y: f64, a: f64, u: f64[n], v: f64[n]) -> (f64, (f64, f64, f64, f64[n], f64[n])) =
  value_and_grad(f, wrt = (x, y, a, u, v))(x, y, a, u, v)
"""
DIRECTION = """
fn direction(x: f64, y: f64, a: f64, u: f64[n], v: f64[n]) -> (f64, f64) =
  jvp(f, (x, y, a, u, v), (%s, %s, %s, %s, %s))
"""
ASIDE = ("guards", "jacobians", "last_guards", "contractions")


def programs(text: str, name: str) -> tuple[Any, Any]:
    """What runs a function after all passes, and after all but those that leave out guards."""
    made = lowered(text, name)
    quick = pipeline.optimise(made.program, [made.entry.name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "PASSES", tuple([p for p in pipeline.PASSES if p.name not in ASIDE]))
        slow = pipeline.optimise(made.program, [made.entry.name])
    return (lambda args: Interpreter(quick).run(made.entry.name, args)), (
        lambda args: Interpreter(slow).run(made.entry.name, args)
    )


def point(random: Random) -> list[Any]:
    def number() -> float:
        return random.choice(NUMBERS)

    return [2, number(), number(), number(), np.array([number(), number()]), np.array([number(), number()])]


def differing(seed: int, points: int) -> str | None:
    """A derivative that differs from the one with all guards, where that is finite and so is the value."""
    random = Random(seed)
    text = function(random)
    seeds = [random.choice(["1.0", "0.0", "1.0"]) for _ in range(3)] + ["u", random.choice(["v", "ones(n)"])]
    for source, name in ((GRADIENT, "gradient"), (DIRECTION % tuple(seeds), "direction")):
        quick, slow = programs(text + source, name)
        for _ in range(points):
            args = point(random)
            value, *expected = slow(args)
            if not np.isfinite(value):
                continue
            _, *found = quick(args)
            for e, f in zip(expected, found, strict=True):
                with np.errstate(all="ignore"):
                    wrong = np.isfinite(e) & ~np.isclose(e, f, rtol=1e-6, atol=0.0)
                if np.any(wrong):
                    return f"{text}\n{source}\n{args}: {e}, not {f}"
    return None
