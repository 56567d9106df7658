"""The back ends that can run on the machine that the tests are on."""

from __future__ import annotations

from dlang.driver import BACKENDS, Backend


def has_gpu() -> bool:
    """Whether there is a GPU, with CuPy."""
    try:
        import cupy
    except ImportError:
        return False
    return bool(cupy.cuda.is_available())


HERE: tuple[Backend, ...] = tuple([b for b in BACKENDS if b != "cuda" or has_gpu()])
