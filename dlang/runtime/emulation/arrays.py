"""Arrays of Python on an emulated device, as CuPy has them on a GPU."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from dlang.host.half import bf16_of_bits
from dlang.lazy_modules import np

if TYPE_CHECKING:
    from dlang.runtime.emulation.driver import EmulatedDriver

BF16 = "bfloat16"


@dataclass(eq=False)
class EmulatedArray:
    """An array that has memory of a device, or is a part of one. dtype: of NumPy, or `bfloat16`.

    strides: bytes from an element to the next of each axis, None for row-major order. whole: what it is a part of.
    """

    driver: EmulatedDriver
    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    whole: EmulatedArray | None = None

    def __post_init__(self) -> None:
        if self.whole is None:
            weakref.finalize(self, self.driver.free, self.address)

    @staticmethod
    def of(driver: EmulatedDriver, array: Any) -> EmulatedArray:
        """A copy of an array of the host. Raises MemoryError."""
        array = np.asarray(array, order="C")
        address = driver.allocate(array.nbytes)
        driver.upload(address, array.ctypes.data, array.nbytes)
        return EmulatedArray(driver, address, array.shape, array.dtype.name)

    @property
    def nbytes(self) -> int:
        """How many bytes its elements are."""
        return int(prod(self.shape) * np.dtype(memory_dtype(self.dtype)).itemsize)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = np.dtype(memory_dtype(self.dtype)).str
        data = (self.address, False)
        return {"shape": self.shape, "typestr": typestr, "data": data, "strides": self.strides, "version": 3}

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("an array on a device is not converted to one of NumPy: `get` copies it")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> EmulatedArray:
        """A part of it, by integers and slices, of an array in row-major order."""
        assert self.strides is None
        within: Any = np.empty(self.shape, memory_dtype(self.dtype))
        part = within[key] if isinstance(key, tuple) else within[(key, ...)]
        offset = part.__array_interface__["data"][0] - within.__array_interface__["data"][0]
        strides = None if part.flags.c_contiguous else part.strides
        return EmulatedArray(self.driver, self.address + offset, part.shape, self.dtype, strides, self)

    def copy(self) -> EmulatedArray:
        """A copy, in row-major order."""
        copy = EmulatedArray.of(self.driver, self._bits())
        copy.dtype = self.dtype
        return copy

    def astype(self, dtype: Any) -> EmulatedArray:
        """A copy with numbers of another dtype of NumPy."""
        return EmulatedArray.of(self.driver, self.get().astype(dtype))

    def get(self) -> Any:
        """A copy for the host; what NumPy does not have is in f32. Raises Misbehaviour if not all is written."""
        return bf16_of_bits(self._bits()) if self.dtype == BF16 else self._bits()

    def _bits(self) -> Any:
        """A copy for the host of what lies in memory, in row-major order."""
        if self.strides is None:
            out = np.empty(self.shape, memory_dtype(self.dtype))
            self.driver.download(out.ctypes.data, self.address, out.nbytes)
            return out
        assert self.whole is not None
        whole: Any = self.whole._bits()
        offset = self.address - self.whole.address
        return np.array(np.ndarray(self.shape, whole.dtype, whole, offset, self.strides), order="C")


def memory_dtype(dtype: str) -> str:
    """The dtype of NumPy that lies in memory as another does."""
    return "uint16" if dtype == BF16 else dtype
