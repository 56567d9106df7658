"""Training in the language follows training in NumPy with gradients by hand, step for step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dlang
from tests.examples.numpy_mlp import (
    Array,
    Params,
    batches,
    initial_params,
    loss_and_gradient,
    numpy_losses,
    training_losses,
)

ROOT = Path(__file__).parents[2]
STEPS = 20
TOLERANCE = 1e-10


def test_the_gradient_by_hand_is_that_of_finite_differences() -> None:
    params = initial_params()
    [(images, labels)] = batches(1)
    _, gradient = loss_and_gradient(params, images, labels)
    random = np.random.default_rng(1)
    direction = [random.normal(size=p.shape) for p in params]
    step = 1e-6

    def along(t: float) -> float:
        w1, b1, w2, b2 = (p + t * d for p, d in zip(params, direction))
        return loss_and_gradient((w1, b1, w2, b2), images, labels)[0]

    slope = sum(float(np.sum(g * d)) for g, d in zip(gradient, direction))
    np.testing.assert_allclose(slope, (along(step) - along(-step)) / (2 * step), rtol=1e-7)


def test_twenty_steps_with_numpy_lower_the_loss() -> None:
    losses = numpy_losses(initial_params(), batches(STEPS))
    assert losses[-1] < 0.75 * losses[0]


def test_twenty_steps_with_the_gradient_of_the_digits_model_follow_numpy() -> None:
    module: Any = dlang.load(str(ROOT / "examples" / "digits" / "model.dl"))
    value_and_grad = dlang.value_and_grad(module.loss, wrt="model")
    model = module.init(seed=0)

    def gradient(params: Params, images: Array, labels: NDArray[np.int64]) -> tuple[float, Params]:
        w1, b1, w2, b2 = params
        hidden, output = replace(model.hidden, w=w1, b=b1), replace(model.output, w=w2, b=b2)
        loss, slope = value_and_grad(replace(model, hidden=hidden, output=output), images, labels)
        return float(loss), (slope.hidden.w, slope.hidden.b, slope.output.w, slope.output.b)

    params, data = initial_params(), batches(STEPS)
    np.testing.assert_allclose(
        training_losses(gradient, params, data), numpy_losses(params, data), rtol=TOLERANCE, atol=0.0
    )


def test_twenty_steps_taken_in_the_language_alone_follow_numpy() -> None:
    module: Any = dlang.load(str(ROOT / "benchmarks" / "workloads" / "digits_step.dl"))
    params, data = initial_params(), batches(STEPS)
    w1, b1, w2, b2 = params
    model = module.Mlp(w1=w1, b1=b1, w2=w2, b2=b2)
    state = module.start(model)
    losses = []
    for images, labels in data:
        loss, model, state = module.step(model, state, images, labels)
        losses.append(float(loss))
    np.testing.assert_allclose(losses, numpy_losses(params, data), rtol=TOLERANCE, atol=0.0)
