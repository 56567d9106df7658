"""Kernels without a device: an emulation of how CUDA executes, on the processor that is there.

`words.h` stands for CUDA in C++, on `threads.h`, where the threads of a block are fibers of one thread of the system,
and `arrays.h`, which also sees what a device would not tell. `driver.cpp` is the device itself, with memory of its own
and the products of cuBLAS. `compiler` makes libraries of them with the compiler of the system, and `driver` is what a
program of the host sees.
"""
