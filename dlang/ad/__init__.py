"""Derivatives, from program to program: replaces `Vjp` by calls of functions that compute values and cotangents.

Takes monomorphic programs of `ir/anf.py` and gives ordinary ones, which can be differentiated again. `expand` is the
entry; `activity` says what carries derivatives, `reverse` walks a block backwards, and the other files hold one rule
family each. Knows no back end; what may be fused or recognised afterwards is the business of `optimize/`.
"""
