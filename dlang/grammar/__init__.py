"""Text → syntax tree (`syntax.py`), with spans; it knows no names and no types.

The functions of `parser.py` take a `Source`, give a tree and diagnostics, and never raise. On the way:
`lexer.py` (tokens), `newlines.py` (where statements end), `machine.py` (the LALR automaton, over the tables that Lark
makes of `dl.lark`, `tables.py`), `tree.py` and `literals.py` (nodes); after a mistake `brackets.py`, `explain.py` and
`recovery.py`.
"""
