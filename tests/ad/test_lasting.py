"""Gradients of loops that change arrays in place: what they save of what is overwritten, and of what stands."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from dlang.ad.residuals import Residuals, written
from dlang.pipeline import optimise
from dlang.tools.dlc import main
from tests.specialize.support import lowered

STANDING = {
    "a decomposition": (
        "n * n",
        """for k < n, i in k + 1..n {
    m[i, k] /= m[k, k]
    for j in k + 1..n { m[i, j] -= m[i, k] * m[k, j] }
  }""",
    ),
    "a decomposition by rows": ("2 * n * n", "for k < n, i in k + 1..n { m[i] -= m[i, k] / m[k, k] * m[k] }"),
    "a root of a matrix": (
        "n * n + n",
        """for i < n {
    for j < i { m[i, j] = (x[i, j] - sum(m[i, k] * m[j, k] for k < j)) / m[j, j] }
    m[i, i] = sqrt(x[i, i] - sum(m[i, k] ** 2 for k < i))
  }""",
    ),
    "a triangular system": (
        "n * n + n",
        """for i < n {
    for j < i { m[i, 0] -= x[i, j] * m[j, 0] }
    m[i, 0] /= x[i, i]
  }""",
    ),
    "a recurrence": ("n * n", "for i in 1..n, j < n { m[i, j] = tanh(m[i, j] + m[i - 1, j] * x[i, j]) }"),
    "a recurrence from the end": (
        "n * n",
        "for i in 1..n, j < n { m[n - 1 - i, j] = tanh(m[n - 1 - i, j] + m[n - i, j] * x[i, j]) }",
    ),
    "a decomposition with exchanges of rows": (
        "3 * n * n",
        """for k < n {
    var q = k
    for i in k + 1..n { if abs(m[i, k]) > abs(m[q, k]) { q = i } }
    if q != k { (m[k], m[q]) = (m[q], m[k]) }
    for i in k + 1..n {
      let f = m[i, k] / m[k, k]
      for j in k + 1..n { m[i, j] -= f * m[k, j] }
    }
  }""",
    ),
    "a row of an array that is new in each iteration": (
        "n * n + n",
        "for t < n { m = [cos(x[i, j]) + 0.1 * m[t, j] ** 2 for i < n, j < n] }",
    ),
    "a row in a loop that ends by a condition": (
        "n * n + 9 * n",
        """var t = 0
  while t < n and m[0, 0] < 9.0 {
    m = [cos(x[i, j]) + 0.1 * m[t, j] ** 2 for i < n, j < n]
    t += 1
  }""",
    ),
    "rows and a diagonal, some of them read by two": (
        "5 * n * n + 2 * n",
        """for t < n {
    let d = sin(sum(m[i, i] ** 2 + m[n - 1 - i, 0] * m[i, 1] for i < n))
    m = [cos(x[i, j]) + 0.1 * m[0, j] ** 2 + m[i, 1] * d for i < n, j < n]
  }""",
    ),
}

OVERWRITTEN = {
    "by the next iteration": "for i in 2..n - 2 { m[i, 0] = m[i + 1, 0] * sin(m[i, 0])\n m[i + 1, 0] *= m[i, 0] }",
    "by the same iteration": "for i in 2..n, j < n { m[i, j] *= m[i - 1, j]\n m[i - 1, j] += sin(m[i, j]) }",
    "by the loop around": "for t < 3, i in 1..n, j < n { m[i, j] = sin(m[i - 1, j] * m[i, j]) }",
    "by one arm": "for i in 1..n, j < n { m[i, j] *= m[i - 1, j]\n if j % 2 == 0 { m[i - 1, j] *= m[i, j] } }",
    "by a row": "for k in 1..n, i < n { m[i, k] = sin(m[k, i] * m[i, k - 1])\n if i == k { m[i] *= m[k, 1] } }",
    "at an index that is read": "for i in 1..n, j < n { m[p[i], j] = m[i, j] * sin(m[p[i], j]) }",
    "at an index that goes round": "for i < 2 * n, j < n { m[i % n, j] = m[(i + 1) % n, j] * sin(m[i % n, j]) }",
    "at an index that wraps": "for i < n, j < n { m[4 * i * big + 1, j] = m[4 * (n - i) * big + 1, j] * sin(m[1, j]) }",
    "in the loop behind": "for i in 1..n, j < n { m[i, j] *= m[i - 1, j] }\n  for i < n, j < n { m[i, j] *= m[i, j] }",
    "in a loop that is chosen": (
        "for t < 3 { if x[t, t] > 0.0 { for i in 1..n, j < n { m[i, j] *= m[i - 1, j] } } else { m[t] *= m[1] } }"
    ),
    "in a loop that ends early": (
        "for t < n { if m[t, 0] > 0.9 { return m[t, 1] }\n for i in 1..n { m[i, t] *= m[i - 1, t] + m[t, 0] } }"
    ),
}


def function(name: str, body: str) -> str:
    return f"""
fn {name}(x: f64[n, n]) -> f64 {{
  assert n >= 5
  let p = [(3 * i + 1) % n for i < n]
  let big = 4611686018427387904
  var m = x
  {body}
  sum(sin(m[i, j]) * f64(1 + i + 2 * j) for i < n, j < n)
}}
test "{name}" {{
  let x = [if i == j {{ 4.0 }} else {{ sin(f64(3 * i + 5 * j)) }} for i < 7, j < 7]
  let along = [cos(f64(2 * i + 7 * j)) for i < 7, j < 7]
  assert close(sum(grad({name})(x) * along), jvp({name}, x, along).1, 1e-9)
}}
"""


def passes(bodies: list[str], folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> None:
    file = folder / "loops.dl"
    file.write_text("".join(function(f"f{k}", body) for k, body in enumerate(bodies)))
    assert main(["test", *options, str(file)]) == 0, "".join(capsys.readouterr())


@cache
def saved(body: str) -> Residuals:
    """The bytes that the gradient of a loop saves."""
    text = f"fn f(x: f64[n, n]) -> f64 {{\n  var m = x\n  {body}\n  sum(m[i, i] for i < n)\n}}\n"
    made = lowered(text + "fn g(x: f64[n, n]) -> f64[n, n] = grad(f)(x)", "g")
    found: list[Residuals] = []
    optimise(made.program, [made.entry.name], verify=True, residuals=found)
    (one,) = found
    return one


@pytest.mark.parametrize("name", STANDING)
def test_what_stands_when_the_loops_have_ended_is_saved_once(name: str) -> None:
    expected, body = STANDING[name]
    residuals = saved(body)
    size = 1000
    total = residuals.once.evaluate(lambda v: size)
    for loop in residuals.loops:
        iterations = size if loop.iterations is None else loop.iterations.evaluate(lambda v: size)
        total += loop.bytes.evaluate(lambda v: size) * iterations
    assert total <= 8 * eval(expected, {"n": size}), written(residuals)


def test_gradients_of_loops_in_place_are_those_of_forward_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passes(
        [body for _, body in STANDING.values()] + list(OVERWRITTEN.values()), tmp_path, capsys, "--backend", "interp"
    )


# ---- loops at random -------------------------------------------------------------------------------------------------
class Loops:
    """Writes loops in place whose indices overlap."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def entry(self, names: list[str]) -> str:
        v = self.random.choice(names)
        near = f"{v} {self.random.choice(['- 2', '- 1', '', '+ 1', '+ 2'])}"
        return self.random.choice([near, near, near, f"n - 1 - {v}", f"(2 * {v} + 1) % n", f"p[{v}]", f"{v} // 2", "2"])

    def element(self, names: list[str]) -> str:
        return f"m[{self.entry(names)}, {self.entry(names)}]"

    def value(self, names: list[str]) -> str:
        a, b = self.element(names), self.element(names)
        self.names += 1
        total = f"sum(sin({self.element([*names, f'q{self.names}'])}) * 0.2 for q{self.names} in 2..{names[-1]})"
        return self.random.choice([f"sin({a}) * {b}", f"0.5 * {a} + 0.3 * {b} * {a}", f"{a} / (2.0 + {b} ** 2)", total])

    def statement(self, names: list[str], depth: int) -> str:
        kind = self.random.random()
        if not names or (kind < 0.4 and depth < 3):
            self.names += 1
            low = self.random.choice(["2", *names, *[f"{v} + 1" for v in names]])
            index = f"i{self.names}"
            body = " ".join(self.block([*names, index], depth + 1))
            return f"for {index} in {low}..n - 2 {{ {body} }}\n"
        if kind < 0.5:
            condition = self.random.choice([f"{names[0]} % 2 == 0", f"{self.element(names)} > 0.1"])
            return f"if {condition} {{ {self.statement(names, depth + 1)} }}\n"
        if kind < 0.6:
            return f"m[{self.entry(names)}] *= cos(m[{self.entry(names)}]) * {self.element(names)}\n"
        return f"{self.element(names)} {self.random.choice(['=', '+= 0.3 *', '-= 0.3 *'])} {self.value(names)}\n"

    def block(self, names: list[str], depth: int) -> list[str]:
        return [self.statement(names, depth) for _ in range(self.random.choice([1, 1, 2]))]


def test_gradients_of_loops_at_random_are_those_of_forward_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loops = Loops(11)
    passes(["  ".join(loops.block([], 0)) for _ in range(5)], tmp_path, capsys, "--backend", "interp")
