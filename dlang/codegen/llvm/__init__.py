"""Loop nests to LLVM text, and that to code in this process.

`modules` writes a program, `functions` one function, with a `writer`: `control` has branches and sequential loops,
`trips` parallel ones, of one lane or several, and `reductions` what these accumulate; `indices` has polynomials,
`accesses` loads and stores, `calls` calls, `crossings` what leaves compiled code, at `sites`. `scalars` has single
operations, `mathematics` functions such as `exp`; `support` is the runtime in LLVM; `jit` compiles and links.
"""
