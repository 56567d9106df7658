"""What a workload is: the same program in several tools, each as its users are told to write it.

A workload is a module of `benchmarks.workloads`, or of a family, as `others.nbody`. It has

    TITLE                                      what is computed
    SIZES, DTYPES                              instances of it, the first of each is the usual one
    TOLERANCE                                  for each dtype, how far results may be apart, relative to their size
    data(size, dtype)                          NumPy arrays, the same for all tools
    dlang(data), jax(data), torch(data, wrap), numba(data), c(data), …    for each tool that has it, its `Calls`

The first call is the value, the others are derivatives; a call has the same name in all tools. It returns when its
results are complete. A call of one function of dlang is a `partial` of it. `wrap` is `torch.compile` in the tool
`torch-compile`, else the identity.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Calls = dict[str, Callable[[], Any]]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORKLOADS = HERE / "workloads"
TOOLS = ("dlang", "jax", "torch", "torch-compile", "enzyme", "numba", "numpy", "c")
BACKEND = "BENCHMARKS_BACKEND"
"""The environment variable that says which back end of dlang runs programs, if it is not that of the processor."""
_PACKAGES = {"jax": "jax", "torch": "torch", "torch-compile": "torch", "numba": "numba", "enzyme": "enzyme_ad"}


class NotInstalled(Exception):
    """A tool that this machine lacks: reported, and no failure."""


def require(tool: str) -> None:
    package = _PACKAGES.get(tool)
    if package is not None and importlib.util.find_spec(package) is None:
        raise NotInstalled(f"{package} is not installed (pip install 'dlang[bench]')")
    if tool == "c" and shutil.which("gcc") is None:
        raise NotInstalled("there is no gcc")


def load(tool: str) -> None:
    """Imports a tool, so that what follows is the work on a program; raises `NotInstalled`."""
    require(tool)
    importlib.import_module(_PACKAGES.get(tool, "numpy"))
    if tool == "dlang":
        importlib.import_module("dlang.python.module")


def another(tool: str, dtype: str) -> None:
    """Compiles and runs a small program, so that what follows is the work on one more."""
    import numpy as np

    x = np.ones((8, 8), scalar(dtype))
    match tool:
        case "dlang":
            import dlang

            f = dlang.compile("fn f<a: Float>(x: a[n, n]) -> a = sum(x @ x)", backend()).f
            f(x), f(x)  # the second call is the first one without the interpreter's help
        case "jax" | "enzyme":
            import jax

            jax.config.update("jax_enable_x64", True)
            jax.jit(lambda x: (x @ x).sum())(x).block_until_ready()
        case "torch-compile":
            import torch

            torch.compile(lambda x: (x @ x).sum())(torch.tensor(x))
        case "numba":
            import numba

            numba.njit(lambda x: (x * x).sum())(x)
        case _:
            raise ValueError(f"{tool} does not compile")


def workload_of(name: str) -> Any:
    """The module of a workload."""
    return importlib.import_module(f"benchmarks.{name}" if "." in name else f"benchmarks.workloads.{name}")


def calls(workload: Any, tool: str, data: Any) -> Calls:
    """What a tool runs for a workload; raises `NotInstalled`."""
    require(tool)
    match tool:
        case "jax" | "enzyme":
            import jax

            jax.config.update("jax_enable_x64", True)
            found: Calls = getattr(workload, tool)(data)
        case "torch" | "torch-compile":
            import torch

            if os.environ.get("OMP_NUM_THREADS"):
                torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
            found = workload.torch(data, torch.compile if tool == "torch-compile" else lambda f: f)
        case _:
            found = getattr(workload, tool)(data)
    return found


def has(workload: Any, tool: str) -> bool:
    """Whether a workload is written in a tool; `EAGER` says that `torch.compile` would gain nothing."""
    if tool == "torch-compile":
        return hasattr(workload, "torch") and not getattr(workload, "EAGER", False)
    return hasattr(workload, tool)


def backend() -> Any:
    """The back end of dlang that runs programs in this process."""
    return os.environ.get(BACKEND, "cpu")


def program(name: str) -> Any:
    """A program of `benchmarks/workloads`, imported as any module of dlang is."""
    return loaded(WORKLOADS / f"{name}.dl")


def loaded(path: str | Path) -> Any:
    """The program in a file."""
    import dlang

    return dlang.load(str(path), backend())


def scalar(dtype: str) -> Any:
    """The type of NumPy in which arrays are made: f32 for bf16, which it lacks."""
    import numpy as np

    return {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.float32}[dtype]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call of a function that JAX compiles; returns when its results are complete."""

    function: Any
    args: tuple[Any, ...]

    def __call__(self) -> Any:
        import jax

        return jax.block_until_ready(self.started())

    def started(self) -> Any:
        """The results, which may not be complete."""
        return self.function(*self.args)


def waiting(f: Callable[..., Any], *args: Any) -> Waiting:
    return Waiting(f, args)


def cpp_function(name: str, function: str, *outs: tuple[int, ...], dtype: str = "float64") -> Callable[..., Any]:
    """A function of `workloads/NAME.cpp` that JAX differentiates by Enzyme; it takes arrays and gives a list of some.

    Enzyme's wheel brings a compiler of C++, but no headers. Every array of floats is differentiated by: that some are
    constant can't be said.
    """
    import jax
    from enzyme_ad.jax import cpp_call

    source = (WORKLOADS / f"{name}.cpp").read_text(encoding="utf-8")
    shapes = [jax.core.ShapedArray(shape, dtype) for shape in outs]
    flags = ["-O3", "-ffast-math", "-vectorize-loops", "-vectorize-slp", *_processor()]
    with suppress(OSError):  # mathematics for vectors, where the C library has it
        ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL)
        flags.append("-fveclib=libmvec")

    def call(*arrays: Any) -> Any:
        return cpp_call(*arrays, out_shapes=shapes, source=source, fn=function, argv=tuple(flags))

    return call


def _processor() -> list[str]:
    """The flag of clang's own compiler for this processor, as gcc names it."""
    if shutil.which("gcc") is None:
        return []
    asked = subprocess.run(["gcc", "-march=native", "-Q", "--help=target"], capture_output=True, text=True)
    named = [line.split()[1] for line in asked.stdout.splitlines() if line.strip().startswith("-march=")]
    return ["-target-cpu", named[0]] if named else []


# ---- C ---------------------------------------------------------------------------------------------------------------
def c_library(name: str) -> ctypes.CDLL:
    """`workloads/NAME.c`, compiled as a careful person would: for this processor, with fast mathematics.

    Linked without that: gcc would let the library switch off denormal numbers in the whole process.
    """
    with tempfile.TemporaryDirectory() as folder:
        compiled, library = str(Path(folder) / f"{name}.o"), str(Path(folder) / f"{name}.so")
        source = str(WORKLOADS / f"{name}.c")
        subprocess.run(
            ["gcc", "-O3", "-march=native", "-ffast-math", "-fPIC", "-c", source, "-o", compiled], check=True
        )
        subprocess.run(["gcc", "-shared", compiled, "-o", library, "-lmvec", "-lm"], check=True)
        return ctypes.CDLL(library)


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


# ---- results ---------------------------------------------------------------------------------------------------------
def leaves(result: Any) -> list[NDArray[np.float64]]:
    """The numbers of a result, whatever it is made of, array by array."""
    return [numbers(part) for part in parts(result)]


def parts(result: Any) -> list[Any]:
    """The arrays and numbers that a result is made of."""
    if result is None:
        return []
    if isinstance(result, dict):
        return [leaf for key in sorted(result) for leaf in parts(result[key])]
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in parts(part)]
    return [result]


def numbers(array: Any) -> NDArray[np.float64]:
    """The elements of an array of any tool, copied to the host."""
    import numpy as np

    if hasattr(array, "detach"):
        array = array.detach().double().cpu()
    elif hasattr(array, "__cuda_array_interface__") and hasattr(array, "get"):
        array = array.get()
    return np.array(array, dtype=np.float64)


def disagreement(found: list[Any], wanted: list[Any], tolerance: float) -> str | None:
    """What is wrong if two results are further apart than `tolerance` times the largest element of an array."""
    import numpy as np

    if len(found) != len(wanted):
        return f"{len(found)} arrays instead of {len(wanted)}"
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape:
            return f"array {k} has the shape {a.shape} instead of {b.shape}"
        if not a.size:
            continue
        error = float(np.max(np.abs(a - b))) / max(1e-300, float(np.max(np.abs(b))))
        if not error <= tolerance:
            return f"array {k} is {error:.1e} apart"
    return None
