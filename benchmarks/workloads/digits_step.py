"""Training steps of a small network, the loss fetched after each: half of it is what a call from Python costs.

Each tool takes its step in the way its users are told to: JAX jits the whole step and donates its buffers, PyTorch runs
eagerly with its fused Adam (`torch-compile` compiles the loss), dlang compiles `digits_step.dl`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.tools import ROOT, Calls, program, scalar

TITLE = "20 steps of Adam on the digits, network of 64, 128 and 10 units"
SIZES = ("32", "256")
DTYPES = ("f32", "f64")
TOLERANCE = {"f64": 1e-10, "f32": 1e-3}
STEPS = 20
LEARNING_RATE, BETA1, BETA2, EPSILON = 0.002, 0.9, 0.999, 1e-8


def data(size: str, dtype: str) -> Any:
    """Parameters by name, and batches of images and labels, which are used in turn."""
    import numpy as np

    kind, batch = scalar(dtype), int(size)
    random = np.random.default_rng(2026)
    params = {
        "w1": random.normal(size=(64, 128)) * np.sqrt(2.0 / 64),
        "b1": np.zeros(128),
        "w2": random.normal(size=(128, 10)) * np.sqrt(2.0 / 138),
        "b2": np.zeros(10),
    }
    with np.load(ROOT / "examples" / "digits" / "digits.npz") as images_and_labels:
        images = images_and_labels["images"].reshape(-1, 64) / 16.0
        labels = images_and_labels["labels"].astype(np.int64)
    order = random.permutation(len(images))[: len(images) // batch * batch].reshape(-1, batch)
    batches = [(np.ascontiguousarray(images[rows], dtype=kind), labels[rows]) for rows in order]
    return {name: value.astype(kind) for name, value in params.items()}, batches


def stepping(start: Callable[[], Any], step: Callable[[Any, Any, Any], Any], batches: list[Any]) -> Calls:
    """The losses of some steps from the start; `step` takes a state and a batch and gives a loss and a state."""

    def steps() -> list[float]:
        state = start()
        losses = []
        for k in range(STEPS):
            loss, state = step(state, *batches[k % len(batches)])
            losses.append(float(loss))  # waits
        return losses

    return {"steps": steps}


def dlang(given: Any) -> Calls:
    params, batches = given
    m = program("digits_step")
    model = m.Mlp(**params)
    initial = model, m.start(model)

    def step(state: Any, images: Any, labels: Any) -> Any:
        loss, *following = m.step(*state, images, labels)
        return loss, following

    return stepping(lambda: initial, step, batches)


def jax(given: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    params, batches = jax.tree.map(jnp.asarray, given)

    def loss(p: Any, images: Any, labels: Any) -> Any:
        hidden = jax.nn.relu(images @ p["w1"] + p["b1"])
        scores = jax.nn.log_softmax(hidden @ p["w2"] + p["b2"])
        return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], 1))

    def adam(state: Any, images: Any, labels: Any) -> Any:
        params, mean, square, steps = state
        value, slope = jax.value_and_grad(loss)(params, images, labels)
        steps = steps + 1
        mean = jax.tree.map(lambda m, g: BETA1 * m + (1.0 - BETA1) * g, mean, slope)
        square = jax.tree.map(lambda v, g: BETA2 * v + (1.0 - BETA2) * g * g, square, slope)
        c1, c2 = 1.0 / (1.0 - BETA1**steps), 1.0 / (1.0 - BETA2**steps)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return (p - LEARNING_RATE * c1 * m / (jnp.sqrt(c2 * v) + EPSILON)).astype(p.dtype)

        return value, (jax.tree.map(moved, params, mean, square), mean, square, steps)

    def start() -> Any:
        copy, zeros = jax.tree.map(jnp.copy, params), jax.tree.map(jnp.zeros_like, params)
        return copy, zeros, jax.tree.map(jnp.copy, zeros), jnp.asarray(0.0, params["w1"].dtype)

    return stepping(start, jax.jit(adam, donate_argnums=0), batches)


def torch(given: Any, wrap: Any) -> Calls:
    import torch

    params = {name: torch.tensor(value) for name, value in given[0].items()}
    batches = [(torch.tensor(images), torch.tensor(labels)) for images, labels in given[1]]

    def loss(p: Any, images: Any, labels: Any) -> Any:
        hidden = torch.relu(torch.addmm(p["b1"], images, p["w1"]))
        return torch.nn.functional.cross_entropy(torch.addmm(p["b2"], hidden, p["w2"]), labels)

    run = wrap(loss)

    def start() -> Any:
        active = {name: value.clone().requires_grad_() for name, value in params.items()}
        betas = (BETA1, BETA2)
        return active, torch.optim.Adam(list(active.values()), lr=LEARNING_RATE, betas=betas, eps=EPSILON, fused=True)

    def step(state: Any, images: Any, labels: Any) -> Any:
        active, optimiser = state
        optimiser.zero_grad(set_to_none=True)
        value = run(active, images, labels)
        value.backward()
        optimiser.step()
        return value.detach(), state

    return stepping(start, step, batches)
