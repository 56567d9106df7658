"""Loop nests to LLVM text, and that to code in this process.

`modules` writes a program, `functions` its control and scalars, `vectors` loops of several lanes, `scalars` single
operations, `mathematics` functions such as `exp`; `support` is the runtime in LLVM; `jit` compiles and links.
"""
