"""Two programs of one: kernels in CUDA C, and the program of the host that has a device run them.

`placement` has `placer` walk over functions, knowing from `spaces` where their arrays live and from `numbers` which
numbers the device makes; `expansion` comes before it, and gives the iterations of loops memory of their own. `kernels`
makes launches of loop nests: `nests` says which loops are one and how their iterations are spread over threads, `forms`
writes the kernel, and `rows`, `columns`, `tiles`, `scans` and `vectors` how threads share it; `statements` writes what
an iteration does, and `scalars` its operations. `device.cuh` is what all kernels share.

Loops for a device are scheduled with one lane, in one piece and without tiles, and products of matrices whole. `dlc ir
--stage cuda` prints both programs; that of the host becomes machine code by `codegen/llvm/` as any other.

- *Where arrays live* (`spaces.py`). Machine code of the host never reads the memory of the device. What no kernel can
  do (loops in order, sorting, linear algebra, texts, effects, nodes) the host does on copies (`OnHost`), which come
  before it and go back behind it if it may change them. They are of whole arrays, or of what functions of the host are
  handed, if nothing else looks at an array there. Around a loop of the host an array that nothing in it changes is held
  (`Hold`): it is copied once. Arrays of nodes are copied up where a kernel uses them (`Transfer`).
- *What stays on the device*. A number that a kernel has made is in an array of one element; each kernel that uses what
  is computed of it computes that again, and the host fetches a number (`Fetch`, which waits) only where it must know
  it: for a branch, a size, a loop in order. Elements that are stored outside of loops are stored by a kernel of one
  thread. The numbers of a result are read when all is done.
- *Repeated runs* (`placement.py`, `runtime/device_runs.py`). A function that asks nothing of the host on its way does
  the same whenever its sizes, numbers and addresses are the same. The second time it is kept as a graph, and from then
  on launched as one. The floats that it takes are in memory of the device, if the host need not know them, so that
  others need no other graph.
- *Forms* (`kernels.py`, `nests.py`). Parts of a reduction are added in the order of the blocks, so a result does not
  depend on which block is quicker. Only what iterations of several threads add to the same elements, as in a scatter,
  is added atomically; rows that all add to the same elements are added up in registers first. `exact_sums.py`, in front
  of all other passes here, makes those sums exact where floats are to be the same in every run; what it leaves goes to
  the host.
- *Guards*. A kernel notes the first of its iterations in which a guard fails, with the values of the message, in the
  state of the run, and later kernels do nothing. The host looks whenever it waits, before anything that the world sees,
  and at the end; the numbers of launches say which failure was first. So a failure is told as on the CPU.
- *One text for equal nests*. Names are given in the order in which they are met and sizes are arguments, so kernels are
  told apart by their texts. `device.cuh` needs no header: it has operations that CUDA C lacks or leaves open, half
  precision, random bits, and folds over warps, blocks and grids.
"""
