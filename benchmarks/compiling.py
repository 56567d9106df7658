"""What the first call of a program takes: from source to the first result, with and without what a tool has kept.

Each time is that of a new process, once the tool itself is imported. *cold*: the tool has kept nothing; *warm*: the
same again, in another process, where it finds what it has kept of this program. *loaded*: nothing is kept of this
program, but the process has compiled and run another one, so all of the tool is there that it loads when it is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.tools import ROOT, has, workload_of
from benchmarks.workers import Worker, start


@dataclass(frozen=True, slots=True)
class Case:
    """A program whose derivative is called for the first time."""

    title: str
    workload: str
    size: str
    dtype: str
    call: str = "gradient"


CASES = (
    Case("gradient of one line", "one_line", "100x10", "f64"),
    Case("MLP", "mlp", "128", "f32"),
    Case("LSTM", "lstm", "100x64x256", "f32"),
    Case("GMM", "gmm", "10x25x1000", "f64"),
    Case("Jacobian of BA", "bundle", "49x7776x31843", "f64"),
)
COMPILERS = ("dlang", "jax", "torch-compile", "enzyme", "numba")
CACHES = (
    "DLANG_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "NUMBA_CACHE_DIR",
    "CUDA_CACHE_PATH", "CUPY_CACHE_DIR",
)  # fmt: skip


def first_calls(
    case: Case,
    tools: Sequence[str],
    python_of: Callable[[str], str],
    cores: Sequence[int],
    launch: Callable[..., Worker] = start,
) -> list[dict[str, Any]]:
    """A row for each tool that compiles; printed, too. launch: starts the process that makes the call."""
    workload = workload_of(case.workload)
    rows = []
    for tool in tools:
        if tool not in COMPILERS or not has(workload, tool):
            continue
        with _nothing_kept(tool) as caches:
            cold = _first(case, tool, python_of(tool), cores, caches, launch)
            warm = _first(case, tool, python_of(tool), cores, caches, launch)
        with _nothing_kept(tool) as caches:
            loaded = _first(case, tool, python_of(tool), cores, caches, launch, ["--after-another"])
        if failed := next((w for w in (cold, warm, loaded) if w.problem is not None), None):
            print(f"  {case.title:<22}{tool:<14}{failed.problem}", flush=True)
            continue
        seconds = {
            f"{kind}_s": w.prepare_s + w.first_s[case.call]
            for kind, w in (("cold", cold), ("loaded", loaded), ("warm", warm))
        }
        shown = " ".join(f"{value:8.2f} s {kind.removesuffix('_s')}" for kind, value in seconds.items())
        print(f"  {case.title:<22}{tool:<14}{shown}", flush=True)
        rows.append({"case": case.title, "tool": tool, "device": cold.device, **seconds})
    return rows


@contextmanager
def _nothing_kept(tool: str) -> Iterator[dict[str, str]]:
    """The environment of processes in which a tool finds nothing that it has kept."""
    with tempfile.TemporaryDirectory(prefix="benchmark-cache-") as folder:
        caches = {name: os.path.join(folder, name.lower()) for name in CACHES}
        caches["DLANG_TIERS"] = os.environ.get("DLANG_TIERS", "on")
        if tool == "dlang":
            _prime(caches)
        yield caches


def _prime(caches: dict[str, str]) -> None:
    """Lets the compiler make the tables of its grammar, as it does once for all programs."""
    program = "import dlang; dlang.compile('fn f(x: f64) -> f64 = x')"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, **caches}, check=True)


def _first(
    case: Case,
    tool: str,
    python: str,
    cores: Sequence[int],
    caches: dict[str, str],
    launch: Callable[..., Worker],
    more: Sequence[str] = (),
) -> Worker:
    options = ["--call", case.call, *more]
    worker = launch(tool, python, (case.workload, case.size, case.dtype), cores, options, environment=caches)
    worker.prepare()
    worker.close()
    return worker
