"""The runtime of a program: errors, text from values, files, memory, and the engine that holds its code.

Takes compiled functions and values; gives values, text and `RunError`s. Never sees source, types or the IR's passes.
Only `platform/` knows the operating system and CPython's layout.

- *Build and run*. `build.py` makes machine code with all that is needed to call it and to explain its failures
  (`compiled.py`), none of which depends on the process; `engine.py` loads that and runs it. `memory.py` has the free
  lists of a run, and arrays that give their memory back when Python drops them, so results are not copied.
- *Values at the border* (`crossing.py`): `specialize/borders.py` describes in a small language of parts what a value of
  Python is made of. `inward.py` and `outward.py` take values apart into leaves and put them together, `texts.py` and
  `nodes.py` write texts and nodes into the arena of the run or read a copy of them. None recurses, so trees may be of
  any depth.
- *The world* (`host.py`): output and files (`table.py`, `numpy_files.py`, `saved.py`), progress, and functions outside
  of the language (`python_modules.py`, `c_functions.py`, `foreign.py`). `text.py` writes values, for the interpreter
  and for compiled code; `libraries.py` and `lapack.py` do the library operations.
- *Failures* (`errors.py`, `failures.py`): a `RunError` has a code, a place and the calls that led there. A function
  that was called notes where as the failure passes through it; code that took the place of a call has the call in its
  span (`Span.via`). So the chain of calls is the same whatever was inlined. Every allocation may fail, and is then an
  error with a place.
- *Signals* (`codegen/llvm/safepoints.py`, `interruptions.py`). Handlers of Python run where compiled code calls into it
  from time to time; what they raise ends the run, and is raised by the call. No handler is installed.
- *Tiers of code* (`tiers.py`), *threads* (`platform/threads.py`), *recursion* (`platform/stack.py`), *linking*
  (`platform/loader.py`): `DLANG_PORTABLE=1` chooses the fallbacks of `platform/`.
- *Devices* (`devices.py`): a driver has functions of C that launch kernels, copy and multiply, for machine code;
  memory, copies and arrays of Python, for the engine; and graphs. `placed.py` sees arrays that are on a device already.
  A function that launches nothing gets copies on the host, and its arrays are copied to the device, so a caller need
  not know.
- *Measurements*: `usage.py` reads how much memory runs held; `profile.py` makes tables and traces of what a program
  that measures itself has counted, beside what the machine can do (`ceilings.py`, `device_ceilings.py`); `recorder.py`
  reads the marks that a device has come to; `platform/debugger.py` tells gdb and perf of code, if `observers.py` finds
  that they want to know.
"""
