"""Measures the lines and branches of the sources that the tests reach.

Before a program is specialised, each statement and each arm gets a *spot*: an assertion that fails, with a text of its
own. No pass may take a check away, or move it to where it runs more often, so the spots stay at their places in
whatever the compiler makes of a function: copies of it, derivatives, loops that are fused. The interpreter runs the
program; it takes spots for what they are, and counts them. A line is reached if a spot of it is, in any instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from dlang.diagnostics import Span, shown
from dlang.driver import Request, call, lower
from dlang.host.effects import Host
from dlang.tools.arguments import replace_file
from dlang.typecheck import core
from dlang.typecheck.headers import CoreModule
from dlang.typecheck.program import Checked
from dlang.typecheck.trees import rebuilt
from dlang.typecheck.types import TypeCon

Kind = Literal["function", "line", "arm"]


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A place that a run may come to. offset: of what it belongs to. arm: of a branch, which one; name: of a function.

    A place has the same spot however often its file is read.
    """

    path: str
    line: int
    offset: int
    kind: Kind
    arm: int = 0
    name: str = ""


@dataclass(slots=True)
class Coverage:
    """All spots with their texts in programs, and how often execution has come to each of these."""

    texts: dict[Spot, str] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=dict)

    def instrument(self, checked: Checked) -> None:
        """Puts spots into the functions of a program, but into those of the standard library.

        A constant that is a whole number has none: types know it, so nothing comes there to use it.
        """
        tables = {table.path: table for table in (checked.table, *checked.program.tables.values())}
        for table in tables.values():
            module = table.core
            if not _is_standard(checked, module):
                for decl in (*module.functions.values(), *module.rules.values()):
                    if decl.module == module.name and not (decl.kind == "const" and decl.name in table.integers):
                        self._function(decl)

    def run(self, test: core.FnDecl, host: Host) -> None:
        """Runs a test; what it reaches before it fails counts too. Raises `DlangError`."""
        from dlang.interpret.interpreter import Interpreter

        program, (entry,) = lower([Request(test)])
        interpreter = Interpreter(program, host)
        interpreter.counted = self.hits
        call(interpreter, entry)

    def reached(self) -> dict[Spot, bool]:
        """Every spot in the order of places, and whether a run has come to it."""
        return {spot: self.hits[text] > 0 for spot, text in sorted(self.texts.items())}

    # ---- spots -------------------------------------------------------------------------------------------------------
    def _spot(self, span: Span, kind: Kind, arm: int = 0, name: str = "") -> core.Statement:
        source = span.source
        spot = Spot(source.path, span.line, source.offset + span.start, kind, arm, name)
        if spot not in self.texts:
            label = f"spot {len(self.texts)}"
            text = f"assertion failed: `{label}`"
            self.texts[spot], self.hits[text] = text, 0
        label = self.texts[spot].split("`")[1]
        return core.Assert(core.Literal(TypeCon("bool"), span, False), None, label, span)

    def _function(self, decl: core.FnDecl) -> None:
        body = decl.body
        if body is None or decl.kind == "extern":
            return
        body = rebuilt(body, self._changed)
        decl.body = _after(self._spot(decl.span, "function", name=decl.name), self._line(body))

    def _changed(self, old: Any, new: Any) -> Any:
        match new:
            case core.BlockExpr(statements=statements, result=result):
                spotted = tuple([part for s in statements for part in self._statement(s)])
                unwritten = result.span == old.span  # what follows a `return`
                return replace(new, statements=spotted, result=result if unwritten else self._line(result))
            case core.If():
                then, otherwise = [self._arm(old.span, k, e) for k, e in enumerate((new.then, new.otherwise))]
                return replace(new, then=then, otherwise=otherwise)
            case core.Match():
                arms = [replace(arm, body=self._arm(old.span, k, arm.body)) for k, arm in enumerate(new.arms)]
                return replace(new, arms=tuple(arms))
            case core.Lambda():
                return replace(new, body=self._line(new.body, old.span))
            case core.Comprehension():
                return replace(new, element=self._line(new.element, old.span))
        return new

    def _statement(self, s: core.Statement) -> list[core.Statement]:
        if isinstance(s, core.LocalFn):
            self._function(s.decl)
            return [s]
        return [self._spot(s.value.span if isinstance(s, core.Discard) else s.span, "line"), s]

    def _arm(self, span: Span, number: int, e: core.Expr) -> core.Expr:
        return _after(self._spot(span, "arm", number), self._line(e))

    def _line(self, e: core.Expr, around: Span | None = None) -> core.Expr:
        """An expression with a spot before it, unless it begins on the line of `around`. A block has spots of its own,
        and `()` has none, which mostly nobody wrote.
        """
        if isinstance(e, core.BlockExpr) or (isinstance(e, core.TupleExpr) and not e.items):
            return e
        if around is not None and around.line == e.span.line:
            return e
        return _after(self._spot(e.span, "line"), e)


def _after(spot: core.Statement, e: core.Expr) -> core.Expr:
    return core.BlockExpr(e.type, e.span, (spot,), e)


def _is_standard(checked: Checked, module: CoreModule) -> bool:
    path = Path(module.path)
    return checked.program.finder.standard(path.stem) == path


# ---- reports ---------------------------------------------------------------------------------------------------------
# Reports the coverage of tests, as a table for a person and in the format of LCOV for other tools.


@dataclass(slots=True)
class FileCoverage:
    """lines: those that may be reached, and whether they were. arms: by the line and the offset of the branch, and the
    number of the arm. functions: by line and name.
    """

    path: str
    lines: dict[int, bool] = field(default_factory=dict)
    arms: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    functions: dict[tuple[int, str], bool] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The lines that were reached, in percent."""
        return 100 * sum(self.lines.values()) / len(self.lines) if self.lines else 100.0

    def missing(self) -> str:
        """The lines that were not reached; of those without a reached line between them the first and the last."""
        runs = [[line for line, _ in run] for hit, run in groupby(self.lines.items(), lambda x: x[1]) if not hit]
        return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def by_file(reached: Mapping[Spot, bool]) -> list[FileCoverage]:
    """Spots, which come in the order of their places, by files."""
    files: dict[str, FileCoverage] = {}
    for spot, hit in reached.items():
        file = files.setdefault(spot.path, FileCoverage(spot.path))
        match spot.kind:
            case "line":
                file.lines[spot.line] = file.lines.get(spot.line, False) or hit
            case "arm":
                file.arms[spot.line, spot.offset, spot.arm] = hit
            case "function":
                file.functions[spot.line, spot.name] = hit
    return list(files.values())


def table(files: list[FileCoverage]) -> str:
    """A line for each file, and one for all."""
    rows = [(shown(f.path), list(f.lines.values()), list(f.arms.values()), f.missing()) for f in files]
    if len(files) != 1:
        rows.append(("all", [x for r in rows for x in r[1]], [x for r in rows for x in r[2]], ""))
    width = max(len(row[0]) for row in rows)
    out = [f"{'':<{width}}  lines    hit        %  branches  missing".rstrip()]
    for name, lines, arms, missing in rows:
        share = 100 * sum(lines) / len(lines) if lines else 100.0
        branches = f"{sum(arms)}/{len(arms)}"
        out.append(
            f"{name:<{width}}  {len(lines):>5}  {sum(lines):>5}  {share:>5.1f} %  {branches:>8}  {missing}".rstrip()
        )
    return "\n".join(out)


def lcov(files: list[FileCoverage]) -> str:
    """The tracefile of `geninfo`: counts say whether something was reached, not how often."""
    return "".join(f"{line}\n" for file in files for line in _records(file))


def _records(file: FileCoverage) -> Iterator[str]:
    yield "TN:"
    yield f"SF:{file.path}"
    for line, name in file.functions:
        yield f"FN:{line},{name}"
    for (_, name), hit in file.functions.items():
        yield f"FNDA:{int(hit)},{name}"
    yield f"FNF:{len(file.functions)}"
    yield f"FNH:{sum(file.functions.values())}"
    blocks = {key: k for k, key in enumerate(dict.fromkeys((line, offset) for line, offset, _ in file.arms))}
    for (line, offset, arm), hit in file.arms.items():
        yield f"BRDA:{line},{blocks[line, offset]},{arm},{int(hit)}"
    yield f"BRF:{len(file.arms)}"
    yield f"BRH:{sum(file.arms.values())}"
    for line, hit in file.lines.items():
        yield f"DA:{line},{int(hit)}"
    yield f"LF:{len(file.lines)}"
    yield f"LH:{sum(file.lines.values())}"
    yield "end_of_record"


def write_lcov(files: list[FileCoverage], path: str) -> None:
    """Writes what was covered in the format of LCOV. Raises E0822."""
    replace_file(path, lcov(files))
