"""Ranges of binders that depend on those before them: an array of the elements would be ragged."""

from __future__ import annotations

import pytest

from tests.typecheck.support import accepted, refused


@pytest.mark.parametrize(
    "value",
    [
        "[i + j for i < 3, j < i]",
        "mean(1.0 for i < 3, j < i)",
        "sum([[i + j for i < 3, j < i]])",
        "[j for i < 3, j in i..3]",
        "[v for i < 3, v in [1, 2, 3][..i]]",
        "argmax(j for i < 3, j < i)",
    ],
)
def test_an_array_that_would_be_ragged_is_refused(value):
    assert refused(f"fn f() = {value}").code == "E0406"


@pytest.mark.parametrize(
    "value",
    [
        "sum(i + j for i < 3, j < i)",
        "max(j for i < 3, j in i..3)",
        "[j for i < 3, j in i..i + 2]",
        "[v for row in [[1, 2], [3, 4]], v in row]",
        "all(i > j for i < 3, j < i if j > 0)",
        "max(j for i < 3, j < i if j > 0)",
        "[i + j for i < 3, j < i if j > 0]",
        "mean(1.0 for i < 3, j < i if j > 0)",
        "[v for i < 3, v in [1, 2, 3][..i] if v > i]",
    ],
)
def test_a_reduction_or_a_range_of_one_length_is_accepted(value):
    accepted(f"fn f() = {value}")


def test_a_size_that_is_a_fraction_is_refused():
    assert refused("fn f(x: f64[3 / 2]) -> f64 = sum(x)").code == "E0417"


def test_a_size_that_was_divided_is_one_for_a_parameter():
    accepted("fn f(x: f64[n / 2], y: f64[n / 2]) -> f64[n] = concat(x, y)")
    assert refused("fn g(x: f64[2 * n]) -> i64 = n\nfn f(x: f64[n / 2]) -> i64 = g(x)").code == "E0404"
