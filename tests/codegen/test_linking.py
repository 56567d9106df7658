"""Every library function that LLVM or our mathematics call is known to the linker of our own."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import linker


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_no_mathematical_function_needs_another_linker(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("LLVM's linker was asked, which ends a process in which code lies too far apart")

    monkeypatch.setattr(linker, "load", refused)
    names = (
        "sin cos tan asin acos atan sinh cosh tanh exp expm1 log log1p sqrt floor ceil round erf lgamma digamma".split()
    )
    values = ", ".join(f"{name}(x)" for name in names)
    module = dlang.compile(
        f"fn all_of(x: {dtype}[n]) -> {dtype}[{len(names)}, n] = stack({values})\n"
        f"fn more(x: {dtype}, y: {dtype}) = (x ** y, x % y, x // y, atan2(x, y), sin(x) + cos(x), tan(x))\n"
    )  # fmt: skip
    x = np.array([0.25, 0.5], {"f64": np.float64, "f32": np.float32}[dtype])
    assert module.all_of(x).shape == (len(names), 2)
    assert len(module.more(x[0], x[1])) == 6
