"""How much a call does, as far as its sizes say it.

By that is decided whether other threads of Python go on while it runs, and how well its code has to be compiled
(`runtime/tiers.py`).
"""

from __future__ import annotations

from dlang.codegen.costs import Costs
from dlang.codegen.loops import Function, Program
from dlang.ir.anf import Size

LONG = 50_000_000
"""Picoseconds from which on a call is long."""


def work(program: Program, f: Function) -> Size | None:
    """About how many picoseconds a call of a function takes, over its parameters; None if they don't say it."""
    estimate = Costs(program, guesses=False).of_function(f)
    return estimate if set(f.params) >= set(estimate.atoms()) else None
