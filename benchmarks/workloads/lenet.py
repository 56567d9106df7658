"""A small convolutional network."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "LeNet-5 with relu and max-pooling on 28 × 28 images, batch of 64"
SIZES = ("64",)
DTYPES = ("f32",)
TOLERANCE = {"f64": 1e-9, "f32": 2e-3}
KERNELS = ((5, 5, 1, 6), (5, 5, 6, 16))
UNITS = (400, 120, 84, 10)


def data(size: str, dtype: str) -> Any:
    """Layers of a weight and a bias, images with channels last, labels."""
    import numpy as np

    random = np.random.default_rng(0)
    kind = scalar(dtype)
    shapes = [*KERNELS, *pairwise(UNITS)]
    layers = [((random.normal(size=s) / np.prod(s[:-1]) ** 0.5).astype(kind), np.zeros(s[-1], kind)) for s in shapes]
    return layers, random.normal(size=(int(size), 28, 28, 1)).astype(kind), random.integers(0, 10, int(size))


def dlang(given: Any) -> Calls:
    m = program("lenet")
    layers, x, labels = given
    net = m.LeNet(*layers[0], *layers[1], *(m.Dense(w, b) for w, b in layers[2:]))

    def gradient() -> Any:
        v, g = m.gradient(net, x, labels)
        rest = [(layer.w, layer.b) for layer in (g.third, g.fourth, g.last)]
        return v, [(g.first, g.first_bias), (g.second, g.second_bias), *rest]

    return {"value": partial(m.value, net, x, labels), "gradient": gradient}


def jax(given: Any) -> Calls:
    import jax
    import jax.numpy as jnp

    layers, x, labels = jax.tree.map(jnp.asarray, given)

    def pool(h: Any) -> Any:
        n, height, width, channels = h.shape
        return h.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        h = x
        for (w, b), padding in zip(layers[:2], ("SAME", "VALID"), strict=True):
            convolved = jax.lax.conv_general_dilated(
                h, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
            )  # fmt: skip
            h = pool(jax.nn.relu(convolved + b))
        h = h.reshape(len(x), -1)
        for w, b in layers[2:4]:
            h = jax.nn.relu(h @ w + b)
        w, b = layers[4]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h @ w + b), labels[:, None], 1))

    return {
        "value": waiting(jax.jit(loss), layers, x, labels),
        "gradient": waiting(jax.jit(jax.value_and_grad(loss)), layers, x, labels),
    }


def torch(given: Any, wrap: Any) -> Calls:
    import torch

    f = torch.nn.functional
    layers, x, labels = given
    # channels come first here, also in the features that the dense layers see
    first = [(torch.tensor(w).permute(3, 2, 0, 1).contiguous(), torch.tensor(b)) for w, b in layers[:2]]
    dense = [(torch.tensor(w), torch.tensor(b)) for w, b in layers[2:]]
    dense[0] = dense[0][0].reshape(5, 5, 16, -1).permute(2, 0, 1, 3).reshape(400, -1).contiguous(), dense[0][1]
    active = [[a.requires_grad_() for a in layer] for layer in (*first, *dense)]
    flat = [a for layer in active for a in layer]
    images, answers = torch.tensor(x).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels)

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        h = x
        for (w, b), padding in zip(layers[:2], (2, 0), strict=True):
            h = f.max_pool2d(torch.relu(f.conv2d(h, w, b, padding=padding)), 2)
        h = h.flatten(1)
        for w, b in layers[2:4]:
            h = torch.relu(torch.addmm(b, h, w))
        w, b = layers[4]
        return f.cross_entropy(torch.addmm(b, h, w), labels)

    run = wrap(loss)

    def value() -> Any:
        with torch.no_grad():
            return run(active, images, answers)

    def gradient() -> Any:
        v = run(active, images, answers)
        slopes = list(torch.autograd.grad(v, flat))
        slopes[0], slopes[2] = (slopes[k].permute(2, 3, 1, 0) for k in (0, 2))
        slopes[4] = slopes[4].reshape(16, 5, 5, -1).permute(1, 2, 0, 3).reshape(400, -1)
        return v.detach(), slopes

    return {"value": value, "gradient": gradient}
