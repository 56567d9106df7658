"""The debugger: steps through a program, forward and backward, and through the backward passes of its derivatives.

`places.py` knows the statements of a source, and `code.py` to which of them an operation belongs. `machine.py` runs a
program one operation at a time, with a state (`state.py`) that can be copied; what it knows of a variable is in
`seen.py`, which it learns from marks (`marking.py`), and what it remembers for backward passes in `past.py`. Its
operations are the steps of the interpreter. `timeline.py` remembers where it has been and can go back. `levels.py`
steps through that, and into the points of comprehensions. `debugger.py` is what a person can do, without a terminal;
`expressions.py` evaluates what they ask for, with `differentials.py` for the derivatives in it, and `origins.py` finds
NaNs. `commands.py` reads commands, `showing.py` writes the answers, with `values.py` and `functions.py` for values, and
`terminal.py` talks to whoever is there.
"""
