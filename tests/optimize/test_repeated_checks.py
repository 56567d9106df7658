"""A check of what was checked before is left out where its accesses are in range without it."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Assert, Comp, Contract, For, If
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

CONVOLUTIONS = {
    "slices in a loop": """
fn f(x: f64[n], w: f64[k]) -> f64 {
  var y = zeros(n - k + 1)
  for j < k { y += w[j] * x[j..j + (n - k + 1)] }
  sum(y ** 2)
}
""",
    "windows": """
fn f(x: f64[n], w: f64[k]) -> f64 {
  let windows = [x[i..i + k] for i < n - k + 1]
  sum((windows @ w) ** 2)
}
""",
    "sums": """
fn f(x: f64[n], w: f64[k]) -> f64 {
  let y = [sum(w[j] * x[i + j] for j) for i < n - k + 1]
  sum(y ** 2)
}
""",
}


@pytest.mark.parametrize("text", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_are_one_product_however_they_are_written(text: str) -> None:
    made = lowered(text, "f")
    body = optimise(made.program, [made.entry.name]).functions[made.entry.name].body
    ops = [let.op for let in walk(body)]
    assert sum(isinstance(op, Contract) for op in ops) == 1 and not any(isinstance(op, For | If) for op in ops)
    assert not any(op.guarded for op in ops if isinstance(op, Assert))
    assert all(not d.shape for op in ops if isinstance(op, Comp) for d in op.destinations)
    random = np.random.default_rng(0)
    for n, k in ((5, 5), (9, 2), (3, 1)):
        same_in_the_end(text, "f", [n, k, random.normal(size=n), random.normal(size=k)])


@pytest.mark.parametrize("text", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_what_was_refused_is_refused(text: str) -> None:
    with pytest.raises(dlang.DlangError, match="negative"):
        dlang.compile(text).f(np.ones(2), np.ones(5))


PLACES = """
fn f(x: f64[n], at: i64[m], k: i64) -> f64 {
  assert k < n
  var s = 0.0
  for i < m {
    assert at[i] < n
    s += x[at[i]] + x[k]
  }
  s
}
"""


@pytest.mark.parametrize(("at", "k"), [([-1, 0], 0), ([0, 1], -1), ([0, 2], 0), ([0, 1], 3)])
def test_numbers_from_data_are_checked(at: list[int], k: int) -> None:
    f = dlang.compile(PLACES).f
    assert f(np.array([1.0, 2.0]), np.array([0, 1]), 0) == 5.0
    with pytest.raises(dlang.DlangError):
        f(np.array([1.0, 2.0]), np.array(at), k)


def certificates(text: str) -> int:
    made = lowered(text, "f")
    body = optimise(made.program, [made.entry.name]).functions[made.entry.name].body
    return sum(len(let.op.guarded) for let in walk(body) if isinstance(let.op, Assert))


@pytest.mark.parametrize(
    ("value", "needed"),
    [
        ("sum(x[1..] * x[..n - 1])", 0),
        ("sum(x[2..n - 2])", 0),
        ("sum(x[..1])", 1),
        ("sum(x[n - 1..])", 1),
        ("x[0] + sum(x[1..])", 1),
        ("sum(x[k..])", 1),
        ("sum({ let z = x[1..]; z[k] * v } for v in x)", 1),
    ],
)
def test_a_number_is_certified_where_an_access_needs_it(value: str, needed: int) -> None:
    text = f"fn f(x: f64[n], k: i64) -> f64 = {value}\n"
    assert certificates(text) == needed
    f, g = (dlang.compile(text, backend=backend).f for backend in ("cpu", "interp"))
    for n, k in ((0, 0), (1, 0), (1, 1), (2, -1), (5, 3), (5, 5), (5, 9)):
        x = np.arange(n) + 1.0
        try:
            expected = meaning(g, x, k)
        except dlang.DlangError as refusal:
            with pytest.raises(dlang.DlangError) as refused:
                f(x, k)
            assert refused.value.diagnostics[0].code == refusal.diagnostics[0].code
        else:
            assert f(x, k) == expected
