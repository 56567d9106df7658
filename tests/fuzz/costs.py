"""Counts what a program and its derivatives cost, and says where that breaks the law of cost."""

from __future__ import annotations

from dlang.diagnostics import DlangError, Source
from dlang.driver import check, errors_of
from dlang.host.errors import RunError
from dlang.interpret.metering import TooMuch
from dlang.tools.law import prepared, scans
from tests.fuzz.compare import Disagreement

LIMIT = 40_000
"""Steps of the interpreter for each run."""


def broken_law(text: str) -> Disagreement | None:
    """Where the costs of a well-typed program break the law; None if they do not, or it takes too long to count."""
    try:
        checked = check(Source("program.dl", text))
        if errors_of(checked):
            return Disagreement("check", "no mistakes", errors_of(checked)[0].message)
        function = prepared(checked.module.functions["main"], ("as written", "value", "gradient", "tangent", "twice"))
    except DlangError as e:
        return Disagreement("compile", "a program that compiles", f"{e.diagnostics[0].code} {e.diagnostics[0].message}")
    except Exception as e:
        return Disagreement("compile", "a program that compiles", f"{type(e).__name__}: {e}")
    try:
        found = scans(function, {}, limit=LIMIT)
    except (DlangError, RunError, TooMuch):  # a refusal, or no size is small enough
        return None
    breaches = [(scan.sizes[-1], breach) for scan in found for breach in scan.breaches]
    if not breaches:
        return None
    sizes, breach = min(breaches, key=lambda b: b[1].kind != "faster")
    at = ", ".join([f"{n} = {size}" for n, size in sizes.items()])
    places = "; ".join([f"line {line.line}: {line.operations} operations" for line in breach.lines[:2]])
    where = f"{breach.kind} {breach.measure} of the {breach.way}"
    return Disagreement(where, "the law of cost", f"{breach} at {at}; {places}")
