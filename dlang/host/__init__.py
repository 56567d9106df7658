"""Connects a program to Python and the machine: text, files, errors, and functions of other languages.

The interpreter and compiled code both use it, and so does the specialiser, which looks for foreign functions. It knows
the terms of the IR and no compiler. Only `platform/` knows the operating system and CPython's layout: each piece of it
has a fallback, which `DLANG_PORTABLE=1` chooses.

- *The world* (`effects.py`): output, progress and files of text; values in files (`saved.py`), and functions outside
  of the language (`foreign.py`). `text.py` writes values, and `lapack.py` does the library operations. A refusal is a
  `RunError` (`errors.py`).
- *Values at the border* (`ir/crossing.py`): `specialize/foreign.py` describes in a small language of parts what a value
  of Python is made of. `conversion.py` takes values apart into leaves and puts them together. It does not recurse,
  so trees may be of any depth. `placed.py` sees arrays that are on a device already.
"""
