"""Arrays that show themselves in one way alone."""

from __future__ import annotations

from typing import Any


class Shown:
    """An array that only the interface of CUDA shows."""

    def __init__(self, array: Any, stream: int | None) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "version": 3, "stream": stream}


class Exported:
    """An array that only DLPack shows."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()
