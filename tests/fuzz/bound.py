"""Random programs called from Python: directly, by name, through Python, and with some arguments bound, which may
differ by rounding alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import dlang
from dlang.diagnostics import DlangError
from dlang.python.function import Function
from tests.fuzz.compare import SIZES, Disagreement, arguments

CHOICES = ((0, 1), (2,), (0, 1, 2, 3), (0, 1, 2, 3, 4), (3, 4))
"""Which of the parameters p, q, m, x, j are bound."""


def differing_calls(text: str, seed: int) -> Disagreement | None:
    """What differs between the ways to call `main`; None if nothing does, or the program does not compile."""
    try:
        module: Any = dlang.compile(text)
        choice = CHOICES[seed % len(CHOICES)]
        rng = np.random.default_rng(1)
        for n, k in SIZES:
            args = list(arguments(rng, n, k))
            expected = outcome(Function.__call__, module.main, *args)
            names = [p.local.name for p in module.main.decl.params]
            bound = module.main.bind(**{names[c]: args[c] for c in choice})
            left = [a for c, a in enumerate(args) if c not in choice]
            for _ in range(3):
                found = outcome(module.main, *args)
                if not alike(found, expected, exact=True):
                    return Disagreement("direct", expected, found)
                found = outcome(module.main, args[0], **dict(reversed(list(zip(names, args, strict=True))[1:])))
                if not alike(found, expected, exact=True):
                    return Disagreement("by name", expected, found)
                found = outcome(bound, *left)
                if not alike(found, expected, exact=False):
                    return Disagreement(f"{choice} bound", expected, found)
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", e.diagnostics[0].message)
    return None


def outcome(call: Any, *args: Any, **named: Any) -> Any:
    """What Python sees of a result, or the message of a failure."""
    try:
        return call(*args, **named)
    except DlangError as e:
        return str(e)


def alike(a: Any, b: Any, exact: bool) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(alike(x, y, exact) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray | np.generic | float):
        x, y = np.asarray(a), np.asarray(b)
        if x.dtype != y.dtype or x.shape != y.shape:
            return False
        if exact or x.dtype.kind != "f":
            return x.tobytes() == y.tobytes() or bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f"))
        return bool(np.allclose(x, y, rtol=1e-9, atol=1e-9, equal_nan=True))
    if hasattr(a, "__dataclass_fields__"):
        return all(alike(getattr(a, f), getattr(b, f), exact) for f in a.__dataclass_fields__)
    return bool(a == b)
