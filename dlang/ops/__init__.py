"""The operations and the types of scalars that the language is made of, as records of all that is known of them.

`dtypes.py` has widths, types in LLVM, C, NumPy and other libraries, digits, and the steps of differences;
`primitives.py` the total functions of scalars; `monoids.py` the ways in which points meet in an element;
`functions.py` the functions of the language that are no primitive; `linear_algebra.py` what a library does. Any stage
may use them, and a test asks every record for every column.
"""
