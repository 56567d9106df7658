"""Text → text in the one style, which docs/formatting.md describes. It knows the grammar, no names and no types.

`formatting.py` has the public functions. On the way: `concrete.py` (a tree that keeps every token), `trivia.py`
(comments, and where the author broke lines), `types.py`, `expressions.py`, `statements.py` and `items.py` (documents,
by `printer.py` and `brackets.py`), `document.py` and `layout.py` (a document becomes lines), `columns.py` (comments
behind code), and at last `sameness.py` (nothing was lost).
"""
