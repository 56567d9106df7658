"""Keeps data between processes: tables of the grammar, checked modules, machine code.

    store.py      files by kind and key: written whole or not at all, verified when read, the oldest removed
    records.py    objects as bytes: graphs of the compiler's own dataclasses, and nothing else

Everything in it can be made again, so whatever is wrong with the cache costs time and nothing else.

What is kept is found by all that decides it:

- `typecheck/stored.py` keeps a checked module, by its text and what its imports find now. An edit costs the modules
  that see it.
- `compile_cache.py` keeps a compiled function, by its module and what that imports, by what the function is, by dtypes
  and ranks, and by the processor.
- `codegen/llvm/objects.py` keeps machine code, by its text as LLVM reads it, the processor and the level.

So a program that did not change is loaded without parsing its text, and its functions are called without running a pass
or LLVM. Such a process is quick because of what it does not load: the bodies of checked modules, and with them the
classes of the core tree, as long as nothing is specialised (`typecheck/headers.py`); LLVM, since machine code is linked
without it (`host/platform/loader.py`), the system identifies the processor, and LLVM's file its version; the writers
of LLVM's text, since the functions that Python calls directly are kept beside the function (`Shelf` in
`runtime/engine.py`); and NumPy, in a program that `dlc run` runs and that shows no arrays.
"""
