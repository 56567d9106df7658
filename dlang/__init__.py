"""A statically typed, differentiable array language that compiles to native code.

A tour of the compiler, in the order in which a program goes through it; each stage is a folder, and no stage knows a
later one:

    grammar/     text → syntax tree (`syntax.py`). `dl.lark` is the grammar, `parser.py` repairs and reports mistakes.
    typecheck/   syntax tree → typed core tree (`core.py`): names, types, sizes and effects are inferred. Types are in
                 `types.py`; two sizes are equal when their polynomials are (`polynomials.py`).
    specialize/  core tree → monomorphic, first-order programs in A-normal form (`ir/anf.py`): functions at the dtypes
                 and ranks that they are used at, tuples and structs flattened to their leaves, closures resolved.
    ir/          the definition of that form, with its printer, verifier and reference interpreter.
    ops/         records of dtypes, functions of scalars and monoids: meaning, derivatives, names in the back ends.
    optimize/    program → program: a normal form before differentiation, fusion and the rest after it. `pipeline.py`
                 orders the passes.
    ad/          program → program: functions with their derivatives, in reverse and in forward mode.
    codegen/     programs → loop nests, with explicit memory and vectors → LLVM, or kernels in CUDA C.
    runtime/     what compiled code needs while it runs: memory, errors, text, files.

Around the road: `driver.py` puts the stages together, `diagnostics.py` holds and formats every message, `cache/` keeps
what was compiled, `format/` writes programs in the one style, `aot/` compiles them for where there is no Python,
`tools/` is the command `dlc`, `python/` is what follows here:

    model = dlang.load("model.dl")          # or: import dlang.importer; import model
    model.loss(params, images, labels)      # NumPy arrays in and out; types, ranks and sizes are checked
    dlang.grad(model.loss)(params, images, labels)

`load(path)` and `compile(text)` give modules; `primitive` lets them call a function of Python; `grad`,
`value_and_grad`, `vjp`, `jvp`, `jacobian` and `hessian` differentiate their functions; `compilations()` counts what has
been compiled; `memory_use()` measures the memory of runs; `lazy(x)` records operations on an array, and
`evaluate(a, b)` computes several such at once; `set_threads(n)` says how many threads work on large loops;
mistakes raise `DlangError`, whose text is the whole message; a function that draws random numbers again without a seed
warns by `SeedWarning`.
"""

TYPE_CHECKING = False  # no module is imported here, so that `import dlang` costs nothing
__version__ = "0.1.0"
__all__ = [
    "DlangError",
    "SeedWarning",
    "compilations",
    "compile",
    "evaluate",
    "grad",
    "hessian",
    "jacobian",
    "jvp",
    "lazy",
    "load",
    "memory_use",
    "primitive",
    "set_threads",
    "value_and_grad",
    "vjp",
]

if TYPE_CHECKING:
    from typing import Any

    from dlang.diagnostics import DlangError
    from dlang.python.callables import primitive
    from dlang.python.derivatives import grad, hessian, jacobian, jvp, value_and_grad, vjp
    from dlang.python.lazy.arrays import evaluate, lazy
    from dlang.python.module import compilations, compile, load, set_threads
    from dlang.runtime.memory import memory_use
    from dlang.runtime.seeds import SeedWarning

_HOMES = {
    "DlangError": "dlang.diagnostics",
    "SeedWarning": "dlang.runtime.seeds",
    "compilations": "dlang.python.module",
    "compile": "dlang.python.module",
    "evaluate": "dlang.python.lazy.arrays",
    "grad": "dlang.python.derivatives",
    "hessian": "dlang.python.derivatives",
    "jacobian": "dlang.python.derivatives",
    "jvp": "dlang.python.derivatives",
    "lazy": "dlang.python.lazy.arrays",
    "load": "dlang.python.module",
    "load_ipython_extension": "dlang.tools.notebook.magics",
    "memory_use": "dlang.runtime.memory",
    "primitive": "dlang.python.callables",
    "set_threads": "dlang.python.module",
    "value_and_grad": "dlang.python.derivatives",
    "vjp": "dlang.python.derivatives",
}


def __getattr__(name: str) -> "Any":
    """Each public name is imported when it is first used, so that `import dlang` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dlang' has no attribute '{name}'")
    from importlib import import_module

    from dlang.process import gc_paused

    with gc_paused():  # making classes makes many objects, all of which stay
        value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, whether they are imported already or not."""
    return sorted(["__doc__", "__file__", "__name__", "__path__", "__version__", *__all__])
