"""The device that a tool computes on: how it is got ready, waited for and named, and how arrays come to it and back.

In a rehearsal there is no GPU: dlang emulates one, and the others compute on the processor.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from benchmarks.tools import BACKEND, Calls, NotInstalled, Waiting, load, numbers, parts
from benchmarks.workers import cpu_model

SAMPLES, TAIL = 1 << 20, 1 << 12
"""How many elements of a large result are compared, of all of it and of its end."""


@dataclass(frozen=True, slots=True)
class Device:
    """gpu: whether it is one. within: in this, what a tool makes is on the device. finish: waits for a result, and so
    for what was asked for before. place: puts an array of NumPy where the tool wants its arguments to be."""

    name: str
    gpu: bool
    finish: Callable[[Any], None]
    within: Callable[[], AbstractContextManager[Any]] = nullcontext
    place: Callable[[Any], Any] = lambda array: array


def environment(small: bool) -> dict[str, str]:
    """What processes are told: which device, and that products are computed in the precision of their arguments."""
    return {
        BACKEND: "cuda-emulated" if small else "cuda",
        "DLANG_TIERS": "on",
        "JAX_PLATFORMS": "cpu" if small else "cuda",
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
        # all processes share the memory of the device
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "NVIDIA_TF32_OVERRIDE": "0",
    }


def ready(tool: str, small: bool) -> Device:
    """The device of a tool, which is loaded and has done something on it; raises `NotInstalled`."""
    load(tool)
    match tool:
        case "dlang" if small:
            return Device(f"a GPU emulated on {cpu_model()}", False, lambda result: None)
        case "dlang":
            return _of_cupy()
        case "jax":
            return _of_jax(small)
        case "torch" | "torch-compile":
            return _of_torch(small)
        case _:
            raise ValueError(f"{tool} knows no GPU")


def _of_cupy() -> Device:
    if importlib.util.find_spec("cupy") is None:
        raise NotInstalled("cupy is not installed (pip install 'dlang[cuda]')")
    cupy: Any = importlib.import_module("cupy")
    if not cupy.cuda.is_available():
        raise NotInstalled("CuPy finds no GPU")
    device = cupy.cuda.Device()
    cupy.zeros(1)
    device.synchronize()
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    return Device(name, True, lambda result: device.synchronize(), place=cupy.asarray)


def _of_jax(small: bool) -> Device:
    import jax
    import jax.numpy as jnp

    try:
        device = jax.devices()[0]
    except (RuntimeError, AssertionError) as e:  # the latter if JAX was built without
        raise NotInstalled("JAX finds no GPU") from e
    jnp.zeros(1).block_until_ready()
    return Device(cpu_model() if small else device.device_kind, not small, lambda r: jax.block_until_ready(r))


def _of_torch(small: bool) -> Device:
    import torch

    torch.set_float32_matmul_precision("highest")
    if small:
        return Device(cpu_model(), False, lambda result: None)
    if not torch.cuda.is_available():
        raise NotInstalled("PyTorch finds no GPU")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    # A default that is set for good would be asked for at every call of PyTorch.
    return Device(
        torch.cuda.get_device_name(), True, lambda result: torch.cuda.synchronize(), lambda: torch.device("cuda")
    )


# ---- arguments, calls and results ------------------------------------------------------------------------------------
def placed(device: Device, data: Any) -> Any:
    """The data of a workload, its arrays where they are wanted."""
    match data:
        case list():
            return [placed(device, part) for part in data]
        case tuple():
            return tuple(placed(device, part) for part in data)
        case _ if hasattr(data, "__array__"):
            return device.place(data)
        case _:
            return data


def unwaited(calls: Calls) -> Calls:
    """The same calls, which return before their results are complete where a tool can do that."""
    return {name: call.started if isinstance(call, Waiting) else call for name, call in calls.items()}


def sampled(result: Any) -> list[Any]:
    """The numbers of a result, of large arrays some: evenly spread ones, and the last ones."""
    found = []
    for part in parts(result):
        count = getattr(part, "size", 0)
        count = part.numel() if callable(count) else count
        if count <= SAMPLES:
            found.append(numbers(part))
            continue
        flat = part.reshape(-1)
        stride = count // SAMPLES | 1  # odd, so that it is not always the same place in rows that meets
        found += [numbers(_spread(flat, stride)), numbers(flat[-TAIL:])]
    return found


def _spread(flat: Any, stride: int) -> Any:
    if hasattr(flat, "get") and flat.dtype.name == "bfloat16":  # CuPy gathers no numbers of this dtype, but bits
        return flat.view("uint16")[::stride].get().view(flat.dtype)
    return flat[::stride]
