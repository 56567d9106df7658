"""Text → syntax tree (`syntax.py`), with spans; it knows no names and no types.

The functions of `parser.py` take a `Source`, give a tree and diagnostics, and never raise. On the way:
`lexer.py` (tokens), `newlines.py` (where statements end, and which brackets match), `tables.py` (the LALR automaton)
and `tree.py` (nodes); after a mistake `recovery.py`.

`dl.lark` is LALR(1). Lark computes its tables once, `tables.py` keeps and runs them, so an ordinary
start pays neither for Lark nor for a second tree after Lark's. The text is split at its top-level declarations, and
each is lexed, laid out and parsed by itself. In an editor each is a `Source` of its own, which only moves when
something above it is edited, so its tree and its types stay valid.

After a mistake `recovery.py` tries a few insertions, and finds the message. It first asks whether the text is a
notation of another language (`signs.py`, `constructs.py`, `words.py`), which is then read as what it means, so the rest
of the file is checked as it was meant. Such a repair of tokens is also an edit of the text, if the message advises it
(`stop.py`). `lexer.py` has the one table of words and signs, also for all that colours programs.
"""
