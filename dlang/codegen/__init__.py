"""From the core IR to machine code: loop nests, and where arrays live.

`schedule` takes an optimised program of `ir/anf.py` without derivatives and gives one of `loops.py`; `nests` orders the
loops of a comprehension, `products` chooses libraries, `vectorize` chooses lanes, `memory` keeps the books. `llvm/`
writes the code for the CPU. Never changes what a program means, and knows no source text but for spans.
"""
