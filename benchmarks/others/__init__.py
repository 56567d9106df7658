"""Programs of others: what the benchmarks of Futhark compute, and before it Rodinia, Parboil, FinPar and Accelerate.

Each program is a workload as `benchmarks.tools` has it, a module of this package with a `.dl` file beside it. Its size
is its numbers with `x` between them; the first one is real, the second is small.
"""

PROGRAMS = (
    "backprop", "cfd", "hotspot", "kmeans", "lavamd", "lud", "nn", "particlefilter", "srad",
    "lbm", "mri_q", "sgemm", "stencil", "tpacf",
    "locvol", "option_pricing",
    "crystal", "fft", "fluid", "mandelbrot", "nbody", "pagerank", "ray", "smoothlife", "tunnel",
    "bfast", "heston", "series", "tridiag",
)  # fmt: skip
