"""SciPy finds how a chain hangs: its energy, the gradient and products with the Hessian are the language's."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy.optimize import OptimizeResult, minimize

import dlang

model = dlang.load(Path(__file__).with_name("hanging.dl"))


def hang(
    joints: int, length: float = 3.0, span: float = 2.0, stiffness: float = 1e4
) -> tuple[np.ndarray, OptimizeResult]:
    """The joints [n, 2] of a chain of some length, of unit weight in all, between posts of the same height."""
    chain = model.Chain(
        link=length / (joints + 1),
        stiffness=stiffness,
        weight=1.0 / joints,
        left=np.array([0.0, 0.0]),
        right=np.array([span, 0.0]),
    )
    both = dlang.value_and_grad(model.energy).bind(chain=chain)
    slope = dlang.grad(model.energy).bind(chain=chain)

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = both(x.reshape(-1, 2))
        return value, gradient.ravel()

    def hessian_times(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return dlang.jvp(slope, x.reshape(-1, 2), v.reshape(-1, 2))[1].ravel()

    start = model.straight(chain, n=joints).ravel()
    found = minimize(value_and_slope, start, jac=True, hessp=hessian_times, method="trust-krylov", tol=1e-9)
    return found.x.reshape(-1, 2), found


def sag_of_a_catenary(length: float, span: float) -> float:
    """How deep a chain hangs that has no thickness and does not stretch.

    It is y = a cosh(x / a), where a is such that 2 a sinh(span / 2a) is the length.
    """
    low, high = span / 20.0, span * 100.0
    for _ in range(200):
        a = 0.5 * (low + high)
        low, high = (a, high) if 2.0 * a * math.sinh(span / (2.0 * a)) > length else (low, a)
    return a * (math.cosh(span / (2.0 * a)) - 1.0)


if __name__ == "__main__":
    for joints in (5, 11, 21):
        places, found = hang(joints)
        print(
            f"{joints:3} joints: deepest at {places[:, 1].min():.4f} after {found.nit} steps, "
            f"{found.nhev} products with the Hessian"
        )
    print(f"a chain of no thickness: {-sag_of_a_catenary(3.0, 2.0):.4f}")
