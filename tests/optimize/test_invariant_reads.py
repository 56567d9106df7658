"""Elements of its state that a loop never changes are read before it: rows and pivots of factorisations by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Comp, For, Program, Read
from dlang.ir.traverse import walk
from dlang.pipeline import normalise
from tests.ad.four_ways import four_ways
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

# each body of `fn f(z: f64[n, n], x: f64[n]) -> f64[n, n]`, from a = z + 4 I
INVARIANT = {
    "elimination": (
        "for k < n { for i in k + 1..n { let m = a[i, k] / a[k, k]; for j in k..n { a[i, j] -= m * a[k, j] } } }"
    ),
    "elimination of whole rows": "for k < n { for i in k + 1..n { a[i] -= a[i, k] / a[k, k] * a[k] } }",
    "columns of a factorisation": (
        "for j < n { for i in j + 1..n { a[i, j] /= a[j, j] }\n"
        "for c in j + 1..n { for i in j + 1..n { a[i, c] -= a[i, j] * a[j, c] } } }"
    ),
    "the first row": "for i in 1..n { for j < n { a[i, j] = a[i, j] * a[0, j] - x[i] * a[0, 0] } }",
    "a number": "for i in 1..n { a[i, 0] -= a[0, 0] * x[i] }",
    "rows above": "for k in 1..n { for i < k { for j < n { a[i, j] += x[i] * a[k, j] } } }",
}
CHANGED = {
    "a row that changes, too": "for k < n { for i in k..n { for j < n { a[i, j] -= x[i] * a[k, j] } } }",
    "one further on": "for i < n - 1 { for j < n { a[i, j] = a[i + 1, j] * x[j] } }",
    "one that may be missing": "for i in 3..n { for j < n { a[i, j] += a[2, j] } }",
    "columns that may be fewer than none": (
        "for k < n { for i in k + 1..n { for j in 3..n { a[i, j] -= x[i] * a[k, j] } } }"
    ),
    "shortest ways": "for k < n { for i < n, j < n { a[i, j] = minimum(a[i, j], a[i, k] + a[k, j]) } }",
}


def text(body: str) -> str:
    return (
        "fn f(z: f64[n, n], x: f64[n]) -> f64[n, n] {\n"
        f"var a = [z[i, j] + (if i == j {{ 4.0 }} else {{ 0.0 }}) for i < n, j < n]\n{body}\na }}"
    )


def normal(body: str) -> Program:
    made = lowered(text(body), "f")
    return normalise(made.program, [made.entry.name], verify=True)


@pytest.mark.parametrize("name", [*INVARIANT, *CHANGED])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_values_stay(name: str, n: int) -> None:
    if name in ("the first row", "one that may be missing") and n == 0:
        return
    rng = np.random.default_rng(n)
    same_in_the_end(text({**INVARIANT, **CHANGED}[name]), "f", [n, rng.normal(size=(n, n)), rng.normal(size=n)])


@pytest.mark.parametrize("name", INVARIANT)
def test_a_comprehension_reads_only_what_it_changes_of_an_array_that_it_changes(name: str) -> None:
    lets = [let for f in normal(INVARIANT[name]).functions.values() for let in walk(f.body)]
    comps = [
        let.op for let in lets if isinstance(let.op, Comp) and any(d.into is not None for d in let.op.destinations)
    ]
    assert comps or name == "a number"
    for op in comps:
        places = {d.into: d.index for d in op.destinations}
        reads = [inner.op for inner in walk(op.body) if isinstance(inner.op, Read) and inner.op.array in places]
        assert all(r.index == places[r.array] for r in reads)
    states = [p for let in lets if isinstance(let.op, For) for p in let.op.params]
    assert len(states) <= (2 if name == "elimination" else 1)


@pytest.mark.parametrize("name", ["elimination", "columns of a factorisation", "rows above", "one further on"])
def test_derivatives(name: str) -> None:
    body = {**INVARIANT, **CHANGED}[name]
    rng = np.random.default_rng(3)
    loss = text(body).replace("-> f64[n, n]", "-> f64").replace("\na }", "\nsum(sin(a)) }")
    four_ways(loss, [4, rng.normal(size=(4, 4)), rng.normal(size=4)])
