"""The emulation runs what is right, in any order of threads, and says what is wrong with what is not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dlang.codegen.abi import Kernel
from dlang.runtime.devices import Misbehaviour
from dlang.runtime.emulation.driver import EmulatedDriver
from tests.cuda import calls

THREADS = 64
ORDERS = (0, 1, 2, 3)

RIGHT = {
    "reversed_by_a_barrier": """
        DL_SHARED(f64, s, 64);
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = s[63 - threadIdx.x];""",
    "reversed_within_warps": """
        DL_SHARED(f64, s, 64);
        s[threadIdx.x] = x[threadIdx.x];
        __syncwarp();
        out[threadIdx.x] = s[(threadIdx.x & 32) + 31 - (threadIdx.x & 31)];""",
    "shuffled": "out[threadIdx.x] = dl_shuffle((f64)x[threadIdx.x], 1);",
    "counted": "atomicAdd(DL_AT(out, 0), (f64)x[threadIdx.x]);",
    "never_written_but_not_used": "f64 v = DL_PERHAPS(fresh, threadIdx.x); out[threadIdx.x] = v == v ? 1.0 : 2.0;",
    "of_what_is_in_memory": """
        if (threadIdx.x == 0) run->partials[2] = 7;
        __syncthreads();
        out[threadIdx.x] = (f64)run->partials[2];""",
    "some_lanes_end_first": """
        if (threadIdx.x >= 32) return;
        out[threadIdx.x] = dl_shuffle((f64)x[threadIdx.x], 3);""",
}
WRONG = {
    "a race: no barrier between": (
        "DL_SHARED(f64, s, 64); s[threadIdx.x] = x[threadIdx.x]; out[threadIdx.x] = s[63 - threadIdx.x];",
        "shared array",
    ),
    "a race: two threads write": ("DL_SHARED(f64, s, 1); s[0] = x[threadIdx.x];", "race at element 0.*writes it, and"),
    "a race: a read before a write": (
        """DL_SHARED(f64, s, 64); s[threadIdx.x] = 1.0; __syncthreads();
        f64 v = s[63 - threadIdx.x]; s[threadIdx.x] = v;""",
        "race at element",
    ),
    "a barrier that some never reach": ("if (threadIdx.x < 32) __syncthreads();", "not reached by 32 threads"),
    "different barriers": (
        "if (threadIdx.x < 32) __syncthreads();\nelse __syncthreads();",
        "different barriers",
    ),
    "shared memory never written": (
        "DL_SHARED(f64, s, 64); if (threadIdx.x < 63) s[threadIdx.x] = 1.0; __syncthreads(); out[threadIdx.x] = s[63];",
        "element 63 of a shared array, which was never written",
    ),
    "beyond a shared array": ("DL_SHARED(f64, s, 8); s[threadIdx.x] = 1.0;", r"element \d+ of a shared array of 8"),
    "more shared memory than there is": (
        """DL_SHARED(f64, s, 6000); s[threadIdx.x] = 1.0; DL_SHARED(i32, t, 288); t[threadIdx.x] = 1;
        DL_SHARED(u8, u, 1); u[0] = 1;""",
        "49153 bytes of shared memory, of which a block has 49152",
    ),
    "beyond an array": ("out[threadIdx.x + 1] = 1.0;", "element 64 of an array of 64"),
    "before an array": ("out[threadIdx.x] = x[(i64)threadIdx.x - 1];", "element -1"),
    "an atomic beyond an array": ("atomicAdd(DL_AT(out, threadIdx.x * 2), 1.0);", r"element \d+ of an array"),
    "an atomic at what was never written": ("atomicAdd(DL_AT(fresh, 0), 1.0);", r"element 0, which was never written"),
    "memory never written": ("out[threadIdx.x] = fresh[threadIdx.x];", r"element \d+, which was never written"),
    "a mask with lanes that have ended": (
        "if (threadIdx.x % 32 >= 20) return; out[threadIdx.x] = dl_shuffle((f64)x[threadIdx.x], 1);",
        "lanes of warp . that have ended|never reach",
    ),
    "a lane outside of its own mask": (
        "out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, (f64)x[threadIdx.x], 1);",
        "not in the mask of its own",
    ),
    "different collectives": (
        "if (threadIdx.x & 1)\n  out[0] = dl_shuffle(1.0, 1);\nelse\n  out[1] = __shfl_xor_sync(0xffffffffu, 1.0, 1);",
        "different collectives",
    ),
    "a collective and a barrier": (
        "if (threadIdx.x & 1) __syncthreads(); else __syncwarp();",
        "wait at the barrier",
    ),
}


HEAD = "dl_run *run, i64 site, i64 iterations, DL_GLOBAL(f64) x, DL_GLOBAL(f64) out, DL_GLOBAL(f64) fresh"


@cache
def device() -> tuple[EmulatedDriver, dict[str, int]]:
    """All of them on a device, by their names."""
    bodies = [*RIGHT.values(), *[body for body, _ in WRONG.values()]]
    kernels = [
        Kernel(f"k{k}", "map", f'extern "C" __global__ void k{k}({HEAD}) {{\n{body}\n}}\n')
        for k, body in enumerate(bodies)
    ]
    driver = EmulatedDriver()
    return driver, dict(zip([*RIGHT, *WRONG], driver.load(kernels)))


def run(name: str, order: int) -> np.ndarray:
    driver, handles = device()
    driver.reorder(order)
    x, out = calls.uploaded(driver, np.arange(THREADS) + 1.0), calls.uploaded(driver, np.zeros(THREADS))
    arrays = (x, out, driver.allocate(8 * THREADS))
    state = calls.run_of(driver)
    try:
        calls.launch(driver, handles[name], 1, THREADS, state, 0, THREADS, *arrays)
        return calls.downloaded(driver, out, [THREADS])
    finally:
        for array in arrays:
            driver.free(array)


X = np.arange(THREADS) + 1.0
RESULTS = {
    "reversed_by_a_barrier": X[::-1],
    "reversed_within_warps": X.reshape(2, 32)[:, ::-1].reshape(-1),
    "shuffled": X.reshape(32, 2)[:, ::-1].reshape(-1),
    "never_written_but_not_used": np.ones(THREADS),
    "of_what_is_in_memory": np.full(THREADS, 7.0),
    "counted": np.array([X.sum()] + [0.0] * 63),
    "some_lanes_end_first": np.concatenate([X[np.arange(32) ^ 3], np.zeros(32)]),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_gives_the_same_in_any_order_of_threads(name: str, order: int) -> None:
    np.testing.assert_array_equal(run(name, order), RESULTS[name])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_reported(name: str, order: int) -> None:
    with pytest.raises(Misbehaviour, match=WRONG[name][1]):
        run(name, order)


def test_blocks_run_in_the_order_that_is_asked_for() -> None:
    text = 'extern "C" __global__ void turns(DL_GLOBAL(i64) out) { out[blockIdx.x] = atomicAdd(DL_AT(out, 9), 1ll); }'
    driver = EmulatedDriver()
    (kernel,) = driver.load([Kernel("turns", "map", text)])
    out, found = calls.uploaded(driver, np.zeros(10, np.int64)), []
    for order in ORDERS:
        driver.reorder(order)
        calls.fill(driver, out, 0, 80)
        calls.launch(driver, kernel, 9, 32, out)
        found.append([int(turn) // 32 for turn in calls.downloaded(driver, out, (9,), "int64")])
    assert found[0] == list(range(9)) and found[1] == found[0][::-1]
    for shuffled in found[2:]:
        assert sorted(shuffled) == found[0] and shuffled not in found[:2]
    assert found[2] != found[3]


def test_a_launch_after_a_report_starts_anew() -> None:
    with pytest.raises(Misbehaviour):
        run("different barriers", 0)
    np.testing.assert_array_equal(run("shuffled", 0), RESULTS["shuffled"])


def test_a_kernel_that_does_not_compile_is_a_mistake_of_the_compiler() -> None:
    with pytest.raises(Misbehaviour, match="do not compile"):
        EmulatedDriver().load([Kernel("k", "map", 'extern "C" __global__ void k(dl_run *run) { nothing(); }\n')])


def test_fibers_without_own_code_for_the_processor_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_PORTABLE", "1")
    device.cache_clear()
    try:
        for name, result in RESULTS.items():
            np.testing.assert_array_equal(run(name, 2), result)
        with pytest.raises(Misbehaviour, match="different barriers"):
            run("different barriers", 0)
    finally:
        device.cache_clear()
