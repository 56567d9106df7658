"""The memory of runs: contexts with their free lists, and arrays that give their memory back when they die."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlang.codegen.llvm import jit, support

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

LARGE = 1 << 16  # bytes from which an array comes from the free lists, whose pages are there already


class Context:
    """What one run at a time works with: its free lists, its failure, its callback."""

    __slots__ = ("words", "address", "returned", "callback", "run", "_release")

    def __init__(self, slots: int) -> None:
        self.words = (ctypes.c_int64 * (support.SLOTS + slots + 8))()
        self.address = ctypes.addressof(self.words)
        self.returned: deque[int] = deque()
        self.callback: Any = None
        self.run: Any = None
        self._release = _functions.get("dl_release", None, ctypes.c_void_p)

    def take(self, bytes: int) -> int:
        """Room in memory, outside of the chain of a run; 0 if there is none."""
        return _take()(self.address, bytes) or 0

    def absorb(self) -> None:
        """Puts what has been returned into the free lists."""
        while self.returned:
            _give()(self.address, self.returned.popleft())

    def reclaim(self) -> None:
        """Frees all that a failed run left."""
        _reclaim()(self.address)

    def __del__(self) -> None:
        self.absorb()
        self._release(self.address)

    @property
    def taken(self) -> int:
        """How many bytes it has ever asked the system for."""
        return int(self.words[support.TAKEN])

    @property
    def in_use(self) -> int:
        """How many blocks the run holds."""
        count, block = 0, self.words[support.LIVE]
        while block:
            count += 1
            block = ctypes.c_int64.from_address(block).value
        return count


def _function(name: str, result: Any, *args: Any) -> Any:
    return ctypes.CFUNCTYPE(result, *args)(jit.support_address(name))


@dataclass(slots=True)
class _Functions:
    known: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, result: Any, *args: Any) -> Any:
        if name not in self.known:
            self.known[name] = _function(name, result, *args)
        return self.known[name]


_functions = _Functions()


def _take() -> Any:
    return _functions.get("dl_take", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _give() -> Any:
    return _functions.get("dl_give", None, ctypes.c_void_p, ctypes.c_void_p)


def _reclaim() -> Any:
    return _functions.get("dl_reclaim", None, ctypes.c_void_p)


def _detach() -> Any:
    return _functions.get("dl_detach", None, ctypes.c_void_p)


def _alloc() -> Any:
    return _functions.get("dl_alloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Lease:
    """Memory lent to a NumPy array; returns to its context when the last array over it dies."""

    __slots__ = ("__array_interface__", "_address", "_context")

    def __init__(self, context: Context, address: int, shape: Sequence[int], typestr: str) -> None:
        self._address = address
        self._context = context
        self.__array_interface__ = {
            "shape": tuple(shape), "typestr": typestr, "data": (address, False), "version": 3,
        }  # fmt: skip

    def __del__(self) -> None:
        self._context.returned.append(self._address)


def adopted(context: Context, address: int, shape: Sequence[int], dtype: Any) -> Array:
    """An array over a block that a run hands over."""
    import numpy as np

    _detach()(address)
    return np.asarray(Lease(context, address, shape, np.dtype(dtype).str))


def fresh(context: Context, shape: Sequence[int], dtype: Any) -> Array:
    """A new array for a result."""
    import numpy as np

    bytes = np.dtype(dtype).itemsize
    for size in shape:
        bytes *= max(size, 0)
    if bytes < LARGE:
        return np.empty(shape, dtype)
    address = context.take(bytes)
    if not address:
        raise MemoryError
    return np.asarray(Lease(context, address, shape, np.dtype(dtype).str))


def block(context: Context, bytes: int) -> int:
    """A block that belongs to the run, for a result that the host makes."""
    return _alloc()(context.address, max(bytes, 1)) or 0
