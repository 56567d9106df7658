"""What a program needs while it runs: errors, text from values, files, memory, and the engine that holds its code.

Takes compiled functions and values; gives values, text and `RunError`s. Never sees source, types or the IR's passes.
What knows the operating system or CPython's layout is in `platform/` alone.
"""
