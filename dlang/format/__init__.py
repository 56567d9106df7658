"""Text → text in the one style, which docs/formatting.md describes. It knows the grammar, no names and no types.

`formatting.py` has the public function. On the way: `concrete.py` (a tree that keeps every token), `trivia.py`
(comments, and where the author broke lines), `items.py`, `statements.py`, `expressions.py` and `types.py` (the rules:
documents, with the help of `printer.py`, `brackets.py` and `placing.py`), `document.py`, `layout.py` and `fitting.py`
(a document becomes lines), `columns.py` (comments behind code), and at last `sameness.py` (nothing was lost).
"""
