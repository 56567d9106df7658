"""Text → text in the one style, which docs/formatting.md describes. It knows the grammar, no names and no types.

`formatting.py` has the public function, puts comments behind code into columns, and sees to it that nothing was lost.
On the way: `printer.py` (a tree that keeps every token, comments, and where the author broke lines), `expressions.py`
(the rules, which give documents), and `document.py` (a document becomes lines).

The automaton of `grammar/` makes the concrete tree, so text that is read alike is written alike; a test fails for an
alternative of the grammar without a rule. The documents are those of Wadler and Prettier, and are laid out in one pass:
a choice takes the first form whose lines fit. A comment ends its line wherever it stands. A line may always end there,
because it did in the text.
"""
