"""Gradients of programs made of an outer loop or reduction, a choice and an inner computation."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.tools.dlc import main

PRELUDE = """
fn moved(x: f64[n], i: i64, step: f64) -> f64[n] = [if j == i { x[j] + step } else { x[j] } for j < n]
fn differences(f: f64[n] -> f64, x: f64[n]) -> f64[n] =
  [(f(moved(x, i, 1e-5)) - f(moved(x, i, -1e-5))) / 2e-5 for i < n]
fn point() -> f64[5] = [0.31, 1.13, -0.82, 0.77, -0.64]
"""

OUTER = {
    "a sum": "sum(CHOICE for i < n)",
    "a maximum": "max(CHOICE for i < n)",
    "a product": "prod(1.0 + 0.3 * CHOICE for i < n)",
    "a loop": "{ var t = 0.1\n  for i < n { t = 0.7 * t + CHOICE * (1.0 + 0.1 * t) }\n  t }",
    "an array": "{ let y = [CHOICE for i < n]\n  sum(y[i] * y[(i + 1) % n] for i < n) + max(y) }",
    "updates": "{ var y = x\n  for i < n { y[i] = CHOICE + 0.5 * y[(i + 2) % n] }\n  sum(y ** 2) }",
    "a fold": "fold(|a, i| 0.5 * a + sin(a) + CHOICE, 0.3, iota(n))",
}
CHOICE = [
    "(INNER)",
    "(if i % 2 == 0 { INNER } else { x[i] * 0.5 })",
    "(if x[i] > 0.0 { x[i] ** 2 } else if i > 1 { INNER } else { sin(INNER) })",
    "(match i % 3 { 0 => x[i], 1 => INNER, _ => INNER * x[0] })",
    "(match (if x[i] > 0.0 { Some(INNER) } else { None }) { Some(v) => v * v, None => x[i] })",
]
INNER = [
    "sum(x[j] * x[i] for j < n)",
    "max(x[j] * x[i] for j in i..n)",
    "sum(x[i..] ** 2)",
    "sum(x[j] * x[i] for j < n if j != i and x[j] > -1.0)",
    "prod(x[j] + 0.1 * x[i] for j < n)",
    "cumsum(x * x[i])[n - 1 - i]",
    "sort(x * (0.2 + x[i]))[i]",
    "([x[j] * x[k] for j < n, k < n] @ x)[i]",
    "sum(if j > i { sum(x[k] * x[j] for k < j) } else { max(x[k] + x[j] * x[k] for k in j..n) } for j < n)",
    "({ var s = x[i]\n    for j < n { s = 0.5 * s + x[j] * x[j] * s }\n    s })",
    "({ let w = [x[j] * x[i] for j < 3]\n    w[i % 3] * sum(w) })",
]


@pytest.mark.parametrize("outer", OUTER)
def test_the_gradient_of_nested_code_is_that_of_central_differences(
    outer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = [PRELUDE]
    for k, inner in enumerate(INNER):
        body = OUTER[outer].replace("CHOICE", CHOICE[(k + 1) % len(CHOICE)]).replace("INNER", inner)
        text.append(f"fn f{k}(x: f64[n]) -> f64 = {body}")
        text.append(f'test "{k}" {{ assert close(grad(f{k})(point()), differences(f{k}, point()), 2e-6) }}')
    file = tmp_path / "nests.dl"
    file.write_text("\n".join(text))
    assert main(["test", "--backend", "interp", str(file)]) == 0, "".join(capsys.readouterr())
