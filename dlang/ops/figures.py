"""The figures by which passes decide: what things cost, and from which sizes on one way is better than another.

They were measured on processors with vectors of 256 and 512 bits. A figure changes how fast code is, and never what it
computes. What belongs to the layout of one algorithm alone, as the panels of a product or the digits of a sort, is in
the module of that algorithm.
"""

from __future__ import annotations

# ---- the time of operations, in additions ----------------------------------------------------------------------------
ADDITION, ROUNDING, ROOT, DIVISION, REMAINDER, SERIES = 1, 2, 8, 10, 20, 27
"""How long primitives take, in additions: as one; as one, but not on every processor; an instruction that takes as long
as several, and of these divisions, after which others wait; a division and what corrects it; a series."""
BRANCH = 6
"""A branch, at least, in additions: it ends all that is done side by side, foreseen or not."""
SCATTERED = 16
"""Additions for which it is worth adding to places one by one, from lanes."""
PREDICATED_ARMS = 24
"""Additions that the arms of a branch may take together where both run: half of what a misprediction costs, about."""
PREDICATED_ACCESSES = 8
"""Accesses to memory in these arms together, a combination of an element with a value counted twice."""
ARM_WORTH_A_JUMP = 24
"""Additions of an arm that is jumped over where no lane takes it: what a misprediction costs, about."""
ARM_WITHOUT_BRANCH = 32
"""Additions that both arms of a branch may take where doing without it lets a loop have lanes."""

# ---- the time of statements, in picoseconds --------------------------------------------------------------------------
LIGHT_OP, EXPENSIVE_OP, HEAVY_OP = 300, 2_500, 8_000
"""A primitive of one lane: up to a rounding, a root, from a division on."""
LOAD, STORE = 250, 400
"""An access."""
ITERATION = 500
"""An iteration of a loop of one lane, its body left out."""
CALL = 3_000
"""A call of a function, or anything of which nothing is known."""
ALLOCATION = 20_000
"""Memory taken and given back."""
ON_STACK, STACK_ROOM = 1024, 16 * 1024
"""Bytes of an array that lies on the stack, and of all of these in a function."""
MOVED = 300
"""An element that is copied, filled in or sorted."""
PRODUCT = 15
"""A multiplication and addition in a product of matrices, for each four bytes of a number."""
PRODUCT_CALL = 40_000
"""A product, its multiplications left out."""
HOST = 5_000_000
"""Work of Python's."""
LONG_CALL = 50_000_000
"""A call from which on it is long: other threads of Python go on, and its code is worth better compilation."""

# ---- sizes that are not known ----------------------------------------------------------------------------------------
UNKNOWN_ITERATIONS = 16
"""Iterations of a loop of which nothing is known, where time is estimated."""
UNKNOWN_SIZE = 1024
"""A size, where memory is estimated: large beside a number in the program."""

# ---- threads ---------------------------------------------------------------------------------------------------------
GRAIN = 40_000_000
"""Picoseconds of work in a piece, at least; half of that which is worth a second thread."""
PIECES_FROM = 8
"""Iterations from which a loop is cut, rather than those inside."""
OWN_ELEMENT = 16_000
"""Picoseconds of work in a piece for each element of the arrays that it has of its own, so that these cost little."""
OWN_ELEMENT_OF_BLOCKS = 4 * OWN_ELEMENT
"""The same where iterations are blocks, to need less memory."""

# ---- vectors ---------------------------------------------------------------------------------------------------------
REGISTER = 256
"""Bits of a register, where time is estimated."""
WIDEST_REGISTER = 512
"""Bits of registers of which there are twice as many."""
MASKED_REGISTER = 256
"""Bits of the shortest registers of which a mask can choose what is read and written."""
MASKED_FROM = 3
"""Iterations that are worth a vector with a mask."""
FEW_INSIDE = 64
"""Iterations of a loop inside from which on lanes of its own are better than those of the loop around."""
HEAVY_HIDES_MASK = 3
"""Heavy operations that hide what a mask costs, and are better not there twice."""
LANES_IN_FLIGHT = 8
"""Lanes of a register, up to which a long chain of heavy operations goes two registers at a time."""
MOST_LANES = 32
"""Lanes, unless they are of 32 bits or more."""
LIGHT_BODY = 6
"""Operations of a body that leaves room for several vectors in flight."""
LIGHT_RECURRENCE = 32
"""The same where iterations wait for each other."""
LATENCY = 8
"""Accumulators that hide the latency of an addition."""
STRIDED = 6
"""The cost of an access whose neighbours are not adjacent in memory, beside one whose are."""
FARTHEST_NEIGHBOUR = 8
"""The stride up to which elements are loaded in a row and shuffled."""

# ---- memory ----------------------------------------------------------------------------------------------------------
CACHE = 1 << 20
"""Bytes: half of a core's own cache."""
DEVICE_CACHE = 1 << 30
"""Bytes of a device's memory that stand for those of a cache."""
PRODUCTS_OF_BLOCK = 1 << 22
"""Bytes of the operands of all products that a loop collects in a block of iterations."""
GATHERED_BLOCK = 1 << 17
"""Elements of windows that are gathered at once."""
PREFETCH_DISTANCE = 2048
"""Bytes ahead of which memory is fetched."""
PREFETCH_FROM = 1024
"""Iterations from which it is."""
PREFETCH_COVERED = 8
"""Operations for each stream that hide that a load needs another instruction."""

# ---- products, sums and factors: one way or another ------------------------------------------------------------------
LOOP_UP_TO = 4
"""Points, if known, up to which a product is a loop."""
PACKED_FROM = 200
"""Multiplications from which a packed product is faster than tiles for any sizes."""
PACKED_FROM_KNOWN = 4000
"""The same beside tiles made for sizes that are known."""
UNBLOCKED_PRODUCT = 2**16
"""Multiplications up to which a loop over blocks would cost more than it could gain."""
UNBLOCKED_PRODUCT_OF_MANY = 2**19
"""The same for one of several products, which are cut into pieces themselves."""
GATHERED_FROM = 30_000
"""Multiplications from which windows are worth gathering for a product."""
GATHERED_COLUMNS = 12
"""Columns from which they are, where tiles are made for a number that is known."""
TILED_ROWS = 4
"""Rows from which a tile is worth its while."""
BLOCKED_LU_FROM = 48
"""Rows of a matrix from which factors in blocks are faster than LAPACK and BLAS."""
BLOCKED_LU_COLUMNS = 8
"""Right-hand sides, the same."""
OUTER_PRODUCTS = 32
"""Outer products of nodes that are collected for one product of matrices."""
SMALL_OUTER_PRODUCT = 256
"""Points of an outer product, up to which it is added as it is."""
ROWS_OF_BLOCK, EVEN_ROWS = 64, 8
"""Rows of a block of a chain of products, at least: a product copies its other operand once for each; and what these
are a multiple of, but for the last block."""
NARROW_ROW = 16
"""Elements of a row, up to which rows are no reason for blocks."""

# ---- loops: fused, written out, split --------------------------------------------------------------------------------
COPIED_CODE, COPIED_TWICE = 3, 4
"""Primitives and reads of a body that may be computed at several reads, and how many reads these may be; and the most
where there are at most two."""
LIGHT_TERM = 4
"""Primitives of a term; more take so long that it does not matter how often operands are read."""
ROUNDS_OF_REFUSALS = 8
"""Rounds in which small arrays are refused to be numbers; each goes through all code once."""
WRITTEN_OUT_AXIS = 4
"""Points of an axis that is written out: what is longer fills vectors of its own."""
WRITTEN_OUT_POINTS = 16
"""Points of all such axes."""
STATE_IN_NUMBERS = 9
"""Elements of an array that a loop carries as numbers, in registers: those of a 3 × 3 matrix."""
IDLE_UP_TO = 16
"""Iterations, or points, that are done as they stand, idle ones among them."""
POINTS_FOR_ELEMENT = 8
"""Points for each element from which a look at the elements themselves is cheap."""
END_ITERATIONS = 8
"""Iterations at an end of a loop that are peeled."""
JAMMED_ROWS, JAMMED_SUMS = 4, 8
"""Rows, and accumulators of all rows in registers, of loops that are done together."""
ENTRY_OF_SMALL_ARRAY = 4
"""Writes up to which the elements of an array are followed as scalars."""
PRECOMPUTED_BODY = 4
"""Lets of a comprehension that reads nothing, and is computed again rather than kept."""

# ---- derivatives: saved, or computed again ---------------------------------------------------------------------------
RECOMPUTED, RECOMPUTED_DIVISION = 4, 10
"""The time of an operation, and of a division or root, that a backward pass computes again, in bytes saved."""
OUTGROWN = 4
"""How many times as much it may take to compute an array again that outgrows what it is computed of."""
SAVED_WHOLE = 5
"""How many times as many elements as a backward pass reads an array may have that is kept, instead of saving these."""
RECOMPUTED_BODY = 10
"""Additions of a body that is run again, rather than its sums being stored and read."""
RECOMPUTED_OP = 4
"""Additions for which an operation that is no addition stands there."""
WHOLE_LOOP = 32
"""Iterations, if known, up to which a loop is recorded as a whole, without pieces."""

# ---- the size of code ------------------------------------------------------------------------------------------------
INLINED = 40
"""Lets of a scalar function that is inlined wherever it is called."""
INLINED_ARRAYS = 1000
"""Lets of a function of arrays; above, only a function called once is inlined."""
COPIED_ARRAYS = 2000
"""Lets that all copies of a function of arrays have together; above, only a function called once is inlined."""
COPIED = 1000
"""Lets that the copies of a function have together where derivatives call it; above, only one place is inlined."""
COPIED_IN_PLACE = 300
"""Lets of a lambda or a local function; above, only the first call of it is its code, and others call a function."""
DOUBLED = 8
"""Lets that may stand twice to jump over a branch."""
END_POINTS = 4
"""Points of an axis that are an end of it, which a pass of its own visits."""
LEFT_OUT = 8
"""Elements along an axis that an update of almost all of an array leaves as they are: then it is done as one of all."""
WINDOWS = 3
"""Windows that a comprehension adds to, up to which each point of all asks in which it is: of more, passes over each
do fewer operations."""
CARRIED = 3
"""Iterations for which an element that one has written stays in a register, for those that read it then."""
JOINED_PIECES = 3
"""Pieces of a joined array whose elements are computed where they are read: each more is another comparison."""
POINTWISE_BODY = 64
"""Operations of an iteration of a loop over arrays that is a loop over numbers at each point, in registers."""
LOOP_POINTS = 64
"""Iterations of a loop with comprehensions that are done side by side, rather than the points of these."""
WRITTEN_OUT = 256
"""Operations of all points of axes that are written out."""
PEELED_BODY = 256
"""Statements of a loop's body, of which there are three copies once its ends are peeled."""
CONDITIONS_IN_FRONT = 2
"""Conditions that are asked in front of a loop, which is there twice for each."""
JAMMED_BODY = 32
"""Statements for each row of loops that are done together."""
TILE_BODY = 12
"""Statements of a body that is repeated for each row of a tile."""
UNROLLED_TILE = 24
"""Terms of all rows of a tile that need no loop."""
LENT_VERSIONS = 4
"""Versions of a function, besides that to which nothing is lent."""
SHARED_VARIANTS, SHARED_BACKWARD = 8, 30
"""Variants of a node, and lets of a backward half, which stand in the arm of every variant."""
RESCALED_TERMS = 16
"""Terms of a sum that a loop rescales, up to which it is followed through an iteration."""
ORDERS_TRIED = 8
"""Arrays along whose axes loops are tried in turn, so that none of a block's arrays is there as a whole."""
GROWN_AT_ONCE = 4
"""Numbers by which an iteration may make a list or an array longer that has room for all, though few may come."""
ROOM_FOR_ITERATIONS = 1 << 16
"""A known number of iterations up to which there is room for what all of them may add."""
