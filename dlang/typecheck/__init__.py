"""Checking: syntax trees to typed core trees.

Takes what `grammar/` parsed; gives `core.CoreModule`s, whose every expression has a type over the variables of its
function's scheme, and diagnostics. Inference is Hindley–Milner over qualified schemes, with sizes as polynomials and
shapes with row variables. `program.py` has the public functions. Nothing here is evaluated, compiled or differentiated.
"""
