"""Convolutions, and the gradient of the sum of their squares by kernels and images."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.tools import Calls, program, scalar, waiting

TITLE = "a convolution, and the gradient of the sum of its squares: images have channels last, but for planes"
# form, kernels and images as dlang has them: kernels end with channels in and out, images begin with the batch
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "3-16": ("same", (3, 3, 3, 16), (64, 32, 32, 3)),
    "64-64": ("same", (3, 3, 64, 64), (8, 56, 56, 64)),
    "6-16by5": ("plain", (5, 5, 6, 16), (64, 14, 14, 6)),
    "64-128by1": ("plain", (1, 1, 64, 128), (16, 28, 28, 64)),
    "16-32every2": ("strided", (3, 3, 16, 32), (64, 32, 32, 16)),
    "planes": ("planes", (32, 16, 3, 3), (32, 16, 32, 32)),
    "depthwise": ("depthwise", (3, 3, 64), (16, 30, 30, 64)),
    "line": ("line", (9, 16, 32), (16, 1000, 16)),
}
SIZES = tuple(CASES)
DTYPES = ("f32",)
TOLERANCE = {"f64": 1e-10, "f32": 2e-3}
STRIDE = {"strided": 2}
PADDING = {"same": 1, "strided": 1, "line": 4}


def data(size: str, dtype: str) -> list[Any]:
    """The form, kernels and images."""
    import numpy as np

    random = np.random.default_rng(0)
    form, kernel, images = CASES[size]
    return [form, *(random.normal(size=s).astype(scalar(dtype)) for s in (kernel, images))]


def dlang(given: list[Any]) -> Calls:
    m = program("convolutions")
    form, kernel, x = given
    return {
        "value": partial(getattr(m, form), kernel, x),
        "gradient": partial(getattr(m, f"{form}_gradient"), kernel, x),
    }


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    form, *arrays = given
    kernel, x = map(jnp.asarray, arrays)
    axes = x.ndim - 2
    layout = {"planes": ("NCHW", "OIHW", "NCHW"), "line": ("NWC", "WIO", "NWC")}.get(form, ("NHWC", "HWIO", "NHWC"))

    def value(kernel: Any, x: Any) -> Any:
        groups = x.shape[-1] if form == "depthwise" else 1
        return jax.lax.conv_general_dilated(
            x, kernel[:, :, None] if form == "depthwise" else kernel, (STRIDE.get(form, 1),) * axes,
            [(PADDING.get(form, 0),) * 2] * axes, dimension_numbers=layout, feature_group_count=groups,
        )  # fmt: skip

    gradient = jax.grad(lambda k, x: (value(k, x) ** 2).sum(), argnums=(0, 1))
    return {"value": waiting(jax.jit(value), kernel, x), "gradient": waiting(jax.jit(gradient), kernel, x)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    f = torch.nn.functional
    form, *arrays = given
    kernel, x = map(torch.tensor, arrays)
    last = form != "planes"
    if form == "depthwise":
        kernel = kernel[:, :, None]
    if last:  # channels come first here
        kernel, x = kernel.movedim((-1, -2), (0, 1)).contiguous(), x.movedim(-1, 1).contiguous()
    convolve = f.conv1d if form == "line" else f.conv2d
    options = {"stride": STRIDE.get(form, 1), "padding": PADDING.get(form, 0)}
    if form == "depthwise":
        options["groups"] = x.shape[1]
    run = wrap(lambda k, x: convolve(x, k, **options))
    squares = wrap(lambda k, x: (convolve(x, k, **options) ** 2).sum())
    active = [a.clone().requires_grad_() for a in (kernel, x)]

    def value() -> Any:
        with torch.no_grad():
            y = run(kernel, x)
        return y.movedim(1, -1) if last else y

    def gradient() -> Any:
        of_kernel, of_x = torch.autograd.grad(squares(*active), active)
        if last:
            of_kernel, of_x = of_kernel.movedim((0, 1), (-1, -2)), of_x.movedim(1, -1)
        return of_kernel[:, :, 0] if form == "depthwise" else of_kernel, of_x

    return {"value": value, "gradient": gradient}
