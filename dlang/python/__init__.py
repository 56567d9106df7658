"""The interface to Python: modules, functions that take and give NumPy arrays, structs as dataclasses, derivatives.

Sees the whole compiler, through `driver.py`, and is seen by none of it but the names that `dlang/__init__.py` hands on.

`arguments.py` matches values with declared types, and `instances.py` keeps one compiled instance for each combination
of dtypes and ranks: that is what a call means. Two abbreviations make it cheap, and neither decides anything. A call
that looks like an earlier one is recognised by a key of its classes, dtypes, shapes and integers (`repeats.py`). And
from its second call on an instance has a *caller*, a function in C's convention that reads arguments where CPython and
NumPy keep them (`codegen/llvm/callers.py`). A `Function` is of a class with room for the address of a caller
(`vectorcall`), so Python gets there without a frame of its own. Each kind of arguments has a table that says which
parameters, classes and dtypes to expect (`runtime/direct.py`). What fits no table, or finds the entry's one context in
use, goes through Python, as do lists, arrays in variants of enums, and results that are trees. Callers are kept with
their functions, because they mention CPython by its symbols and everything else by their tables. A caller lets go of
Python's lock if the run's sizes say that it takes long (`codegen/costs.py`).

`f.bind` (`bound.py`) splits a function before fusion would mix its parts (`optimize/staging.py`). Arrays of other
libraries become NumPy's at the door, and results theirs (`kinds.py`), so nothing else knows of them. As an operator of
PyTorch or JAX (`operators.py`), a function is leaves in and leaves out, with dtypes and sizes that its types say before
it runs; there a size may be an `Extent`, an integer that remembers the expression of a library that traces. On the
processor XLA calls an entry itself (`codegen/llvm/xla.py`, `runtime/xla.py`, `jax_operators.py`). What goes to another
process goes as source and hash (`origins.py`). A function whose types were not written out, or that takes functions, is
first settled by the checker (`instances.py`, `callables.py`).
"""
