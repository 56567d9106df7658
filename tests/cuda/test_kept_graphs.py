"""Graphs hold memory within a limit, give way where it is short, and stay where many runs take turns."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.runtime import devices
from dlang.runtime.emulation.driver import EmulatedArray, EmulatedDriver, EmulatedGraph

SOURCE = """
fn squared(x: f64[n, n]) -> f64 = sum(x @ x)
fn other(x: f64[n, n]) -> f64 = sum(x @ (x @ x))
"""
SIDE = 64
BLOCK = 8 * SIDE * SIDE


class Counting(EmulatedDriver):
    """Counts the graphs that are made."""

    made = 0

    def end(self) -> EmulatedGraph:
        self.made += 1
        return super().end()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    device = Counting(keeps=True, capacity=16 << 20)
    monkeypatch.setattr(devices, "driver_of", lambda backend: device)
    yield device


@pytest.fixture
def m(driver: Counting) -> ModuleType:
    return dlang.compile(SOURCE, backend="cuda-emulated")


def matrices(driver: EmulatedDriver, count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [EmulatedArray.of(driver, rng.standard_normal((SIDE, SIDE))) for _ in range(count)]


def held(driver: EmulatedDriver) -> int:
    return sum([repeat.bytes for repeat in driver.graphs.repeats])


def shrink(driver: EmulatedDriver, bytes: int) -> list[int]:
    """Takes memory until so many bytes are left."""
    return [driver.allocate(driver.capacity - driver.used - bytes)]


def test_graphs_give_way_to_what_needs_memory(m: ModuleType, driver: Counting) -> None:
    x, y = matrices(driver, 2)
    found = [m.squared(x) for _ in range(3)]
    assert found == [pytest.approx(float(np.sum(x.get() @ x.get())))] * 3
    m.other(y)
    assert len(driver.graphs.repeats) == 1
    shrink(driver, BLOCK)  # less than the function needs that is called next
    found = [m.other(y) for _ in range(3)]
    assert found[0] == pytest.approx(float(np.sum(np.linalg.matrix_power(y.get(), 3))))
    assert [repeat for repeat in driver.graphs.repeats if repeat.key[0] == "squared"] == []


def test_where_no_graph_can_give_way_the_memory_is_exhausted(m: ModuleType, driver: Counting) -> None:
    (x,) = matrices(driver, 1)
    wanted = m.squared(x)
    taken = shrink(driver, 0)
    with pytest.raises(dlang.DlangError, match="E0806"):
        m.squared(x)
    driver.free(taken[0])
    assert [m.squared(x) for _ in range(4)] == [wanted] * 4


def test_nothing_is_lost_where_memory_ends_while_a_graph_gets_its_own(
    m: ModuleType, driver: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    (x,) = matrices(driver, 1)
    m.other(x)
    before = driver.used
    allocate, left = driver.allocate, [0]

    def scarce(size: int) -> int:
        left[0] -= 1
        if left[0] == 0:
            raise MemoryError
        return allocate(size)

    monkeypatch.setattr(driver, "allocate", scarce)
    for k in range(1, 12):
        left[0] = k
        try:
            m.other(x)
        except dlang.DlangError as e:
            assert e.diagnostics[0].code == "E0806"
        assert driver.used - before == held(driver) - sum([r.state.bytes for r in driver.graphs.repeats]), k


def test_graphs_hold_a_part_of_the_memory(m: ModuleType, driver: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    given = matrices(driver, 12)
    for x in given:
        m.squared(x)
    m.squared(given[0])
    (first,) = driver.graphs.repeats
    monkeypatch.setattr(driver, "capacity", devices.SHARE * 5 * first.bytes)
    for _ in range(4):
        for x in given:
            assert m.squared(x) == pytest.approx(float(np.sum(x.get() @ x.get())))
        assert len(driver.graphs.repeats) == 5 and held(driver) <= driver.capacity // devices.SHARE


@pytest.mark.parametrize("more", [0, 1, 4, 60])
def test_runs_that_take_turns_do_not_drop_the_graphs_of_one_another(
    m: ModuleType, driver: Counting, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """However many there are, the graphs that there is room for stay, and are made once."""
    monkeypatch.setattr(devices, "KEPT", 8)
    given = matrices(driver, 8 + more)
    for _ in range(5):
        for x in given:
            m.squared(x)
    assert driver.made == 8 == len(driver.graphs.repeats)


def test_graphs_that_are_used_no_more_make_room(
    m: ModuleType, driver: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "KEPT", 4)
    first, later = matrices(driver, 4), matrices(driver, 4)
    for given in (first, later):
        for _ in range(3):
            for x in given:
                m.squared(x)
    assert driver.made == 8 and len(driver.graphs.repeats) == 4
    for x in later:
        m.squared(x)
    assert driver.made == 8


def test_what_was_held_is_given_back_with_the_program(driver: Counting) -> None:
    module = dlang.compile(SOURCE, backend="cuda-emulated")
    (x,) = matrices(driver, 1)
    before = driver.used
    for _ in range(3):
        module.squared(x)
    assert driver.used > before
    del module
    gc.collect()
    assert driver.used == before and not driver.graphs.repeats
