"""The derivatives of Cholesky's factor by blocks are those of the formula for the whole matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.host.lapack import BLOCK, pullback, pushforward

SIZES = [0, 1, 2, BLOCK, BLOCK + 1, 3 * BLOCK + 5]


def problem(n: int) -> tuple[Any, Any, Any]:
    """A lower factor, a cotangent of it with something above the diagonal, and a symmetric tangent."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, n))
    bar, dot = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    return np.linalg.cholesky(x @ x.T + n * np.eye(n)), bar, dot + dot.T


def phi(x: Any) -> Any:
    return np.tril(x) - 0.5 * np.diag(np.diag(x))


@pytest.mark.parametrize("n", SIZES)
def test_the_tangent_by_blocks_is_that_of_the_whole(n: int) -> None:
    l, _, dot = problem(n)
    inverse = np.linalg.inv(l)
    assert np.allclose(pushforward(l, dot), l @ phi(inverse @ dot @ inverse.T), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n", SIZES)
def test_the_cotangent_by_blocks_is_that_of_the_whole(n: int) -> None:
    l, bar, _ = problem(n)
    inverse = np.linalg.inv(l)
    whole = inverse.T @ phi(l.T @ np.tril(bar)) @ inverse
    found = pullback(l, bar)
    assert np.allclose(found, 0.5 * (whole + whole.T), rtol=1e-10, atol=1e-11) and np.array_equal(found, found.T)


def test_one_is_the_transpose_of_the_other() -> None:
    l, bar, dot = problem(100)
    assert np.sum(np.tril(bar) * pushforward(l, dot)) == pytest.approx(np.sum(pullback(l, bar) * dot), rel=1e-10)


def test_single_precision_stays() -> None:
    l, bar, dot = (x.astype(np.float32) for x in problem(80))
    assert pullback(l, bar).dtype == pushforward(l, dot).dtype == np.float32
