"""Measures and keeps what this machine can do at most: bytes copied and floating-point operations in a second."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

from dlang.cache.store import digest, user_store
from dlang.codegen.llvm.symbols import entry_symbol
from dlang.lazy_modules import lazy_module, np

if TYPE_CHECKING:
    from dlang.codegen.llvm import jit, objects
else:
    jit = lazy_module("dlang.codegen.llvm.jit")
    objects = lazy_module("dlang.codegen.llvm.objects")


BYTES = 128 << 20  # of a copy, on all threads together: more than caches hold
STEPS = 2_000_000  # of a loop of multiplications with additions
INDEPENDENT = 12  # of these at once: as many as hide how long one takes
REPEATS = 5
TIMES = 3
KIND, VERSION = "ceilings", "1"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """For so many threads: bytes per second that a copy reads and writes; operations per second of f64 and of f32.

    times: how often that has been measured, the best of which this is.
    """

    threads: int
    bytes: float
    f64: float
    f32: float
    times: int = 1

    def operations(self, dtype: str) -> float:
        return self.f64 if dtype == "f64" else self.f32


def ceilings(threads: int) -> Ceilings:
    """Returns this processor's ceilings; measures for a second the first few times, as others may disturb it."""
    from dlang.codegen.llvm.objects import processor

    store, key = user_store(), digest(VERSION, processor(), str(threads))
    known = _read(store.get(KIND, key)) or Ceilings(threads, 0.0, 0.0, 0.0, 0)
    if known.times >= TIMES:
        return known
    found = Ceilings(
        threads,
        max(known.bytes, _copying(threads)),
        max(known.f64, _computing("f64", threads)),
        max(known.f32, _computing("f32", threads)),
        known.times + 1,
    )
    store.put(KIND, key, json.dumps(asdict(found)).encode())
    return found


def _read(kept: bytes | None) -> Ceilings | None:
    try:
        return None if kept is None else Ceilings(**json.loads(kept))
    except (ValueError, TypeError):
        return None


def _copying(threads: int) -> float:
    share = BYTES // threads // 8
    arrays = [(np.ones(share), np.ones(share)) for _ in range(threads)]
    return 2 * 8 * share * threads / _at_once([partial(np.copyto, a, b) for a, b in arrays])


def _computing(dtype: str, threads: int) -> float:
    from dlang.codegen.llvm.objects import vector_bits

    lanes = vector_bits() // (64 if dtype == "f64" else 32)
    loaded, run = _kernel(dtype, lanes)
    seconds = _at_once([lambda: run(None, None) for _ in range(threads)])
    del loaded
    return 2 * INDEPENDENT * lanes * STEPS * threads / seconds


def _kernel(dtype: str, lanes: int) -> tuple[Any, Callable[[Any, Any], int]]:
    """A loop of multiplications with additions on registers alone, and what keeps it in memory."""
    scalar, suffix = ("double", "f64") if dtype == "f64" else ("float", "f32")
    type, fma = f"<{lanes} x {scalar}>", f"llvm.fma.v{lanes}{suffix}"
    names = range(INDEPENDENT)
    phis = [f"  %a{k} = phi {type} [ splat ({scalar} {k}.0), %entry ], [ %b{k}, %head ]" for k in names]
    factor, term = (f"{type} splat ({scalar} {x})" for x in ("5.000000e-01", "1.000000e+00"))
    steps = [f"  %b{k} = call {type} @{fma}({type} %a{k}, {factor}, {term})" for k in names]
    sums = [f"  %s{k + 1} = fadd {type} %s{k}, %b{k + 1}" for k in range(1, INDEPENDENT - 1)]
    last = f"%s{INDEPENDENT - 1}"
    text = "\n".join([
        f"declare {type} @{fma}({type}, {type}, {type})",
        f"define i32 @{entry_symbol('peak')}(ptr %a, ptr %b) nounwind {{",
        "entry:", f"  %room = alloca {type}, align 64", "  br label %head",
        "head:", "  %i = phi i64 [ 0, %entry ], [ %j, %head ]", *phis, *steps,
        "  %j = add i64 %i, 1", f"  %more = icmp ult i64 %j, {STEPS}", "  br i1 %more, label %head, label %done",
        "done:", f"  %s1 = fadd {type} %b0, %b1", *sums, f"  store volatile {type} {last}, ptr %room, align 64",
        "  ret i32 0", "}", "",
    ])  # fmt: skip
    loaded = jit.load(objects.compile_object(text), ["peak"])
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(loaded.entries["peak"])


def _at_once(tasks: list[Callable[[], Any]]) -> float:
    """Seconds that tasks take on a thread each, the least of some times."""
    best = float("inf")
    for _ in range(REPEATS):
        barrier = Barrier(len(tasks) + 1)

        def work(task: Callable[[], Any], barrier: Barrier = barrier) -> None:
            barrier.wait()
            task()

        threads = [Thread(target=work, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        barrier.wait()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - begin)
    return best
