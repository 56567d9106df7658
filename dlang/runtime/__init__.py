"""The runtime of compiled code: the engine that holds it, its memory, threads and devices, and calls from Python.

Takes compiled functions and values; gives values, text and `RunError`s. Never sees source, types or the IR's passes.
What it shares with the interpreter is in `host/`.

- *Build and run*. `build.py` makes machine code with all that is needed to call it and to explain its failures
  (`compiled.py`), none of which depends on the process; `engine.py` loads that and runs it. `memory.py` has the free
  lists of a run, and arrays that give their memory back when Python drops them, so results are not copied.
- *Texts and nodes* among arguments and results (`marshalling.py`) are written into the arena of the run, and
  read out of it as copies. It does not recurse, so trees may be of any depth.
- *Failures* (`failures.py`): a `RunError` has a code, a place and the calls that led there. A function
  that was called notes where as the failure passes through it; code that took the place of a call has the call in its
  span (`Span.via`). So the chain of calls is the same whatever was inlined. Every allocation may fail, and is then an
  error with a place.
- *Signals* (`codegen/llvm/safepoints.py`, `memory.py`). Handlers of Python run where compiled code calls into it
  from time to time; what they raise ends the run, and is raised by the call. No handler is installed.
- *Tiers of code* (`tiers.py`), *threads* (`threads.py`), *recursion* (`host/platform/stack.py`), *linking*
  (`host/platform/loader.py`).
- *Devices* (`devices.py`): a driver has functions of C that launch kernels, copy and multiply, for machine code;
  memory, copies and arrays of Python, for the engine; and graphs.
  A function that launches nothing gets copies on the host, and its arrays are copied to the device, so a caller need
  not know.
- *Measurements*: `memory.py` reads how much memory runs held; `profile.py` makes tables and traces of what a program
  that measures itself has counted, beside what the machine can do; `device_runs.py` reads the marks that a device has
  come to; `host/platform/loader.py` tells gdb and perf of code, if `engine.py` finds that they want to know.
"""
