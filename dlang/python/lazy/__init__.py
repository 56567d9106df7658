"""Arrays whose operations are recorded, and computed together when a value is needed: `dlang.lazy(x)`.

nodes.py     what is recorded
pieces.py    where a long recording is cut, and cotangents through its pieces
text.py      a program for some of it, derivatives included
values.py    its values, by programs that are compiled once
arrays.py    what Python sees: `Lazy`
functions.py what NumPy's functions do with it: elementwise.py, reductions.py, shapes.py, products.py
calls.py     what functions of the language do with it
"""
