"""Calls on several streams: nothing that outlives a call is used by two streams unless one waits for the other."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.runtime import device_runs, devices
from dlang.runtime.devices import Stream as Named
from dlang.runtime.gpu import CudaDriver
from tests.cuda.ordering import Ordering
from tests.cuda.working_cupy import WorkingCupy, WorkingStream

SOURCE = """
fn total(x: f64[n]) -> f64 = sum(x * x)
fn spread(x: f64[n], k: f64) -> f64[n] {
  let y = x / sum(x)
  let z = y - k * sum(y * y)
  z * sum(z * z)
}
fn chosen(x: f64[n], k: i64[m]) -> f64[m] = [x[k[i]] for i]
fn multiplied(x: f64[n, n]) -> f64[n, n] = x @ (x @ x)
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkingCupy]:
    found = WorkingCupy()
    found.install(monkeypatch)
    devices._gpu.cache_clear()
    yield found
    devices._gpu.cache_clear()


def on(fake: WorkingCupy, stream: int) -> None:
    """Calls are on that stream from now on."""
    fake.streams.append(WorkingStream(fake, stream))


class Caller:
    """Calls functions on streams, and knows their results. kept: of each stream."""

    def __init__(self, fake: WorkingCupy, module: ModuleType, seed: int) -> None:
        self.fake, self.module = fake, module
        self.rng = np.random.default_rng(seed)
        self.kept: dict[int, list[Any]] = {}
        self.x = [self.rng.standard_normal(n) + 3.0 for n in (40, 40, 700)]
        self.k = np.array([3, 1, 4, 1, 5])
        self.m = self.rng.standard_normal((6, 6))
        self.there = [fake.array(x) for x in self.x]
        self.k_there, self.m_there = fake.array(self.k), fake.array(self.m)

    def call(self, stream: int) -> None:
        on(self.fake, stream)
        which = int(self.rng.integers(len(self.x)))
        x, there = self.x[which], self.there[which]
        match self.rng.integers(4):
            case 0:
                assert self.module.total(there) == pytest.approx(np.sum(x * x))
                return
            case 1:
                k = float(self.rng.integers(3))
                y = x / x.sum()
                z = y - k * (y * y).sum()
                found, wanted = self.module.spread(there, k), z * (z * z).sum()
            case 2:
                found, wanted = self.module.chosen(there, self.k_there), x[self.k]
            case _:
                found, wanted = self.module.multiplied(self.m_there), self.m @ self.m @ self.m
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-10)
        kept = self.kept.setdefault(stream, [])
        kept.append(found)
        if self.rng.random() < 0.7:
            kept.pop(int(self.rng.integers(len(kept))))


@pytest.mark.parametrize("seed", range(6))
def test_streams_that_share_memory_wait_for_each_other(
    fake: WorkingCupy, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever is called on which stream; graphs are many, or few, so that they give way to others."""
    monkeypatch.setattr(devices, "KEPT", (64, 2)[seed % 2])
    caller = Caller(fake, dlang.compile(SOURCE, backend="cuda"), seed)
    for _ in range(60):
        caller.call(int(caller.rng.choice([0, 300, 400, 500, 600, 700][: 2 + seed])))
    assert fake.ordering.conflicts == []
    assert any(entry[0] == "launch" for entry in fake.log if isinstance(entry, tuple))


def test_one_stream_alone_waits_for_nothing(fake: WorkingCupy) -> None:
    caller = Caller(fake, dlang.compile(SOURCE, backend="cuda"), 1)
    for _ in range(40):
        caller.call(300)
    assert not [entry for entry in fake.log if entry[0] == "after"]


def test_memory_of_a_program_goes_back_when_its_last_stream_is_done_with_it(fake: WorkingCupy) -> None:
    module = dlang.compile(SOURCE, backend="cuda")
    caller = Caller(fake, module, 0)
    for stream in (300, 300, 300, 400):
        on(fake, stream)
        module.total(caller.there[0])
    assert ("launch", 400) in fake.log
    del module, caller.module
    fake.current = 1  # another GPU is the current one when that happens
    fake.log.clear()
    gc.collect()
    fake.current = 0
    assert ("after", 300, 400) in fake.log
    assert not CudaDriver().graphs.waste and fake.ordering.conflicts == []


def test_a_stream_that_each_thread_has_is_no_other_threads(fake: WorkingCupy) -> None:
    driver = CudaDriver()
    on(fake, 2)
    mine = driver.current
    assert mine == driver.current and mine != Named(2, object(), mine.own)
    fake.log.clear()
    driver.follow(Named(2, object(), mine.own), mine)
    assert fake.log == [("wait", None)]
    driver.follow(mine, mine)
    assert fake.log == [("wait", None)]


def test_streams_share_states_when_there_are_many(fake: WorkingCupy) -> None:
    module = dlang.compile(SOURCE, backend="cuda")
    rng = np.random.default_rng(0)
    x = fake.array(rng.standard_normal(300))
    kept = []
    for stream in range(300, 300 + 3 * device_runs.STATES):
        on(fake, stream)
        k = int(rng.integers(100))  # an integer that is another one makes a call a new one
        kept.append(module.spread(fake.array(x.get()[: 100 + k]), 1.0))
    assert fake.ordering.conflicts == []
    assert len([entry for entry in fake.log if entry[0] == "after"]) == 2 * device_runs.STATES


# ---- arrays of other libraries ---------------------------------------------------------------------------------------
OTHERS = 900
"""The stream of another library."""


class Foreign:
    """An array of another library, whose memory that uses again on its own stream as soon as nobody has the array."""

    def __init__(self, fake: WorkingCupy, value: Any) -> None:
        self.fake, self.shape, self.dtype = fake, value.shape, value.dtype
        self.address = fake.device.allocate(value.nbytes)
        fake.blocks[self.address] = value.nbytes
        fake.device.upload(self.address, value.ctypes.data, value.nbytes)
        self.stream = WorkingStream(fake, OTHERS)
        self.write()

    def write(self) -> None:
        self.fake.ordering.asked(OTHERS, "a kernel of another library", [self.address])

    def __del__(self) -> None:
        self.write()


class Exported(Foreign):
    """It is shown by DLPack, which does not tell the stream."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self) -> Exported:
        return self


class Bare:
    """It has nothing but DLPack: neither a shape nor a dtype that could be asked for."""

    def __init__(self, fake: WorkingCupy, value: Any) -> None:
        exported = Exported(fake, value)
        self.__dlpack__, self.__dlpack_device__ = exported.__dlpack__, exported.__dlpack_device__


class Shown(Foreign):
    """It is shown by the interface of CUDA, with the stream."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data, typestr = (self.address, False), self.dtype.str
        return {"shape": self.shape, "typestr": typestr, "data": data, "version": 3, "stream": OTHERS}


class Unknown(Shown):
    """It is shown in that way, without the stream, when it is there."""

    def __init__(self, fake: WorkingCupy, value: Any) -> None:
        super().__init__(fake, value)
        fake.waited(OTHERS)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**super().__cuda_array_interface__, "stream": None}


@pytest.mark.parametrize("kind", [Exported, Shown, Unknown])
def test_memory_of_another_library_is_used_anew_when_it_has_been_read(fake: WorkingCupy, kind: type[Foreign]) -> None:
    module = dlang.compile(SOURCE, backend="cuda")
    rng = np.random.default_rng(0)
    on(fake, 300)
    kept = [module.spread(kind(fake, rng.random(40)), 1.0) for _ in range(4)]
    x = kind(fake, rng.random(40))
    kept += [module.spread(x, 1.0) for _ in range(4)]  # by a graph in the end, where memory is handed out again
    del x
    assert fake.ordering.conflicts == []
    driver = devices.driver_of("cuda")
    assert isinstance(driver, CudaDriver) and bool(driver.loans) == (kind is not Shown)
    fake.finished.add(300)
    module.spread(fake.array(rng.random(40)), 1.0)
    driver.end_loans([])
    assert not driver.loans and fake.ordering.conflicts == []


@pytest.mark.parametrize("kind", [Exported, Bare, Shown, Unknown])
def test_arrays_and_numbers_of_another_library_are_read(fake: WorkingCupy, kind: Callable[..., Any]) -> None:
    module = dlang.compile(SOURCE, backend="cuda")
    x = np.arange(5.0)
    y = x / np.sum(x)
    z = y - 2.0 * np.sum(y * y)
    found = module.spread(kind(fake, x), kind(fake, np.array(2.0)))
    np.testing.assert_allclose(found.get(), z * np.sum(z * z), rtol=1e-12)


def test_another_library_changes_an_array_when_it_has_been_read(fake: WorkingCupy) -> None:
    module = dlang.compile(SOURCE, backend="cuda")
    on(fake, 300)
    x = Shown(fake, np.arange(40.0))
    for _ in range(5):
        module.spread(x, 1.0)
        x.write()
    assert fake.ordering.conflicts == []


# ---- the checker itself ----------------------------------------------------------------------------------------------
def test_accesses_that_nothing_orders_are_found() -> None:
    found = Ordering()
    found.asked("a", "a kernel", [1])
    found.asked("b", "a kernel", [2])
    found.after("b", found.recorded("a"))
    found.asked("b", "a kernel", [1])
    assert not found.conflicts
    found.asked("a", "a copy", [1])
    assert found.conflicts == ["a copy on a of 1, which b may still use"]
    found.conflicts.clear()
    found.waited("b")
    found.asked("a", "a copy", [2])
    assert not found.conflicts
    found.shared.add(1)
    found.asked("c", "a kernel", [1])
    assert not found.conflicts
