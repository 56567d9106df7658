"""Arrays of `Idx<n>`: whoever is given one has no element of it checked again, and whoever is not, has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir.anf import Assert
from dlang.pipeline import optimise
from tests.specialize.support import lowered, ops


@pytest.mark.parametrize(
    ("body", "checks"),
    [
        ("[x[i] for i in s]", 0),
        ("[x[s[k]] for k < m]", 0),
        ("[x[k] for k in reshape(s, m, 1)[.., 0]]", 0),
        ("{ var y = x\n for i in s { y[i] += 1.0 }\n y }", 0),
        ("{ var y = x\n for k < m { y[s[k]] = y[s[m - 1 - k]] + 1.0 }\n y }", 0),
        ("[x[i + 1] for i in s]", 1),
        ("[x[i] for i in [2 * j for j in s]]", 1),
        ("{ var t = s\n for k < m { t[k] = t[k] + 1 }\n [x[i] for i in t] }", 1),
        ("[t[i] for i in s]", 1),
    ],
)
def test_an_element_of_a_parameter_is_in_range_by_its_type(body: str, checks: int) -> None:
    made = lowered(f"fn f(s: Idx<n>[m], x: f64[n], t: f64[m]) -> f64[?] = {body}")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert sum(isinstance(op, Assert) and op.code == "E0801" for op in ops(program)) == checks


def test_indices_of_a_caller_are_checked_and_used(tmp_path: Path) -> None:
    """From Python before the call; in the language where they are made."""
    file = tmp_path / "pick.dl"
    file.write_text(
        "fn pick(s: Idx<n>[m], x: f64[n]) -> f64 = sum(x[i] ** 2 for i in s)\n"
        "fn far(k: i64[m], x: f64[n]) -> f64 = pick([i as Idx<n> for i in k], x)\n"
        "fn slope(s: Idx<n>[m], x: f64[n]) -> f64[n] = grad(pick, wrt = x)(s, x)\n"
    )
    module, x = dlang.load(str(file)), np.array([1.0, 2.0, 3.0])
    for k in ([], [0], [2, 1, 2, 0]):
        s = np.array(k, dtype=np.int64)
        assert module.pick(s, x) == module.far(s, x) == np.sum(x[s] ** 2)
        np.testing.assert_array_equal(module.slope(s, x), 2.0 * x * np.bincount(s, minlength=3))
    for wrong in (3, -1, 2**63 - 1, -(2**63)):
        for function, said in ((module.pick, "the index"), (module.far, "out of range"), (module.slope, "the index")):
            with pytest.raises(dlang.DlangError, match=said):
                function(np.array([0, wrong]), x)
    with pytest.raises(dlang.DlangError, match="the index"):
        module.pick(np.array([0]), np.zeros(0))


# behind code for each place of an axis; each reads where nothing is if there is no such place
BEHIND_AXES = {
    "an array that grows": "{ var a: f64[?] = x; for i < n { a = concat([1.0], a) }; x[n - 1] }",
    "an array that grows in two loops": (
        "{ var a: f64[?] = x; for i < n { for j < len(a) { a = concat(a, x) } }; x[n - 1] }"
    ),
    "an arm behind such a loop": (
        "{ var a: f64[?] = x; for i < n { a = concat([1.0], a) }; if b { x[n - 1] } else { 0.0 } }"
    ),
    "an arm behind zeros": "{ var a = [x]; a[0, ..] = zeros(n); if b { x[n - 1] } else { a[0, 0] } }",
    "an arm in an index behind zeros": (
        "{ var a = [[v] for v in x]; a[.., if b { i64(x[n - 1]) } else { 0 }] = zeros(n); sum(a) }"
    ),
    "an extreme": "max(v for v in x)",
    "an extreme of arrays": "max([v, v] for v in x)",
    "an extreme of columns": "max([v for i < n] for v in x)",
}


@pytest.mark.parametrize("name", BEHIND_AXES)
@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_that_an_axis_has_a_place_is_known_at_its_places_alone(name: str, backend: str) -> None:
    f = dlang.compile(f"fn f(x: f64[n], b: bool) -> f64 = {BEHIND_AXES[name]}", backend=backend).f
    assert np.isfinite(f(np.array([0.0, 0.0]), True))
    with pytest.raises(DlangError, match=r"out of range|of nothing"):
        f(np.zeros(0), True)
