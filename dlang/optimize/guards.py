"""Guards that are not needed: `zero_safe_mul(c, d)` becomes a plain product where that gives the same number.

A guard is 0 where c is, though d may be infinite or NaN; `zero_safe_mul_both(c, d)`, of a derivative of a derivative,
is 0 where either is, since d is a cotangent too. A plain product does as well

- where c is a literal other than 0, or
- where d is bounded (`value_ranges.py`) and c is no *chosen* zero.

A cotangent or a tangent is a chosen zero where no path leads to it: of an arm that was not taken, an element that was
not selected, a seed that is 0, what starts as zero. There d may be NaN, where data are missing, and the program's value
a number. A zero that is computed, as x · ẋ at x = 0, lies on a path that is taken: where d is NaN there, the value is.

The analysis asks of each float whether it may be a chosen zero, for the whole program at once. Cotangents are linear in
their seeds, so only linear operations hand one on; a sum is one only if all of its terms are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.builder import shape_of
from dlang.ir.comprehension_queries import extent
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import application, element_sources, map_functions, parts, type_vars, walk, with_body
from dlang.ir.types import is_float
from dlang.ir.writes import Segment, Segments, covers, missing, segment
from dlang.ops.primitives import GUARDS
from dlang.optimize.jacobians import carries_scalars
from dlang.optimize.value_ranges import Agenda, ValueRanges


def guards(program: anf.Program, entries: Sequence[str], last: bool = False) -> anf.Program:
    """The program with the guards that it needs; `entries` may be called with zeros that are chosen.

    In loops that carry scalars guards stay until `jacobians.py` has seen them, unless this is after that.
    """
    functions = program.functions
    lets = [let for f in functions.values() for let in walk(f.body)]
    if not any(map(_waits if last else _is_guard, lets)):
        return program
    sizes = {v for f in functions.values() for p in f.params for v in type_vars(p.type)}
    zeros = _Zeros(functions, sizes, Agenda(functions))
    called = {applied[0] for let in lets if (applied := application(let.op)) is not None}
    rules = {
        name
        for f in functions.values()
        if f.rules is not None
        for name in (f.rules.pullback, f.rules.pushforward)
        if name
    }
    zeros.find({name for name in functions if name in entries or name in rules or name not in called})
    ranges = ValueRanges(functions, called)
    if any(_is_guard(let) and not all(map(zeros.may_be, _factors(let))) for let in lets):
        ranges.find(set(entries), rules)

    def function(f: anf.Function) -> anf.Function:
        if not any(_is_guard(let) for let in walk(f.body)):
            return f
        used = Counter(a for let in walk(f.body) for a in parts(let.op).atoms if isinstance(a, anf.Var))
        return with_body(f, _Unguarder(zeros, ranges, used, last).block(f.body))

    return map_functions(program, function)


class _Unguarder(Rewriter):
    """The walk of a function. used: how often it uses variables. waits: whether guards stay where the walk is."""

    def __init__(self, zeros: _Zeros, ranges: ValueRanges, used: Mapping[anf.Var, int], last: bool) -> None:
        super().__init__()
        self.zeros, self.ranges, self.used, self.last = zeros, ranges, used, last
        self.waits = False

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Prim("zero_safe_mul") as guard if not self.waits:
                self.keep(let, self.unguarded(guard))
            case anf.Prim("zero_safe_mul_both", (x, y)) as both if not self.waits:
                if self.needless(y, x):
                    self.keep(let, self.unguarded(anf.Prim("zero_safe_mul", (x, y))))
                elif self.needless(x, y):
                    self.keep(let, self.unguarded(anf.Prim("zero_safe_mul", (y, x))))
                else:
                    self.keep(let, both)
            case _:
                waits, self.waits = self.waits, not self.last and _waits(let)
                super().rule(let)
                self.waits = waits

    def needless(self, c: anf.Atom, d: anf.Atom) -> bool:
        return not self.zeros.may_be(c) and (isinstance(c, anf.Lit) or self.ranges.bounded(d))

    def unguarded(self, op: anf.Prim) -> anf.Prim:
        """Returns a product without its guard, if it needs none; one with what 1 / d is used for once is a quotient."""
        c, d = op.args
        if not self.needless(c, d):
            return op
        match self.definition(d):
            case anf.Prim("div", (anf.Lit(value), divisor)) if (
                value == 1 and isinstance(d, anf.Var) and self.used[d] == 1
            ):
                return anf.Prim("div", (c, divisor))
            case _:
                return anf.Prim("mul", (c, d))


def _is_guard(let: anf.Let) -> bool:
    return isinstance(let.op, anf.Prim) and let.op.name in GUARDS


def _waits(let: anf.Let) -> bool:
    """Tells whether a let is a loop in which guards have stayed until the end."""
    return isinstance(let.op, anf.For | anf.While) and carries_scalars(let.op) and any(map(_is_guard, let.op.body.lets))


def _factors(let: anf.Let) -> Iterable[anf.Atom]:
    """The cotangents in a guard."""
    assert isinstance(let.op, anf.Prim)
    return let.op.args[:1] if let.op.name == "zero_safe_mul" else let.op.args


@dataclass(slots=True)
class _Zeros:
    """found: the floats that may be chosen zeros, or arrays with such elements. It grows until nothing changes.

    sizes: of the arrays that functions are given. parts: of an array that may hold some, the ranges of an axis in which
    there are none. agenda: the lets that are to be looked at.
    """

    functions: dict[str, anf.Function]
    sizes: set[anf.Var]
    agenda: Agenda
    found: set[anf.Var] = field(default_factory=set)
    parts: dict[anf.Var, tuple[Segments, int]] = field(default_factory=dict)

    def find(self, given: Set[str]) -> None:
        """given: the functions that may be called with zeros that are chosen."""
        for name in given:
            self.mark(self.functions[name].params)
        for item in self.agenda:
            self.let(item.let)

    def may_be(self, atom: anf.Atom) -> bool:
        if isinstance(atom, anf.Lit):
            return atom.value == 0
        return atom in self.found

    def any(self, atoms: Iterable[anf.Atom]) -> bool:
        return any(map(self.may_be, atoms))

    def mark(self, vars: Iterable[anf.Var], value: bool = True) -> None:
        if value:
            for v in vars:
                if is_float(v.type) and v not in self.found:
                    self.found.add(v)
                    self.agenda.changed(v)

    def let(self, let: anf.Let) -> None:
        op, vars = let.op, let.vars
        match op:
            case anf.Prim(name, args):
                if is_float(vars[0].type):
                    self.mark(vars, self.primitive(name, args))
            case anf.Cast(arg=arg):
                self.mark(vars, self.may_be(arg) if is_float(arg.type) else True)
            case anf.Update(array=array, index=index, value=value):
                shape = shape_of(array)
                whole = not self.may_be(value) and self.completes(vars[0], array, segment((), shape, index), shape)
                self.mark(vars, not whole and self.any((array, value)))
            case anf.Scan(array=array):
                self.mark(vars, self.may_be(array))
            case anf.Contract(a=a, b=b):
                self.mark(vars, self.any((a, b)))
            case anf.Assert(guarded=guarded):
                self.each(vars, guarded)
            case anf.Comp():
                for k, var in enumerate(vars):
                    self.mark((var,), self.destination(var, op, op.destinations[k], op.body.results[k]))
            case anf.If():
                self.each(vars, op.then.results)
                self.each(vars, op.otherwise.results)
            case anf.For() | anf.While():
                self.loop(let, op)
            case anf.Call(function=name, args=args):
                self.each(self.functions[name].params, args)
                self.each(vars, self.functions[name].body.results)
            case anf.Empty():
                pass  # each element is written before it is read
            case _ if sources := element_sources(op):
                self.mark(vars, self.any(sources))
            case _:
                if (applied := application(op)) is not None:
                    self.each(self.functions[applied[0]].params, applied[1])
                self.mark(vars)

    def each(self, vars: Sequence[anf.Var], atoms: Sequence[anf.Atom]) -> None:
        for var, atom in zip(vars, atoms, strict=True):
            self.mark((var,), self.may_be(atom))

    def primitive(self, name: str, args: Sequence[anf.Atom]) -> bool:
        """Tells whether the result of a primitive may be a chosen zero."""
        match name:
            case "zero_safe_mul" | "div" | "neg" | "abs":
                return self.may_be(args[0])
            case "zero_safe_mul_both":
                return self.any(args)
            case "add" | "sub":
                return all(map(self.may_be, args))
            case "mul" | "maximum" | "minimum":
                return self.any(args)
            case "select":
                return self.any(args[1:])
            case _:
                return False

    def destination(self, var: anf.Var, op: anf.Comp, d: anf.Destination, value: anf.Atom) -> bool:
        """Tells whether the result of a destination may be, or hold, a chosen zero."""
        chosen = self.may_be(value)
        if not chosen and self.covers(var, op, d):
            return False
        if d.into is None:
            return True
        if not isinstance(d, anf.Reduce) or d.monoid == "sum":
            return self.may_be(d.into)
        return chosen or self.may_be(d.into)

    def loop(self, let: anf.Let, op: anf.For | anf.While) -> None:
        results = op.body.results[1:] if op.early else op.body.results
        self.each(op.params, op.init)
        self.each(op.params, results)
        self.each(let.vars, op.init)
        self.each(let.vars, results)

    def covers(self, var: anf.Var, op: anf.Comp, d: anf.Destination) -> bool:
        """Tells whether every element gets the value of some point, here or where the older array was made."""
        if not isinstance(d, anf.Reduce) or not all(self.has_points(extent(a)) for a in missing(op.axes, d.index)):
            return False
        return covers(op.axes, d.shape, d.index) or self.completes(
            var, d.into, segment(op.axes, d.shape, d.index), d.shape
        )

    def completes(self, var: anf.Var, older: anf.Var | None, new: Segment | None, shape: Sequence[anf.Size]) -> bool:
        """Tells whether a part that an array gets is all that was left of the older one that it goes on with."""
        if new is None:
            return False
        covered, count = self.parts.get(older, (None, 0)) if older is not None else (None, 0)
        if covered is None or len(covered.all) > count:  # another array has more parts than the older one already
            earlier = covered.all[:count] if covered is not None else []
            covered = Segments()
            for one in earlier:
                covered.add(one)
        covered.add(new)
        self.parts[var] = covered, len(covered.all)
        return covered.cover(shape)

    def has_points(self, size: anf.Size | None) -> bool:
        """Tells whether an axis has points if no array that is given is empty; its length may be 0 even so."""
        if size is None or not size.terms:
            return False
        return all(c > 0 and self.sizes.issuperset(m) for m, c in size.terms.items())
