"""Two programs of one: kernels in CUDA C, and the program of the host that has a device run them.

`placement` has `placer` walk over functions, knowing from `spaces` where their arrays live and from `numbers` which
numbers the device makes; `expansion` comes before it, and gives the iterations of loops memory of their own. `kernels`
makes launches of loop nests: `nests` says which loops are one and how their iterations are spread over threads, `forms`
writes the kernel, and `rows`, `columns`, `tiles`, `scans` and `vectors` how threads share it; `statements` writes what
an iteration does, and `scalars` its operations. `device.cuh` is what all kernels share.
"""
