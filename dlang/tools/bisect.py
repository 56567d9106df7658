"""`dlc bisect`: the first step of the compiler after which a function gives something else.

The reference is the program as it was specialised, run by the interpreter; a program that still has derivatives is run
by an interpreter that differentiates while it runs (`interpret/derivatives.py`), so their expansion is a step like any
other. The last step is native code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import DlangError
from dlang.driver import check, errors_of, failure, read_source
from dlang.dump_ir import changes
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.tools.arguments import Parser, add_json, whole
from dlang.tools.drawing import refuse_unknown, sizes_given
from dlang.tools.ir import function_named
from dlang.tools.report import report

if TYPE_CHECKING:
    from dlang.ir.anf import Program
    from dlang.tools.law import Counted, Way

SIZE = 3
NATIVE = "native code"
CoreTrace = list[tuple[str, "Program"]]
"""The program after each pass and each stage of the core IR, in order."""

Results = list[tuple[str, Any]] | str
"""The outcome of a run: values with their dtypes, or the code of its failure."""


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--fn", metavar="NAME", required=True, help="the function")
    parser.add_argument("--grad", action="store_true", help="its gradient in all of its floats")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[NAME=]SIZE",
        help=f"of all sizes, or of one; {SIZE} unless given",
    )
    seed = whole("a whole number", 0)
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="of the arguments, 0 unless given")


def main(args: argparse.Namespace) -> int:
    return bisect(args.file, args.fn, "gradient" if args.grad else "value", args.size, args.seed, args.json)


def bisect(path: str, name: str, way: Way, sizes: Sequence[str], seed: int, as_json: bool) -> int:
    """Prints the first step that changes the meaning; 1 if there is one, or the program is wrong, else 0."""
    from dlang.tools.law import prepared

    trace: CoreTrace = []
    try:
        default, named = sizes_given(sizes, SIZE)
        checked = check(read_source(path))
        if report(checked.diagnostics, as_json) or errors_of(checked):
            return 1
        function = prepared(
            function_named(checked, name), ("value", way), lambda step, program: trace.append((step, program))
        )
        refuse_unknown(named, {*function.names, *function.numbers}, "is run")
        args = function.arguments({**dict.fromkeys(function.names, default), **named}, seed)
    except RunError as e:
        report(failure(e).diagnostics, as_json)
        return 1
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    run, entries = runner(function, way, args)
    change = first_change(trace, run) or native_change(trace[-1][1], entries, run)
    if change is None:
        changed = sum(1 for _ in changes(trace))
        print(f"`{name}` gives the same after all steps, {changed} of which change it, and as {NATIVE}")
        return 0
    print(f"`{name}` gives something else after {change.step}")
    print(f"  before: {_shown(change.before)}")
    print(f"  after:  {_shown(change.after)}")
    if change.step != NATIVE:
        print(next((diff for label, diff in changes(trace) if label == change.step), ""))
    return 1


@dataclass(frozen=True, slots=True)
class Change:
    """The step that changes the meaning, as `simplify:2`, and what the program gives before and after it."""

    step: str
    before: Results
    after: Results


def first_change(trace: CoreTrace, run: Callable[[Program], Results]) -> Change | None:
    """The first step of a trace after which a run gives something else than the first program.

    A step that is exact gives the same bits as the program before it, once derivatives are expanded.
    """
    from dlang.pipeline import NAMED, differentiates

    wanted = last = run(trace[0][1])
    times: dict[str, int] = {}
    for (_, before), (name, program) in pairwise(trace):
        times[name] = times.get(name, 0) + 1
        if program is before:
            continue
        results = run(program)
        exact = name in NAMED and NAMED[name].exact and not differentiates(before)
        reference = last if exact else wanted
        if not alike(reference, results, exact):
            return Change(f"{name}:{times[name]}", reference, results)
        last = results
    return None


def native_change(program: Program, entries: Sequence[str], run: Callable[..., Results]) -> Change | None:
    """Tells whether native code of the optimised program gives what the interpreter gives of it."""
    from dlang.runtime.engine import Engine

    host = Host(StringIO())
    wanted, actual = run(program), run(program, Engine(host).compile(program, list(entries)))
    return None if alike(wanted, actual) else Change(NATIVE, wanted, actual)


def alike(wanted: Results, actual: Results, exact: bool = False) -> bool:
    """Tells whether two runs give the same, but for the order in which numbers were added up.

    Of a float half of the digits have to agree, relative to the largest of its array. exact: all of them have to.
    """
    import numpy as np

    from dlang.ops.dtypes import DTYPES

    if isinstance(wanted, str) or isinstance(actual, str):
        return wanted == actual
    if len(wanted) != len(actual):
        return False
    for (dtype, a), (_, b) in zip(wanted, actual, strict=True):
        x, y = np.asarray(a), np.asarray(b)
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        digits = DTYPES[dtype].digits if dtype in DTYPES else 0
        if exact or not digits:
            if not np.array_equal(x, y, equal_nan=bool(digits)):
                return False
            continue
        x, y = x.astype(np.float64), y.astype(np.float64)
        largest = max(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)), 1.0)
        if not np.allclose(y, x, rtol=0.0, atol=largest * 2.0 ** (-digits / 2), equal_nan=True):
            return False
    return True


def runner(function: Counted, way: Way, args: Sequence[Any]) -> tuple[Callable[..., Results], list[str]]:
    """Runs the function, or its gradient along ones, in a program; with the names of what is called from outside."""
    import numpy as np

    from dlang.interpret.derivatives import Differentiable
    from dlang.interpret.interpreter import Interpreter
    from dlang.ir.anf import Token
    from dlang.ir.types import dtype_of
    from dlang.tools.law import FUNCTIONS

    value = function.entry.name
    entries = [value] if way == "value" else [value, FUNCTIONS[way]]

    def run(program: Program, on: Any = None) -> Results:
        def results(name: str, more: Sequence[Any]) -> list[Any]:
            evaluator = Interpreter(program, Host(StringIO()), Differentiable()) if on is None else on
            copies = [a.copy() if isinstance(a, np.ndarray) else a for a in (*args, *more)]
            outputs: list[Any] = evaluator.run(name, copies)
            return outputs

        try:
            values = results(value, ())
            if way != "value":
                values = results(entries[1], [np.ones_like(values[k]) for k in function.seeded])
            given = [r for r in program.functions[entries[-1]].results if not isinstance(r.type, Token)]
            return [(dtype_of(r), v) for r, v in zip(given, values, strict=True)]
        except RunError as e:
            return e.code

    return run, entries


def _shown(results: Results) -> str:
    return f"error {results}" if isinstance(results, str) else ", ".join(str(value) for _, value in results)
