"""A 64-128-10 network, its gradient by hand and Adam, in NumPy alone: what the compiled programs must agree with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Params = tuple[Array, Array, Array, Array]
"""Weights [64, 128] and biases [128] of the hidden layer, weights [128, 10] and biases [10] of the output."""
Batch = tuple[Array, NDArray[np.int64]]

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.npz"


def initial_params(seed: int = 0) -> Params:
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(64, 128)) * np.sqrt(2.0 / 64)
    output = random.normal(size=(128, 10)) * np.sqrt(2.0 / 138)
    return hidden, np.zeros(128), output, np.zeros(10)


def batches(count: int, size: int = 32, seed: int = 0) -> list[Batch]:
    """Images with grey values from 0 to 1, one in each row, and their digits."""
    with np.load(DIGITS) as data:
        images, labels = data["images"].reshape(-1, 64) / 16.0, data["labels"].astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(images))[: count * size]
    return [(images[rows], labels[rows]) for rows in order.reshape(count, size)]


def loss_and_gradient(params: Params, images: Array, labels: NDArray[np.int64]) -> tuple[float, Params]:
    """Softmax cross-entropy of the scores relu(images w1 + b1) w2 + b2, the mean over the rows, and its gradient.

    With p the softmax of the scores s: d loss / d s = (p - onehot(labels)) / rows, from there by the chain rule.
    """
    w1, b1, w2, b2 = params
    rows = np.arange(len(labels))
    before = images @ w1 + b1
    hidden = np.maximum(before, 0.0)
    scores = hidden @ w2 + b2
    shifted = scores - scores.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    log_softmax = shifted - np.log(total)
    loss = -log_softmax[rows, labels].mean()

    d_scores = np.exp(log_softmax)
    d_scores[rows, labels] -= 1.0
    d_scores /= len(labels)
    d_before = (d_scores @ w2.T) * (before > 0.0)
    return float(loss), (images.T @ d_before, d_before.sum(axis=0), hidden.T @ d_scores, d_scores.sum(axis=0))


class Adam:
    """Adam (Kingma and Ba 2015) on a tuple of arrays."""

    def __init__(self, lr: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self.lr, self.beta1, self.beta2, self.epsilon = lr, beta1, beta2, epsilon
        self.mean: list[Array] = []
        self.square: list[Array] = []
        self.steps = 0

    def step(self, params: Sequence[Array], gradient: Sequence[Array]) -> list[Array]:
        """The parameters after a step."""
        if self.steps == 0:
            self.mean = [np.zeros_like(p) for p in params]
            self.square = [np.zeros_like(p) for p in params]
        self.steps += 1
        self.mean = [self.beta1 * m + (1.0 - self.beta1) * g for m, g in zip(self.mean, gradient)]
        self.square = [self.beta2 * v + (1.0 - self.beta2) * g**2 for v, g in zip(self.square, gradient)]
        c1, c2 = 1.0 - self.beta1**self.steps, 1.0 - self.beta2**self.steps
        return [
            p - self.lr * (m / c1) / (np.sqrt(v / c2) + self.epsilon) for p, m, v in zip(params, self.mean, self.square)
        ]


def training_losses(
    gradient: Callable[[Params, Array, NDArray[np.int64]], tuple[float, Params]], params: Params, data: Sequence[Batch]
) -> list[float]:
    """The losses before each of the steps that Adam takes with a function that gives loss and gradient."""
    optimiser = Adam()
    losses = []
    for images, labels in data:
        loss, slope = gradient(params, images, labels)
        losses.append(loss)
        w1, b1, w2, b2 = optimiser.step(params, slope)
        params = (w1, b1, w2, b2)
    return losses


def numpy_losses(params: Params, data: Sequence[Batch]) -> list[float]:
    """The losses before each training step, all in NumPy."""
    return training_losses(loss_and_gradient, params, data)
