"""`dlc check-grad`: compares the derivatives of functions at random arguments, computed in four ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error
from dlang.driver import check, errors_of, failure, read_source
from dlang.listings import open_variable, request
from dlang.tools.ir import unknown
from dlang.tools.report import report
from dlang.typecheck import core
from dlang.typecheck import types as ty

if TYPE_CHECKING:
    from dlang.tools.gradients import Gradients, Slopes
    from dlang.typecheck.program import Checked

WAYS = ("reverse", "forward", "reference", "differences")
COARSE = 100.0  # how much farther differences may be from the others than these from one another


@dataclass(frozen=True, slots=True)
class Row:
    """The element of an argument in which the ways differ most. error: 1 is just acceptable."""

    name: str
    slopes: dict[str, float]
    error: float

    @property
    def relative(self) -> float:
        values = list(self.slopes.values())
        spread, size = max(values) - min(values), max(map(abs, values))
        return spread / size if size else 0.0


def check_gradients(path: str, only: str | None, seed: int, sizes: Sequence[str], as_json: bool) -> int:
    """0 if all derivatives agree; 1 if some do not, or the program is wrong."""
    try:
        default, named = _sizes(sizes)
        checked = check(read_source(path))
        if report(checked.diagnostics, as_json) or errors_of(checked):
            return 1
        chosen = _chosen(checked, only)
        if not chosen:
            help = ("name a function with `--fn`", "a function is found by itself if it gives one float")
            raise error("E0957", f"`{path}` has no function whose derivatives could be checked", None, help=help)
        wrong = 0
        for decl in chosen:
            wrong += not _agrees(decl, seed, default, named, as_json)
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    return 1 if wrong else 0


def _sizes(given: Sequence[str]) -> tuple[int, dict[str, int]]:
    """`5` and `n=5` from the command line: the size of all, and of one variable."""
    default, named = 3, {}
    for text in given:
        name, _, value = text.rpartition("=")
        if not value.isdecimal():
            raise error("E0957", f"`--size {text}`: expected a number, or a name and a number as in `n=5`", None)
        if name:
            named[name] = int(value)
        else:
            default = int(value)
    return default, named


# ---- which functions -------------------------------------------------------------------------------------------------
def _chosen(checked: Checked, only: str | None) -> list[core.FnDecl]:
    functions = [d for d in checked.module.functions.values() if d.body is not None and d.kind == "fn"]
    if only is not None:
        found = [d for d in functions if d.name == only]
        if not found:
            raise unknown(only, checked.module.path, [d.name for d in functions])
        if not (_drawable(found[0]) and found[0].result is not None and _holds_float(found[0].result)):
            help = ("the derivatives are of the floats that it gives, in those that it takes",)
            message = f"`{only}` has no derivatives to check: it takes or gives no float, or takes a function"
            raise error("E0957", message, found[0].span, help=help)
        return found
    return [d for d in functions if open_variable(d) is None and (d.rules or _gives_one_float(d)) and _drawable(d)]


def _gives_one_float(decl: core.FnDecl) -> bool:
    return decl.result is not None and _is_float(decl.result)


def _is_float(t: ty.Type) -> bool:
    t = ty.resolve(t)
    if isinstance(t, ty.TypeVar):
        return "Float" in t.classes or t.literal == "float"
    return isinstance(t, ty.TypeCon) and t.name in ty.FLOATS


def _drawable(decl: core.FnDecl) -> bool:
    types = [p.local.type for p in decl.params]
    return any(map(_holds_float, types)) and not any(isinstance(ty.resolve(t), ty.TypeFn) for t in types)


def _holds_float(t: ty.Type) -> bool:
    t = ty.resolve(t)
    match t:
        case ty.TypeArray():
            return _holds_float(t.element)
        case ty.TypeTuple():
            return any(map(_holds_float, t.items))
        case ty.TypeData():
            return True
        case _:
            return _is_float(t)


# ---- one function ----------------------------------------------------------------------------------------------------
def _agrees(decl: core.FnDecl, seed: int, default: int, named: dict[str, int], as_json: bool) -> bool:
    """Prints the derivatives of a function; whether they agree."""
    import numpy as np

    from dlang.runtime.errors import RunError
    from dlang.tools.drawing import drawn, leaves_of
    from dlang.tools.gradients import gradients

    wanted = request(decl)
    variables = [v for v in decl.variables if v in wanted.bindings and not isinstance(v, ty.TypeVar)]
    sizes = [named.get(v.name or "", default) for v in variables]
    made, entry = gradients(wanted)
    leaves = leaves_of(decl, entry, variables)
    args = drawn(entry, leaves, sizes, seed, variables)
    head = len(args) - len(leaves)
    try:
        value = made.value(args)
        found, notes = _slopes(made, args)
    except RunError as e:
        raise failure(e) from e.__cause__
    at = ", ".join([*[f"{v.name or '_'} = {s}" for v, s in zip(variables, sizes, strict=True)], f"seed {seed}"])
    names = [leaves[k - head].name for k in made.wrt]
    rows = _rows(names, found, [made.dtype(k) for k in made.wrt], value)
    wrong = [r for r in rows if r.error > 1]
    elements = sum(int(np.size(s)) for s in found["reverse"])
    print(f"`{decl.name}` at {at}: {value:.9g}")
    for note in notes:
        print(f"  {note}")
    _table(rows, list(found))
    if not np.isfinite(value):
        print("  the value is not finite: try another `--seed`")
    for r in wrong:
        print(f"  `{r.name}`: {_verdict(r)}")
    if not wrong:
        print(f"  all {elements} derivatives agree")
    return not wrong


def _slopes(made: Gradients, args: list[object]) -> tuple[dict[str, Slopes], list[str]]:
    from dlang.ir.pointwise_values import NoDerivative

    found: dict[str, Slopes] = {}
    notes = []
    for way in WAYS:
        try:
            found[way] = getattr(made, way)(args)
        except NoDerivative as e:
            notes.append(f"no reference: it can't differentiate {e}")
    return found, notes


def _rows(names: list[str], found: dict[str, Slopes], dtypes: list[str], value: float) -> list[Row]:
    """For each argument the element that is worst, of those that are not empty."""
    import numpy as np

    rows = []
    for k, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        worst: Row | None = None
        for at in np.ndindex(found["reverse"][k].shape):
            slopes = {way: float(s[k][at]) for way, s in found.items()}
            label = name + (f"[{', '.join(map(str, at))}]" if at else "")
            row = Row(label, slopes, _error(slopes, dtype, value))
            if worst is None or row.error > worst.error:
                worst = row
        if worst is not None:
            rows.append(worst)
    return rows


def _error(slopes: dict[str, float], dtype: str, value: float) -> float:
    """The largest distance between two ways, in units of what is acceptable between them."""
    from dlang.tools.gradients import TOLERANCES, distance

    worst = 0.0
    finite = abs(value) < float("inf")
    ways = [way for way in slopes if finite or way != "differences"]  # infinite values have no differences
    scale = abs(value) if finite else 0.0
    for k, one in enumerate(ways):
        for other in ways[:k]:
            tolerance = TOLERANCES[dtype] * (COARSE if "differences" in (one, other) else 1.0)
            worst = max(worst, distance(slopes[other], slopes[one], tolerance, scale))
    return worst


def _table(rows: list[Row], ways: list[str]) -> None:
    width = max([8, *[len(r.name) for r in rows]])
    print("  " + " ".join(["element".ljust(width), *[w.rjust(16) for w in ways], "difference".rjust(11)]))
    for r in rows:
        print("  " + " ".join([r.name.ljust(width), *[f"{r.slopes[w]:16.9g}" for w in ways], f"{r.relative:11.1e}"]))


def _verdict(r: Row) -> str:
    """Which way stands alone, if one does."""
    for way, slope in r.slopes.items():
        others = [s for w, s in r.slopes.items() if w != way]
        near = max(others) - min(others)
        if len(others) > 1 and abs(slope - sum(others) / len(others)) > 10 * near:
            mean = sum(others) / len(others)
            return f"{_NAMES[way]} gives {slope:.9g}, the others {mean:.9g}"
    return "the derivatives disagree; at a kink they may: try another `--seed`"


_NAMES = {
    "reverse": "reverse mode",
    "forward": "forward mode",
    "reference": "the derivative of the body",
    "differences": "the quotient of differences",
}
