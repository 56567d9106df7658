"""`dlc costs`: what a function and its derivatives cost, counted at sizes that double, beside the law of cost."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error
from dlang.driver import check, errors_of, failure, read_source
from dlang.host.errors import RunError
from dlang.ir.types import is_float
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, add_json, whole
from dlang.tools.drawing import refuse_unknown, sizes_given
from dlang.tools.ir import function_named
from dlang.tools.report import report
from dlang.typecheck import core

if TYPE_CHECKING:
    from dlang.ad import residuals
    from dlang.tools import law
    from dlang.tools.law import Breach, Counted, Scan, Way
else:
    residuals = lazy_module("dlang.ad.residuals")
    law = lazy_module("dlang.tools.law")

SHOWN = 3  # lines of a surplus
WIDTH = 60  # characters of one


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--fn", metavar="NAME", required=True, help="the function")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--grad", action="store_true", help="its value and its gradient alone")
    which.add_argument("--jvp", action="store_true", help="its value and a tangent alone")
    products = "also a Hessian times a vector: the tangent of its gradient, and the gradient of that (`twice`)"
    which.add_argument("--hessian", action="store_true", help=products)
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[NAME=]SIZE",
        help="the smallest of all sizes, or of one; chosen so that counting takes seconds if not given",
    )
    seed = whole("a whole number", 0)
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="of the arguments, 0 unless given")


def main(args: argparse.Namespace) -> int:
    ways: tuple[Way, ...] = ("as written", "value", "gradient", "tangent")
    if args.grad:
        ways = ("as written", "value", "gradient")
    elif args.jvp:
        ways = ("as written", "value", "tangent")
    elif args.hessian:
        ways = (*ways, "second", "twice")
    return show_costs(args.file, args.fn, ways, args.size, args.seed, args.json)


def show_costs(path: str, name: str, ways: Sequence[Way], sizes: Sequence[str], seed: int, as_json: bool) -> int:
    """0 if the law holds; 1 if it does not, or could not be looked at, or the program is wrong."""
    from dlang.tools.law import prepared, scans

    try:
        default, named = sizes_given(sizes, None)
        checked = check(read_source(path))
        if report(checked.diagnostics, as_json) or errors_of(checked):
            return 1
        decl = function_named(checked, name)
        function = prepared(decl, ways)
        refuse_unknown(named, {*function.names, *function.numbers}, "is counted")
        _refuse_without(function, decl, ways)
        scans_made = scans(function, named, default, seed)
    except RunError as e:
        report(failure(e).diagnostics, as_json)
        return 1
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    for scan in scans_made:
        _print_json(name, scan) if as_json else _print(name, scan)
    if not as_json and ways[-1] == "gradient":
        for saved in function.residuals:
            print(residuals.written(saved))
    broken = any(scan.breaches for scan in scans_made)
    if not as_json:
        print("the law of cost is broken" if broken else "the law of cost holds")
    return 1 if broken else 0


def _refuse_without(function: Counted, decl: core.FnDecl, ways: Sequence[Way]) -> None:
    """Raises E0957 where a derivative is asked for alone that the function does not have, or that is not counted."""
    if len(ways) == 3 and ways[-1] not in function.ways:
        results = function.program.functions[function.entry.name].results
        unknown = function.wrt and any(is_float(r.type) for r in results)
        why = "how many floats it gives is known only when it has run" if unknown else "it takes or gives no float"
        sums = (f"count a function that adds up what `{decl.name}` gives",) if unknown else ()
        help = (*sums, "without `--grad` and `--jvp` its value alone is counted")
        raise error("E0957", f"`{decl.name}` has no derivative to count: {why}", decl.span, help=help)


# ---- what is shown ---------------------------------------------------------------------------------------------------
def _print(name: str, scan: Scan) -> None:
    print(f"`{name}` at {_sizes(scan)}")
    titles = [f"{t:>13}" for t in ("operations", "exponent", "bytes moved", "exponent", "memory", "exponent", "times")]
    print(f"  {'':<12}{''.join(titles)}")
    for way in scan.costs[0].ways:
        counts = [c[way] for c in scan.costs]
        shown = []
        for amounts in ([c.operations for c in counts], [c.moved for c in counts], [c.peak for c in counts]):
            shown += [f"{amounts[-1]:>13,}", f"{law.exponent(amounts):>13.2f}"]
        if way in law.BASES and (base := law.BASES[way]) in scan.costs[0].ways:
            shown.append(f"{_ratio(scan, way, base):>13.2f}")
        print(f"  {way:<12}{''.join(shown)}")
    for breach in scan.breaches:
        print(f"  {said(breach)}")
    lines = dict.fromkeys([line for breach in scan.breaches for line in breach.lines[:SHOWN]])
    for line in lines:
        place = f"{line.path}:{line.line}"
        print(f"    {place}: {line.operations:,} operations, exponent {line.growth:.2f}: {_short(line.text)}")


def _short(text: str) -> str:
    """The beginning of a line of a program."""
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _ratio(scan: Scan, way: Way, base: Way) -> float:
    """The operations of a way over those of what it is made of and the numbers that the function takes and gives."""
    costs = scan.costs[-1]
    below = costs[base].operations + (costs.numbers if way != "value" else 0)
    return costs[way].operations / max(below, 1)


def said(breach: Breach) -> str:
    """A breach of the law as a sentence."""
    names = {
        "value": "the value",
        "gradient": "the gradient",
        "tangent": "the tangent",
        "second": "the tangent of the gradient",
        "twice": "the gradient of the gradient",
    }
    if breach.kind == "faster":
        return (
            f"{names[breach.way]}: {breach.measure} grow with the exponent {breach.found:.2f}, and may with "
            f"{breach.allowed:.2f}"
        )
    return f"{names[breach.way]}: {breach.measure} are {breach.found:.2f} times what they may be"


def _sizes(scan: Scan) -> str:
    first, *_, last = scan.sizes
    if not last:
        return "no size"
    return ", ".join(f"{n} = {first[n]} to {s}" if n in scan.names else f"{n} = {s}" for n, s in last.items())


def _print_json(name: str, scan: Scan) -> None:
    ways = {}
    for way in scan.costs[0].ways:
        counts = [c[way] for c in scan.costs]
        measures = {"operations": [c.operations for c in counts], "moved": [c.moved for c in counts]}
        measures["memory"] = [c.peak for c in counts]
        ways[way] = {m: {"counts": n, "exponent": round(law.exponent(n), 3)} for m, n in measures.items()}
    broken = [
        {
            "of": b.way,
            "measure": b.measure,
            "message": said(b),
            "lines": [{"file": x.path, "line": x.line, "operations": x.operations} for x in b.lines[:SHOWN]],
        }
        for b in scan.breaches
    ]
    out = {"function": name, "sizes": [dict(s) for s in scan.sizes], "costs": ways, "broken": broken}
    print(json.dumps(out))
