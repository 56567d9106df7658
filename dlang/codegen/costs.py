"""How long statements take, roughly, before they run: a polynomial over sizes, in picoseconds.

An estimate only decides whether a loop is worth several threads, and into how many pieces it goes; what it can't know
(the trips of a `while`, sizes that are computed) it takes for a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dlang.codegen.loops import (
    Allocate,
    At,
    Body,
    Branch,
    Compute,
    Convert,
    Count,
    Enter,
    Evaluate,
    For,
    Free,
    Function,
    Guard,
    Invoke,
    Leave,
    Load,
    LoadField,
    LoadTag,
    Loop,
    Move,
    Pack,
    Product,
    Program,
    Stmt,
    Store,
    Value,
    While,
    scalar_dtype,
)
from dlang.codegen.vectorize import BITS, HEAVY
from dlang.ir.anf import Lit, Size, Var, poly
from dlang.polynomials import Poly

LIGHT_OP, DEAR_OP, HEAVY_OP = 300, 2_500, 8_000
LOAD, STORE = 250, 400
TRIP = 500  # of a loop of one lane
ROOM = 20_000  # memory taken and given back
CALL = 3_000
PRODUCT = {"f64": 30, "f32": 15}  # a multiplication and addition in a product of matrices
PRODUCT_CALL = 40_000
MOVED = 300
GUESS = 16  # trips of which nothing is known
DEAR = frozenset(("div", "sqrt", "rsqrt"))
REGISTER = 256  # bits

ZERO: Size = Poly({})


@dataclass(slots=True)
class Costs:
    """Estimates for the functions of a program."""

    program: Program
    functions: dict[str, Size] = field(default_factory=dict)

    def of(self, stmts: Sequence[Stmt]) -> Size:
        """The cost of statements, over what is bound outside of them."""
        return _Walk(self, {}).statements(stmts)

    def of_loop(self, loop: Loop) -> Size:
        return _Walk(self, {}).statement(loop)

    def of_function(self, function: Function) -> Size:
        """The cost of a call, over the parameters."""
        if function.name not in self.functions:
            self.functions[function.name] = poly_of(CALL)  # for calls in a circle
            cost = _Walk(self, {}).statements(function.body.stmts)
            known = {p for p in function.params if isinstance(p, Var)}
            self.functions[function.name] = guessed(cost, known) + CALL
        return self.functions[function.name]


def poly_of(value: int) -> Size:
    return Poly({(): value})


def guessed(size: Size, known: Iterable[Var]) -> Size:
    """A size in which a guess stands for what isn't known."""
    inside = frozenset(known)
    return size.substitute(lambda v: None if v in inside else poly_of(GUESS))


def whole(cost: Size) -> Size:
    """A cost with whole coefficients, so that it can be computed in integers."""
    return Poly({monomial: int(c) for monomial, c in cost.terms.items()})


@dataclass(slots=True)
class _Walk:
    """estimates: for the variables bound so far, what stands for them in bounds."""

    costs: Costs
    estimates: dict[Var, Size]
    lanes: int = 1

    def size(self, size: Size) -> Size:
        return size.substitute(self.estimates.get)

    def guess(self, vars: Iterable[object]) -> None:
        for var in vars:
            if isinstance(var, Var):
                self.estimates[var] = poly_of(GUESS)

    def statements(self, stmts: Sequence[Stmt]) -> Size:
        total = ZERO
        for stmt in stmts:
            total = total + self.statement(stmt)
        return total

    def body(self, body: Body) -> Size:
        return self.statements(body.stmts)

    def operation(self, var: Var, name: str) -> int:
        cost = HEAVY_OP if name in HEAVY else DEAR_OP if name in DEAR else LIGHT_OP
        return cost // self.at_once(scalar_dtype(var))

    def at_once(self, dtype: str) -> int:
        """How many lanes one instruction serves."""
        return max(min(self.lanes, REGISTER // BITS.get(dtype, 32)), 1)

    def trips(self, low: Size, high: Size, index: Var) -> Size:
        """How many trips a loop has; its index is half-way through them from now on."""
        first, last = self.size(low), self.size(high)
        self.estimates[index] = (first + last) * poly_of(1) * _half()
        return last - first

    def statement(self, stmt: Stmt) -> Size:
        match stmt:
            case Compute(var, "minimum" as name, (_, Lit(int(most)))):
                self.estimates[var] = poly_of(most)
                return poly_of(self.operation(var, name))
            case Compute(var, "minimum" as name, (Var() as first, _)):  # the length of a block, but for the last one
                self.estimates[var] = self.estimates.get(first, poly(first))
                return poly_of(self.operation(var, name))
            case Compute(var, "floordiv" as name, (Var() as first, Lit(int(part)))) if part > 0:  # how many blocks
                count = self.estimates.get(first, poly(first))
                share: Size = Poly({m: c * Fraction(1, part) for m, c in count.terms.items() if m})
                self.estimates[var] = share if share.terms else poly_of(GUESS)
                return poly_of(self.operation(var, name))
            case Compute(var, name, _):
                self.guess((var,))
                return poly_of(self.operation(var, name))
            case Convert(var, arg):
                known = self.estimates.get(arg) if isinstance(arg, Var) else None
                self.estimates[var] = known if known is not None else poly_of(GUESS)
                return poly_of(self.operation(var, "convert"))
            case Evaluate(var, size):
                self.estimates[var] = self.size(size)
                return ZERO
            case Load(var, _, _):
                self.guess((var,))
                return poly_of(LOAD)
            case Store():
                return poly_of(STORE)
            case LoadTag(var) | LoadField(var):
                self.guess((var,))
                return poly_of(LOAD)
            case Guard():
                return poly_of(LIGHT_OP // self.at_once("f64"))
            case Allocate() | Free():
                return poly_of(ROOM)
            case Move(_, _, count):
                return self.size(count) * MOVED
            case Product(_, _, c, rows, columns, inner):
                count = self.size(rows) * self.size(columns) * self.size(inner)
                return count * PRODUCT[c.buffer.dtype] + PRODUCT_CALL
            case Pack(_, _, rows, columns):
                return self.size(rows) * self.size(columns) * MOVED
            case Invoke(name, args, _, results):
                self.guess(results)
                return self.call(self.costs.program.functions[name], args)
            case Loop():
                return self.loop(stmt)
            case For():
                trips = self.trips(stmt.low, stmt.high, stmt.index)
                self.guess((*stmt.params, *stmt.results))
                return trips * (self.body(stmt.body) + TRIP)
            case While():
                self.guess((*stmt.params, *stmt.results))
                return (self.body(stmt.condition) + self.body(stmt.body)) * GUESS
            case Branch(_, then, otherwise, results):
                self.guess(results)
                return _larger(self.body(then), self.body(otherwise)) + LIGHT_OP
            case At() | Enter() | Leave() | Count():
                return ZERO
            case _:
                return poly_of(CALL)

    def loop(self, stmt: Loop) -> Size:
        if stmt.short:  # it hardly ever runs
            self.guess([s for r in stmt.reductions for s in (r.result, r.position)])
            return poly_of(TRIP)
        trips = self.trips(stmt.lows[0], stmt.highs[0], stmt.var)
        outside, self.lanes = self.lanes, max(self.lanes, stmt.lanes)
        cost = self.statements(stmt.stmts)
        for r in stmt.reductions:
            cost = cost + self.operation(r.result, r.monoid)
            self.guess((r.result, r.position))
        if self.lanes == 1:
            cost = cost + TRIP
        self.lanes = outside
        return trips * cost

    def call(self, callee: Function, args: Sequence[Value]) -> Size:
        given: dict[Var, Size] = {}
        for param, arg in zip(callee.params, args, strict=True):
            if not isinstance(param, Var):
                continue
            if isinstance(arg, Var):
                given[param] = self.estimates.get(arg, poly(arg))
            elif isinstance(arg, Lit) and isinstance(arg.value, int):
                given[param] = poly_of(int(arg.value))
        return self.costs.of_function(callee).substitute(_or_guess(given))


def _or_guess(given: dict[Var, Size]) -> Callable[[Var], Size]:
    return lambda var: given.get(var, poly_of(GUESS))


def _half() -> Size:
    return Poly({(): Fraction(1, 2)})


def _larger(a: Size, b: Size) -> Size:
    """The cost of a branch: where one arm isn't known to be cheaper, that of both."""
    if a.constant is not None and b.constant is not None:
        return a if a.constant >= b.constant else b
    if a.constant is not None:
        return b
    return a if b.constant is not None else a + b
