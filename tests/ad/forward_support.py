"""Derivatives along directions: forward mode against central differences, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.ir.anf import Function, Program
from dlang.ir.types import is_float
from tests.ad.support import close, cost, directions, expanded, program_of, pushed, run, tidy


def check_forward(
    f: Function, wrt: Sequence[int], args: Sequence[Any], others: Sequence[Function] = (), rtol: float = 1e-5
) -> Program:
    """Compares the tangents of all float results along a random direction with those of central differences."""
    program = program_of(f, *others)
    both = expanded(pushed(program, f.name, wrt))
    us = directions(wrt, args)
    values = run(program, f.name, args)
    got = run(both, "along", [*args, *us])
    floats = [k for k, r in enumerate(f.results) if is_float(r.type)]
    assert len(got) == len(values) + len(floats)
    for have, wanted in zip(got, values, strict=False):
        close(have, wanted)
    step = 1e-5
    ends = []
    for sign in (1.0, -1.0):
        moved = list(args)
        for k, u in zip(wrt, us, strict=True):
            moved[k] = args[k] + sign * step * u
        ends.append(run(program, f.name, moved))
    for k, dot in zip(floats, got[len(values) :], strict=True):
        close(dot, (np.asarray(ends[0][k]) - np.asarray(ends[1][k])) / (2 * step), rtol, 1e-6)
    return both


def ratio(f: Function, wrt: Sequence[int], args: Sequence[Any]) -> float:
    """Operations of value and tangent ÷ operations of the value in normal form."""
    program = program_of(f)
    both = expanded(pushed(program, f.name, wrt))
    return cost(both, "along", [*args, *directions(wrt, args)]) / cost(tidy(program), f.name, args)
