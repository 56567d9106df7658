"""Derivatives of linear algebra keep the law of cost, in second order too, each counted alone."""

from __future__ import annotations

import pytest

from dlang.diagnostics import Source
from dlang.driver import check, errors_of
from dlang.tools.law import prepared, scans

HEAD = "import linalg\nfn positive(a: f64[n, n]) -> f64[n, n] = a + f64(n) * linalg.identity(n)\n"
FUNCTIONS = {
    "det": "(a: f64[n, n]) -> f64 = linalg.det(a)",
    "logdet": "(a: f64[n, n]) -> f64 = linalg.logdet(a)",
    "inverse": "(a: f64[n, n]) -> f64[n, n] = linalg.inverse(a)",
    "solve": "(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = linalg.solve(a, b)",
    "solve with a vector": "(a: f64[n, n], b: f64[n]) -> f64[n] = linalg.solve(a, b)",
    "lu": "(a: f64[n, n]) -> (i64[n], f64[n, n], f64[n, n]) = linalg.lu(a)",
    "qr": "(a: f64[n, n]) -> (f64[n, n], f64[n, n]) = linalg.qr(a) as (f64[n, n], f64[n, n])",
    "eigh": "(a: f64[n, n]) -> (f64[n], f64[n, n]) = linalg.eigh(a)",
    "svd": "(a: f64[n, n]) -> f64[n, n] { let (u, s, vt) = linalg.svd(a) ; (u as f64[n, n]) + (vt as f64[n, n]) }",
    "cholesky": "(a: f64[n, n]) -> f64[n, n] = linalg.cholesky(positive(a))",
    "cholesky_solve": "(a: f64[n, n], b: f64[n]) -> f64[n] = linalg.cholesky_solve(linalg.cholesky(positive(a)), b)",
    "triangular_solve": "(a: f64[n, n], b: f64[n, n]) -> f64[n, n] = linalg.triangular_solve(a, b)",
    "triangular_solve with a vector": (
        "(a: f64[n, n], b: f64[n]) -> f64[n] = linalg.triangular_solve(a, b, unit = true)"
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_keep_the_law_of_cost(name: str) -> None:
    checked = check(Source("f.dl", HEAD + "fn f" + FUNCTIONS[name]))
    assert not errors_of(checked), errors_of(checked)[0].message
    found = scans(prepared(checked.module.functions["f"]), {}, limit=20_000)
    assert not [str(breach) for scan in found for breach in scan.breaches]
