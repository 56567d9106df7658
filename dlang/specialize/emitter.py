"""Emits the IR of one function: a builder, with what is known of its sizes and how integers are polynomials of others.

Integer arithmetic and floors go through `arith`, so that an index or a size that was computed is recognised as the
polynomial it is, and equal floors are one variable.

A polynomial never wraps: back ends and passes compute and compare it as the number that it is in mathematics. What a
program computes with i64s may wrap, so it is a polynomial only where it is known to be exact (`poly`), or where it
becomes a size, which is exact or ends the run (`settle`, `checked_size`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import lcm

from dlang.diagnostics import CallSite, Span
from dlang.inequalities import LARGEST, SUM, Facts
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Let, Lit, Op, Scalar, Size, Type, Var, fresh, poly
from dlang.ir.traverse import bound_vars
from dlang.ir.types import I64
from dlang.ops.primitives import result_dtype
from dlang.polynomials import TooManyTerms

TRUE = Lit(True, "bool")
FALSE = Lit(False, "bool")


@dataclass(slots=True)
class Copies:
    """The code that has stood in the place of calls: how many lets each was, at most."""

    lets: dict[object, int] = field(default_factory=dict)
    before: list[tuple[object, int]] = field(default_factory=list)

    def note(self, code: object, count: int) -> None:
        known = self.lets.get(code, 0)
        if count > known:
            self.before.append((code, known))
            self.lets[code] = count

    def mark(self) -> int:
        return len(self.before)

    def undo(self, mark: int) -> None:
        """Forgets code that was emitted since the mark, and is emitted once more."""
        while len(self.before) > mark:
            code, known = self.before.pop()
            self.lets[code] = known


@dataclass(slots=True)
class Emitter:
    """`lets` is the innermost open block. `floors` is scoped like it, since a floor is a variable of a block.

    definitions: the polynomials that variables are; computed: those that they are if nothing wraps. indices: arrays of
    numbers that are at least 0, and what these are below. settled: the sizes that are no variables and do not wrap, as
    there are arrays of them, or that was checked; scoped. whole: the sizes with exact divisions in them that were
    checked; scoped too. operands: those of each floor. unnamed: the variables of which checks say something that give
    them no new name. via: the call in whose place the code stands that is emitted now, if that is to be told. written:
    how many lets were emitted, and calls in the place of which code stands. copies: what that was; a function and those
    that it calls in the place of its own code share it. entered: the axes of the block that is entered next.
    """

    lets: list[Let] = field(default_factory=list)
    facts: Facts[Var] = field(default_factory=Facts)
    definitions: dict[Var, Size] = field(default_factory=dict)
    computed: dict[Var, Size] = field(default_factory=dict)
    indices: dict[Var, Size] = field(default_factory=dict)
    settled: set[Size] = field(default_factory=set)
    floors: dict[tuple[Size, Size], Var] = field(default_factory=dict)
    whole: set[Size] = field(default_factory=set)
    operands: dict[Var, tuple[Size, Size]] = field(default_factory=dict)
    unnamed: set[Var] = field(default_factory=set)
    span: Span | None = None
    via: CallSite | None = None
    written: int = 0
    copies: Copies = field(default_factory=Copies)
    entered: list[anf.Axis] = field(default_factory=list)

    # ---- blocks ----
    @contextmanager
    def block(self) -> Iterator[list[Let]]:
        """Lets emitted inside go to a list of their own; what is learned inside is forgotten after it.

        It is the body of what the axes are for that were made since the last block: they have a point where it runs.
        """
        outer, floors, whole, mark = self.lets, self.floors, self.whole, self.facts.mark()
        settled, axes = self.settled, self.entered
        self.lets, self.floors, self.whole, self.settled = [], dict(floors), set(whole), set(settled)
        self.entered = []
        for axis in axes:
            self.facts.between(axis.var, axis.lows, axis.highs)
        try:
            yield self.lets
        finally:
            self.lets, self.floors, self.whole, self.settled = outer, floors, whole, settled
            self.entered = []
            self.facts.undo(mark)

    @contextmanager
    def at(self, span: Span) -> Iterator[None]:
        """Lets emitted inside carry this span."""
        outer, self.span = self.span, span
        try:
            yield
        finally:
            self.span = outer

    @contextmanager
    def called(self, label: str) -> Iterator[None]:
        """Lets emitted inside stand in the place of a call of a function, which is emitted now."""
        outer = self.via
        self.via = CallSite(label, self.here)
        try:
            yield
        finally:
            self.via = outer

    @property
    def here(self) -> Span | None:
        """The place of what is emitted, with the calls that lead to it."""
        return self.span if self.via is None or self.span is None else self.span.reached(self.via)

    def emit(self, op: Op, *types: Type, name: str = "t") -> tuple[Var, ...]:
        vars = tuple([fresh(name, t) for t in types])
        self.bind(op, vars)
        return vars

    def bind(self, op: Op, vars: tuple[Var, ...]) -> None:
        self.lets.append(Let(vars, op, self.here))
        self.written += 1
        self.note_sizes(vars)
        if self.entered:
            bound = set(bound_vars(op))
            self.entered = [axis for axis in self.entered if axis.var not in bound]
        match op:
            case anf.Read(array) if array in self.indices:
                self.facts.certify(vars[0], self.indices[array])
            case anf.View(array) | anf.Reshape(array) if array in self.indices:
                self.indices[vars[0]] = self.indices[array]
            case _:
                pass

    def note_sizes(self, vars: Iterable[Var]) -> None:
        """Notes the sizes of arrays that there are."""
        for v in vars:
            if isinstance(v.type, anf.Array):
                self.settled.update(s for s in v.type.shape if s.atom is None and s.constant is None)

    # ---- scalars ----
    def prim(self, name: str, *args: Atom) -> Atom:
        """A primitive; of i64 sums and products it is remembered which polynomials they are if they do not wrap."""
        dtypes = tuple([a.type.dtype for a in args if not isinstance(a.type, anf.Token)])
        (v,) = self.emit(anf.Prim(name, args), Scalar(result_dtype(name, dtypes)))
        if name in ("add", "sub", "mul", "neg") and dtypes[0] == "i64":
            p = [self.modulo(a) for a in args]
            match name:
                case "add":
                    self.computed[v] = p[0] + p[1]
                case "sub":
                    self.computed[v] = p[0] - p[1]
                case "mul":
                    with suppress(TooManyTerms):
                        self.computed[v] = p[0] * p[1]
                case _:
                    self.computed[v] = -p[0]
        return v

    def modulo(self, atom: Atom) -> Size:
        """The polynomial that was computed by sums and products: equal to the value but for multiples of 2**64."""
        if isinstance(atom, Var):
            for known in (self.definitions, self.computed):
                if atom in known:
                    return known[atom]
        return poly(atom)

    def poly(self, atom: Atom) -> Size:
        """The polynomial of an i64 atom, as far as it was computed by sums and products that did not wrap."""
        p = self.computed.get(atom) if isinstance(atom, Var) else None
        if p is not None:
            return p if self.exact(p) else poly(atom)
        return self.modulo(atom)

    def sized(self, atom: Atom) -> Size:
        """The polynomial of a number that is used as a size: a product of sizes is computed as one where it is used."""
        p = self.computed.get(atom) if isinstance(atom, Var) else None
        if p is not None:
            return p if self.facts.small(p) or self.exact(p) else poly(atom)
        return self.modulo(atom)

    def exact(self, p: Size) -> bool:
        """Tells whether a polynomial can't wrap: all its possible values are i64s, or it counts within some array."""
        return self.facts.exact(p) or self.counts(p)

    def counts(self, p: Size) -> bool:
        """Tells whether a polynomial lies within a size that is settled."""
        prove = self.facts.proves_nonnegative
        return p in self.settled or any(prove(s - p) and (prove(p) or prove(s + p)) for s in self.settled)

    def atom(self, size: Size) -> Atom:
        """The i64 value of a polynomial."""
        c = size.constant
        if c is not None:
            return Lit(int(c), "i64")
        v = size.atom
        if v is not None:
            return v
        (r,) = self.emit(anf.IndexExpr(size), I64, name="n")
        self.definitions[r] = size
        return r

    def floor(self, dividend: Size, divisor: Size) -> Size:
        """p // q of sizes, as one variable for equal operands; the divisor is known to be positive or was checked."""
        c = divisor.constant
        if c:
            exact = dividend.divided(int(c))
            if exact is not None:
                return exact
            if dividend.constant is not None:
                return poly(int(dividend.constant // c))
        elif c is None and (exact := dividend.quotient(divisor)) is not None:
            return exact
        if not self.exact(dividend):
            if self.exact(dividend - divisor):  # (n + s - 1) // s of a huge s
                return self.floor(dividend - divisor, divisor) + 1
            self.settle(dividend, "a size")
        key = (dividend, divisor)
        if key not in self.floors:
            by = self.atom(divisor)
            if c is None:
                positive = self.prim("gt", by, Lit(0, "i64"))
                (by,) = self.check(positive, "E0803", ("integer division by zero",), (), (by,))
            (v,) = self.emit(anf.Prim("floordiv", (self.atom(dividend), by)), I64, name="h")
            self.operands[v] = key
            self.note_floor(v)
        return poly(self.floors[key])

    def note_floor(self, v: Var) -> None:
        """Has equal floors be this variable from here on."""
        dividend, divisor = self.operands[v]
        self.floors[dividend, divisor] = v
        if divisor.constant is None or divisor.constant > 0:
            self.facts.floors[v] = (dividend, divisor)
            if self.facts.proves_nonnegative(dividend):
                self.facts.size(v)

    def emit_before(self, lets: Iterable[Let]) -> None:
        """Emits code of an inner block here, in front of it: its floors are known here, too."""
        for let in lets:
            self.lets.append(let)
            for v in let.vars:
                if v in self.operands:
                    self.note_floor(v)

    def divided(self, size: Size) -> Size:
        """A size with exact divisions in it: known to be whole, or checked, once in a block."""
        known = self.opened(size)
        scale = lcm(*[c.denominator for c in known.terms.values()])
        if scale > 1 and known not in self.whole:
            self.whole.add(known)
            value = self.atom(known * scale)
            remainder = self.prim("mod", value, Lit(scale, "i64"))
            parts = ("the size ", "", f" / {scale} is not a whole number")
            self.check(self.prim("eq", remainder, Lit(0, "i64")), "E0807", parts, (value,))
        return size if scale == 1 or size.constant is None else poly(int(size.constant))

    def cast(self, dtype: str, atom: Atom) -> Atom:
        assert isinstance(atom.type, Scalar)
        return atom if atom.type.dtype == dtype else self.emit(anf.Cast(dtype, atom), Scalar(dtype))[0]

    # ---- arrays ----
    def axis(self, size: Size, name: str = "i", low: Size | None = None) -> anf.Axis:
        """A fresh axis over low (or 0) <= i < size, known to lie there in the block that is entered next alone."""
        axis = anf.Axis(fresh(name, I64), (poly(0) if low is None else low,), (size,))
        self.entered.append(axis)
        return axis

    def read(self, array: Var, index: tuple[Size, ...]) -> Atom:
        assert isinstance(array.type, anf.Array)
        return self.emit(anf.Read(array, index), Scalar(array.type.dtype))[0]

    def comp(
        self,
        axes: tuple[anf.Axis, ...],
        lets: list[Let],
        results: tuple[Atom, ...],
        destinations: tuple[anf.Destination, ...],
        dtypes: tuple[str, ...],
        name: str = "a",
    ) -> tuple[Var, ...]:
        """A comprehension over a finished body."""
        types: list[Type] = [
            anf.Array(dtype, d.shape) if d.shape else Scalar(dtype)
            for d, dtype in zip(destinations, dtypes, strict=True)
        ]
        return self.emit(anf.Comp(axes, Block(tuple(lets), results), destinations), *types, name=name)

    def view(self, array: Var, axes: tuple[Var, ...], shape: tuple[Size, ...], index: tuple[Size, ...]) -> Var:
        assert isinstance(array.type, anf.Array)
        return self.emit(anf.View(array, axes, shape, index), anf.Array(array.type.dtype, shape), name=array.name)[0]

    def reshape(self, array: Var, shape: tuple[Size, ...]) -> Var:
        """The same elements under another shape, which is known to have as many; nothing if it is the same."""
        assert isinstance(array.type, anf.Array)
        if array.type.shape == shape:
            return array
        return self.emit(anf.Reshape(array, shape), anf.Array(array.type.dtype, shape), name=array.name)[0]

    def resized(self, array: Var, shape: tuple[Size, ...], what: str = "axis {}") -> Var:
        """The array under sizes that are equal to its own: plainly, or compared when it runs.

        what: how a message calls the axis of a number.
        """
        assert isinstance(array.type, anf.Array)
        for k, (actual, size) in enumerate(zip(array.type.shape, shape, strict=True)):
            if self.opened(actual) != self.opened(size):
                self.settle(size, "a size")
                (array,) = self.compared(actual, size, what.format(k), ((array, k),))
        return self.reshape(array, shape)

    def compared(self, actual_size: Size, size: Size, what: str, arrays: Sequence[tuple[Var, int]]) -> list[Var]:
        """Arrays, each with an axis of the size `own`, certified to have another one there, which is compared now."""
        certified = []
        for array, axis in arrays:
            assert isinstance(array.type, anf.Array)
            shape = array.type.shape
            type = anf.Array(array.type.dtype, (*shape[:axis], size, *shape[axis + 1 :]))
            certified.append(fresh(array.name, type))
        actual, expected = self.atom(actual_size), self.atom(size)
        same = self.prim("eq", actual, expected)
        parts = (f"{what} has size ", "", ", expected ", "", "")
        guarded = tuple([array for array, _ in arrays])
        self.bind(anf.Assert(same, "E0807", parts, (actual, expected), guarded), tuple(certified))
        return certified

    def opened(self, size: Size) -> Size:
        """The size over variables that were not computed by sums and products."""
        return size.substitute(lambda v: self.definitions.get(v) or self.computed.get(v))

    # ---- checks ----
    def check(
        self,
        condition: Atom,
        code: str,
        parts: tuple[str, ...],
        values: tuple[Atom, ...] = (),
        guarded: tuple[Atom, ...] = (),
    ) -> tuple[Atom, ...]:
        """Ends the run unless the condition holds; returns the guarded values, certified."""
        return self.emit(anf.Assert(condition, code, parts, values, guarded), *[s.type for s in guarded], name="ok")

    def settle(self, size: Size, what: str) -> None:
        """Ends the run where a sum of numbers that is used as a size is no i64, unless it is known to be one. For
        products the back ends do so, where a loop over one begins (`codegen/allocation_overflow.py`).
        """
        if all(len(m) < 2 and c in (1, -1) for m, c in size.terms.items() if m) and not self.facts.small(size):
            self.refuse_wrapping(size, what)

    def refuse_wrapping(self, size: Size, what: str) -> None:
        """Ends the run where a size is no i64, unless it is known to be one."""
        if self.exact(size):
            return
        self.settled.add(size)
        estimate = self.estimated(size)
        if not self.facts.proves_nonnegative(size):
            above = self.prim("gt", estimate, Lit(-float(SUM), "f64"))
            self.check(above, "E0802", (f"{what} is negative: ", "", ""), (estimate,))
        below = self.prim("lt", estimate, Lit(float(SUM), "f64"))
        self.check(below, "E0806", ("the memory is exhausted",))
        self.bounded(size, poly(-SUM), poly(SUM))

    def estimated(self, size: Size) -> Atom:
        """About the value of a polynomial, as a float."""
        total: Atom = Lit(float(size.terms.get((), 0)), "f64")
        for monomial, c in size.terms.items():
            if monomial:
                term: Atom = Lit(float(c), "f64")
                for v in monomial:
                    term = self.prim("mul", term, self.cast("f64", v))
                total = self.prim("add", total, term)
        return total

    def bounded(self, size: Size, low: Size, high: Size) -> None:
        """Learns low <= size < high, of the variable in it of which nothing is known."""
        unknown = [v for v in dict.fromkeys(size.atoms()) if not self.facts.small(poly(v))]
        if len(unknown) == 1 and (c := size.terms.get((unknown[0],))) in (1, -1):
            others = size.without(unknown[0])
            if not others.mentions(unknown):
                lows, highs = (low - others, high - others) if c == 1 else (others - high + 1, others - low + 1)
                self.facts.narrow(unknown[0], (lows,), (highs,))
                self.unnamed.add(unknown[0])

    def checked_size(self, size: Size, what: str) -> Size:
        """A size of an array that is made: known to be at least 0 and at most `LARGEST`, or checked.

        The check guards no value, for the size may be any polynomial, which stays what it is. What is learned from it
        holds behind it, and accesses that are in range because of that stay there (`optimize/independence.py`).
        """
        self.refuse_wrapping(size, what)
        if not self.facts.proves_nonnegative(size):
            value = self.atom(size)
            condition = self.prim("ge", value, Lit(0, "i64"))
            self.check(condition, "E0802", (f"{what} is negative: ", "", ""), (value,))
            self.unnamed.update([] if size.atom is None else [size.atom])
        if self.facts.ends(size)[1] > SUM and not self.counts(size):
            value = self.atom(size)
            condition = self.prim("le", value, Lit(LARGEST, "i64"))
            self.check(condition, "E0806", ("the memory is exhausted",))
        if size.atom is not None:
            self.facts.size(size.atom)
        elif not self.facts.small(size):
            self.bounded(size, poly(0), poly(LARGEST + 1))
        return size

    def index(self, value: Atom, size: Size, what: str) -> Size:
        """An index of an axis: proven in range, or the result of a check. what: the axis, or what else has the size.

        Between 0 and a size nothing can have wrapped; what is only known to lie on one side of an end may have. An
        access at the result of a check stays behind this one, and behind no other: so that has to check all that is not
        known without others.
        """
        p = self.modulo(value)
        low, high = self.facts.proves_nonnegative(p), self.facts.proves_less(p, size)
        if low and high:
            return p
        if (low or high) and self.unnamed:
            with self.facts.without(self.unnamed):
                low, high = self.facts.proves_nonnegative(p), self.facts.proves_less(p, size)
        if (low or high) and not self.exact(p):
            low = high = False
        bound = self.atom(size)
        below = TRUE if high else self.prim("lt", value, bound)
        above = TRUE if low else self.prim("ge", value, Lit(0, "i64"))
        inside = above if high else below if low else self.prim("and", above, below)
        parts = ("index ", "", f" is out of range for {what} of size ", "", "")
        (certified,) = self.check(inside, "E0801", parts, (value, bound), (value,))
        if isinstance(certified, Var):
            self.facts.certify(certified, size)
        return poly(certified)
