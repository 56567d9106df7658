"""One training step, value_and_grad and Adam, of a 64-128-10 network on handwritten digits; in every tool.

All tools start from the same parameters and see the same batches; the losses of their first steps are compared. Each
takes its step in the way its users are told to: JAX jits the whole step and donates its buffers, PyTorch runs eagerly
with its fused Adam (`torch-compile` compiles the loss), dlang compiles `digits_step.dl`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.workers import ROOT, Program, require, serve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOOLS = ("dlang", "jax", "torch")
MORE_TOOLS = ("torch-compile",)
DTYPES = ("f32", "f64")
BATCHES = (32, 256)
MODULE = "benchmarks.digits_step"

LEARNING_RATE, BETA1, BETA2, EPSILON = 0.002, 0.9, 0.999, 1e-8
CHECK_STEPS = 20
TOLERANCE = {"f64": 1e-10, "f32": 1e-3}
"""How far the losses of the first steps may be apart, relative to them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Parameters by name, and batches of images and labels that are used in turn."""

    params: dict[str, NDArray[np.floating[Any]]]
    batches: list[tuple[NDArray[np.floating[Any]], NDArray[np.int64]]]


def problem(dtype: str, batch: int) -> Problem:
    import numpy as np

    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    random = np.random.default_rng(2026)
    params = {
        "w1": random.normal(size=(64, 128)) * np.sqrt(2.0 / 64),
        "b1": np.zeros(128),
        "w2": random.normal(size=(128, 10)) * np.sqrt(2.0 / 138),
        "b2": np.zeros(10),
    }
    with np.load(ROOT / "examples" / "digits" / "digits.npz") as data:
        images, labels = data["images"].reshape(-1, 64) / 16.0, data["labels"].astype(np.int64)
    order = random.permutation(len(images))[: len(images) // batch * batch].reshape(-1, batch)
    batches = [(np.ascontiguousarray(images[rows], dtype=kind), labels[rows]) for rows in order]
    return Problem({name: value.astype(kind) for name, value in params.items()}, batches)


def _in_turn(batches: list[Any], step: Callable[[Any, Any], float]) -> Program:
    position = -1

    def next_step() -> float:
        nonlocal position
        position = (position + 1) % len(batches)
        return step(*batches[position])

    return Program(next_step, CHECK_STEPS)


# ---- the tools -------------------------------------------------------------------------------------------------------
def with_dlang(dtype: str, batch: int) -> Program:
    import dlang

    given = problem(dtype, batch)
    module: Any = dlang.load(str(ROOT / "benchmarks" / "digits_step.dl"))
    model = module.Mlp(**given.params)
    state = module.start(model)

    def step(images: Any, labels: Any) -> float:
        nonlocal model, state
        loss, model, state = module.step(model, state, images, labels)
        return float(loss)

    return _in_turn(given.batches, step)


def with_jax(dtype: str, batch: int) -> Program:
    require("jax")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    given = problem(dtype, batch)

    def loss(p: Any, images: Any, labels: Any) -> Any:
        hidden = jax.nn.relu(images @ p["w1"] + p["b1"])
        scores = jax.nn.log_softmax(hidden @ p["w2"] + p["b2"])
        return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], 1))

    def adam(params: Any, state: Any, images: Any, labels: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(params, images, labels)
        mean, square, steps = state
        steps = steps + 1
        mean = jax.tree.map(lambda m, g: BETA1 * m + (1.0 - BETA1) * g, mean, slope)
        square = jax.tree.map(lambda v, g: BETA2 * v + (1.0 - BETA2) * g * g, square, slope)
        c1, c2 = 1.0 / (1.0 - BETA1**steps), 1.0 / (1.0 - BETA2**steps)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return (p - LEARNING_RATE * c1 * m / (jnp.sqrt(c2 * v) + EPSILON)).astype(p.dtype)

        return value, jax.tree.map(moved, params, mean, square), (mean, square, steps)

    compiled = jax.jit(adam, donate_argnums=(0, 1))
    params = {name: jnp.asarray(value) for name, value in given.params.items()}
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (zeros, jax.tree.map(jnp.copy, zeros), jnp.asarray(0.0, params["w1"].dtype))
    batches = [(jnp.asarray(images), jnp.asarray(labels)) for images, labels in given.batches]

    def step(images: Any, labels: Any) -> float:
        nonlocal params, state
        value, params, state = compiled(params, state, images, labels)
        return float(value)  # waits

    return _in_turn(batches, step)


def with_torch(dtype: str, batch: int, compile_loss: bool = False) -> Program:
    require("torch")
    import torch

    torch.set_num_threads(1)
    given = problem(dtype, batch)
    params = {name: torch.tensor(value).requires_grad_() for name, value in given.params.items()}
    optimiser = torch.optim.Adam(list(params.values()), lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True)

    def loss(images: Any, labels: Any) -> Any:
        hidden = torch.relu(torch.addmm(params["b1"], images, params["w1"]))
        return torch.nn.functional.cross_entropy(torch.addmm(params["b2"], hidden, params["w2"]), labels)

    run = torch.compile(loss) if compile_loss else loss

    def step(images: Any, labels: Any) -> float:
        optimiser.zero_grad(set_to_none=True)
        value = run(images, labels)
        value.backward()
        optimiser.step()
        return float(value.detach())

    return _in_turn([(torch.tensor(images), torch.tensor(labels)) for images, labels in given.batches], step)


def main() -> None:
    """The worker: one tool, one size."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument("--tool", required=True, choices=(*TOOLS, *MORE_TOOLS))
    parser.add_argument("--dtype", default="f64", choices=DTYPES)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--min-time", type=float, default=0.05)
    a = parser.parse_args()

    def prepare() -> Program:
        match a.tool:
            case "dlang":
                return with_dlang(a.dtype, a.batch)
            case "jax":
                return with_jax(a.dtype, a.batch)
            case _:
                return with_torch(a.dtype, a.batch, compile_loss=a.tool == "torch-compile")

    serve(prepare, a.min_time)


if __name__ == "__main__":
    main()
