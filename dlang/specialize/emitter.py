"""Emits the IR of one function: a builder, with what is known of its sizes and how integers are polynomials of others.

Integer arithmetic and floors go through `arith`, so that an index or a size that was computed is recognised as the
polynomial it is, and equal floors are one variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import lcm

from dlang.diagnostics import CallSite, Span
from dlang.inequalities import Facts
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Let, Lit, Op, Scalar, Size, Type, Var, fresh, poly
from dlang.ir.types import I64
from dlang.polynomials import TooManyTerms
from dlang.primitives.table import result_dtype

TRUE = Lit(True, "bool")
FALSE = Lit(False, "bool")


@dataclass(slots=True)
class Emitter:
    """`lets` is the innermost open block. `floors` is scoped like it, since a floor is a variable of a block.

    whole: the sizes with exact divisions in them that were checked; scoped too. via: the call in whose place the code
    stands that is emitted now, if that is to be told.
    """

    lets: list[Let] = field(default_factory=list)
    facts: Facts[Var] = field(default_factory=Facts)
    definitions: dict[Var, Size] = field(default_factory=dict)
    floors: dict[tuple[Size, Size], Var] = field(default_factory=dict)
    whole: set[Size] = field(default_factory=set)
    span: Span | None = None
    via: CallSite | None = None

    # ---- blocks ----
    @contextmanager
    def block(self) -> Iterator[list[Let]]:
        """Lets emitted inside go to a list of their own; what is learned inside is forgotten after it."""
        outer, floors, whole, mark = self.lets, self.floors, self.whole, self.facts.mark()
        self.lets, self.floors, self.whole = [], dict(floors), set(whole)
        try:
            yield self.lets
        finally:
            self.lets, self.floors, self.whole = outer, floors, whole
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
        match op:
            case anf.Comp(axes=axes):
                for a in axes:
                    self.facts.forget(a.var)
            case anf.For(index=index):
                self.facts.forget(index)

    # ---- scalars ----
    def prim(self, name: str, *args: Atom) -> Atom:
        """A primitive; i64 sums and products of known polynomials are remembered as polynomials."""
        dtypes = tuple([a.type.dtype for a in args if not isinstance(a.type, anf.Token)])
        (v,) = self.emit(anf.Prim(name, args), Scalar(result_dtype(name, dtypes)))
        if name in ("add", "sub", "mul", "neg") and dtypes[0] == "i64":
            p = [self.poly(a) for a in args]
            match name:
                case "add":
                    self.definitions[v] = p[0] + p[1]
                case "sub":
                    self.definitions[v] = p[0] - p[1]
                case "mul":
                    with suppress(TooManyTerms):
                        self.definitions[v] = p[0] * p[1]
                case _:
                    self.definitions[v] = -p[0]
        return v

    def poly(self, atom: Atom) -> Size:
        """The polynomial of an i64 atom, as far as it was computed by sums and products."""
        if isinstance(atom, Var) and atom in self.definitions:
            return self.definitions[atom]
        return poly(atom)

    def atom(self, size: Size) -> Atom:
        """The i64 value of a polynomial."""
        c = size.constant
        if c is not None:
            return Lit(int(c), "i64")
        v = size.atom
        if v is not None:
            return v
        (r,) = self.emit(anf.SizeOf(size), I64, name="n")
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
        key = (dividend, divisor)
        if key not in self.floors:
            by = self.atom(divisor)
            if c is None:
                positive = self.prim("gt", by, Lit(0, "i64"))
                (by,) = self.check(positive, "E0803", ("integer division by zero",), (), (by,))
            (v,) = self.emit(anf.Prim("floordiv", (self.atom(dividend), by)), I64, name="h")
            self.floors[key] = v
            if c is None or c > 0:
                self.facts.floors[v] = (dividend, divisor)
                if self.facts.proves_nonnegative(dividend):
                    self.facts.size(v)
        return poly(self.floors[key])

    def exact(self, size: Size) -> Size:
        """A size with exact divisions in it: known to be whole, or checked, once in a block."""
        known = self.opened(size)
        scale = lcm(*[c.denominator for c in known.terms.values()])
        if scale > 1 and known not in self.whole:
            self.whole.add(known)
            value = self.atom(known * scale)
            rest = self.prim("mod", value, Lit(scale, "i64"))
            parts = ("the size ", "", f" / {scale} is not a whole number")
            self.check(self.prim("eq", rest, Lit(0, "i64")), "E0807", parts, (value,))
        return size if scale == 1 or size.constant is None else poly(int(size.constant))

    def cast(self, dtype: str, atom: Atom) -> Atom:
        assert isinstance(atom.type, Scalar)
        return atom if atom.type.dtype == dtype else self.emit(anf.Cast(dtype, atom), Scalar(dtype))[0]

    # ---- arrays ----
    def axis(self, size: Size, name: str = "i", low: Size | None = None) -> anf.Axis:
        """A fresh axis over low (or 0) <= i < size, known to lie there."""
        v = fresh(name, I64)
        lows, highs = (poly(0) if low is None else low,), (size,)
        self.facts.between(v, lows, highs)
        return anf.Axis(v, lows, highs)

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
        for k, (own, size) in enumerate(zip(array.type.shape, shape, strict=True)):
            if self.opened(own) != self.opened(size):
                (array,) = self.compared(own, size, what.format(k), ((array, k),))
        return self.reshape(array, shape)

    def compared(self, own: Size, size: Size, what: str, arrays: Sequence[tuple[Var, int]]) -> list[Var]:
        """Arrays, each with an axis of the size `own`, certified to have another one there, which is compared now."""
        certified = []
        for array, axis in arrays:
            assert isinstance(array.type, anf.Array)
            shape = array.type.shape
            type = anf.Array(array.type.dtype, (*shape[:axis], size, *shape[axis + 1 :]))
            certified.append(fresh(array.name, type))
        found, expected = self.atom(own), self.atom(size)
        same = self.prim("eq", found, expected)
        parts = (f"{what} has size ", "", ", expected ", "", "")
        subjects = tuple([array for array, _ in arrays])
        self.bind(anf.Check(same, "E0807", parts, (found, expected), subjects), tuple(certified))
        return certified

    def opened(self, size: Size) -> Size:
        """The size over variables that were not computed by sums and products."""
        return size.substitute(self.definitions.get)

    # ---- checks ----
    def check(
        self,
        condition: Atom,
        code: str,
        parts: tuple[str, ...],
        values: tuple[Atom, ...] = (),
        subjects: tuple[Atom, ...] = (),
    ) -> tuple[Atom, ...]:
        """Ends the run unless the condition holds; returns the subjects, certified."""
        return self.emit(anf.Check(condition, code, parts, values, subjects), *[s.type for s in subjects], name="ok")

    def checked_size(self, size: Size, what: str) -> Size:
        """A size of an array that is made: proven to be at least 0, or checked."""
        if self.facts.proves_nonnegative(size):
            return size
        value = self.atom(size)
        condition = self.prim("ge", value, Lit(0, "i64"))
        if isinstance(value, Lit) or size.atom is None:
            self.check(condition, "E0802", (f"{what} is negative: ", "", ""), (value,))
            return size
        self.check(condition, "E0802", (f"{what} is negative: ", "", ""), (value,))
        self.facts.size(size.atom)
        return size

    def index(self, value: Atom, size: Size, what: str) -> Size:
        """An index of an axis: proven in range, or the result of a check. what: the axis, or what else has the size."""
        p = self.poly(value)
        low, high = self.facts.proves_nonnegative(p), self.facts.proves_less(p, size)
        if low and high:
            return p
        bound = self.atom(size)
        below = TRUE if high else self.prim("lt", value, bound)
        above = TRUE if low else self.prim("ge", value, Lit(0, "i64"))
        inside = above if high else below if low else self.prim("and", above, below)
        parts = ("index ", "", f" is out of range for {what} of size ", "", "")
        (certified,) = self.check(inside, "E0801", parts, (value, bound), (value,))
        if isinstance(certified, Var):
            self.facts.between(certified, (poly(0),), (size,))
        return poly(certified)
