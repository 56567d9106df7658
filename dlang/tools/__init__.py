"""The command `dlc`. It begins in `dlc.py`, and `command_line.py` parses its arguments; each subcommand is a file.

Sees the whole compiler, through `driver.py`, and is seen by none of it.

Stages are imported where they are used, so `dlc check` loads neither NumPy nor LLVM nor Lark.

In `dlc repl` an input of statements becomes a function, so each effect happens once and an input that fails changes
nothing. `dlc debug` runs a program that nothing has optimised, specialised with *marks* (`ir/marks.py`), so cotangents
have the names of variables as well. `dlc check-grad` puts expressions over drawn weights in the place of arguments that
are functions or trees (`drawing.py`). `dlc costs` interprets the optimised program with counts of bytes, memory and
places (`metering.py`), at sizes that double, beside the law of cost (`law.py`). A `bench` block becomes
two functions (`bench.py`), and coverage an assertion at each statement and arm (`coverage.py`). `dlc doc` takes what
the checker found of public names, words in Markdown and colours by Pygments together to pages (`documentation/`). Types
in Python's terms are in `python/stubs.py`, also where a function leaves types open.
"""
