"""Arrays of indices that are computed where they are read: which, and that their meaning stays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Assert, Program
from dlang.pipeline import normalise, optimise
from tests.specialize.support import lowered, ops

X = np.array([0.5, -1.25, 2.0, 0.75, -0.5, 1.5, 0.25, -2.0, 1.0])
K = np.array([1, 0, 2, 1, 1, 3, 0, 2, 4])

# each body of `fn f(x: f64[n], k: i64[n]) -> T`, and how many comparisons of indices are left of it
GONE = {
    "windows": ("f64[n - 2]", "let at = [i + j for i < n - 2, j < 3]; sum(x[at] ** 2, axis = 1)", 0),
    "from the last": ("f64[n]", "let at = [n - 1 - i for i < n]; x[at] * x", 0),
    "the next, around": ("f64[n]", "let next = [(i + 1) % n for i < n]; x[next] - x", 0),
    "the next, if there is one": (
        "f64[n]",
        "let next = [if i + 1 < n { i + 1 } else { i } for i < n]; [x[next[i]] * x[i] for i < n]",
        0,
    ),
    "inside": ("f64[n]", "let at = [clip(i - 1, 0, n - 1) for i < n]; [x[j] for j in at]", 0),
    "of two arrays": ("f64[n]", "let back = [n - 1 - i for i < n]; let at = back[back]; x[at] * x", 0),
    "all the same": ("f64[n]", "let at = full(0, n); x[at] * x", 0),
    "a part": ("f64[?]", "let at = [i * 1 for i < n]; x[at[1..]] * x[at[..n - 1]]", 2),
    "turned": ("f64[3, n - 2]", "let at = [i + j for i < n - 2, j < 3]; x[transpose(at)]", 0),
    "a row": (
        "f64",
        "let at = [i + j for i < n - 2, j < 3]; var s = 0.0; for row in at { s += sin(sum(x[row])) }; s",
        0,
    ),
    "written to": ("f64[n]", "let at = [n - 1 - i for i < n]; var a = x; for i < n { a[at[i]] += x[i] }; a", 0),
    "at places of data": ("f64[n]", "let at = [n - 1 - i for i < n]; [x[at[j]] for j in k]", 2),
    "out of range": ("f64[n]", "let at = [i + 1 for i < n]; x[at]", 1),
}
STAY = {
    "of data": ("f64[n]", "let at = [j + 1 for j in k]; x[at]"),
    "that take longer": ("f64[n]", "let at = [(i * i * i) % 7 for i < n]; x[at]"),
    "that are counted": ("f64[n]", "let at = cumsum([1 for i < n]); [x[at[i] - 1] for i < n]"),
}
CASES = {**{case: (result, body) for case, (result, body, _) in GONE.items()}, **STAY}


@cache
def program(case: str, derivative: bool) -> tuple[Program, str, int]:
    """The program of a case, or its gradient, as it is written; its entry, and its further results."""
    result, body = CASES[case]
    text = f"fn f(x: f64[n], k: i64[n]) -> {result} {{ {body.replace('; ', chr(10))} }}\n"
    if derivative:
        weighed = "r" if result == "f64" else "sum(r * cos(r))"
        text += f"fn main(x: f64[n], k: i64[n]) -> f64[n] = grad(|x: f64[n]| {{ let r = f(x, k)\n{weighed} }})(x)"
    made = lowered(text, "main" if derivative else "f")
    return made.program, made.entry.name, len(made.entry.extra)


def value(p: Program, name: str, n: int) -> list[Any] | str:
    """The results of a program for n elements, or how the run ends."""
    try:
        return Interpreter(p).run(name, [n, X[:n], K[:n]])
    except RunError as error:
        return str(error)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("case", CASES)
def test_the_meaning_stays(case: str, n: int) -> None:
    written, name, _ = program(case, False)
    before, after = value(written, name, n), value(optimise(written, [name], verify=True), name, n)
    assert isinstance(before, str) == isinstance(after, str)
    if isinstance(before, str):
        assert before == after
        return
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("case", GONE)
def test_no_array_of_indices_is_left(case: str) -> None:
    written, name, _ = program(case, False)
    made = normalise(written, [name], verify=True)
    (f,) = made.functions.values()
    assert not any(isinstance(v.type, Array) and v.type.dtype == "i64" for let in f.body.lets for v in let.vars)
    checks = sum(isinstance(op, Assert) and op.code == "E0801" for op in ops(made))
    assert checks == GONE[case][2]


@pytest.mark.parametrize("case", STAY)
def test_what_data_say_and_what_takes_longer_stays_an_array(case: str) -> None:
    written, name, _ = program(case, False)
    (f,) = normalise(written, [name], verify=True).functions.values()
    assert any(isinstance(v.type, Array) and v.type.dtype == "i64" for let in f.body.lets for v in let.vars)


@pytest.mark.parametrize("case", [c for c in CASES if c != "out of range"])
def test_the_gradient_is_that_of_differences(case: str) -> None:
    written, name, _ = program(case, False)
    gradient, entry, extra = program(case, True)
    n = 9
    found = Interpreter(optimise(gradient, [entry], verify=True)).run(entry, [n, X, K])[extra]

    def loss(x: np.ndarray[Any, Any]) -> float:
        r = Interpreter(written).run(name, [n, x, K])[-1]
        return float(r if np.ndim(r) == 0 else np.sum(r * np.cos(r)))

    wanted = [(loss(X + h) - loss(X - h)) / 2e-6 for h in 1e-6 * np.eye(n)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
