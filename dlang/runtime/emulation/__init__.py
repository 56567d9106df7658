"""Kernels without a device: an emulation of how CUDA executes, on the processor that is there.

`cuda.h` stands for CUDA in C++: the threads of a block are fibers of one thread of the system, which also sees what a
device would not tell. `compiler` makes a library of kernels with the compiler of the system, and `device` runs them.
"""
