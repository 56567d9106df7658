"""A variant of a program that measures itself: its nests have clocks, and count what they move and compute.

A *nest* is what a profile has a row for: a loop that is in no other loop, with all that it does inside; a product of
matrices; a copy; work of the host; and, as the nest of a function, what of its code is in none of these.
A `for` or `while` is a nest if nothing in it is one: else those inside are. Clocks run where code runs in order only;
what a nest calls counts as the nest's own, in a copy of the function that is told whose it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.counting import Counter, Routines
from dlang.codegen.loops import (
    At,
    Body,
    Branch,
    CallC,
    Compute,
    Enter,
    For,
    Function,
    Invoke,
    Leave,
    Loop,
    Move,
    Nest,
    Pack,
    Product,
    Program,
    Runtime,
    Stmt,
    While,
)
from dlang.codegen.traverse import walk
from dlang.diagnostics import Span
from dlang.ir.anf import Atom, Lit, fresh
from dlang.ir.types import I64, dtype_of

_KINDS: tuple[tuple[type, str], ...] = (
    (Loop, "loop"), (Product, "product"), (Pack, "copy"), (Move, "copy"), (Runtime, "host"), (CallC, "C"),
    (For, "loop"), (While, "loop"),
)  # fmt: skip


def profiled(program: Program, routines: Routines) -> Program:
    """The program with clocks and counters, and the list of its nests.

    routines: says how many operations functions of mathematics are. Of every function there is a copy behind it that
    takes the number of a nest as one more, last parameter.
    """
    measuring = _Measuring(_with_nests(program), routines)
    functions = {name: measuring.function(f) for name, f in program.functions.items()}
    for f in program.functions.values():
        functions[_part(f.name)] = measuring.part(f)
    called = _called(functions, program.functions)
    return Program({name: f for name, f in functions.items() if name in called}, tuple(measuring.nests))


def _part(name: str) -> str:
    return name + " in a nest"


def _called(functions: Mapping[str, Function], entries: Collection[str]) -> set[str]:
    """What the functions of the program itself reach of the copies."""
    open, found = list(entries), set(entries)
    while open:
        for stmt in walk(functions[open.pop()].body.stmts):
            if isinstance(stmt, Invoke) and stmt.function not in found:
                found.add(stmt.function)
                open.append(stmt.function)
    return found


def _with_nests(program: Program) -> frozenset[str]:
    """The functions that have nests of their own, or call functions that do."""
    kinds = tuple(kind for kind, _ in _KINDS)
    found = {name for name, f in program.functions.items() if any(isinstance(s, kinds) for s in walk(f.body.stmts))}
    while True:
        more = {
            name
            for name, f in program.functions.items()
            if name not in found and any(isinstance(s, Invoke) and s.function in found for s in walk(f.body.stmts))
        }
        if not more:
            return frozenset(found)
        found |= more


@dataclass(slots=True)
class _Measuring:
    with_nests: frozenset[str]
    routines: Routines
    nests: list[Nest] = field(default_factory=list)
    span: Span | None = None
    label: str = ""
    own: int = 0  # the nest of the function at hand

    def new(self, kind: str, span: Span | None, stmts: Sequence[Stmt]) -> int:
        countable = not any(isinstance(s, Runtime | CallC) for s in walk(stmts))
        self.nests.append(Nest(kind, self.label, span, kind == "function" or countable, _precision(stmts)))
        return len(self.nests) - 1

    # ---- functions ---------------------------------------------------------------------------------------------------
    def function(self, f: Function) -> Function:
        """A function with clocks; what is in none of its nests is its own."""
        self.label, self.span = f.label or f.name, f.span
        self.own = own = self.new("function", f.span, f.body.stmts)
        body = self.body(f.body)
        return replace(f, body=Body((Enter(own), *body.stmts, Leave(own)), body.results))

    def part(self, f: Function) -> Function:
        """A function whose costs are those of a nest that it is told."""
        nest = fresh("nest", I64)
        body = Counter(nest, self.callee, self.routines).body(f.body)
        return replace(f, name=_part(f.name), params=(*f.params, nest), body=body)

    def callee(self, stmt: Invoke, nest: Atom) -> Invoke:
        """A call by a nest."""
        return replace(stmt, function=_part(stmt.function), args=(*stmt.args, nest))

    # ---- code that runs in order -------------------------------------------------------------------------------------
    def body(self, body: Body) -> Body:
        return Body(self.statements(body.stmts), body.results)

    def statements(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        plain: list[Stmt] = []  # straight-line code since the last nest: the function's own

        def flush() -> None:
            out.extend(Counter(Lit(self.own, "i64"), self.callee, self.routines).statements(plain))
            plain.clear()

        for stmt in stmts:
            match stmt:
                case At(span):
                    self.span = span
                    plain.append(stmt)
                case Loop() | Product() | Pack() | Move() | Runtime() | CallC():
                    flush()
                    out += self.nest(stmt)
                case For() if self.has_nests(stmt):
                    flush()
                    out.append(replace(stmt, body=self.body(stmt.body)))
                case While() if self.has_nests(stmt):
                    flush()
                    out.append(replace(stmt, condition=self.body(stmt.condition), body=self.body(stmt.body)))
                case For() | While():
                    flush()
                    out += self.nest(stmt)
                case Branch():
                    flush()
                    around = self.span
                    arms = self.body(stmt.then), self.body(stmt.otherwise)
                    self.span = around
                    out.append(replace(stmt, then=arms[0], otherwise=arms[1]))
                case Invoke() if stmt.function in self.with_nests:
                    flush()
                    out.append(stmt)
                case _:
                    plain.append(stmt)
        flush()
        return tuple(out)

    def has_nests(self, stmt: For | While) -> bool:
        """Whether a loop in order has nests inside, other than loops in order."""
        inside = tuple(kind for kind, _ in _KINDS if kind not in (For, While))
        return any(
            isinstance(s, inside) or (isinstance(s, Invoke) and s.function in self.with_nests) for s in walk((stmt,))
        )

    def nest(self, stmt: Stmt) -> list[Stmt]:
        """A statement with a clock around it."""
        kind = next(name for kind, name in _KINDS if isinstance(stmt, kind))
        number = self.new(kind, getattr(stmt, "span", None) or self.span, (stmt,))
        counted = Counter(Lit(number, "i64"), self.callee, self.routines).statements([stmt])
        return [Enter(number), *counted, Leave(number)]


def _precision(stmts: Sequence[Stmt]) -> str:
    """f32 if nothing is computed in f64."""
    found = set()
    for stmt in walk(stmts):
        match stmt:
            case Compute(var):
                found.add(dtype_of(var))
            case Product(c=matrix):
                found.add(matrix.buffer.dtype)
            case Loop(reductions=reductions):
                found.update(dtype_of(r.result) for r in reductions)
            case _:
                pass
    return "f64" if "f64" in found or "f32" not in found else "f32"
