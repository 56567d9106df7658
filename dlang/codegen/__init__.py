"""From the core IR to machine code: loop nests, and where arrays live.

`schedule` takes an optimised program of `ir/anf.py` without derivatives and gives one of `loops.py`: `blocks` walks a
function, `memory` keeps the books, `nests` orders the loops of a comprehension, `tiles` and `gathered` have better ways
for reductions, `products` packs products of matrices, `lapack` calls libraries, `operations` has the other operations
on arrays, `control` calls, branches and loops; `vectorize` chooses lanes, `parallel` pieces for threads, `profile` has
a program measure itself, and `limits` refuses what can't run. `llvm/` writes the code for the CPU, and nothing here
knows it. Never changes what a program means, and knows no source text but for spans.
"""
