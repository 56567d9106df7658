"""The loop-nest IR as text: for a person, for tests, and for `reading` to read back.

    fn "f.0.entry" "f"(n.0: i64, &x.1: f64[n.0]) -> (&y.2: f64[n.0]) order (out 0) {
      loop i.3 in 0..n.0 by 8 {
        t.4: f64 = &x.1[i.3]
        u.5: f64 = sin(t.4)
        &y.2[i.3] = u.5
      }
    }

As in the text of the core IR, variables are numbered in each function in the order in which they appear. Where a
statement comes from is a comment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlang.codegen import loops
from dlang.diagnostics import Span
from dlang.ir.anf import Size
from dlang.ir.forms import Hole, written
from dlang.ir.printer import FormPrinter, name_text, quoted

Part = (
    loops.ArrayValue | loops.Matrix | loops.Scattered | loops.Panels | loops.Batch | loops.Partial | loops.Reduction
    | loops.Allocate | loops.Assert | loops.Free | loops.Move | loops.Product
)  # fmt: skip
"""The parts of statements that have a form of their own; some are statements, too."""


def print_program(program: loops.Program, why: bool = False) -> str:
    """The text of a program, without its kernels and the nests of a profile. why: with the decisions on loops."""
    return "\n".join([print_function(f, why) for f in program.functions.values()])


def print_function(function: loops.Function, why: bool = False) -> str:
    """The text of a function."""
    return "\n".join((WhyPrinter if why else LoopPrinter).of(function).lines) + "\n"


def head_of(stmt: loops.Stmt) -> str:
    """The text of a statement without those inside it, with the serial numbers of variables, for messages."""
    return _SerialPrinter().op(stmt).split("\n")[0].removesuffix(" {")


class LoopPrinter(FormPrinter):
    """Writes functions of the loop-nest IR; numbers variables and buffers as they come."""

    @classmethod
    def of(cls, function: loops.Function, since: LoopPrinter | None = None) -> LoopPrinter:
        """One that has written a function. since: the variables that another has written keep their names."""
        printer = cls(since)
        printer.function(function)
        return printer

    def function(self, f: loops.Function) -> None:
        label = f" {quoted(f.label)}" if f.label not in ("", f.name) else ""
        extents = f.extents or (None,) * len(f.params)
        params = ", ".join([self.param(p, extent) for p, extent in zip(f.params, extents, strict=True)])
        outs = ", ".join([self.binding(out.buffer) + self.sizes(out.shape) for out in f.outs])
        order = ", ".join(["_" if entry is None else f"{entry[0]} {entry[1]}" for entry in f.order])
        flags = (" recursive" if f.recursive else "") + (" device" if f.device else "")
        head = f"fn {name_text(f.name)}{label}({params}) -> ({outs}) order ({order}){flags} {{"
        self.line(head, f.span)
        self.body(f.body.stmts, f.body.results)
        self.line("}")

    def param(self, slot: loops.Slot, extent: Size | None) -> str:
        """The text of a parameter; extent: how many elements an array has."""
        return self.binding(slot) + ("" if extent is None else self.sizes([extent]))

    def body(self, stmts: Iterable[loops.Stmt], results: Iterable[loops.Value] = ()) -> None:
        with self.indented():
            for stmt in stmts:
                self.before(stmt)
                head, *tail = self.op(stmt).split("\n")
                self.line(head)
                self.lines += tail
            if given := ", ".join(map(self.value, results)):
                self.line(f"yield {given}")

    def before(self, stmt: loops.Stmt) -> None:
        """Writes what stands above a statement: nothing."""

    def value(self, value: loops.Value) -> str:
        if isinstance(value, loops.Buffer):
            return self.names.get(value) or self.named(value, value.name, value.serial, "&")
        return self.atom(value)

    def binding(self, bound: object) -> str:
        if isinstance(bound, loops.Buffer):
            return f"{self.value(bound)}: {self.dtype(bound.dtype)}"
        return super().binding(bound)

    def op(self, op: loops.Stmt | Part) -> str:
        """The text of a statement, or of a part of one."""
        return written(op.FORM, op, self.field)

    def field(self, hole: Hole, value: Any) -> str:
        if hole.how == "block":
            return self.part(loops.Body(value, ()), hole)
        if isinstance(value, Span):
            return repr(value)
        if isinstance(value, frozenset):
            value = tuple(sorted(value, key=self.numbers.__getitem__))
        return super().field(hole, value)

    def part(self, value: object, hole: Hole) -> str:
        match value:
            case loops.Buffer():
                return self.binding(value) if hole.how == "typed" else self.value(value)
            case loops.Body(stmts, results):
                with self.apart() as lines:
                    self.body(stmts, results)
                return self.in_braces(lines)
            case (array, beside):
                return f"{self.part(array, hole)} {self.part(beside, hole)}"
            case _ if isinstance(value, Part):
                return self.op(value)
            case _:
                return super().part(value, hole)


class WhyPrinter(LoopPrinter):
    """Writes the decisions on a loop or branch above it."""

    def before(self, stmt: loops.Stmt) -> None:
        match stmt:
            case loops.Loop(why=why) | loops.Branch(why=why):
                for decision in why:
                    reason = decision.reason.format(*map(self.figure, decision.figures))
                    self.line(f"# {decision.choice}: {reason}")
            case loops.InOrder(params=params):
                state = f"carry {', '.join([p.name for p in params])}" if params else "go one after another"
                self.line(f"# in order: iterations {state}")
            case _:
                pass

    def figure(self, figure: float | Size) -> str:
        match figure:
            case float():
                return f"{figure:g}"
            case int():
                return str(figure)
            case _:
                return self.size(figure)


class _SerialPrinter(LoopPrinter):
    """Names what it writes as `repr` does."""

    def named(self, thing: object, name: str, serial: int, mark: str = "") -> str:
        self.numbers[thing] = serial
        self.names[thing] = f"{mark}{name}.{serial}"
        return self.names[thing]
