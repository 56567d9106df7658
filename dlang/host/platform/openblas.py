"""The library of linear algebra: OpenBLAS, which holds BLAS and LAPACK."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def openblas() -> Any:
    """OpenBLAS, on one thread: its own threads collapse beside a busy neighbour. Its symbols begin with `scipy_`."""
    library = ctypes.CDLL(library_file())
    library.scipy_openblas_set_num_threads(1)
    library.scipy_LAPACKE_set_nancheck(0)  # NaN is an input like any other, and `info` keeps its meaning
    return library


def library_file() -> str:
    """Finds the path of the library."""
    import glob
    import os

    import scipy_openblas32

    found = sorted(glob.glob(os.path.join(scipy_openblas32.get_lib_dir(), f"*{scipy_openblas32.get_library()}*")))
    return next(p for p in found if not p.endswith(".a"))
