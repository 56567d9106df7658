"""The runtime of a program: errors, text from values, files, memory, and the engine that holds its code.

Takes compiled functions and values; gives values, text and `RunError`s. Never sees source, types or the IR's passes.
Only `platform/` knows the operating system and CPython's layout.
"""
