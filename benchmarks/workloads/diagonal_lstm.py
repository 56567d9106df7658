"""A recurrent network without matrices, the third problem of ADBench: a long chain of small elementwise steps."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.adbench.problems import LSTM
from benchmarks.tools import Calls, cpp_function, loaded, waiting

TITLE = "ADBench D-LSTM: loss of 1,023 characters, gradient by all weights"
SIZES = ("2x1024x14", "4x1024x14")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
EAGER = True


def data(size: str, dtype: str) -> list[Any]:
    """Gates of the layers, the three vectors of the network, its state, the sequence."""
    import numpy as np

    layers, c, b = map(int, size.split("x"))
    random = np.random.default_rng(2016)
    gates, vectors, state = (random.uniform(size=s) for s in ((layers, 2, 4, b), (3, b), (layers, 2, b)))
    return [gates, vectors, state, random.integers(0, 2, size=(c, b)).astype(np.float64)]


def dlang(given: list[Any]) -> Calls:
    m = loaded(LSTM.path)
    gates, vectors, *others = given
    network = m.Network(gates, *vectors)

    def gradient() -> Any:
        g = m.gradient(network, *others)
        return g.gates, [g.input, g.output, g.bias]

    return {"value": partial(m.objective, network, *others), "gradient": gradient}


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    layers, _, _, b = given[0].shape
    c = len(given[3])

    def objective(gates: Any, vectors: Any, state: Any, sequence: Any) -> Any:
        w, bias = gates[:, 0], gates[:, 1]

        def step(carry: Any, x: Any) -> Any:
            hidden, cells = carry
            all_h, all_c = [], []
            for k in range(layers):
                z = jnp.stack([x, hidden[k], x, hidden[k]]) * w[k] + bias[k]
                forget, take, give = jax.nn.sigmoid(z[:3])
                cell = cells[k] * forget + take * jnp.tanh(z[3])
                x = give * jnp.tanh(cell)
                all_h.append(x)
                all_c.append(cell)
            return (jnp.stack(all_h), jnp.stack(all_c)), x

        _, out = jax.lax.scan(step, (state[:, 0], state[:, 1]), sequence[:-1] * vectors[0], unroll=4)
        y = out * vectors[1] + vectors[2]
        norm = jnp.log(jnp.exp(y).sum(1) + 2)  # as in the benchmark
        return -jnp.sum(sequence[1:] * (y - norm[:, None])) / (b * (c - 1))

    arrays = [jnp.asarray(a) for a in given]

    def gradient(*arrays: Any) -> Any:
        of_gates, of_vectors = jax.grad(objective, argnums=(0, 1))(*arrays)
        return of_gates, list(of_vectors)

    return {"value": waiting(jax.jit(objective), *arrays), "gradient": waiting(jax.jit(gradient), *arrays)}


def enzyme(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    layers, _, _, b = given[0].shape
    value = cpp_function("diagonal_lstm", f"value<{layers}, {len(given[3])}, {b}>", ())

    def objective(*arrays: Any) -> Any:
        return value(*arrays)[0]

    def gradient(*arrays: Any) -> Any:
        of_gates, of_vectors = jax.grad(objective, argnums=(0, 1))(*arrays)
        return of_gates, list(of_vectors)

    arrays = [jnp.asarray(a) for a in given]
    return {"value": waiting(jax.jit(objective), *arrays), "gradient": waiting(jax.jit(gradient), *arrays)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    gates, vectors, state, sequence = (torch.tensor(a) for a in given)
    layers, _, _, b = gates.shape

    def objective(gates: Any, vectors: Any) -> Any:
        w, bias = gates[:, 0], gates[:, 1]
        hidden, cells = list(state[:, 0]), list(state[:, 1])
        out = []
        for x in (sequence[:-1] * vectors[0]).unbind(0):
            for k in range(layers):
                forget, give = torch.sigmoid(torch.addcmul(bias[k, 0::2], x, w[k, 0::2])).unbind(0)
                z = torch.addcmul(bias[k, 1::2], hidden[k], w[k, 1::2])
                cells[k] = torch.addcmul(torch.sigmoid(z[0]) * torch.tanh(z[1]), cells[k], forget)
                x = hidden[k] = give * torch.tanh(cells[k])
            out.append(x)
        y = torch.stack(out) * vectors[1] + vectors[2]
        norm = torch.log(torch.exp(y).sum(1) + 2)
        return -(sequence[1:] * (y - norm[:, None])).sum() / (b * (len(sequence) - 1))

    active = [gates.clone().requires_grad_(), vectors.clone().requires_grad_()]

    def value() -> Any:
        with torch.no_grad():
            return objective(gates, vectors)

    def gradient() -> Any:
        of_gates, of_vectors = torch.autograd.grad(objective(*active), active)
        return of_gates, list(of_vectors)

    return {"value": value, "gradient": gradient}
