"""Arrays whose operations are recorded, and computed together when a value is needed: `dlang.lazy(x)`.

values.py    the graph of what is recorded, and its values, by programs that are compiled once
arrays.py    what Python sees: `Lazy`, and calls of functions of the language with it
functions.py what NumPy's functions do with it
"""
