"""Refuses a function that is differentiated inside of itself: every call would need a derivative of a higher order."""

from __future__ import annotations

from collections.abc import Mapping

from dlang.diagnostics import error
from dlang.graphs import reached
from dlang.ir import anf
from dlang.ir.anf import Function
from dlang.ir.traverse import walk


def refuse_endless(functions: Mapping[str, Function]) -> None:
    needed = {name: _needed(f) for name, f in functions.items()}
    for name, f in functions.items():
        for let in walk(f.body):
            if isinstance(let.op, anf.Derivative) and name in reached([let.op.function], needed.__getitem__):
                label = functions[let.op.function].label or let.op.function
                raise error(
                    "E0711",
                    f"`{f.label or name}` takes a derivative of a function that calls it again",
                    let.span,
                    label=f"the derivative of `{label}`",
                    help=("each call would need a derivative of a higher order: write the orders that it takes apart",),
                )


def _needed(f: Function) -> set[str]:
    """The functions that one calls, differentiates, or has as rules."""
    found = {let.op.function for let in walk(f.body) if isinstance(let.op, anf.Call | anf.Derivative)}
    if f.rules is not None:
        found |= {rule for rule in (f.rules.pullback, f.rules.pushforward) if rule is not None}
    return found
