"""A kernel that doubles the elements of an array."""

from __future__ import annotations

from dlang.codegen.abi import Kernel

HEAD = 'extern "C" __global__ void NAME(dl_run *run, i64 site, i64 iterations, DL_GLOBAL(f64) x, DL_GLOBAL(f64) y)'
BODY = " { for (i64 t = dl_first(); t < iterations; t += dl_stride()) y[t] = 2.0 * x[t]; }\n"


def kernel(name: str, body: str = BODY) -> Kernel:
    return Kernel(name, "map", HEAD.replace("NAME", name) + body)
