"""The meaning of programs of the core IR: an interpreter, which computes in an algebra of scalars.

Any stage can be interpreted: `interpreter` (with `operations` and `outside`) runs a program, `points` and `reduction`
are about its comprehensions, and `metering` counts what it does. `algebra` has the scalars of NumPy. What derivatives
mean is said a second time by another algebra, `derivatives`, of scalars that carry them: it, `traced` (with a table of
derivatives of its own) and `linear_algebra` share nothing with `ad/`, and do not use the rules that a program gives.
Knows the IR and `host/`, and no back end.
"""
