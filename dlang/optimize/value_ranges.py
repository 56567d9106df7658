"""How large the floats of a program may be: which of them are finite wherever the program's value is a number.

A float is *bounded* if it is no infinity, and NaN only where something that the program computes with it is NaN, too.
Given data are taken to be finite, and sums of a few of them, or of an array, not to overflow. Products may overflow, so
they are not bounded unless a factor is at most 1; nor is what grows from iteration to iteration.

An `Agenda` has the lets that an analysis looks at: each once, and again when a variable that it follows from changed.
The facts of an analysis grow. A fact about what a let binds follows from those about its operands and about what its
blocks give; of the parameters of a loop also from those about its state, and of a call's from those about a function.
So the work is as much as there are lets, times how often a fact can change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import isfinite

from dlang.ir import anf
from dlang.ir.anf import Block, Call, For, Function, Let, Var, While
from dlang.ir.traverse import application, element_sources, parts
from dlang.ir.types import dtype_of, is_float
from dlang.ops.dtypes import FLOATS, WIDTHS
from dlang.ops.primitives import PRIMITIVES


# ---- the lets to look at ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Item:
    """A let to look at. loops: how many loops are around it in its function `function`."""

    let: Let
    function: str
    loops: int


@dataclass(slots=True)
class Agenda:
    """pending: what is still to be looked at, by its position among the items. followers: of a variable, the positions
    of the lets that follow from it."""

    functions: Mapping[str, Function]
    items: list[Item] = field(default_factory=list)
    pending: deque[int] = field(default_factory=deque)
    waiting: set[int] = field(default_factory=set)
    followers: dict[Var, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, function in self.functions.items():
            self._enter(function.body, name, 0)
        self.waiting.update(self.pending)

    def __iter__(self) -> Iterator[Item]:
        """Yields what is to be looked at next, until nothing is; facts may change meanwhile."""
        while self.pending:
            k = self.pending.popleft()
            self.waiting.discard(k)
            yield self.items[k]

    def changed(self, var: Var) -> None:
        """Something else is known of a variable: what follows from it is looked at again."""
        for k in self.followers.get(var, ()):
            if k not in self.waiting:
                self.waiting.add(k)
                self.pending.append(k)

    def _enter(self, block: Block, function: str, loops: int) -> None:
        for let in block.lets:
            k = len(self.items)
            self.items.append(Item(let, function, loops))
            op = let.op
            loop = isinstance(op, For | While)
            if loop:
                self.pending.append(k)  # the state is known before the body
            p = parts(op)
            atoms = [*p.atoms]
            for inner in p.blocks:
                self._enter(inner, function, loops + loop)
                atoms += inner.results
            self.pending.append(k)
            if isinstance(op, Call):
                atoms += self.functions[op.function].body.results
            for atom in atoms:
                if type(atom) is Var:
                    self.followers.setdefault(atom, []).append(k)


# At most 1; finite; finite if it is what it was an iteration (or a call) earlier; anything. NaN excepted.
UNIT, FINITE, CARRIED, WILD = range(4)

MODERATE = 1e6  # a product with such a literal is like a sum of a few


@dataclass(slots=True)
class ValueRanges:
    """found: how large each float may be, or the elements of each array; it grows until nothing changes.

    whole: floats that are converted integers. multiples: the float that one is a multiple of, and whether by a number
    below 0. squares: what is never below 0, if it is a number; opposites: what is never above. inside: how many loops
    are around, a function that is `called` being one. agenda: the lets that are to be looked at.
    """

    functions: dict[str, anf.Function]
    called: Set[str]
    found: dict[anf.Var, int] = field(default_factory=dict)
    whole: set[anf.Var] = field(default_factory=set)
    multiples: dict[anf.Var, tuple[anf.Atom, bool]] = field(default_factory=dict)
    squares: set[anf.Atom] = field(default_factory=set)
    opposites: set[anf.Atom] = field(default_factory=set)
    inside: int = 0
    agenda: Agenda = field(init=False)

    def find(self, entries: Set[str], rules: Set[str]) -> None:
        """entries: functions that are given data; rules: those that are given anything."""
        self.agenda = Agenda(self.functions)
        for name, f in self.functions.items():
            if name in rules:
                self.mark(f.params, WILD)
            elif name in entries:
                self.mark(f.params, FINITE)
            elif name not in self.called:
                self.mark(f.params, WILD)
        for item in self.agenda:
            self.inside = item.loops + (item.function in self.called)
            self.let(item.let)

    def bounded(self, atom: anf.Atom) -> bool:
        return self.of(atom) < WILD

    def of(self, atom: anf.Atom) -> int:
        if isinstance(atom, anf.Lit):
            x = WILD if isinstance(atom.value, str) else float(atom.value)
            return UNIT if abs(x) <= 1 else FINITE if isfinite(x) else WILD
        return self.found.get(atom, UNIT)

    def largest(self, atoms: Iterable[anf.Atom]) -> int:
        return max(map(self.of, atoms), default=UNIT)

    def mark(self, vars: Iterable[anf.Var], size: int) -> None:
        for v in vars:
            if is_float(v.type) and size > self.found.get(v, UNIT):
                self.found[v] = size
                self.agenda.changed(v)

    def each(self, vars: Sequence[anf.Var], atoms: Sequence[anf.Atom]) -> None:
        for var, atom in zip(vars, atoms, strict=True):
            self.mark((var,), self.of(atom))

    def again(self, vars: Sequence[anf.Var], atoms: Sequence[anf.Atom]) -> None:
        """Marks the values that an iteration or a call gets from the one before: a sum with them may grow."""
        for var, atom in zip(vars, atoms, strict=True):
            size = self.of(atom)
            self.mark((var,), max(size, CARRIED) if size > UNIT else UNIT)

    def after(self, vars: Sequence[anf.Var], atoms: Sequence[anf.Atom]) -> None:
        """Marks the results of a loop or a call: finite, if they have not grown, unless it is inside another."""
        for var, atom in zip(vars, atoms, strict=True):
            size = self.of(atom)
            self.mark((var,), FINITE if size == CARRIED and not self.inside else size)

    def let(self, let: anf.Let) -> None:
        op, vars = let.op, let.vars
        match op:
            case anf.Prim(name, args):
                if is_float(vars[0].type):
                    self.sign(vars[0], name, args)
                    self.mark(vars, self.primitive(name, args, dtype_of(vars[0])))
            case anf.Cast(dtype=dtype, arg=arg):
                self.mark(vars, self.converted(vars[0], dtype, arg))
            case anf.Scan(monoid=monoid, array=array):
                self.mark(vars, self.reduced(monoid, self.of(array), dtype_of(array)))
            case anf.Contract(a=a, b=b):
                self.mark(vars, self.reduced("sum", _product(self.of(a), self.of(b)), dtype_of(a)))
            case anf.Assert(guarded=guarded):
                self.each(vars, guarded)
            case anf.Comp():
                for var, d, value in zip(vars, op.destinations, op.body.results, strict=True):
                    size = self.of(value)
                    monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
                    if is_float(var.type):
                        size = self.reduced(monoid, size, dtype_of(var))
                        if d.into is not None:
                            size = self.reduced(monoid, max(size, self.of(d.into)), dtype_of(var))
                    self.mark((var,), size)
            case anf.If():
                self.each(vars, op.then.results)
                self.each(vars, op.otherwise.results)
            case anf.For() | anf.While():
                self.loop(let, op)
            case anf.Call(function=name, args=args):
                self.again(self.functions[name].params, args)
                (self.again if self.inside else self.after)(vars, self.functions[name].body.results)
            case anf.Empty():
                pass  # each element is written before it is read
            case _ if sources := element_sources(op):
                self.mark(vars, self.largest(sources))
            case _:
                if (applied := application(op)) is not None:
                    self.mark(self.functions[applied[0]].params, WILD)
                self.mark(vars, WILD)

    def loop(self, let: anf.Let, op: anf.For | anf.While) -> None:
        results = op.body.results[1:] if op.early else op.body.results
        self.again(op.params, op.init)
        self.again(op.params, results)
        self.after(let.vars, op.init)
        self.after(let.vars, results)

    def sign(self, var: anf.Var, name: str, args: Sequence[anf.Atom]) -> None:
        """Notes whether what a primitive gives is known to be on one side of 0."""
        match name, args:
            case "neg", [x]:
                self.scaled(var, x, True)
            case "mul", [anf.Lit(value), x] | [x, anf.Lit(value)] if not isinstance(value, str) and value != 0:
                self.scaled(var, x, value < 0)
            case "mul", [x, y]:
                (a, below), (b, other) = self.multiple(x), self.multiple(y)
                if a is b:
                    (self.squares if below == other else self.opposites).add(var)
            case _:
                pass

    def scaled(self, var: anf.Var, x: anf.Atom, below: bool) -> None:
        base, turned = self.multiple(x)
        self.multiples[var] = base, turned != below
        if x in self.squares or x in self.opposites:
            (self.squares if (x in self.squares) != below else self.opposites).add(var)

    def multiple(self, x: anf.Atom) -> tuple[anf.Atom, bool]:
        return self.multiples.get(x, (x, False)) if isinstance(x, anf.Var) else (x, False)

    def primitive(self, name: str, args: Sequence[anf.Atom], dtype: str) -> int:
        """How large what a primitive gives may be."""
        match PRIMITIVES[name].bound:
            case "sum":
                return self.reduced("sum", self.largest(args), dtype)
            case "largest":
                return self.largest(args)
            case "second":
                return self.of(args[1])
            case "choice":
                return self.largest(args[1:])
            case "product":
                x, y = args
                if isinstance(x, anf.Lit):
                    x, y = y, x
                if isinstance(y, anf.Lit) and 1 < abs(float(y.value)) <= MODERATE:
                    return self.reduced("sum", self.of(x), dtype)
                return _product(self.of(x), self.of(y))
            case "quotient":
                x, y = args
                if y in self.whole or (isinstance(y, anf.Lit) and abs(float(y.value)) >= 1):
                    return self.of(x)  # where the divisor is 0 nothing has a derivative
                if isinstance(y, anf.Lit) and abs(float(y.value)) >= 1 / MODERATE:
                    return self.reduced("sum", self.of(x), dtype)
                return WILD
            case "unit":
                return UNIT
            case "finite":
                return FINITE
            case "exp" if args[0] in self.opposites:
                return UNIT
            case "power" if isinstance(args[1], anf.Lit) and int(args[1].value) >= 0:
                return self.of(args[0]) if args[1].value == 1 or self.of(args[0]) == UNIT else WILD
            case _:
                return WILD

    def reduced(self, monoid: str, size: int, dtype: str) -> int:
        """How large a sum or another reduction of numbers may be."""
        if monoid == "sum":
            return FINITE if size == UNIT else FINITE if size == FINITE and dtype not in anf.HALF else WILD
        if monoid == "prod":
            return UNIT if size == UNIT else WILD
        return size

    def converted(self, var: anf.Var, dtype: str, arg: anf.Atom) -> int:
        source = dtype_of(arg)
        if source == "bool":
            return UNIT
        if source not in FLOATS:
            self.whole.add(var)
            return WILD if dtype in anf.HALF else FINITE
        size = self.of(arg)
        holds = dtype not in FLOATS or (WIDTHS[source] <= WIDTHS[dtype] and dtype not in anf.HALF)
        return size if size == UNIT or holds else WILD


def _product(x: int, y: int) -> int:
    return max(x, y) if UNIT in (x, y) else WILD
