"""Derivatives of the function `f` of a program, computed in four ways and compared element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.diagnostics import Source
from dlang.driver import Request, check, errors_of
from dlang.ir.anf import poly
from dlang.runtime.devices import Driver
from dlang.tools.gradients import TOLERANCES, Gradients, Slopes, distance, gradients


def compiled(text: str, verify: bool = True, driver: Driver | None = None) -> Gradients:
    """`f` with its derivatives, compiled quickly: the level of LLVM's code generator changes no bit of them."""
    checked = check(Source("case.dl", text))
    assert not errors_of(checked), errors_of(checked)
    decl = checked.module.functions["f"]
    return gradients(Request(decl, dict.fromkeys(decl.variables, poly(0))), verify, 0, driver)[0]


def agree(made: Gradients, expected: Slopes, found: Slopes, looser: float = 1.0) -> None:
    for k, e, f in zip(made.wrt, expected, found, strict=True):
        for at in np.ndindex(e.shape):
            error = distance(float(e[at]), float(f[at]), looser * TOLERANCES["f64"], 1e-2)
            assert error <= 1, (made.params[k].name, at, e, f)


def four_ways(
    text: str, args: Sequence[Any], looser: float = 30.0, verify: bool = True, driver: Driver | None = None
) -> Slopes:
    """The gradient of `f` in its float arguments: by compiled reverse and forward mode, the reference, differences.

    args: the sizes first, in the order of the text. looser: how much more central differences may be off. verify:
    whether the program is verified after every pass. driver: of the device that runs what is compiled, if one does.
    """
    made = compiled(text, verify, driver)
    expected = made.reference(args)
    assert all(np.all(np.isfinite(e)) for e in expected)
    agree(made, expected, made.reverse(args))
    agree(made, expected, made.forward(args))
    agree(made, expected, made.differences(args), looser)
    direction = [np.cos(1.0 + np.arange(e.size)).reshape(e.shape) for e in expected]
    along = sum(float(np.sum(e * d)) for e, d in zip(expected, direction, strict=True))
    np.testing.assert_allclose(made.reference_along(args, direction), along, rtol=1e-9, atol=1e-12)
    return expected
