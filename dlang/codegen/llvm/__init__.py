"""Loop nests to LLVM text, and that to code in this process.

`modules` writes a program, `functions` one function, with a `writer`: `control` has branches and sequential loops,
`iterations` parallel ones, of one lane or several, `reductions` what these accumulate, `parallel` loops in pieces;
`indices` has polynomials, `accesses` and `interleaved` loads and stores, `calls` calls, `crossings` what leaves
compiled code, at `sites`. `scalars` has single operations, `fusion` joins products and sums, `mathematics` has
functions such as `exp`; `microkernel` is the products of matrices, `support`, `pool` and `collector` the runtime in
LLVM; `callers` writes what Python calls; `objects` compiles and `jit` links.
"""
