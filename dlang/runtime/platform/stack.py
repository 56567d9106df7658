"""How far the stack of this thread may grow."""

from __future__ import annotations

import ctypes
import threading

MARGIN = 256 << 10  # left for what compiled code calls
FALLBACK = 512 << 10  # what there surely is, where the system does not tell

_known = threading.local()


def stack_limit() -> int:
    """The lowest address that compiled code may use for its frames on this thread."""
    limit = getattr(_known, "limit", None)
    if limit is None:
        limit = _known.limit = _measure()
    return int(limit)


def _measure() -> int:
    try:
        libc = ctypes.CDLL(None)
        attributes = (ctypes.c_char * 256)()
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        libc.pthread_self.restype = ctypes.c_void_p
        libc.pthread_getattr_np.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        if libc.pthread_getattr_np(libc.pthread_self(), attributes) == 0:
            libc.pthread_attr_getstack(attributes, ctypes.byref(base), ctypes.byref(size))
            libc.pthread_attr_destroy(attributes)
            if base.value is not None:
                return base.value + MARGIN
    except (AttributeError, OSError):
        pass
    from dlang.codegen.llvm.jit import support_address

    here = ctypes.CFUNCTYPE(ctypes.c_void_p)(support_address("dl_frame"))()
    return int(here or 0) - FALLBACK
