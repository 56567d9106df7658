"""Loop nests as kernels in CUDA C, and what is left as the program of the host.

`kernels` takes nests out of a program and puts launches in their places; `nests` says which nests and how their trips
are spread over threads, `forms` writes the kernel of one, `statements` its statements and `scalars` their operations.
`device.cuh` is what all kernels share.
"""
