"""Arrays of Python on an emulated device, as CuPy has them on a GPU."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlang.runtime.emulation.driver import EmulatedDriver

BF16 = "bfloat16"


@dataclass(eq=False)
class EmulatedArray:
    """An array in row-major order that has memory of a device. dtype: of NumPy, or `bfloat16`."""

    driver: EmulatedDriver
    address: int
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        weakref.finalize(self, self.driver.free, self.address)

    @staticmethod
    def of(driver: EmulatedDriver, array: Any) -> EmulatedArray:
        """A copy of an array of the host. Raises MemoryError."""
        import numpy as np

        array = np.ascontiguousarray(array)
        address = driver.allocate(array.nbytes)
        driver.upload(address, array.ctypes.data, array.nbytes)
        return EmulatedArray(driver, address, array.shape, array.dtype.name)

    @property
    def nbytes(self) -> int:
        """How many bytes its elements are."""
        import numpy as np

        return int(prod(self.shape) * np.dtype(memory_dtype(self.dtype)).itemsize)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        import numpy as np

        typestr = np.dtype(memory_dtype(self.dtype)).str
        return {"shape": self.shape, "typestr": typestr, "data": (self.address, False), "strides": None, "version": 3}

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("an array on a device is not converted to one of NumPy: `get` copies it")

    def get(self) -> Any:
        """A copy for the host, bf16 in f32. Raises Misbehaviour if not all of it has been written."""
        import numpy as np

        from dlang.runtime.half import bf16_of_bits

        out = np.empty(self.shape, memory_dtype(self.dtype))
        self.driver.download(out.ctypes.data, self.address, out.nbytes)
        return bf16_of_bits(out) if self.dtype == BF16 else out


def memory_dtype(dtype: str) -> str:
    """The dtype of NumPy that lies in memory as another does."""
    return "uint16" if dtype == BF16 else dtype
