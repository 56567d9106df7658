"""The core IR, monomorphic and first-order, in A-normal form, and everything that only knows the IR.

Takes and gives programs of `anf.py`, the one definition. `builder` makes them, `traverse` walks and rewrites them,
`printer` and `reader` are their textual form, and `verify` says whether one is well formed; `crossing` and `signatures`
describe functions to callers outside. Never optimises, and knows neither the language above nor a back end below.

The operations:

- `Prim`, `Cast`, `IndexExpr`, `Format`: total functions of scalars; the value of a polynomial; text.
- `Assert`: ends the run with a located message unless a condition holds, and hands on the values that it certifies.
- `Read`: an element of an array.
- `Comp`: the one parallel construct, a body at every point of a box of axes, with several destinations. A `Reduce` puts
  a value at an index that determines its axes, and reduces the axes that the index misses by a monoid; a `ScatterAdd`
  adds it at any index.
- `Scan`, `For`, `While`, `If`, `Call`: running sums and products, loops with a state, branches, calls.
- `View`, `Reshape`, `Concat`, `Compact`, `Update`, `Copy`, `Empty`: slices and transposes that move no data; joining;
  the positions where a mask holds; functional update, which consumes its array; memory that is still to be written.
- `Contract`, `LinalgOp`: a recognised product of arrays; an operation that a library does.
- `Construct`, `Tag`, `Fields`: a node of a datatype, which may contain itself; its variant; what it holds.
- `Vjp`, `Jvp`, `StopGradient`: derivatives of named functions, until `ad/` has expanded them.
- `Foreign`, `Effect`: a pure function of Python or C; what the world sees, ordered by a token.

`Assert` certifies: it binds new names for the values that rely on it, and a read that needs the check uses these. So
the order of checks and accesses is a data dependence like any other, and no pass can move an access above its check.
Sizes are certified in the same way. An `Assert` that binds nothing guards no access: it is an `assert` of the program,
or says what an empty range would do. Operations are total: a library that finds a matrix singular says so by a number
among its results (`rules.py`), and an `Assert` on that number hands on the others.

Indices are polynomials and not code, so that passes can ask what they mean: `inequalities.py`, beside `polynomials.py`,
proves that a read is in range and needs no check; `affine.py` says which axes an index determines;
`writes.py` says
which elements an operation writes, `comprehension_queries.py` what a comprehension gives. All claim only what they
prove.
"""
