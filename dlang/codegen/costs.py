"""How long statements take, roughly, before they run: a polynomial over sizes, in picoseconds.

An estimate only decides whether a loop is worth several threads, and into how many pieces it goes; what it can't know
(the iterations of a `while`, sizes that are computed) it takes for a few. Where that would not do (`work`) it stays
as it is, a variable that is no parameter.

How much a call does also decides whether other threads of Python go on while it runs, and how well its code has to be
compiled (`runtime/tiers.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dlang.codegen import loops
from dlang.codegen.loops import Compute, Function, Program
from dlang.codegen.traverse import bound_by
from dlang.codegen.vectorize import LANE_BITS
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import dtype_of, product
from dlang.ops import figures
from dlang.ops.primitives import COST
from dlang.polynomials import Poly, TooManyTerms


def time_of(name: str) -> int:
    """About how many picoseconds an operation of one lane takes: what is no primitive, as a conversion, is light."""
    length = COST.get(name, 0)
    if length >= figures.DIVISION:
        return figures.HEAVY_OP
    return figures.EXPENSIVE_OP if length >= figures.ROOT else figures.LIGHT_OP


HALF_WAY: Size = Poly({(): Fraction(1, 2)})


@dataclass(slots=True)
class Costs:
    """Estimates for the functions of a program.

    guesses: whether a few iterations stand for what isn't known. unknown: what else stands for it where no variable
    does.
    """

    program: loops.Program
    functions: dict[str, Size] = field(default_factory=dict)
    guesses: bool = True
    unknown: Var = field(default_factory=lambda: Var("unknown", Scalar("i64")))

    def of(self, stmts: Sequence[loops.Stmt]) -> Size:
        """The cost of statements, over what is bound outside of them."""
        return _Walk(self, {}).statements(stmts)

    def of_loop(self, loop: loops.Loop) -> Size:
        return _Walk(self, {}).statements((loop,))

    def of_function(self, function: loops.Function) -> Size:
        """The cost of a call, over the parameters, and over what isn't known if there are no guesses."""
        if function.name not in self.functions:  # calls in a circle find the first value
            self.functions[function.name] = poly(figures.CALL) if self.guesses else poly(self.unknown)
            known = {p for p in function.params if isinstance(p, Var)}
            cost = _Walk(self, {}, known).statements(function.body.stmts)
            self.functions[function.name] = (guessed(cost, known) if self.guesses else cost) + figures.CALL
        return self.functions[function.name]


def guessed(size: Size, known: Iterable[Var]) -> Size:
    """A size in which a guess stands for what isn't known."""
    inside = frozenset(known)
    return size.substitute(lambda v: None if v in inside else poly(figures.UNKNOWN_ITERATIONS))


def whole(cost: Size) -> Size:
    """A cost with whole coefficients, so that it can be computed in integers."""
    return Poly({monomial: int(c) for monomial, c in cost.terms.items()})


@dataclass(slots=True)
class _Walk:
    """estimates: for the variables bound so far, what stands for them in bounds. parameters: of the function."""

    costs: Costs
    estimates: dict[Var, Size]
    parameters: Collection[Var] = ()
    lanes: int = 1

    def size(self, size: Size) -> Size:
        return size.substitute(self.estimates.get)

    def guess(self, vars: Iterable[object]) -> None:
        for var in vars:
            if self.costs.guesses and isinstance(var, Var):
                self.estimates[var] = poly(figures.UNKNOWN_ITERATIONS)

    def statements(self, stmts: Sequence[loops.Stmt]) -> Size:
        """The cost of all; of one with more terms or factors than a polynomial has, as that of loops in many loops,
        nothing is known."""
        total = ZERO
        for stmt in stmts:
            try:
                cost = self.statement(stmt)
            except TooManyTerms:
                cost = self.few()
            total = total + cost
        return total

    def body(self, body: loops.Body) -> Size:
        return self.statements(body.stmts)

    def operation(self, var: Var, name: str) -> int:
        return time_of(name) // self.at_once(dtype_of(var))

    def at_once(self, dtype: str) -> int:
        """How many lanes one instruction serves."""
        return max(min(self.lanes, figures.REGISTER // LANE_BITS.get(dtype, 32)), 1)

    def iterations(self, low: Size, high: Size, index: Var) -> Size:
        """How many iterations a loop has; its index is half-way through them from now on."""
        first, last = self.size(low), self.size(high)
        self.estimates[index] = (first + last) * HALF_WAY
        return last - first

    def statement(self, stmt: loops.Stmt) -> Size:
        match stmt:
            case loops.Compute(var, name, _) if not self.costs.guesses:
                note(stmt, self.estimates, self.parameters)
                return poly(self.operation(var, name))
            case loops.Compute(var, "minimum" as name, (first, Lit(int(most)))):
                known = self.known(first).constant
                self.estimates[var] = poly(most if known is None else int(min(known, most)))
                return poly(self.operation(var, name))
            case loops.Compute(
                var, "minimum" as name, (Var() as first, _)
            ):  # the length of a block, but for the last one
                self.estimates[var] = self.known(first)
                return poly(self.operation(var, name))
            case loops.Compute(var, "floordiv" as name, (Var() as first, part)):  # how many blocks
                self.guess((var,))
                share = self.share(first, part)
                if share.terms:
                    self.estimates[var] = share
                return poly(self.operation(var, name))
            case loops.Compute(var, name, _):
                self.guess((var,))
                return poly(self.operation(var, name))
            case loops.Convert(var, arg):
                size = self.estimates.get(arg) if isinstance(arg, Var) else None
                self.guess((var,))
                if size is not None:
                    self.estimates[var] = size
                return poly(self.operation(var, "convert"))
            case loops.Evaluate(var, size):
                self.estimates[var] = self.size(size)
                return ZERO
            case loops.Assert():
                return poly(figures.LIGHT_OP // self.at_once("f64"))
            case loops.Invoke(name, args, _, results):
                self.guess(results)
                return self.call(self.costs.program.functions[name], args)
            case loops.Loop():
                return self.loop(stmt)
            case loops.For():
                iterations = self.iterations(stmt.low, stmt.high, stmt.index)
                self.guess((*stmt.params, *stmt.results))
                return iterations * (self.body(stmt.body) + figures.ITERATION)
            case loops.While():
                self.guess((*stmt.params, *stmt.results))
                return (self.body(stmt.condition) + self.body(stmt.body)) * self.few()
            case loops.Branch(_, then, otherwise, results):
                cost = _larger(self.body(then), self.body(otherwise)) + figures.LIGHT_OP
                self.guess(results)
                if self.costs.guesses:  # the sizes of one arm fit together
                    arm = zip(results, then.results, strict=True)
                    self.estimates |= {
                        r: self.known(v) for r, v in arm if isinstance(r, Var) and not isinstance(v, loops.Buffer)
                    }
                else:
                    agreed(results, (then.results, otherwise.results), self.estimates)
                return cost
            case loops.Parallel():
                self.estimates |= {stmt.first: self.size(stmt.lows[0]), stmt.last: self.size(stmt.highs[0])}
                return self.statements(stmt.stmts)
            case loops.Runtime("format" | "print"):
                return poly(figures.HOST)
            case _:
                if stmt.IS.follows:
                    self.guess(bound_by(stmt))
                if stmt.IS.time is None:
                    return self.few() * figures.CALL
                work = loops.work_of(stmt)
                if work is None or not work.steps:
                    return poly(stmt.IS.time)
                return product(map(self.size, work.steps)) * work.each + stmt.IS.time

    def known(self, value: Atom) -> Size:
        """Returns an integer as a polynomial: its estimate, or itself if it is computed from nothing known."""
        if isinstance(value, Var):
            return self.estimates.get(value, poly(value))
        return poly(int(value.value)) if isinstance(value.value, int) else poly(figures.UNKNOWN_ITERATIONS)

    def share(self, count: Var, part: Atom) -> Size:
        """How many parts there are of something, the last one not counted; 0 if nothing is known of them."""
        of, each = self.known(count), self.known(part).constant
        if each is None or each <= 0:
            return ZERO
        if of.constant is not None:
            return poly(max(int(of.constant // each), 1))
        return Poly({m: c / Fraction(each) for m, c in of.terms.items() if m})

    def few(self) -> Size:
        """How often something happens of which nothing is known."""
        return poly(figures.UNKNOWN_ITERATIONS) if self.costs.guesses else poly(self.costs.unknown)

    def loop(self, stmt: loops.Loop) -> Size:
        if stmt.short:  # it hardly ever runs
            self.guess([s for r in stmt.reductions for s in (r.result, r.position)])
            return poly(figures.ITERATION)
        iterations = self.iterations(stmt.lows[0], stmt.highs[0], stmt.var)
        outside, self.lanes = self.lanes, max(self.lanes, stmt.lanes)
        cost = self.statements(stmt.stmts)
        for r in stmt.reductions:
            cost = cost + self.operation(r.result, r.monoid)
            self.guess((r.result, r.position))
        if self.lanes == 1:
            cost = cost + figures.ITERATION
        self.lanes = outside
        return iterations * cost

    def call(self, callee: loops.Function, args: Sequence[loops.Value]) -> Size:
        given: dict[Var, Size] = {}
        for param, arg in zip(callee.params, args, strict=True):
            if not isinstance(param, Var):
                continue
            if isinstance(arg, Var):
                given[param] = self.estimates.get(arg, poly(arg))
            elif isinstance(arg, Lit) and isinstance(arg.value, int):
                given[param] = poly(int(arg.value))
        return self.costs.of_function(callee).substitute(lambda var: given.get(var, self.few()))


def _larger(a: Size, b: Size) -> Size:
    """The cost of a branch: where one arm isn't known to be cheaper, that of both."""
    if a.constant is not None and b.constant is not None:
        return a if a.constant >= b.constant else b
    if a.constant is not None:
        return b
    return a if b.constant is not None else a + b


MOST_TERMS, MOST_FACTORS = 12, 6  # of a polynomial; of what would have more nothing is known


def note(stmt: Compute, estimates: dict[Var, Size], parameters: Collection[Var]) -> None:
    """Adds about how large an integer is, if that is known; rather too large than too small.

    A variable of which nothing is known stands for itself in what is computed from it.
    """
    if stmt.var.type == Scalar("i64") and len(stmt.args) == 2:
        a, b = [_size(arg, estimates) for arg in stmt.args]
        size = _result(stmt.name, a, b, parameters)
        if stmt.name == "floordiv" and size is None:
            size = _blocks(a, b, estimates, parameters)
        if size is not None and len(size.terms) <= MOST_TERMS and all(len(m) <= MOST_FACTORS for m in size.terms):
            estimates[stmt.var] = size


def agreed(results: Sequence[object], arms: Sequence[Sequence[object]], estimates: dict[Var, Size]) -> None:
    """Adds what the arms of a branch give, where that is about the same."""
    for result, *given in zip(results, *arms, strict=True):
        if isinstance(result, Var) and result.type == Scalar("i64"):
            sizes = [_size(a, estimates) for a in given if isinstance(a, Var | Lit)]
            apart = [(s - sizes[0]).constant for s in sizes]
            if len(sizes) == len(arms) and all(c is not None for c in apart):
                more: Size = Poly({(): max(c for c in apart if c is not None)})
                estimates[result] = sizes[0] + more


def _size(arg: Atom, estimates: dict[Var, Size]) -> Size:
    if isinstance(arg, Lit):
        return Poly({(): int(arg.value)})
    return estimates.get(arg, poly(arg))


def _result(name: str, a: Size, b: Size, parameters: Collection[Var]) -> Size | None:
    first, second = a.constant, b.constant
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul" if len(a.terms) * len(b.terms) <= MOST_TERMS:
            return a * b
        case "minimum":
            if first is not None and second is not None:
                return a if first <= second else b
            return b if second is not None or not set(a.atoms()) <= set(parameters) else a
        case "maximum":
            if first is not None and second is not None:
                return a if first >= second else b
            return a if second is not None else b if first is not None else a + b
        case "floordiv" if second is not None and second > 0:
            return Poly({m: Fraction(c) / second for m, c in a.terms.items()})
    return None


def _blocks(a: Size, b: Size, estimates: dict[Var, Size], parameters: Collection[Var]) -> Size | None:
    """How many blocks of a length cover what is known: if that isn't known too, as if it were one of all the length."""
    covered, length = a - b + 1, b.atom
    if length is not None and length not in parameters and not covered.mentions((length,)):
        estimates[length] = covered
        return Poly({(): 1})
    left = (b - covered).constant
    return Poly({(): 1}) if left is not None and left >= 0 else None


# ---- calls -----------------------------------------------------------------------------------------------------------


def work(program: Program, f: Function) -> Size | None:
    """About how many picoseconds a call of a function takes, over its parameters; None if they don't say it."""
    estimate = Costs(program, guesses=False).of_function(f)
    return estimate if set(f.params) >= set(estimate.atoms()) else None
