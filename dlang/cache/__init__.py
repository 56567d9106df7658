"""Keeps data between processes: tables of the grammar, checked modules, machine code.

    store.py      files by kind and key: written whole or not at all, verified when read, the oldest removed
    records.py    objects as bytes: graphs of the compiler's own dataclasses, and nothing else
    compiler.py   which compiler this is: what another one kept is never read

Everything in it can be made again, so whatever is wrong with the cache costs time and nothing else.
"""
