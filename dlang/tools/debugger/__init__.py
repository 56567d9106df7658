"""The debugger: steps through a program, forward and backward, and through the backward passes of its derivatives.

`places.py` knows the statements of a source, `code.py` which of them an operation belongs to; `machine.py` runs a
program one operation at a time; `timeline.py` remembers where it has been and can go back; `debugger.py` is what a
person can do with that, without a terminal; `commands.py` reads a person's commands and `terminal.py` talks to them.
"""
