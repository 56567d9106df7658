"""From the core IR to machine code: loop nests, and where arrays live.

`schedule` takes an optimised program of `ir/anf.py` without derivatives and gives one of `loops.py`: `blocks` walks a
function, `memory` keeps the books, `nests` orders the loops of a comprehension, `tiles` and `gathered` have better ways
for reductions, `products` packs products of matrices, `lapack` calls libraries, `operations` has the other operations
on arrays, `control` calls, branches and loops; `vectorize` chooses lanes, `parallel` pieces for threads, `profile` has
a program measure itself, and `limits` refuses what can't run. `llvm/` writes the code for the CPU, and nothing here
knows it. Never changes what a program means, and knows no source text but for spans.

Arrays are memory in the loop-nest IR, and control carries its values explicitly, so a back end writes text and analyses
nothing. The passes on it, in the order of a reader:

- *Loops* (`nests.py`), *memory* (`memory.py`, `loop_scratch.py`): buffers are freed by the block that owns
  them, so there is no garbage collector. Iterations are independent, so a load may leave a loop in which its address
  does not change.
- *Vectors* (`vectorize.py`, `selections.py`), *ends* (`peeling.py`), *neighbours* (`neighbours.py`, `jam.py`).
- *Threads* (`parallel.py`, `costs.py`).
- *Nodes and texts* (`data.py`, `operations.py`) are never changed and never freed one by one: they lie in an arena,
  which a block leaves as it found it if its results hold none of them (`regions.py`). A loop that carries some collects
  now and then (`llvm/collector.py`). What a deep recursion makes stays until a block around it ends.
- *Tiles* (`tiles.py`), *products* (`products.py`, `packing.py`) and
  *convolutions* (`gathered.py`). Each element is the sum of its terms in order, in blocks that their
  number decides, so neither blocks nor threads change a bit.
- *Linear algebra* by blocks, whose products are our own: `cholesky.py`, `lu.py` (the pivots of LAPACK), `qr.py` (its
  signs), `substitution.py`. Compiled code calls LAPACK for the rest (`lapack.py`, `blas.py`), moves what
  has to lie by columns and looks for what LAPACK doesn't say. `sorting.py` sorts vectors.
- *Little code* for what hardly ever runs: a branch of the core IR says if its first arm is such (`cold`, as code that
  computes a sum again after a NaN was seen). Loops there are `short`: in one piece, of the lanes of one register, with
  a mask on all iterations, without tiles and unrolled terms. LLVM takes most of the time of a compilation, by the
  length of the text.
"""
