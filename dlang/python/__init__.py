"""The interface to Python: modules, functions that take and give NumPy arrays, structs as dataclasses, derivatives.

Sees the whole compiler, through `driver.py`, and is seen by none of it but the names that `dlang/__init__.py` hands on.
"""
