"""Chains of products on a device: at once where there is room, in large blocks otherwise, heads together."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.ops import figures
from tests.cuda import calls
from tests.cuda.both import Both

PROGRAM = """
import nn { softmax }
fn attention(q: f64[n, d], k: f64[n, d], v: f64[n, d]) -> f64[n, d] = {
  let s = q @ transpose(k)
  [softmax(s[a]) for a] @ v
}
fn heads(q: f64[h, n, d], k: f64[h, n, d], v: f64[h, n, d]) -> f64[h, n, d] = [attention(q[i], k[i], v[i]) for i]
fn slopes(q: f64[n, d], k: f64[n, d], v: f64[n, d]) -> (f64[n, d], f64[n, d], f64[n, d]) =
  grad(|q: f64[n, d], k: f64[n, d], v: f64[n, d]| sum(attention(q, k, v) ** 2), wrt = (q, k, v))(q, k, v)
"""
ROOM = 1 << 18
"""Bytes, in the place of a GiB."""


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays are as large ones."""
    monkeypatch.setattr(figures, "CACHE", 1 << 12)
    monkeypatch.setattr(figures, "DEVICE_CACHE", ROOM)


@cache
def program() -> Both:
    return Both(PROGRAM, ("attention", "heads", "slopes"))


def given(name: str, n: int, h: int = 3) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal((h, n, 4) if name == "heads" else (n, 4)) for _ in range(3)]


def asked(name: str, sizes: Sequence[int], args: Sequence[Any]) -> tuple[int, int]:
    """Counts the kernels and the products that the device is asked for."""
    both, count = program(), [0, 0]
    driver = both.driver
    functions, product = driver.functions, driver.product

    def launch(*given: Any) -> int:
        count[0] += 1
        return int(calls.LAUNCH(functions.launch)(*given))

    def multiply(*given: Any) -> int:
        count[1] += 1
        return int(calls.PRODUCT(product)(*given))

    ours = calls.LAUNCH(launch), calls.PRODUCT(multiply)
    at = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in ours]
    driver.functions, driver.product = replace(functions, launch=at[0]), at[1]
    try:
        both.found(name, sizes, args)
    finally:
        driver.functions, driver.product = functions, product
    return count[0], count[1]


@pytest.mark.parametrize("name", ["attention", "slopes", "heads"])
def test_where_there_is_room_the_device_is_asked_once(name: str) -> None:
    first = [3] if name == "heads" else []
    few, many = (asked(name, [*first, n, 4], given(name, n)) for n in (8, 64))
    assert few == many and (name == "slopes" or many[1] == 2)


def test_heads_share_products() -> None:
    assert asked("heads", [1, 16, 4], given("heads", 16, 1)) == asked("heads", [6, 16, 4], given("heads", 16, 6))


def test_where_there_is_none_it_is_done_in_blocks() -> None:
    n = 256
    assert 2 * 8 * n * n > ROOM
    kernels, products = asked("attention", [n, 4], given("attention", n))
    assert 2 < products <= 2 * -(-2 * 8 * n * n // ROOM) and kernels <= products


@pytest.mark.parametrize(("name", "n"), [("attention", 20), ("attention", 200), ("heads", 90), ("slopes", 150)])
def test_blocks_change_no_result(name: str, n: int) -> None:
    first = [3] if name == "heads" else []
    program().agree(name, [*first, n, 4], given(name, n), 1e-9)
