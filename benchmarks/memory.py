"""How much memory a call of a tool needs, and what of that is neither argument nor result."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from benchmarks.tools import Waiting

Call = Callable[[], Any]


def peak_of(tool: str, call: Call) -> int:
    """Bytes that a call needs at most, its results included, on top of what is there; the call has run before.

    Counted by its allocator for dlang, which keeps memory from run to run; for the others it is how far the process
    grows.
    """
    if tool == "dlang":
        from dlang import memory_use

        with memory_use() as used:
            result = call()
        del result
        return used.peak
    before = _forget_peak()
    result = call()
    grown = _status("VmHWM") - before
    del result
    return max(0, grown)


def tape_of(tool: str, call: Call) -> int | None:
    """Bytes that a derivative needs beside arguments and results; None where a tool does not say.

    For PyTorch it is what the forward pass saves for the backward pass; for dlang, which may make that anew, and for
    JAX all that compiled code needs at one time.
    """
    match tool:
        case "dlang":
            return _needed_by_dlang(call)
        case "jax" | "enzyme" if isinstance(call, Waiting) and hasattr(call.function, "lower"):
            found = call.function.lower(*call.args).compile().memory_analysis()
            return None if found is None else int(found.temp_size_in_bytes)
        case "torch":
            return _saved_by_torch(call)
        case _:
            return None


def _needed_by_dlang(call: Call) -> int:
    """The peak less the results that it has counted, those of NumPy's own memory not among them."""
    from dlang.runtime.memory import LARGE

    with_results = peak_of("dlang", call)
    results = sum(_room(a.nbytes) for a in _arrays(call()) if a.nbytes >= LARGE)
    return max(0, with_results - results)


def _room(bytes: int) -> int:
    """The room that an allocation takes: rounded up to a quarter of a power of two."""
    step = 1 << max((bytes - 1).bit_length() - 3, 6)
    return -(-bytes // step) * step


def _arrays(result: Any) -> Iterator[Any]:
    """The arrays of a result of dlang."""
    if hasattr(result, "nbytes") and getattr(result, "shape", ()):
        yield result
    elif isinstance(result, tuple | list):
        for part in result:
            yield from _arrays(part)
    elif is_dataclass(result):
        for field in fields(result):
            yield from _arrays(getattr(result, field.name))


def _saved_by_torch(call: Call) -> int | None:
    import torch

    kept: dict[int, int] = {}

    def pack(x: Any) -> Any:
        if not x.is_leaf:
            kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        call()
    return sum(kept.values())


# ---- the process -----------------------------------------------------------------------------------------------------
def _forget_peak() -> int:
    """Sets the mark of most memory back, where the system has one; bytes in memory now."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return 0
    return _status("VmRSS")


def _status(key: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)
