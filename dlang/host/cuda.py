"""The libraries of a GPU: CuPy, NVIDIA's compiler, and the C functions of CUDA's driver and of cuBLAS."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from dlang.diagnostics import DlangError, error
from dlang.lazy_modules import np

NOT_INSTALLED = "E0903"
NO_DEVICE = "E0904"
INSTALL = "install it with `pip install 'dlang[cuda]'`"
SPAWN = 'start processes anew, as `multiprocessing.get_context("spawn")` does, or fork before the GPU is used'
EMULATE = "`cuda-emulated` runs the kernels of a program on the processor, more slowly"


@dataclass(frozen=True, slots=True)
class Blas:
    """cuBLAS, its functions by their names."""

    library: Any

    def call(self, name: str, *args: Any) -> None:
        """Raises RuntimeError if the function fails."""
        status = getattr(self.library, name)(*args)
        if status:
            raise RuntimeError(f"{name} fails: {self.text(status)}")

    def text(self, status: int) -> str:
        """Returns the name of a status of cuBLAS."""
        name = self.library.cublasGetStatusName
        name.restype = ctypes.c_char_p
        return str(name(status).decode())


def cupy() -> Any:
    """CuPy, on a machine with a GPU; raises `DlangError` where one of them is missing, and after a fork."""
    module, process = loaded_cupy()
    if process != os.getpid():
        raise forked()
    return module


def forked() -> DlangError:
    """The error in a process that was forked from one that uses a GPU: what CUDA has of that is of no use here."""
    message = "the GPU was in use in the process that this one was forked from, so that it can't be used here"
    return error(NO_DEVICE, message, None, help=(SPAWN,))


@cache
def loaded_cupy() -> tuple[Any, int]:
    """CuPy, and the process that it was loaded in, as `cupy` says."""
    try:
        import cupy as found
    except ImportError as e:
        raise _missing("CuPy", e) from None
    try:
        count, why = found.cuda.runtime.getDeviceCount(), "there is none"
    except found.cuda.runtime.CUDARuntimeError as e:
        count, why = 0, str(e)
    if count == 0:
        raise error(NO_DEVICE, f"there is no GPU that can be used: {why}", None, help=(EMULATE,))
    return found, os.getpid()


@cache
def nvrtc() -> Any:
    """NVIDIA's compiler, which needs no GPU; raises `DlangError` where it is missing."""
    try:
        from cupy_backends.cuda.libs import nvrtc as found

        found.getVersion()
    except Exception as e:  # of the package that looks for the library, if it does not find it
        raise _missing("NVRTC, the compiler of NVIDIA", e) from None
    return found


@cache
def driver() -> Any:
    """The library of CUDA's driver, which is there where a GPU is."""
    return ctypes.CDLL("libcuda.so.1")


@cache
def blas() -> Blas:
    """The cuBLAS that CuPy uses; raises `DlangError` where it is missing."""
    try:
        from cupy_backends.cuda.libs import cublas
    except ImportError as e:
        raise _missing("cuBLAS", e) from None
    return Blas(ctypes.CDLL(cublas.__file__))  # whose symbols are also those of what it is linked with


def address(library: Any, name: str) -> int:
    """Returns the address of a function."""
    return address_of(getattr(library, name))


def address_of(function: Any) -> int:
    """The same, of one that is at hand."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def status_text(status: int) -> str:
    """Returns the name of a status of CUDA's driver, and its description."""
    texts = []
    for name in ("cuGetErrorName", "cuGetErrorString"):
        text = ctypes.c_char_p()
        getattr(driver(), name)(status, ctypes.byref(text))
        texts.append((text.value or b"unknown").decode())
    return ": ".join(texts)


def _missing(what: str, e: Exception) -> Exception:
    first = str(e).partition("\n")[0]
    return error(
        NOT_INSTALLED, f"the back end `cuda` needs {what}, which can't be loaded: {first}", None, help=(INSTALL,)
    )


# ---- arrays of other libraries ---------------------------------------------------------------------------------------
# Arrays of other libraries on the device, seen as arrays of CuPy without a copy.

CUDA, MANAGED = 2, 13  # kinds of memory in DLPack
BF16 = "bfloat16"


@dataclass(frozen=True, slots=True)
class Loan:
    """An array of another library, as one of CuPy. stream: on which its owner works with it, if that is known."""

    array: Any
    stream: Any = None


def on_device(cupy: Any, value: Any, stream: Any) -> Loan | None:
    """The array of another library that a value is; None for what is not on a device.

    Work on the given stream comes after what its owner has asked for; the host waits for nothing. Some libraries refuse
    to show an array, such as one that gradients are taken of; then it is none.
    """
    try:
        if hasattr(value, "__dlpack_device__"):
            kind, _ = value.__dlpack_device__()
            with stream:
                return Loan(cupy.from_dlpack(value)) if int(kind) in (CUDA, MANAGED) else None
        interface = getattr(value, "__cuda_array_interface__", None)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    if not isinstance(interface, dict) or interface.get("mask") is not None:
        return None
    other = interface.get("stream")
    owners = None if other is None else stream if other == stream.ptr else cupy.cuda.Stream.from_external(_Named(other))
    if owners not in (None, stream):
        stream.wait_event(owners.record())
    return Loan(cupy.asarray(_Shown(interface, value)), owners)


@dataclass(frozen=True, slots=True)
class _Named:
    """A stream of another library, by CUDA's protocol for streams. handle: what CUDA calls it."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class _Shown:
    """An array by the interface of CUDA, without the stream: CuPy would have the host wait for that."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__cuda_array_interface__ = {key: value for key, value in interface.items() if key != "stream"}
        self.owner = owner


@cache
def numpy_dtype(name: str) -> Any:
    """A dtype of NumPy or of `ml_dtypes`; None where that is not installed."""
    return bf16_dtype() if name == BF16 else np.dtype(name)


def bf16_dtype() -> Any:
    """Returns the bf16 dtype of the package `ml_dtypes`, None where it is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes.bfloat16


def bf16_array(cupy: Any, bits: Any) -> Any:
    """Numbers from their 16 bits: those of `ml_dtypes`, or in f32 where the package is not installed."""
    dtype = bf16_dtype()
    if dtype is not None:
        return bits.view(dtype)
    return cupy.left_shift(bits.astype(cupy.uint32), cupy.uint32(16)).view(cupy.float32)
