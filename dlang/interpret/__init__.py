"""The meaning of programs of the core IR: an interpreter, which computes in an algebra of scalars.

Any stage can be interpreted. `compile` makes the steps of a function once, when it is first called: those of scalars
(`scalars`), of arrays, nodes and the world outside (`operations`), of branches, loops and calls (`control`), and of
comprehensions (`comprehensions` with `points` and `reduction`, and `boxes` for what is simple). `interpreter` runs them
and counts, and `metering` counts more.

`algebra` has the scalars of NumPy. What derivatives mean is said a second time by another algebra, `derivatives`, of
scalars that carry them: it, `traced` (with a table of derivatives of its own) and `linear_algebra` share nothing with
`ad/`, and do not use the rules that a program gives. Knows the IR and `host/`, and no back end.
"""
