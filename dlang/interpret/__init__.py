"""The meaning of programs of the core IR: an interpreter, and a second one for derivatives.

Any stage can be interpreted: `interpreter` (with `operations` and `outside`) runs a program, and `metering` counts what
it does. What derivatives mean is said a second time, by `pointwise`, `traced` (with a table of derivatives of its own)
and `linear_algebra`, which share nothing with `ad/` and do not use the rules that a program gives. Knows the IR and
`host/`, and no back end.
"""
