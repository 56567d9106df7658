"""Kernels without a device: an emulation of how CUDA executes, on the processor that is there.

`words.h` stands for CUDA in C++, on `threads.h`, where the threads of a block are fibers of one thread of the system,
and `arrays.h`, which also sees what a device would not tell. `driver.cpp` is the device itself, with memory of its own
and the products of cuBLAS. `driver` makes libraries of them with the compiler of the system, and is what a program of
the host sees.

The compiler of the system compiles the very text of the kernels, once; the library is kept. The threads of a block run
one after another in any order that is asked for, each until it waits at a barrier or at a collective of its warp. The
host can't read the memory of the device, for its addresses have a bit more. What a device would not tell is reported,
as a `Misbehaviour`, a mistake of the compiler: barriers that not all threads reach, masks that name lanes that have
ended, races in shared memory, accesses beyond an array or to memory that was given back, and reads of bytes that were
never written. A load of which only a selection takes the value may read those (`codegen/cuda/kernels.py`), and so may a
product, as a kernel that refused something may have left them: its result was never written either then.
"""
