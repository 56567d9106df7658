"""`dlc check-grad`: compares the derivatives of functions at random arguments, computed in four ways."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error
from dlang.driver import check, errors_of, failure, read_source
from dlang.dump_ir import open_variable
from dlang.host.errors import RunError
from dlang.lazy_modules import lazy_module
from dlang.spelling import plural
from dlang.tools.arguments import Parser, add_json, positive, whole
from dlang.tools.drawing import refuse_unknown, requested, sizes_given
from dlang.tools.ir import unknown
from dlang.tools.report import report
from dlang.typecheck import core, types as ty

if TYPE_CHECKING:
    from dlang.specialize.specialize import Entry
    from dlang.tools import drawing, gradients
    from dlang.tools.drawing import Kind, Leaf
    from dlang.tools.gradients import Comparison, Gradients, Row
    from dlang.typecheck.program import Checked
else:
    gradients = lazy_module("dlang.tools.gradients")
    drawing = lazy_module("dlang.tools.drawing")

KINDS: tuple[Kind, ...] = ("normal", "positive", "fractions")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command. sizes: of variables by name; size: of all others."""

    only: str | None
    every: bool
    seed: int
    size: int
    sizes: dict[str, int]
    seconds: float


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("file", metavar="FILE")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--fn", metavar="NAME", help="only this function")
    which.add_argument("--all", action="store_true", help="every function that takes and gives floats")
    seed = whole("a whole number", 0)
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="of the arguments, 0 unless given")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[NAME=]SIZE",
        help="of all size variables, or of one; 3 if not given",
    )
    parser.add_argument(
        "--seconds", metavar="S", type=positive, default=20.0, help="for each function; 20 if not given"
    )


def main(args: argparse.Namespace) -> int:
    return check_gradients(args.file, args.fn, args.all, args.seed, args.size, args.seconds, args.json)


def check_gradients(
    path: str, only: str | None, every: bool, seed: int, sizes: Sequence[str], seconds: float, as_json: bool
) -> int:  # fmt: skip
    """0 if all derivatives agree; 1 if some do not, or could not be checked, or the program is wrong."""
    try:
        options = Options(only, every, seed, *sizes_given(sizes, 3), seconds)
        checked = check(read_source(path))
        if report(checked.diagnostics, as_json) or errors_of(checked):
            return 1
        chosen = _chosen(checked, options)
        if not chosen:
            help = ("name a function with `--fn`", "a function is found by itself if it gives one float")
            raise error("E0957", f"`{path}` has no function whose derivatives could be checked", None, help=help)
        refuse_unknown(options.sizes, {v.name for decl in chosen for v in decl.variables if v.name}, "is checked")
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    wrong = 0
    for decl in chosen:
        try:
            wrong += not _agrees(decl, options)
        except DlangError as e:
            report(e.diagnostics, as_json)
            wrong += 1
    return 1 if wrong else 0


# ---- which functions -------------------------------------------------------------------------------------------------
def _chosen(checked: Checked, options: Options) -> list[core.FnDecl]:
    functions = [d for d in checked.module.functions.values() if d.body is not None and d.kind == "fn"]
    only = options.only
    if only is not None:
        named = [d for d in functions if d.name == only]
        if not named:
            raise unknown(only, checked.module.path, [d.name for d in functions])
        if not _differentiable(named[0]):
            help = ("the derivatives are of the floats that it gives, in those that it takes",)
            message = f"`{only}` has no derivatives to check: it takes or gives no float"
            raise error("E0957", message, named[0].span, help=help)
        return named
    return [
        d
        for d in functions
        if (options.every or d.rules or _gives_one_float(d))
        and _differentiable(d)
        and not (d.constraints and open_variable(d))
    ]


def _gives_one_float(decl: core.FnDecl) -> bool:
    return decl.result is not None and _is_float(decl.result)


def _is_float(t: ty.Type) -> bool:
    t = ty.resolve(t)
    if isinstance(t, ty.TypeVar):
        return "Float" in t.classes or t.literal == "float"
    return isinstance(t, ty.TypeCon) and t.name in ty.FLOATS


def _differentiable(decl: core.FnDecl) -> bool:
    taken = any(_holds_float(p.local.type) for p in decl.params if not p.nodiff)
    return taken and decl.result is not None and _holds_float(decl.result)


def _holds_float(t: ty.Type) -> bool:
    t = ty.resolve(t)
    match t:
        case ty.TypeArray():
            return _holds_float(t.element)
        case ty.TypeTuple():
            return any(map(_holds_float, t.items))
        case ty.TypeData() | ty.TypeFn():
            return True
        case ty.TypeVar():
            return not t.classes & {"Int", "Bits"}
        case _:
            return _is_float(t)


# ---- one function ----------------------------------------------------------------------------------------------------
def _agrees(decl: core.FnDecl, options: Options) -> bool:
    """Prints the derivatives of a function, at each variant of the enums that it takes; whether they agree.

    Raises E0957 where the function has no derivatives, or no finite value.
    """
    from dlang.tools.gradients import gradients

    drawable, replaced = drawing.with_stand_ins(decl)
    wanted, slots = requested(drawable)
    gradients_of, entry = gradients(wanted)
    if not gradients_of.wrt and options.every:
        return True  # nothing of it can be compared
    if not gradients_of.wrt:
        help = ("check a function that adds up what it gives; parameters that are `nodiff` have no derivatives",)
        why = "it takes no float, or gives none outside of lists and trees"
        raise error("E0957", f"`{decl.name}` has no derivatives to check: {why}", decl.span, help=help)
    sizes = [options.sizes.get(s.name, options.size) for s in slots]
    variables = [s.variable for s in slots]
    draw = Draw(gradients_of, entry, drawing.leaves_of(drawable, entry, variables), sizes, variables, options.seed)
    at = [s.text.format(size) for s, size in zip(slots, sizes, strict=True)]
    many = max([len(leaf.variants) for leaf in draw.chosen], default=1)
    seconds = options.seconds / many
    right, finite, known = True, True, True
    for variant in range(many):
        kind, compared = _compared(decl, draw, variant, seconds)
        which = [f"{leaf.name} = {leaf.variants[min(variant, len(leaf.variants) - 1)]}" for leaf in draw.chosen]
        _print(decl.name, ", ".join([*at, *which, f"seed {options.seed}"]), kind, replaced, compared, seconds)
        right = right and not compared.wrong
        finite = finite and compared.finite
        known = known and compared.known
    if not finite:
        message = f"no derivative of `{decl.name}` could be checked where its value is not finite"
        help = ("try another `--seed`, or give its parameters defaults at which its value is finite",)
        raise error("E0957", message, decl.span, help=help)
    return right and known


@dataclass(frozen=True, slots=True)
class Draw:
    """The function whose arguments are drawn, with its derivatives, the leaves of its parameters, and sizes."""

    made: Gradients
    entry: Entry
    leaves: Sequence[Leaf]
    sizes: Sequence[int]
    variables: Sequence[ty.Var]
    seed: int

    @property
    def chosen(self) -> list[Leaf]:
        """Lists the leaves that hold the variant of an enum, if it is one enum and no array of them."""
        return [leaf for leaf in self.leaves if leaf.variants and not hasattr(leaf.atom.type, "shape")]


def _compared(decl: core.FnDecl, draw: Draw, variant: int, seconds: float) -> tuple[Kind, Comparison]:
    """The derivatives at arguments of the first kind at which the value is finite, or else of the last that the
    function takes."""
    refused: list[DlangError] = []
    best: tuple[Kind, Comparison] | None = None
    for kind in KINDS:
        args = drawing.drawn(draw.entry, draw.leaves, draw.sizes, draw.seed, draw.variables, kind, variant)
        names = [draw.leaves[k - len(args) + len(draw.leaves)].name for k in draw.made.wrt]
        try:
            best = kind, gradients.compare(draw.made, args, names, seconds, draw.seed)
        except RunError as e:
            refused.append(failure(e))
            continue
        except gradients.TooLong:
            help = ("give smaller sizes, such as `--size 1`, or more time: `--seconds 100`",)
            message = f"a gradient of `{decl.name}` takes more than {seconds:g} s"
            raise error("E0957", message, decl.span, help=help) from None
        if best[1].finite:
            break
    if best is None:
        raise refused[0]
    if best[1].finite and not best[1].wrong:
        values = (0.0, 1.0) if best[0] == "fractions" else (0.0,)
        best[1].boundary += gradients.edges(draw.made, args, names, values, 0.1 * seconds, draw.seed)
    return best


# ---- what is shown ---------------------------------------------------------------------------------------------------
def _print(name: str, at: str, kind: Kind, replaced: Sequence[str], compared: Comparison, seconds: float) -> None:
    print(f"`{name}` at {at}: {compared.value:.9g}")
    if replaced:
        print(f"  drawn by weights: {', '.join([f'`{r}`' for r in replaced])}")
    if kind != "normal":
        print(f"  floats are drawn {_KINDS[kind]}: others it refuses, or its value is not finite")
    for note in compared.notes:
        print(f"  {note}")
    _table(compared.rows)
    for r in compared.wrong:
        print(f"  `{r.name}`: {_verdict(r)}")
    if compared.compared < compared.of:
        print(
            f"  {compared.compared} of {compared.of} were compared in {seconds:g} s, and all together along a direction"
        )
    if not compared.finite:
        print("  the value is not finite, so nothing is known of its derivatives")
    elif compared.hollow:
        which = f"{compared.hollow} of {plural(compared.compared, 'derivative')}"
        print(f"  differences say nothing of {which}: rounding takes more of a value of {compared.value:.1e}")
        if not compared.wrong and compared.known:
            print(f"  the other {compared.compared - compared.hollow} agree")
    elif not compared.wrong:
        print(f"  all {compared.compared} derivatives agree")
    for edge in compared.boundary:
        ways = f"reverse mode gives {edge.reverse:.9g}, forward mode {edge.forward:.9g}"
        print(f"  at the boundary `{edge.name}` = {edge.at:g}: {ways}, differences {edge.differences:.9g}")


def _table(rows: Sequence[Row]) -> None:
    if not rows:
        return
    ways = list(rows[0].slopes)
    width = max([8, *[len(r.name) for r in rows]])
    print("  " + " ".join(["element".ljust(width), *[w.rjust(16) for w in ways], "difference".rjust(11)]))
    for r in rows:
        print("  " + " ".join([r.name.ljust(width), *[f"{r.slopes[w]:16.9g}" for w in ways], f"{r.relative:11.1e}"]))


def _verdict(r: Row) -> str:
    """Says which derivative disagrees with the others, if just one does."""
    for way, slope in r.slopes.items():
        others = [s for w, s in r.slopes.items() if w != way]
        near = max(others) - min(others)
        if len(others) > 1 and abs(slope - sum(others) / len(others)) > 10 * near:
            mean = sum(others) / len(others)
            return f"{_NAMES[way]} gives {slope:.9g}, the others {mean:.9g}"
    return "the derivatives disagree; at a kink they may: try another `--seed`"


_KINDS = {"positive": "positive", "fractions": "between 0 and 1"}
_NAMES = {
    "reverse": "reverse mode",
    "forward": "forward mode",
    "reference": "the derivative of the body",
    "differences": "the quotient of differences",
}
