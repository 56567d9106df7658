"""Specialisation: typed core tree → monomorphic, first-order IR.

Takes checked functions and the types at which they are used, gives an `anf.Program` with one function per instance.
Tuples and structs are flattened to leaves, closures to what they capture, overloaded operators to comprehensions over
scalars, sizes to i64 parameters. It never optimises and never looks at values; derivatives stay as `Vjp` markers.

It evaluates each function symbolically (`values.py`), once for each way in which the function is used.

- *Products are flattened*: an array of structs is one array for each leaf; an enum is a number that says which variant
  it is, and the leaves of every variant. So no later pass needs rules for structs, and their derivatives need none.
- *Functions are resolved*: a lambda is expanded in place, and a named function becomes an instance (`instances.py`),
  whose body is evaluated with unknown parameters (`bodies.py`). So the IR is first-order.
- *Types that contain themselves* become datatypes of the program, one for all sizes of their arguments
  (`datatypes.py`). A node holds its sizes before its arrays (`layouts.py`); where it is opened, they are compared with
  those that its type states. Equality, operators and text are functions of the IR, one for each datatype
  (`operators.py`, `text.py`).
- *Functions that only the run knows* are nodes too (`dynamic.py`, `joins.py`, `loops.py`). A closure never captures one
  of its own code: the inner one is made dynamic, so there are finitely many instances. The function that calls any of
  them is written last, when all variants are known (`functions.py`).
- *Operators become comprehensions* over scalars with broadcasting decided, so fusion and differentiation have one
  construct to know.
- *A size that only the run knows* is one more i64 result before the arrays that mention it. Results depend on earlier
  ones, as parameters do, so no existential type is packed or unpacked.
- *A random draw* is one primitive, `threefry`, of a key, the number of its event and the index of its element
  (`randomness.py`). A function that draws takes its key as one more u64. So comprehensions that draw are parallel, and
  a derivative needs no rule for draws.
- *Derivative forms* are operations on an instance (`derivatives.py`). `vjp` is a `VjpForward`, whose tape is a node;
  its pullback is a function value that holds the tape and emits a `VjpBackward` at every call. A Jacobian
  (`derivatives.py`) is a loop over columns in forward mode, or over rows of one `VjpForward`, which is also how it runs
  effects once. A custom rule (`rules.py`) is a function of the IR that the instance names. Functions are data here, so
  the derivative in a function that is an argument is one in what it captured.
- *Effects* are ordered by a token (`analysis.py`). A comprehension that needs it becomes a nest of loops
  (`in_order.py`).
- *Ranges that depend on binders before them* (`binders.py`): an array that a range is made of is computed once for each
  place; with a condition, the points where it holds are found first (`comprehensions.py`).
- *`break`, `continue` and `return`* become the state of loops and branches: the IR has structured control alone, which
  can be run backwards. In the middle of an expression, what runs before them gets a name (`control.py`).
"""
