"""A network of dense layers: products of matrices, of which the gradient must be products too."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "network of 784, 512, 256 and 10 units, batch of 128: loss, gradient, a step of gradient descent"
SIZES = ("128",)
DTYPES = ("f32", "f64")
TOLERANCE = {"f64": 1e-10, "f32": 1e-3}
UNITS = (784, 512, 256, 10)
RATE = 0.01


def data(size: str, dtype: str) -> Any:
    """Weights and biases by layer, inputs, labels."""
    import numpy as np

    random = np.random.default_rng(0)
    kind = scalar(dtype)
    layers = [
        (random.normal(size=(n, m)).astype(kind) * kind((2.0 / n) ** 0.5), np.zeros(m, kind))
        for n, m in pairwise(UNITS)
    ]
    return layers, random.normal(size=(int(size), UNITS[0])).astype(kind), random.integers(0, 10, int(size))


def dlang(given: Any) -> Calls:
    m = program("mlp")
    layers, x, labels = given
    model = m.Mlp(*(m.Dense(w, b) for w, b in layers))
    rate = x.dtype.type(RATE)

    def parts(result: Any) -> Any:
        loss, g = result
        return loss, [(layer.w, layer.b) for layer in (g.first, g.second, g.last)]

    state = [model]

    def step() -> Any:
        loss, state[0] = m.step(state[0], x, labels, rate)
        return loss

    return {
        "value": partial(m.value, model, x, labels),
        "gradient": lambda: parts(m.gradient(model, x, labels)),
        "step": step,
    }


def jax(given: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    layers, x, labels = jax.tree.map(jnp.asarray, given)

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        h = x
        for w, b in layers[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = layers[-1]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h @ w + b), labels[:, None], 1))

    gradient = jax.value_and_grad(loss)

    def moved(layers: Any, x: Any, labels: Any) -> Any:
        value, slope = gradient(layers, x, labels)
        return value, jax.tree.map(lambda p, g: p - RATE * g, layers, slope)

    compiled = jax.jit(moved, donate_argnums=0)
    state = [jax.tree.map(jnp.copy, layers)]

    def step() -> Any:
        value, state[0] = compiled(state[0], x, labels)
        return value

    return {
        "value": waiting(jax.jit(loss), layers, x, labels),
        "gradient": waiting(jax.jit(gradient), layers, x, labels),
        "step": waiting(step),
    }


def torch(given: Any, wrap: Any) -> Calls:
    import torch

    layers = [[torch.tensor(a).requires_grad_() for a in layer] for layer in given[0]]
    flat = [a for layer in layers for a in layer]
    x, labels = torch.tensor(given[1]), torch.tensor(given[2])

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        h = x
        for w, b in layers[:-1]:
            h = torch.relu(torch.addmm(b, h, w))
        w, b = layers[-1]
        return torch.nn.functional.cross_entropy(torch.addmm(b, h, w), labels)

    run = wrap(loss)

    def value() -> Any:
        with torch.no_grad():
            return run(layers, x, labels)

    def gradient() -> Any:
        v = run(layers, x, labels)
        return v.detach(), torch.autograd.grad(v, flat)

    moving = [[a.detach().clone().requires_grad_() for a in layer] for layer in layers]
    moving_flat = [a for layer in moving for a in layer]

    def step() -> Any:
        v = run(moving, x, labels)
        slopes = torch.autograd.grad(v, moving_flat)
        with torch.no_grad():
            torch._foreach_add_(moving_flat, slopes, alpha=-RATE)
        return v.detach()

    return {"value": value, "gradient": gradient, "step": step}


def numpy(given: Any) -> Calls:
    import numpy as np

    layers, x, labels = given
    rows = np.arange(len(x))

    def forward() -> Any:
        inputs = [x]
        for w, b in layers[:-1]:
            h = inputs[-1] @ w
            h += b
            inputs.append(np.maximum(h, 0, out=h))
        w, b = layers[-1]
        z = inputs[-1] @ w + b
        z -= z.max(1, keepdims=True)
        e = np.exp(z)
        s = e.sum(1, keepdims=True)
        return inputs, e / s, -np.mean(z[rows, labels] - np.log(s[:, 0]))

    def gradient() -> Any:
        inputs, g, v = forward()
        g[rows, labels] -= 1
        g /= len(x)
        slopes = []
        for k in range(len(layers) - 1, -1, -1):
            slopes.append((inputs[k].T @ g, g.sum(0)))
            if k:
                g = g @ layers[k][0].T
                g *= inputs[k] > 0
        return v, slopes[::-1]

    return {"value": lambda: forward()[2], "gradient": gradient}
