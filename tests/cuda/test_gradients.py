"""Derivatives on a device: compiled reverse and forward mode against the reference and differences."""

from __future__ import annotations

import pytest

from dlang.runtime.emulation.driver import EmulatedDriver
from tests.ad.four_ways import four_ways
from tests.ad.test_cases import CASES

QUICK = ("a product in place of a sum", "iterations that depend on data", "an array that grows in a loop")
QUICK += ("neighbours beyond the ends of two axes",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES])
def test_four_ways_to_differentiate_agree(name: str) -> None:
    text, args = CASES[name]
    four_ways(text, args, 30.0 if "f32" not in text else 1e4, driver=EmulatedDriver())
