"""Differentiates a program in four ways, and says where the gradients differ.

At a kink, and near one, the ways may differ and be right, so a disagreement is one that remains at points close by, and
where the last digits of the point do not decide the gradient: some programs are chaotic.
Those of the compiled derivatives with the reference are exact up to rounding, those with differences are coarser.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of
from dlang.host.errors import RunError
from dlang.interpret.traced import NoDerivative
from dlang.ir.anf import poly
from dlang.runtime.tiers import Tiers
from dlang.tools.gradients import Gradients, gradients
from tests.fuzz.compare import NEARBY, SIZES, Disagreement, arguments, nearby, rounded

EXACT, COARSE = 1e-7, 1e-4
FINER = (1e2, 1e4)  # where slopes are steep, a smaller step may tell what the usual one does not


def wrong_derivative(text: str, verify: bool = True) -> Disagreement | None:
    """What is wrong with the derivatives of a well-typed program whose `main` gives one f64.

    They run in quick code, which has the same bits as the best: `threads.py` compares the two.

    verify: whether the program is verified after every pass, which takes a third of the time.
    """
    try:
        checked = check(Source("program.dl", text))
        if errors_of(checked):
            return Disagreement("check", "no mistakes", errors_of(checked)[0].message)
        decl = checked.module.functions["main"]
        made, _ = gradients(Request(decl, dict.fromkeys(decl.variables, poly(0))), verify, Tiers().quick)
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except Exception as e:
        return Disagreement("compile", "a program that compiles", f"{type(e).__name__}: {e}")
    rng = np.random.default_rng(1)
    for n, k in SIZES:
        args = arguments(rng, n, k)
        try:
            found = difference(made, [n, k, *args])
        except Exception as e:
            return Disagreement("run", "a program that runs", f"{type(e).__name__}: {e}")
        if found is None or not is_steady(made, [n, k, *args]):
            continue
        if all(difference(made, [n, k, *nearby(rng, args)]) for _ in range(NEARBY)):
            return found
    return None


def is_steady(made: Gradients, args: Sequence[Any]) -> bool:
    """Whether the last digits of a point do not decide the gradient there."""
    try:
        value, here, there = made.value(args), made.reference(args), made.reference(rounded(args))
    except (RunError, NoDerivative):  # which is the disagreement
        return True
    return first_unlike(made, "reference", here, there, EXACT, max(1.0, abs(value))) is None


def difference(made: Gradients, args: Sequence[Any]) -> Disagreement | None:
    """The first way to differentiate, at a point, that differs from the others."""
    try:
        value = made.value(args)
    except RunError:
        return None
    if not np.isfinite(value):
        return None
    scale = max(1.0, abs(value))
    try:
        expected = made.reference(args)
    except NoDerivative:
        return None
    for way, tolerance in (("reverse", EXACT), ("differences", COARSE)):
        try:
            found = getattr(made, way)(args)
        except RunError as e:
            if way == "differences":  # a point close by is refused
                continue
            return Disagreement(way, "a gradient", e.code)
        wrong = first_unlike(made, way, expected, found, tolerance, scale)
        if wrong is not None and way == "differences":
            closer = (made.differences(args, finer) for finer in FINER)
            if any(first_unlike(made, way, expected, slopes, tolerance, scale) is None for slopes in closer):
                continue
        if wrong is not None:
            return wrong
    direction = [np.random.default_rng(2).standard_normal(np.shape(args[k])) for k in made.wrt]
    along = sum(float(np.sum(e * d)) for e, d in zip(expected, direction, strict=True))
    for way in ("reference_along", "along"):
        change = getattr(made, way)(args, direction)
        if not alike(np.asarray(along), np.asarray(change), 10 * EXACT, scale):
            return Disagreement(f"{way} a direction", along, change)
    return None


def first_unlike(
    made: Gradients, way: str, expected: Sequence[Any], found: Sequence[Any], tolerance: float, scale: float
) -> Disagreement | None:
    """The first gradient that differs from what is expected."""
    for k, wanted, slope in zip(made.wrt, expected, found, strict=True):
        if not alike(wanted, slope, tolerance, scale):
            return Disagreement(f"{way} in `{made.params[k].name}`", wanted.tolist(), slope.tolist())
    return None


def alike(e: Any, f: Any, tolerance: float, scale: float) -> bool:
    """Element by element; what is not finite in one may be anything in the others."""
    finite = np.isfinite(e) & np.isfinite(f)
    return bool(
        np.all(np.isfinite(e) <= np.isfinite(f))
        and np.all(np.abs(e - f)[finite] <= tolerance * (np.abs(e)[finite] + scale))
    )
