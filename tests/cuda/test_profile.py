"""What a program asks of a device is measured there, and counts are those of native code."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import dlang
from dlang.codegen.cuda.placement import on_device
from dlang.codegen.cuda.tallies import tally_of
from dlang.codegen.llvm.mathematics import operations
from dlang.codegen.llvm.profiling import ROOM
from dlang.codegen.loops import (
    Body,
    Branch,
    Buffer,
    Compute,
    Count,
    Fetch,
    Load,
    Loop,
    Nest,
    OnHost,
    Program,
    Store,
    Transfer,
)
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.diagnostics import Source, Span
from dlang.driver import call, check, errors_of, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.ir.anf import Lit, Scalar, fresh, poly
from dlang.ir.types import I64
from dlang.runtime.device_runs import Recorder, Recording
from dlang.runtime.devices import Driver
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine
from dlang.runtime.profile import EMULATED, Ceilings, DeviceCeilings, Event, Profile, Row, device_ceilings
from tests.codegen.test_profile import PROGRAM, numbers

MORE = """
fn softmax(x: f64[n, m]) -> f64[n, m] {
  let e = [exp(v) for v in x]
  [e[i, j] / sum(e[i]) for i, j]
}
fn columns(x: f64[n, m]) -> f64[m] = [sum([x[i, j] for i < n]) for j < m]
fn scaled(x: f64[n]) -> f64[n] = x / sum(x) * (2.0 + max(x))
fn loss(w: f64[k, m], x: f64[n, k]) -> f64 = sum(tanh(x @ w))
fn branches(x: f64[n]) -> f64[n] = [if x[i] > 0.0 { sin(x[i]) } else { sum([x[j] * x[j] for j < i]) } for i < n]
fn newton(x: f64[n]) -> f64[n] = [{
  var y = 1.0
  while abs(y * y - v) > 0.0001 { y = 0.5 * (y + v / y) }
  y
} for v in x]
fn early(x: f64[n]) -> f64[n] = [{
  var y = v
  for k < 20 {
    if y > 3.0 { break }
    y = 2.0 * y
  }
  y
} for v in x]
fn scatter(x: f64[n], k: i64[n]) -> f64[n] {
  var y = zeros(n)
  for i < n { y[k[i]] += x[i] }
  y
}
fn spoken(x: f64[n]) -> f64 {
  let s = sum(x) * 2.0
  print("{s} {x[3] * 2.0}")
  s + x[0]
}
fn running(x: f64[n]) -> f64[n] = cumsum(2.0 * x)
fn decided(x: f64[n]) -> f64[n] = if sum(x) > 0.0 { 2.0 * x } else { [if v > 0.0 { sin(v) } else { v } for v in x] }
fn chosen(x: f64[n], k: i64[m]) -> f64[m] = [x[k[i]] for i]
"""
NOT_COUNTED = ("transfer", "counts")


@cache
def native() -> ModuleType:
    return dlang.compile(PROGRAM + MORE)


@cache
def emulated() -> ModuleType:
    return dlang.compile(PROGRAM + MORE, backend="cuda-emulated")


def identity(f: Any) -> Any:
    return f


def slow(*values: Any) -> Any:
    """A case whose kernels take long to compile for the emulation."""
    return pytest.param(*values, marks=pytest.mark.slow)


def total(profile: Profile) -> tuple[int, int]:
    """Bytes and operations of what is in the program itself; all of it is known."""
    rows = [row for row in profile.rows if row.nest.kind not in NOT_COUNTED]
    assert all(row.operations is not None for row in rows if row.nest.kind != "host")
    return sum(row.bytes for row in rows), sum(row.operations or 0 for row in rows)


def rows(profile: Profile, kind: str) -> list[Row]:
    return [row for row in profile.rows if row.nest.kind == kind]


# ---- counts ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "args", "of"),
    [
        ("add", (numbers(100), numbers(100)), identity),
        ("positive", (numbers(101),), identity),
        ("product", (numbers(64 * 12).reshape(64, 12), numbers(12 * 80).reshape(12, 80)), identity),
        ("repeated", (numbers(50), 7), identity),
        ("scaled", (numbers(50),), identity),
        ("branches", (numbers(60),), identity),
        ("spoken", (numbers(50),), identity),
        slow("energy", (numbers(100).astype(np.float32),), identity),
        slow("energy", (numbers(100).astype(np.float32),), dlang.grad),
        slow("stencil", (numbers(50),), identity),
        slow("triangle", (numbers(40),), identity),
        slow("logistic", (0.3, 1000), identity),
        slow("power", (1.5, 12), identity),
        slow("powers", (numbers(50), 5), identity),
        slow("halves", (numbers(64),), identity),
        slow("softmax", (numbers(600).reshape(20, 30),), identity),
        slow("columns", (numbers(600).reshape(60, 10),), identity),
        slow("running", (numbers(90),), identity),
        slow("loss", (numbers(40).reshape(8, 5), numbers(240).reshape(30, 8)), dlang.grad),
        slow("newton", (np.abs(numbers(50)) + 0.1,), identity),
        slow("early", (numbers(50),), identity),
        slow("scatter", (numbers(50), np.arange(50) // 3), identity),
        slow("decided", (numbers(50),), identity),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_device_counts_what_native_code_counts(name: str, args: tuple[Any, ...], of: Callable[[Any], Any]) -> None:
    here, there = (of(getattr(module, name)).profile(*args) for module in (native(), emulated()))
    np.testing.assert_allclose(there.result, here.result, rtol=1e-5)
    assert total(there) == total(here) != (0, 0)


def test_what_iterations_find_is_counted_by_a_kernel_of_its_own() -> None:
    found = emulated().branches.profile(numbers(60))
    (loop,), (counts,) = rows(found, "loop"), rows(found, "counts")
    assert len(loop.nest.kernels) == len(counts.nest.kernels) == 1 and counts.nest.kernels != loop.nest.kernels
    assert not rows(emulated().softmax.profile(np.ones((40, 40))), "counts")


def test_what_depends_on_elements_that_the_loop_stores_is_not_known() -> None:
    x, y = Buffer("x", "f64"), Buffer("y", "f64")
    i, n = fresh("i", I64), fresh("n", I64)
    v, w, condition = fresh("v", Scalar("f64")), fresh("w", Scalar("f64")), fresh("c", Scalar("bool"))

    def loop(looked_at: Buffer) -> Loop:
        counts = Body((Count(Lit(0, "i64"), poly(8), poly(1)),), ())
        stmts = (
            Load(v, x, poly(i)),
            Store(y, poly(i), v),
            Load(w, looked_at, poly(i)),
            Compute(condition, "gt", (w, Lit(0.0, "f64"))),
            Branch(condition, counts, Body((), ()), ()),
        )
        return Loop(i, (poly(0),), (poly(n),), stmts)

    assert tally_of(loop(y)) is None
    tally = tally_of(loop(x))
    assert tally is not None and [r.result for r in tally.loop.reductions] == [tally.bytes, tally.operations]
    assert not any(isinstance(s, Store | Count) or s == loop(x).stmts[0] for s in walk((tally.loop,)))


# ---- nests -----------------------------------------------------------------------------------------------------------
def test_each_thing_that_the_device_is_asked_for_has_a_row() -> None:
    x = numbers(50)
    found = emulated().scaled.profile(x)
    loops = rows(found, "loop")
    assert len(loops) == 3 and all(row.device and row.seconds > 0 and row.calls == 1 for row in loops)
    assert all(re.fullmatch(r"dl_\w+", name) for row in loops for name in row.nest.kernels)
    assert all(row.nest.span is not None for row in loops)
    (transfer,) = rows(found, "transfer")
    assert (transfer.bytes, transfer.calls, transfer.operations) == (8 * 50, 1, 0) and transfer.device
    assert found.driver is not None and found.driver.name is None
    (host,) = [row for row in found.rows if not row.device]
    assert host.nest.kind == "function" and found.asking > 0


def test_a_product_and_a_copy_are_the_device_s() -> None:
    found = emulated().product.profile(np.ones((64, 12)), np.ones((12, 80)))
    (product,) = rows(found, "product")
    assert product.device and (product.operations, product.nest.dtype) == (2 * 64 * 12 * 80, "f64")
    (copy,) = rows(emulated().repeated.profile(numbers(50), 3), "copy")
    assert copy.device and copy.bytes == 2 * 8 * 50


def test_what_the_host_does_with_arrays_of_the_device_brings_copies_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = emulated().positive.profile(numbers(101))
    (loop,) = [row for row in rows(found, "loop") if not row.device]
    assert loop.calls == 1 and loop.operations
    (copies,) = [row for row in rows(found, "transfer") if row.nest.span is not None]
    assert copies.bytes == 8 * 101 * 3  # both come, and one of them goes back
    emulated().spoken.profile(numbers(50))
    assert capsys.readouterr().out


def texts(program: Program) -> list[str]:
    return [re.sub(r"dl_(\w+)_\d+", r"dl_\1", kernel.text) for kernel in program.kernels]


@pytest.mark.parametrize(
    "name", ["scaled", "spoken", "positive", "repeated", "halves", "columns", "running", "branches"]
)
def test_a_profile_changes_no_kernel_and_makes_nothing_travel(name: str) -> None:
    checked = check(Source("program.dl", PROGRAM + MORE))
    assert not errors_of(checked)
    program, _ = lower([request(checked.module.functions[name])])
    plain = on_device(schedule(program, device=True))
    measured = on_device(schedule(program, places=True, device=True), operations)
    tallies = [kernel for nest in measured.nests if nest.kind == "counts" for kernel in nest.kernels]
    kept = [k for k in measured.kernels if k.name not in tallies]
    assert texts(Program({}, kernels=tuple(kept))) == texts(plain)

    def regions(p: Program) -> list[str]:
        stmts = [s for f in p.functions.values() for s in walk(f.body.stmts)]
        return [type(s).__name__ for s in stmts if isinstance(s, OnHost | Transfer | Fetch)]

    found = regions(measured)
    assert found.count("Fetch") - 2 * len(tallies) == regions(plain).count("Fetch")
    assert [r for r in found if r != "Fetch"] == [r for r in regions(plain) if r != "Fetch"]


# ---- times -----------------------------------------------------------------------------------------------------------
def test_what_the_device_did_lies_within_the_run_and_in_order() -> None:
    found = emulated().repeated.profile(numbers(50), 9)
    there = [e for e in found.events if e.device]
    assert len(there) == 9 + 2 and all(0 <= e.begin <= e.end <= found.seconds for e in there)
    assert all(first.end <= later.begin for first, later in pairwise(there))
    (loop,) = rows(found, "loop")
    assert loop.seconds == pytest.approx(sum(e.end - e.begin for e in there if e.nest is loop.nest))
    assert emulated().repeated.profile(numbers(50), 2).lost == 0


def test_marks_are_used_again_when_there_are_no_more() -> None:
    steps = ROOM + 100
    found = emulated().repeated.profile(numbers(40), steps)
    (loop,) = rows(found, "loop")
    assert loop.calls == steps and loop.operations == 2 * 40 * steps
    assert len([e for e in found.events if e.device and e.nest is loop.nest]) == steps


def test_a_run_that_is_measured_is_not_kept_as_a_graph() -> None:
    checked = check(Source("program.dl", PROGRAM))
    program, (entry,) = lower([request(checked.module.functions["add"])])
    runner = Engine(Host(io.StringIO()), driver=EmulatedDriver(), profile=True).compile(program, [entry.name])
    for _ in range(4):
        call(runner, entry, [40], [np.ones(40), np.ones(40)])
    assert runner.device is not None and runner.device.recording is not None
    assert not runner.device.repeats and runner.device.recording.calls[runner.device.recording.outside] == 2 * 4
    assert len(runner.device.recording.recorders) == 1


def test_a_kernel_that_fails_is_told_as_ever() -> None:
    with pytest.raises(dlang.DlangError, match="E0801"):
        emulated().chosen.profile(numbers(40), [0, 1, 99] * 20)
    assert emulated().chosen.profile(numbers(40), [3] * 50).result[0] == numbers(40)[3]


def test_a_copy_marks_its_ends_for_the_nest_under_way() -> None:
    recording = Recording(outside=5)
    recorder = recording.recorder(EmulatedDriver())
    for size in (10, 20):
        with recorder.copying(size):
            pass
    recorder.end()
    assert (recording.calls[5], recording.bytes[5]) == (2, 30) and recording.seconds[5] >= 0
    assert isinstance(recording.recorder(EmulatedDriver()), Recorder) and not recording.recorders


# ---- text ------------------------------------------------------------------------------------------------------------
HEAD, PLACE = "fn f(x: f64[n]) -> f64 =", "model.dl:2:3"
SOURCE = Source("/somewhere/model.dl", f"{HEAD}\n  sum(x * x)\n")
SPAN = Span(SOURCE, 27, 37)
LOOP = Nest("loop", "f", SPAN, kernels=("dl_reduction_0",))
REST = Nest("function", "f", Span(SOURCE, 3, 4))
COPIES = Nest("transfer", "", None)
GPU = cast("Driver", SimpleNamespace(name="NVIDIA Test"))
NATIVE = Ceilings(2, bytes=10e9, f64=100e9, f32=200e9)
CEILINGS = DeviceCeilings("NVIDIA Test", 4e12, {"f64": 50e12, "f32": 40e12})
PROFILE = Profile(
    rows=(
        Row(LOOP, 3, 0.5, 10**12, 10**12, True),
        Row(COPIES, 2, 0.25, 10**9, 0, True),
        Row(REST, 1, 0.125, 0, 0),
    ),
    events=(Event(REST, 0.0, 1.0), Event(LOOP, 0.25, 0.26), Event(LOOP, 0.25, 0.75, True)),
    seconds=1.5,
    driver=GPU,
    asking=0.875,
)


def test_the_table_has_the_device_s_rows_first() -> None:
    assert PROFILE.table(NATIVE, device=CEILINGS).splitlines() == [
        "     time   share  calls     GB/s  GFLOP/s  of the device  nest",
        f"500.00 ms  66.7 %      3  2000.00  2000.00    50 % memory  dl_reduction_0: loop in `f`, {PLACE}  sum(x * x)",
        "250.00 ms  33.3 %      2     4.00        –              –  arguments and results",
        "750.00 ms on the device",
        "the device: NVIDIA Test, copies 4000 GB/s, multiplies 5e+04 GFLOP/s in f64, 4e+04 GFLOP/s in f32",
        "",
        "     time   share  calls  GB/s  GFLOP/s  of the machine  nest",
        f"125.00 ms  12.5 %      1     –        –               –  the rest of `f`, model.dl:1:4  {HEAD}",
        "875.00 ms for asking the device, and waiting for it",
        "1.00 s in compiled code of 1.50 s, 1 thread; memory: 0 bytes at most",
        "the machine: copies 10 GB/s, computes 100 GFLOP/s in f64, 200 in f32",
    ]


def test_an_emulation_has_no_ceilings_and_its_table_says_what_it_is() -> None:
    lines = emulated().scaled.profile(numbers(50)).table(NATIVE, least=0.0).splitlines()
    assert lines[0] == EMULATED and "of the device" in lines[1] and "the device:" not in "\n".join(lines)
    end = lines.index("")
    assert all(re.search(r" –  \S", line) for line in lines[2 : end - 1])
    assert device_ceilings(EmulatedDriver()) is None


def test_a_trace_has_a_track_for_the_device() -> None:
    events = PROFILE.trace()["traceEvents"]
    assert [(e["tid"], e["args"]["name"]) for e in events if e["ph"] == "M"] == [(1, "the host"), (2, "NVIDIA Test")]
    assert [(e["tid"], e["name"].partition(",")[0], e["dur"]) for e in events if e["ph"] == "X"] == [
        (1, "the rest of `f`", 1e6), (1, "asks for loop in `f`", pytest.approx(1e4)), (2, "loop in `f`", 5e5),
    ]  # fmt: skip


# ---- ceilings --------------------------------------------------------------------------------------------------------
def test_what_a_device_can_do_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    driver = EmulatedDriver()
    driver.name = "a device"
    found = device_ceilings(driver, bytes=1 << 16, side=24)
    assert found is not None and found.bytes > 0 and set(found.products) == {"f64", "f32", "f16"}
    assert all(speed > 0 for speed in found.products.values()) and driver.used == 0
    assert found.operations("bf16") == found.products["f16"] and found.operations("i64") is None
    assert device_ceilings(driver, bytes=1 << 16, side=24) == found


def test_a_device_whose_memory_is_full_has_no_ceilings() -> None:
    driver = EmulatedDriver(capacity=1000)
    driver.name = "a small device"
    with pytest.raises(MemoryError):
        device_ceilings(driver, bytes=1 << 16, side=24)
    lines = Profile(driver=driver).table(NATIVE).splitlines()
    assert "the device: a small device, which has no room to measure what it can do" in lines and driver.used == 0
