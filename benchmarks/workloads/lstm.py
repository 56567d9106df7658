"""A recurrent layer: the products of a step wait for the step before."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "LSTM of 256 units, 100 steps, batch of 64"
SIZES = ("100x64x256",)
DTYPES = ("f32",)
TOLERANCE = {"f64": 1e-10, "f32": 1e-3}
EAGER = True


def data(size: str, dtype: str) -> list[Any]:
    """Weights of input and state, the bias, and the inputs."""
    import numpy as np

    random = np.random.default_rng(0)
    steps, batch, h = map(int, size.split("x"))
    s = h**-0.5
    weights = [random.uniform(-s, s, shape) for shape in ((h, 4 * h), (h, 4 * h), (4 * h,))]
    return [a.astype(scalar(dtype)) for a in (*weights, random.normal(size=(steps, batch, h)))]


def dlang(given: list[Any]) -> Calls:
    m = program("lstm")
    cell, x = m.Cell(*given[:3]), given[3]

    def gradient() -> Any:
        v, g = m.gradient(cell, x)
        return v, (g.input, g.state, g.bias)

    return {"value": partial(m.value, cell, x), "gradient": gradient}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    *weights, x = map(jnp.asarray, given)

    def loss(weights: Any, x: Any) -> Any:
        of_input, of_state, bias = weights

        def step(carry: Any, given: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(given + h @ of_state, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((x.shape[1], of_state.shape[0]), x.dtype)
        _, all_h = jax.lax.scan(step, (start, start), x @ of_input + bias)
        return jnp.mean(all_h * all_h)

    return {
        "value": waiting(jax.jit(loss), weights, x),
        "gradient": waiting(jax.jit(jax.value_and_grad(loss)), weights, x),
    }


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    of_input, of_state, bias, x = map(torch.tensor, given)
    n, h = of_input.shape[0], of_state.shape[0]
    net = torch.nn.LSTM(n, h, dtype=x.dtype)
    with torch.no_grad():
        net.weight_ih_l0.copy_(of_input.T)
        net.weight_hh_l0.copy_(of_state.T)
        net.bias_ih_l0.copy_(bias)
        net.bias_hh_l0.zero_()
    active = [net.weight_ih_l0, net.weight_hh_l0, net.bias_ih_l0]

    def loss() -> Any:
        y, _ = net(x)
        return (y * y).mean()

    def value() -> Any:
        with torch.no_grad():
            return loss()

    def gradient() -> Any:
        v = loss()
        a, b, c = torch.autograd.grad(v, active)
        return v.detach(), (a.T, b.T, c)

    return {"value": value, "gradient": gradient}


def numpy(given: list[Any]) -> Calls:
    import numpy as np

    of_input, of_state, bias, x = given
    steps, batch, n = x.shape
    h = of_state.shape[0]

    def sigmoid(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    def forward() -> Any:
        z_input = (x.reshape(-1, n) @ of_input + bias).reshape(steps, batch, 4 * h)
        hidden = memory = np.zeros((batch, h), x.dtype)
        tape = []
        every = np.empty((steps, batch, h), x.dtype)
        for t in range(steps):
            z = z_input[t] + hidden @ of_state
            gates = sigmoid(z)
            i, f, o, g = gates[:, :h], gates[:, h : 2 * h], gates[:, 3 * h :], np.tanh(z[:, 2 * h : 3 * h])
            following = f * memory + i * g
            shown = np.tanh(following)
            tape.append((hidden, memory, i, f, o, g, shown))
            hidden, memory = o * shown, following
            every[t] = hidden
        return tape, every, (every * every).mean()

    def gradient() -> Any:
        tape, every, v = forward()
        slope = every * x.dtype.type(2.0 / every.size)
        of_hidden, of_memory = np.zeros((batch, h), x.dtype), np.zeros((batch, h), x.dtype)
        of_z = np.empty((steps, batch, 4 * h), x.dtype)
        d_state = np.zeros_like(of_state)
        for t in range(steps - 1, -1, -1):
            hidden, memory, i, f, o, g, shown = tape[t]
            of_hidden = of_hidden + slope[t]
            of_memory = of_memory + of_hidden * o * (1 - shown * shown)
            z = of_z[t]
            z[:, :h] = of_memory * g * i * (1 - i)
            z[:, h : 2 * h] = of_memory * memory * f * (1 - f)
            z[:, 2 * h : 3 * h] = of_memory * i * (1 - g * g)
            z[:, 3 * h :] = of_hidden * shown * o * (1 - o)
            of_memory = of_memory * f
            d_state += hidden.T @ z
            of_hidden = z @ of_state.T
        flat = of_z.reshape(-1, 4 * h)
        return v, (x.reshape(-1, n).T @ flat, d_state, flat.sum(0))

    return {"value": lambda: forward()[2], "gradient": gradient}
