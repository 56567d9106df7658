"""Derivatives, from program to program: replaces `Vjp` by calls of functions that compute values and cotangents.

Takes monomorphic programs of `ir/anf.py` and gives ordinary ones, which can be differentiated again. `expand` is the
entry; `activity` says what carries derivatives, `reverse` walks a block backwards, and the other files hold one rule
family each. Knows no back end; what may be fused or recognised afterwards is the business of `optimize/`.

*Reverse mode* (`reverse.py`) is one walk backwards over a block. The text of a primitive's derivative comes from the
table of primitives (`rules.py`).

- The adjoint of a comprehension is a comprehension over the same points, in which each *read* says where its adjoint
  goes (`adjoint_destinations.py`): so the adjoint of a matrix product is two matrix products, without atomic additions,
  and that of a stencil reads neighbours (`clipped_indices.py`).
- Zero is symbolic: a cotangent to which nothing was added passes a branch or goes into a call as it is (`scope.py`,
  `branch.py`). So no arm and no iteration makes an array of zeros or adds one.
- The adjoint of a loop runs backwards and saves only what it mentions (`loop.py`, `tape.py`). Loops in loops write into
  the tape of the outermost (`stores.py`). An array that costs less to make than to save is saved element by element
  (`rematerialise.py`, `elements.py`), so the adjoint of `x[i] = v` costs one element. What an arm saves in a loop lies
  in a node (`tape.py`): it takes memory in the iterations in which the arm runs. Where the number of iterations is not
  known, sizes change, or effects forbid a second run, a loop makes a list of nodes (`loop.py`).
- What is saved, and what is computed again from that, is a minimum cut (`rematerialise.py`). Elements that no later
  iteration overwrites are read in the array that the loops leave (`lasting.py`): LU in place saves n², not n³, numbers.
  Of an array of which an iteration backwards reads a row or a column that is all that is saved (`slices.py`): LU with
  exchanges of rows saves 3 n². Of one of which it only asks something, the answers are (`conditions.py`).
- Where values and cotangents are wanted at once they are one function, and fusion sees both sides. A recursive
  function, a large one that is called in many places (`inlining.py`) and `vjp` need two halves with a tape between them
  (`adjoints.py`). Where the tape stays in the function that made it, and the arms of the branch that ends the function
  have scalars only, it has one variant, and dissolves when both halves are inlined. A tape is data like
  any other, so the halves are differentiated again.
- An array that a recursive function hands on is handed to the backward half too and saved nowhere, and its cotangent
  goes in and comes out, changed in place: a recursion over elements or weights costs what it reads of them. A function
  that hands on a part of an array, as `total(x[1..])`, is given the whole and where the part begins before that
  (`optimize/parts.py`). Of an array that changes where the call stands the tape has the elements that are read. Where a
  cotangent is zero before a call of the recursion, none goes in, and the zeros are made where the recursion ends. So no
  level makes or copies an array, at any order of derivatives.
- The cotangent of a node is zero, or the cotangents of its floats and nodes (`tangent_types.py`), so sums of trees stop
  where one is zero (`conversions.py`). A user sees trees of the type of the value. To open a node costs nothing for the
  elements of its arrays, nor does it in the adjoint: such an array, or one that a loop hands on or chooses
  (`summed.py`), has a sum of terms in place of a cotangent, which is added up where the array is made (`sums.py`).
- Linear algebra has rules of its own (`linear_algebra.py`, `determinants.py`). A solution, an inverse
  and a determinant are operations of a matrix *and* its factors, through which no derivative goes, so their adjoints
  use the factors that the value was made of.
- A `pullback` is called in place of the adjoint of its function (`calls.py`); with `checkpoint` the adjoint runs the
  function again, as far as the way back needs its values and its checks, and takes its loops apart (`loop.py`).
- The product of a cotangent with a local derivative is 0 where the cotangent is 0, even if the derivative is not
  finite. `optimize/guards.py` makes plain products of those that need no guard, by what `optimize/value_ranges.py`
  knows, and `optimize/contractions.py` looks at sums for NaN afterwards.

*Forward mode* (`forward.py`, `scope.py`) is one walk forward that emits each operation and its tangent. Every operation
runs once: tangents are further results of the same comprehension, more state of the same loop, more results of the same
branch, and a check certifies them with the values. A recursive function becomes a dual function for each choice of
arguments that have tangents (`forward.py`); a `pushforward` replaces the body. Along many directions the value is
computed once, because distribution takes a comprehension apart whose results depend on different axes, and hoisting one
of whose results some do not change in a loop.

The innermost derivative is expanded first and the result normalised, so derivatives nest with no rule of their own.
Passes behind them make products of what loops add up (`optimize/sink_products.py`, `optimize/batch_outer_products.py`),
set slices to which only zeros were added (`optimize/slice_writes.py`), find what a loop does to a scalar cotangent
before it is applied (`optimize/jacobians.py`), and take one sum of a symmetric pair for the other
(`optimize/symmetry.py`).
"""
