"""From the core IR to machine code: loop nests, and where arrays live.

`schedule` takes an optimised program of `ir/anf.py` without derivatives and gives one of `loops.py`: `blocks` walks a
function, `memory` keeps the books, `nests` orders the loops of a comprehension, `products` chooses libraries,
`operations` has the other operations on arrays, `control` calls, branches and loops; `vectorize` chooses lanes, and
`limits` refuses what can't run. `llvm/` writes the code for the CPU. Never changes what a program means, and knows no
source text but for spans.
"""
