"""The core IR, monomorphic and first-order, in A-normal form, and everything that only knows the IR.

Takes and gives programs of `anf.py`, the one definition. `builder` makes them, `traverse` walks and rewrites them,
`printer` and `reader` are their textual form, `verify` says whether one is well formed, and `interpreter` is what they
mean. Never optimises, and knows neither the language above nor a back end below.
"""
