"""A variant of a program that measures itself: its nests have clocks, and count what they move and compute.

A *nest* is what a profile has a row for: a loop that is in no other loop, with all that it does inside; a product of
matrices; a copy; work of the host; and, as the nest of a function, what of its code is in none of these.
A `for` or `while` is a nest if nothing in it is one: else those inside are. Clocks run where code runs in order only;
what a nest calls counts as the nest's own, in a copy of the function that is told whose it is.

Of a program for a device `cuda/placement.py` has the same done: there each launch, product and copy is a nest, and so
are what the host does, and copies between the two.

Counts are polynomials over the iterations of loops (`counting.py`), so exact counts cost next to nothing. Loops are cut
into pieces afterwards, so threads change no count. Clocks of a device are events around what it is asked for
(`llvm/profiling.py`), and what depends on values in a kernel is counted by another kernel, made of the same loop
(`cuda/tallies.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen import loops
from dlang.codegen.abi import Kernel
from dlang.codegen.counting import Counter, Routines
from dlang.codegen.traverse import callee, map_inside, walk
from dlang.diagnostics import Span
from dlang.ir.anf import FLOATS, Atom, Lit, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of
from dlang.ops.monoids import ARITHMETIC

OUTSIDE = "host", "C"
"""The kinds of nests that run code of others, which does nobody knows how many operations."""


def profiled(program: loops.Program, routines: Routines) -> loops.Program:
    """The program with clocks and counters, and the list of its nests.

    routines: says how many operations functions of mathematics are. Of every function there is a copy behind it that
    takes the number of a nest as one more, last parameter.
    """
    measuring = Measuring(with_nests(program), routines)
    functions = {name: measuring.function(f) for name, f in program.functions.items()}
    return loops.Program(measuring.with_parts(functions, program.functions.values()), tuple(measuring.nests))


def _part(name: str) -> str:
    return name + " in a nest"


def _called(functions: Mapping[str, loops.Function], entries: Collection[str]) -> set[str]:
    """Finds the copies of functions that the functions of the program itself reach."""
    open, reached = list(entries), set(entries)
    while open:
        for stmt in walk(functions[open.pop()].body.stmts):
            if (function := callee(stmt)) is not None and function not in reached:
                reached.add(function)
                open.append(function)
    return reached


def with_nests(program: loops.Program) -> frozenset[str]:
    """The functions that have nests of their own, or call functions that do."""
    nesting = {name for name, f in program.functions.items() if any(s.IS.nest for s in walk(f.body.stmts))}
    while True:
        more = {
            name
            for name, f in program.functions.items()
            if name not in nesting and any(callee(s) in nesting for s in walk(f.body.stmts))
        }
        if not more:
            return frozenset(nesting)
        nesting |= more


def _none(stmt: loops.Stmt) -> bool:
    return False


@dataclass(slots=True)
class Measuring:
    """The walk over a program. nests: those found so far; own: that of the function at hand.

    opens: whether what is inside of a loop are nests, even if there would be one for all of it. counting, marking:
    whether to count what is in no nest, and whether to mark the nests; of a program for a device that is not done at
    once. more: nests of a function that stand for many places, by what they are of.
    """

    with_nests: frozenset[str]
    routines: Routines
    opens: Callable[[loops.Stmt], bool] = _none
    nests: list[loops.Nest] = field(default_factory=list)
    span: Span | None = None
    label: str = ""
    own: int = 0
    counting: bool = True
    marking: bool = True
    more: dict[object, int] = field(default_factory=dict)

    def new(self, kind: str, span: Span | None, stmts: Sequence[loops.Stmt]) -> int:
        countable = not any(s.IS.nest in OUTSIDE for s in walk(stmts))
        self.nests.append(loops.Nest(kind, self.label, span, kind == "function" or countable, _precision(stmts)))
        return len(self.nests) - 1

    # ---- functions ---------------------------------------------------------------------------------------------------
    def begin(self, f: loops.Function) -> None:
        """Starts a function: what follows counts for it."""
        self.label, self.span = f.label or f.name, f.span
        self.own = self.new("function", f.span, f.body.stmts)
        self.more = {}

    def whole(self, body: loops.Body) -> loops.Body:
        """The body of the function at hand, with its clock."""
        return loops.Body((loops.Enter(self.own), *body.stmts, loops.Leave(self.own)), body.results)

    def function(self, f: loops.Function) -> loops.Function:
        """A function with clocks; what is in none of its nests is its own."""
        self.begin(f)
        return replace(f, body=self.whole(self.body(f.body)))

    def part(self, f: loops.Function) -> loops.Function:
        """A function whose costs are those of a nest that it is told."""
        nest = fresh("nest", I64)
        body = Counter(nest, self.callee, self.routines).body(f.body)
        return replace(f, name=_part(f.name), params=(*f.params, nest), extents=(*f.extents, None), body=body)

    def with_parts(
        self, functions: Mapping[str, loops.Function], parts: Collection[loops.Function]
    ) -> dict[str, loops.Function]:
        """Functions with those of the others that nests call."""
        out = {**functions, **{_part(f.name): self.part(f) for f in parts}}
        called = _called(out, functions)
        return {name: f for name, f in out.items() if name in called}

    def callee(self, stmt: loops.Invoke, nest: Atom) -> loops.Invoke:
        """A call by a nest."""
        return replace(stmt, function=_part(stmt.function), args=(*stmt.args, nest))

    # ---- code that runs in order -------------------------------------------------------------------------------------
    def body(self, body: loops.Body) -> loops.Body:
        return loops.Body(self.statements(body.stmts), body.results)

    def statements(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        out: list[loops.Stmt] = []
        plain: list[loops.Stmt] = []  # straight-line code since the last nest: the function's own

        def flush() -> None:
            out.extend(self.counter(self.own).statements(plain) if self.counting else plain)
            plain.clear()

        for stmt in stmts:
            match stmt:
                case loops.At(span):
                    self.span = span
                    plain.append(stmt)
                case loops.Loop() if self.opens(stmt):
                    flush()
                    out.append(self.opened(stmt))
                case loops.InOrder() if self.has_nests(stmt) or self.opens(stmt):
                    flush()
                    out.append(map_inside(stmt, self.statements))
                case _ if stmt.IS.nest:
                    flush()
                    out += self.nest(stmt)
                case loops.Branch():
                    flush()
                    around = self.span
                    out.append(map_inside(stmt, self.statements))
                    self.span = around
                case _ if callee(stmt) in self.with_nests:
                    flush()
                    out.append(stmt)
                case _:
                    plain.append(stmt)
        flush()
        return tuple(out)

    def opened(self, loop: loops.Loop) -> loops.Loop:
        """A loop whose nests are inside; what it adds up is the function's own."""
        inside = self.statements(loop.stmts)
        added = [r for r in loop.reductions if r.monoid in ARITHMETIC and dtype_of(r.result) in FLOATS]
        if added and self.counting:
            inside = (*inside, loops.Count(Lit(self.own, "i64"), ZERO, poly(len(added))))
        return replace(loop, stmts=inside)

    def has_nests(self, stmt: loops.Stmt) -> bool:
        """Tells whether a loop in order has nests inside, other than loops in order."""
        return any(
            callee(s) in self.with_nests or (s.IS.nest and not isinstance(s, loops.InOrder)) for s in walk((stmt,))
        )

    def counter(self, nest: int) -> Counter:
        return Counter(Lit(nest, "i64"), self.callee, self.routines)

    def nest(self, stmt: loops.Stmt) -> list[loops.Stmt]:
        """A statement with a clock around it."""
        if not self.marking:
            return [stmt]
        number = self.found(stmt)
        return [loops.Enter(number), *self.counter(number).statements([stmt]), loops.Leave(number)]

    def found(self, stmt: loops.Stmt) -> int:
        """The number of a new nest, which a statement is."""
        return self.new(stmt.IS.nest, getattr(stmt, "span", None) or self.span, (stmt,))

    # ---- for a device ------------------------------------------------------------------------------------------------
    def counted(self, f: loops.Function) -> loops.Function:
        """A function in which what is in no nest is counted, and nests stand as they were."""
        self.begin(f)
        self.marking = False
        out, self.marking, self.span = self.body(f.body), True, f.span
        return replace(f, body=out)

    def give_up(self, number: int) -> None:
        """Marks a nest as one whose work can't be counted."""
        self.nests[number] = replace(self.nests[number], countable=False)

    def all_nests(self) -> tuple[loops.Nest, ...]:
        """The nests, and as the last one what crosses to the device and back before and after the program."""
        return (*self.nests, loops.Nest("transfer", "", None))

    def marked(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        """Returns the statements of the host in which what is in no nest has been counted."""
        around, self.counting = self.span, False
        out, self.counting, self.span = self.statements(stmts), True, around
        return out

    def one_of(self, kind: str) -> int:
        """The nest that all of a kind are that come from one place."""
        key = kind, self.span
        if key not in self.more:
            self.more[key] = self.new(kind, self.span, ())
        return self.more[key]

    def around(self, number: int, stmts: Sequence[loops.Stmt], program: Sequence[Kernel]) -> list[loops.Stmt]:
        """Statements that are a nest; program: the kernels so far."""
        names = {program[s.kernel].name: None for s in walk(stmts) if isinstance(s, loops.Launch)}
        nest = self.nests[number]
        self.nests[number] = replace(nest, kernels=tuple({**dict.fromkeys(nest.kernels), **names}))
        return [loops.Enter(number), *stmts, loops.Leave(number)]


def _precision(stmts: Sequence[loops.Stmt]) -> str:
    """f32 if nothing is computed in f64; of a product alone that of its factors."""
    match stmts:
        case [loops.Product(a=matrix)]:
            return matrix.buffer.dtype
        case _:
            pass
    dtypes = set()
    for stmt in walk(stmts):
        match stmt:
            case loops.Compute(var):
                dtypes.add(dtype_of(var))
            case loops.Product(c=matrix):
                dtypes.add(matrix.buffer.dtype)
            case loops.Loop(reductions=reductions):
                dtypes.update(dtype_of(r.result) for r in reductions)
            case _:
                pass
    return "f64" if "f64" in dtypes or "f32" not in dtypes else "f32"
