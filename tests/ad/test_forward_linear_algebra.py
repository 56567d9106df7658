"""Tangents of linear algebra: against central differences and reverse mode, element by element."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir.verify import verify
from dlang.pipeline import optimise
from tests.ad.recursive import along, run, source
from tests.ad.support import close
from tests.ad.test_forward_recursion import pushed
from tests.ad.test_linear_algebra import ANY, CASES, HEAD, MATRIX, SIZES, SQUARE

TWICE = [
    *((name, "square") for name in ("cholesky", "determinant", "solution, in both", "lu", "eigenvectors")),
    *((name, shape) for name in ("qr", "singular vectors") for shape in SIZES),
]


def direction(shape: tuple[int, int], seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_the_tangent_is_that_of_central_differences_and_of_reverse_mode(name: str, shape: str) -> None:
    program, entry = source(HEAD + (SQUARE | ANY)[name])
    *sizes, _ = program.functions[entry].params
    at = [len(sizes)]
    both = along(pushed(program, entry, at, "forward"), entry, at, "reverse")
    both = optimise(both, ["forward", "reverse", entry], verify=True)
    rows, columns = SIZES[shape]
    point = MATRIX[:rows, :columns]
    sides = [rows, columns][: len(sizes)]
    u = direction((rows, columns))
    got = run(both, "forward", [*sides, point, u])
    close(got, run(both, "reverse", [*sides, point, u]), 1e-9, 1e-10)
    step = 1e-4
    ends = [run(both, entry, [*sides, point + k * step * u]) for k in (-2, -1, 1, 2)]
    close(got, (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step), 1e-7, 1e-8)


@pytest.mark.parametrize("modes", ["ff", "fr", "rf"])
@pytest.mark.parametrize(("name", "shape"), TWICE)
def test_a_tangent_differentiates_again_in_both_modes(name: str, shape: str, modes: str) -> None:
    program, entry = source(HEAD + (SQUARE | ANY)[name])
    *sizes, _ = program.functions[entry].params
    at = [len(sizes)]
    rows, columns = SIZES[shape]
    sides = [rows, columns][: len(sizes)]
    point, u, v = MATRIX[:rows, :columns], direction((rows, columns)), direction((rows, columns), 5)
    names = [entry]
    for k, mode in enumerate(modes):
        program = (pushed if mode == "f" else along)(program, names[-1], at, f"along{k}")
        names.append(f"along{k}")
    program = optimise(program, names, verify=True)
    verify(program)
    step = 1e-4
    ends = [run(program, names[1], [*sides, point + k * step * v, u]) for k in (-2, -1, 1, 2)]
    wanted = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
    close(run(program, names[2], [*sides, point, u, v]), wanted, 1e-6, 1e-6)


def test_the_halves_of_factors_may_be_empty_and_unlike() -> None:
    module = dlang.compile(HEAD + SQUARE["lu"])
    for n in (0, 1, 2, 5, 33):
        point, u = direction((n, n)), direction((n, n), 5)
        slope = dlang.grad(module.f)(point)
        close(dlang.jvp(module.f, (point,), (u,))[1], np.sum(slope * u), 1e-9, 1e-9)
