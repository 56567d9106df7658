"""Calls that repeat an earlier one go to the device without machine code of the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.runtime import devices
from dlang.runtime.emulation.driver import EmulatedArray, EmulatedDriver
from dlang.runtime.engine import Run

SOURCE = """
fn step(w: f64[n], g: f64[n], v: f64[n]) -> (f64[n], f64[n]) = (w - 0.1 * (v + g), v + g)
fn loss(w: f64[k], x: f64[n, k]) -> f64 = mean((x @ w) ** 2)
fn scaled(x: f32[n], k: f32, shift: bool) -> f32[n] = if shift { x * k + 1.0 } else { x * k }
fn chosen(x: f64[n], k: i64[m]) -> f64[m] = [x[k[i]] for i]
fn decayed(w: f64[n], rate: f64, k: i64) -> f64[n] = [(1.0 - rate) * v + f64(k) for v in w]
fn largest(x: f64[n]) -> (f64, i64) = (max(x), argmax(x))
"""


@dataclass(eq=False)
class Pooling(EmulatedDriver):
    """Hands out at once what was given back last, as CuPy's pool does. waiting: by their sizes."""

    waiting: dict[int, list[int]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def allocate(self, size: int) -> int:
        own = self.waiting.get(size)
        address = own.pop() if own else super().allocate(size)
        self.sizes[address] = size
        return address

    def free(self, address: int) -> None:
        self.waiting.setdefault(self.sizes[address], []).append(address)


@pytest.fixture(scope="module")
def driver() -> Iterator[Pooling]:
    device = Pooling(keeps=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "driver_of", lambda backend: device)
        yield device


@pytest.fixture(scope="module")
def m(driver: Pooling) -> ModuleType:
    return dlang.compile(SOURCE, backend="cuda-emulated")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entries that machine code was run for."""
    ran: list[str] = []
    call = Run.call

    def counting(self: Run, entry: Any, args: Any) -> Any:
        ran.append(entry.point.function.label)
        return call(self, entry, args)

    monkeypatch.setattr(Run, "call", counting)
    return ran


def test_a_loop_over_steps_launches_graphs(m: ModuleType, driver: Pooling, counted: list[str]) -> None:
    rng = np.random.default_rng(0)
    w, g, v = rng.standard_normal((3, 50))
    there = [EmulatedArray.of(driver, x) for x in (w, g, v)]
    for _ in range(30):
        there[0], there[2] = m.step(*there)
        v = v + g
        w = w - 0.1 * v
    np.testing.assert_allclose(there[0].get(), w, rtol=1e-12)
    np.testing.assert_allclose(there[2].get(), v, rtol=1e-12)
    assert 2 <= len(counted) <= 12


def test_numbers_come_back(m: ModuleType, driver: Pooling, counted: list[str]) -> None:
    w, x = np.array([1.0, -2.0]), np.arange(10.0).reshape(5, 2)
    there = EmulatedArray.of(driver, w), EmulatedArray.of(driver, x)
    found = [m.loss(*there) for _ in range(5)]
    assert len(counted) == 2 and set(found) == {found[0]}
    assert found[0] == pytest.approx(np.mean((x @ w) ** 2))
    assert [m.largest(there[0]) for _ in range(4)] == [(1.0, 0)] * 4 and len(counted) == 4


def test_other_numbers_and_sizes_are_other_calls(m: ModuleType, driver: Pooling) -> None:
    for n in (3, 5, 0, 3, 5):
        x = np.arange(n, dtype=np.float32)
        there = EmulatedArray.of(driver, x)
        for _ in range(3):
            for k, shift in ((2.0, False), (3.0, True), (2.0, True)):
                np.testing.assert_array_equal(m.scaled(there, k, shift).get(), x * np.float32(k) + shift)


def test_what_the_host_has_goes_the_long_way(m: ModuleType, driver: Pooling) -> None:
    x = np.ones(4, np.float32)
    there = EmulatedArray.of(driver, x)
    for given in (there, there, there, x, there, x[::2], x):
        np.testing.assert_array_equal(m.scaled(given, 2.0, False).get(), 2 * np.ones(given.shape))


def test_a_failure_in_a_repeated_call_is_told_and_forgotten(m: ModuleType, driver: Pooling, counted: list[str]) -> None:
    x, k = EmulatedArray.of(driver, np.array([1.0, 2.0])), EmulatedArray.of(driver, np.array([0, 1, 0]))
    for _ in range(4):
        m.chosen(x, k)
    before = len(counted)
    wrong = np.array([0, 7, 1])
    for _ in range(2):
        driver.upload(k.address, wrong.ctypes.data, wrong.nbytes)
        with pytest.raises(dlang.DlangError, match="index 7") as e:
            m.chosen(x, k)
        assert e.value.diagnostics[0].span is not None
        right = np.array([1, 0, 1])
        driver.upload(k.address, right.ctypes.data, right.nbytes)
        np.testing.assert_array_equal(m.chosen(x, k).get(), [2.0, 1.0, 2.0])
    assert len(counted) == before


def test_without_memory_for_results_the_error_has_its_place(
    m: ModuleType, driver: Pooling, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = EmulatedArray.of(driver, np.ones(6, np.float32))
    for _ in range(4):
        m.scaled(there, 2.0, False)

    def full(size: int) -> int:
        raise MemoryError

    monkeypatch.setattr(driver, "allocate", full)
    with pytest.raises(dlang.DlangError, match="E0806") as e:
        m.scaled(there, 2.0, False)
    assert e.value.diagnostics[0].span is not None


def test_a_float_that_is_another_one_needs_no_other_graph(m: ModuleType, driver: Pooling, counted: list[str]) -> None:
    w = np.linspace(0.0, 1.0, 30)
    there = EmulatedArray.of(driver, w)
    for k in range(8):
        found = np.asarray(m.decayed(there, 0.1 * k, 3).get())
        np.testing.assert_allclose(found, (1 - 0.1 * k) * w + 3)
    assert len(counted) == 2  # the first time, and when it is kept
    np.testing.assert_allclose(np.asarray(m.decayed(there, 0.5, 4).get()), 0.5 * w + 4)
    assert len(counted) == 3
