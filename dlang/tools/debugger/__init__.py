"""The debugger: steps through a program, forward and backward, and through the backward passes of its derivatives.

`code.py` knows the statements of a source, and to which of them an operation belongs. `machine.py` runs a program one
operation at a time, with a state that can be copied, and in which is what it knows of variables, which it learns from
marks, and what it remembers for backward passes. Its operations are the steps of the interpreter. `timeline.py`
remembers where it has been and can go back, and steps through that, and into the points of comprehensions.
`debugger.py` is what a person can do, without a terminal; `expressions.py` evaluates what they ask for, with the
derivatives in it, and `finite.py` finds NaNs. `commands.py` reads commands and talks to whoever is there, `showing.py`
writes the answers, with `values.py` for values.
"""
