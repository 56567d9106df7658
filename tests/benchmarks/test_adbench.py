"""The programs of ADBench give its objectives, their derivatives, and these for a small multiple of the operations."""

from __future__ import annotations

from math import lgamma, log, pi
from typing import Any

import numpy as np
import pytest

import dlang
from benchmarks.adbench.__main__ import main
from benchmarks.adbench.problems import BA, GMM, LSTM, PROBLEMS, Problem, worst
from benchmarks.costs.counting import operations

SIZES = {"gmm": (3, 4, 20), "ba": (3, 7, 21), "lstm": (2, 6, 5)}
modules: dict[str, Any] = {}


def module_of(problem: Problem) -> Any:
    if problem.name not in modules:
        modules[problem.name] = dlang.load(problem.path)
    return modules[problem.name]


def logsumexp(x: Any, axis: int = -1) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis))


# ---- the objectives, written down once more --------------------------------------------------------------------------
def gmm(alphas: Any, means: Any, icf: Any, x: Any, prior: Any) -> Any:
    (n, d), k = x.shape, len(alphas)
    q = np.zeros((k, d, d))
    for c in range(k):
        q[c].T[np.triu_indices(d, 1)] = icf[c, d:]  # column by column below the diagonal
    below = np.sum(q**2)
    q[:, range(d), range(d)] = np.exp(icf[:, :d])
    sums = icf[:, :d].sum(axis=1)
    turned = np.einsum("cij,pcj->pci", q, x[:, None, :] - means)
    scores = alphas + sums - 0.5 * np.sum(turned**2, axis=2)
    nu = d + prior.m + 1
    multivariate = 0.25 * d * (d - 1) * log(pi) + sum(lgamma(0.5 * (nu - j)) for j in range(d))
    constant = nu * d * (log(prior.gamma) - 0.5 * log(2)) - multivariate
    wishart = 0.5 * prior.gamma**2 * (np.sum(np.exp(2 * icf[:, :d])) + below) - prior.m * sums.sum() - k * constant
    return -0.5 * n * d * log(2 * pi) + logsumexp(scores).sum() - n * logsumexp(alphas) + wishart


def ba(scene: Any, seen: Any) -> Any:
    errors = []
    for i in range(len(scene.weights)):
        r, centre, f, origin, k = np.split(scene.cameras[seen.cameras[i]], [3, 6, 7, 9])
        x = scene.points[seen.points[i]] - centre
        angle = np.linalg.norm(r)
        a = r / angle
        x = np.cos(angle) * x + np.sin(angle) * np.cross(a, x) + (1 - np.cos(angle)) * (a @ x) * a
        p = x[:2] / x[2]
        s = p @ p
        errors.append(scene.weights[i] * (f * (1 + k[0] * s + k[1] * s**2) * p + origin - [seen.u[i], seen.v[i]]))
    return np.concatenate([np.ravel(errors), 1 - scene.weights**2])


def lstm(network: Any, start: Any, sequence: Any) -> Any:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    c, b = sequence.shape
    state, total = start.copy(), 0.0
    for t in range(c - 1):
        x = sequence[t] * network.input
        for k, (w, bias) in enumerate(network.gates):
            h, cell = state[k]
            forget, take = sigmoid(x * w[0] + bias[0]), sigmoid(h * w[1] + bias[1])
            give, change = sigmoid(x * w[2] + bias[2]), np.tanh(h * w[3] + bias[3])
            cell = cell * forget + take * change
            state[k] = give * np.tanh(cell), cell
            x = state[k, 0]
        y = x * network.output + network.bias
        total += sequence[t + 1] @ (y - np.log(2 + np.exp(y).sum()))
    return -total / (b * (c - 1))


REFERENCES = {"gmm": gmm, "ba": ba, "lstm": lstm}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_an_objective_is_that_of_the_benchmark(problem: Problem) -> None:
    module = module_of(problem)
    args = problem.made(module, *SIZES[problem.name])
    expected = np.ravel(REFERENCES[problem.name](*args))
    assert worst(problem.value(module.objective(*args)), expected) < 1e-8


# ---- derivatives -----------------------------------------------------------------------------------------------------
def central(f: Any, x: Any, step: float = 1e-5) -> Any:
    """The derivatives of `f` by the elements of `x`, to the fourth order of the step; `f` sees changed copies."""

    def at(i: int, h: float) -> Any:
        moved = x.copy()
        moved.flat[i] += h
        return np.asarray(f(moved))

    return np.stack(
        [(8 * (at(i, step) - at(i, -step)) - (at(i, 2 * step) - at(i, -2 * step))) / (12 * step) for i in range(x.size)]
    )


def test_the_gradient_of_gmm_is_that_of_differences() -> None:
    module = module_of(GMM)
    args = GMM.made(module, *SIZES["gmm"])
    expected = [central(lambda v, i=i: module.objective(*args[:i], v, *args[i + 1 :]), args[i]) for i in range(3)]
    assert worst(GMM.derivative(module.gradient(*args)), np.concatenate(expected)) < 1e-8


@pytest.mark.parametrize("turned", [True, False], ids=["a camera that is turned", "one that is not"])
def test_the_jacobian_of_ba_is_that_of_differences(turned: bool) -> None:
    module = module_of(BA)
    scene, seen = BA.made(module, 1, 1, 1)
    scene.cameras[0] = [*([0.3, -0.2, 0.5] if turned else [0.0, 0.0, 0.0]), 0.1, 0.2, 5.0, 2.0, 0.5, 0.4, 0.1, 0.02]

    def errors(v: Any) -> Any:
        moved = module.Scene(cameras=v[None, :11], points=v[None, 11:14], weights=v[14:])
        return np.ravel(module.objective(moved, seen)[0])

    at = np.concatenate([scene.cameras[0], scene.points[0], scene.weights])
    found = BA.derivative(module.jacobian_rows(scene, seen))
    assert worst(found[:30].reshape(2, 15), central(errors, at, 1e-3).T) < 1e-8
    assert found[30] == -2 * scene.weights[0]


def test_the_gradient_of_lstm_is_that_of_differences() -> None:
    module = module_of(LSTM)
    network, *others = LSTM.made(module, *SIZES["lstm"])
    parts = [network.gates, network.input, network.output, network.bias]
    expected = [
        central(
            lambda v, i=i: module.objective(module.Network(*parts[:i], v, *parts[i + 1 :]), *others), parts[i], 1e-4
        )
        for i in range(4)
    ]
    assert worst(LSTM.derivative(module.gradient(network, *others)), np.concatenate(expected)) < 1e-8


# ---- costs -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "problem, small, large, bound",
    [
        (GMM, (10, 5, 40), (10, 5, 160), 3.0),
        (BA, (3, 7, 21), (5, 20, 84), 5.0),
        (LSTM, (2, 6, 5), (2, 24, 10), 4.0),
    ],
    ids=["gmm", "ba", "lstm"],
)
def test_a_derivative_costs_a_small_multiple_of_its_objective(
    problem: Problem, small: Any, large: Any, bound: float
) -> None:
    module = dlang.load(problem.path, backend="interp")
    ratios = []
    for sizes in (small, large):
        args = problem.made(module, *sizes)
        objective, derivative = (operations(module, name, args) for name in ("objective", problem.derivative_name))
        ratios.append(derivative / objective)
    assert max(ratios) <= bound and ratios[1] <= 1.1 * ratios[0]


# ---- the command -----------------------------------------------------------------------------------------------------
def test_the_command_prints_times_and_errors(tmp_path: Any, capsys: Any) -> None:
    words = "2 4 3", *["0.1"] * (2 * 2 * 4 * 3 + 9 + 12), *["1"] * 12
    (tmp_path / "lstm_l2_c1024.txt").write_text("\n".join(words))
    module = module_of(LSTM)
    args = LSTM.read(module, tmp_path / "lstm_l2_c1024.txt")
    exact = {"F": lstm(*args), "J": LSTM.derivative(module.gradient(*args))}
    for wrong in (0.0, 1e-6):
        references = {f"lstm_l2_c1024.{k}": np.ravel(v) + wrong for k, v in exact.items()}
        np.savez(tmp_path / "reference.npz", **references)
        assert main(["--data", str(tmp_path), "--only", "lstm_l2", "--seconds", "0"]) == int(wrong > 0)
        line = capsys.readouterr().out.splitlines()[-1]
        assert line.startswith("lstm_l2_c1024") and line.count(" ms") == 2
