"""Which lines and branches of the sources the tests reach.

Before a program is specialised, each statement and each arm gets a *mark*: an assertion that fails, with a text of its
own. No pass may take a check away, or move it to where it runs more often, so the marks stay at their places in
whatever the compiler makes of a function: copies of it, derivatives, loops that are fused. The interpreter runs the
program; it takes marks for what they are, and counts them. A line is reached if a mark of it is, in any instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dlang.diagnostics import Span
from dlang.driver import Request, call, lower
from dlang.runtime.host import Host
from dlang.typecheck import core
from dlang.typecheck.headers import CoreModule
from dlang.typecheck.program import Checked
from dlang.typecheck.trees import rebuilt
from dlang.typecheck.types import TypeCon

Kind = Literal["function", "line", "arm"]


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place that a run may come to. offset: of what it belongs to. arm: of a branch, which one; name: of a function.

    A place has the same mark however often its file is read.
    """

    path: str
    line: int
    offset: int
    kind: Kind
    arm: int = 0
    name: str = ""


@dataclass(slots=True)
class Coverage:
    """All marks by their texts in programs, and how often execution has come to each."""

    marks: dict[str, Mark] = field(default_factory=dict)
    texts: dict[Mark, str] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=dict)

    def instrument(self, checked: Checked) -> None:
        """Puts marks into the functions of a program, but into those of the standard library."""
        for module in {m.path: m for m in (checked.module, *checked.modules.values())}.values():
            if not _is_standard(checked, module):
                for decl in (*module.functions.values(), *module.rules.values()):
                    if decl.module == module.name:
                        self._function(decl)

    def run(self, test: core.FnDecl) -> None:
        """Runs a test; what it reaches before it fails counts too. Raises `DlangError`."""
        from dlang.ir.interpreter import Interpreter

        program, (entry,) = lower([Request(test)])
        interpreter = Interpreter(program, Host())
        interpreter.marks = self.hits
        call(interpreter, entry)

    def reached(self) -> dict[Mark, bool]:
        """Every mark in the order of places, and whether a run has come to it."""
        return {mark: self.hits[text] > 0 for mark, text in sorted(self.texts.items())}

    # ---- marks -------------------------------------------------------------------------------------------------------
    def _mark(self, span: Span, kind: Kind, arm: int = 0, name: str = "") -> core.Statement:
        source = span.source
        mark = Mark(source.path, span.line, source.offset + span.start, kind, arm, name)
        if mark not in self.texts:
            own = f"mark {len(self.texts)}"
            text = f"assertion failed: `{own}`"
            self.texts[mark], self.marks[text], self.hits[text] = text, mark, 0
        own = self.texts[mark].split("`")[1]
        return core.Assert(core.Literal(TypeCon("bool"), span, False), None, own, span)

    def _function(self, decl: core.FnDecl) -> None:
        body = decl.body
        if body is None or decl.kind == "extern":
            return
        body = rebuilt(body, self._changed)
        decl.body = _after(self._mark(decl.span, "function", name=decl.name), self._line(body))

    def _changed(self, old: Any, new: Any) -> Any:
        match new:
            case core.BlockExpr(statements=statements, result=result):
                marked = tuple([part for s in statements for part in self._statement(s)])
                unwritten = result.span == old.span  # what follows a `return`
                return replace(new, statements=marked, result=result if unwritten else self._line(result))
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
        return [self._mark(s.value.span if isinstance(s, core.Discard) else s.span, "line"), s]

    def _arm(self, span: Span, number: int, e: core.Expr) -> core.Expr:
        return _after(self._mark(span, "arm", number), self._line(e))

    def _line(self, e: core.Expr, around: Span | None = None) -> core.Expr:
        """An expression with a mark before it, unless it begins on the line of `around`. A block has marks of its own,
        and `()` has none, which mostly nobody wrote.
        """
        if isinstance(e, core.BlockExpr) or (isinstance(e, core.TupleExpr) and not e.items):
            return e
        if around is not None and around.line == e.span.line:
            return e
        return _after(self._mark(e.span, "line"), e)


def _after(mark: core.Statement, e: core.Expr) -> core.Expr:
    return core.BlockExpr(e.type, e.span, (mark,), e)


def _is_standard(checked: Checked, module: CoreModule) -> bool:
    path = Path(module.path)
    return checked.program.finder.standard(path.stem) == path
