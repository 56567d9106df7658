"""Making programs of the IR: a `Builder` emits lets into the innermost open block and computes their types.

    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    program = Program({"f": b.function("f", [b.mul(x, y)])})

Nested blocks are made by callbacks, which emit with the same builder. Nothing is simplified here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from dlang.diagnostics import Span
from dlang.ir.anf import (
    Add,
    Array,
    Atom,
    Axis,
    Block,
    Call,
    Cast,
    Check,
    Comp,
    Compact,
    Concat,
    Contract,
    Copy,
    Destination,
    Effect,
    Empty,
    For,
    Foreign,
    Format,
    Function,
    If,
    Jvp,
    Keep,
    Let,
    Library,
    Lit,
    Op,
    Prim,
    Read,
    Reshape,
    Scalar,
    Scan,
    Size,
    SizeOf,
    Stop,
    Token,
    Type,
    Update,
    Var,
    View,
    Vjp,
    While,
    fresh,
    poly,
)
from dlang.ir.errors import IRError
from dlang.ir.substitution import refresh_vars
from dlang.ir.types import I64, array_type, dtype_of, joined_vars, result_vars

Index = int | Atom | Size  # what can be given as a size, a bound or an entry of an index
Values = Atom | Sequence[Atom]  # what a callback returns for a block


def axis(high: Index, low: Index = 0, name: str = "i") -> Axis:
    """A fresh axis low <= i < high."""
    return Axis(fresh(name, I64), (_poly(low),), (_poly(high),))


def f64(value: float) -> Lit:
    return Lit(float(value), "f64")


def i64(value: int) -> Lit:
    return Lit(value, "i64")


def boolean(value: bool) -> Lit:
    return Lit(value, "bool")


def text(value: str) -> Lit:
    return Lit(value, "str")


def _poly(value: Index) -> Size:
    return poly(value)


class Builder:
    """Emits lets into the innermost open block. `span` is where they are said to come from; change it as you go."""

    def __init__(self, functions: Mapping[str, Function] | None = None, span: Span | None = None) -> None:
        self.functions: Mapping[str, Function] = functions if functions is not None else {}
        self.span = span
        self.params: list[Var] = []
        self._open: list[list[Let]] = [[]]
        self._definitions: dict[Var, Let] = {}

    # ---- blocks and functions ----------------------------------------------------------------------------------------
    def param(self, name: str, type: Type) -> Var:
        """A parameter of the function under construction."""
        var = fresh(name, type)
        self.params.append(var)
        return var

    def function(
        self, name: str, results: Sequence[Atom], *, formals: Sequence[Var] | None = None, label: str = ""
    ) -> Function:
        """The function of the parameters and lets so far. `formals` name the results where one's type mentions one."""
        block = Block(tuple(self._open[-1]), tuple(results))
        formals = tuple(formals) if formals is not None else self._formals(results)
        return Function(name, tuple(self.params), formals, block, label or name, self.span)

    def _formals(self, results: Sequence[Atom]) -> tuple[Var, ...]:
        """Formal results: a size that is itself an earlier result, and no parameter, is that formal."""
        vars = [r if isinstance(r, Var) else fresh("r", r.type) for r in results]
        params = set(self.params)
        distinct = dict.fromkeys(v for v in vars if v not in params)
        named = dict(zip(distinct, refresh_vars(tuple(distinct), {}), strict=True))
        used: set[Var] = set()
        out = []
        for var in vars:
            formal = named.get(var)
            if formal is None or formal in used:
                formal = fresh(var.name, var.type if formal is None else formal.type)
            used.add(formal)
            out.append(formal)
        return tuple(out)

    @contextmanager
    def scope(self) -> Iterator[list[Let]]:
        """Opens a nested block: what is emitted inside goes to the list that it gives."""
        lets: list[Let] = []
        self._open.append(lets)
        try:
            yield lets
        finally:
            self._open.pop()

    def block(self, body: Callable[[], Values]) -> Block:
        """The block of what `body` emits and returns."""
        with self.scope() as lets:
            results = body()
        return Block(tuple(lets), _values(results))

    def append(self, let: Let) -> None:
        """Emits a let that exists already."""
        self._open[-1].append(let)
        for var in let.vars:
            self._definitions[var] = let

    def inline(self, block: Block) -> tuple[Atom, ...]:
        """Emits the lets of a block (whose bound variables must be its own) and gives its results."""
        for let in block.lets:
            self.append(let)
        return block.results

    def definition(self, var: Var) -> Op | None:
        """The operation that bound a variable, if this builder emitted it."""
        let = self._definitions.get(var)
        return None if let is None else let.op

    # ---- emitting ----------------------------------------------------------------------------------------------------
    def emit(self, op: Op, names: Sequence[str] = (), types: Sequence[Type] | None = None) -> tuple[Var, ...]:
        """Emits an operation and gives its results.

        types: those of the results where the operation does not determine them, as for a `Foreign`; for an `Effect`
        after its token.
        """
        if isinstance(op, If):
            vars = joined_vars(op.then, op.otherwise, self._opened)
        else:
            vars = result_vars(op, self.functions)
        if isinstance(op, Foreign | Effect):
            vars = (*vars, *(fresh("t", type) for type in types or ()))
        elif types is not None:
            vars = tuple(fresh(v.name, type) for v, type in zip(vars, types, strict=True))
        for var, name in zip(vars, names, strict=False):
            var.name = name
        self.append(Let(vars, op, self.span))
        return vars

    def emit_as(self, vars: Sequence[Var], op: Op) -> None:
        """Emits an operation that binds the given variables, of types that the caller vouches for."""
        self.append(Let(tuple(vars), op, self.span))

    def one(self, op: Op, name: str = "") -> Var:
        """Emits an operation of one result and gives it."""
        (var,) = self.emit(op, (name,) if name else ())
        return var

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def prim(self, primitive: str, *args: Atom, name: str = "") -> Var:
        return self.one(Prim(primitive, args), name)

    def add(self, x: Atom, y: Atom, name: str = "") -> Var:
        return self.prim("add", x, y, name=name)

    def sub(self, x: Atom, y: Atom, name: str = "") -> Var:
        return self.prim("sub", x, y, name=name)

    def mul(self, x: Atom, y: Atom, name: str = "") -> Var:
        return self.prim("mul", x, y, name=name)

    def select(self, condition: Atom, x: Atom, y: Atom, name: str = "") -> Var:
        return self.prim("select", condition, x, y, name=name)

    def cast(self, dtype: str, x: Atom, name: str = "") -> Atom:
        """A conversion; the atom itself if it has that dtype."""
        return x if dtype_of(x) == dtype else self.one(Cast(dtype, x), name)

    def size(self, value: Index, name: str = "n") -> Atom:
        """The value of a polynomial as an atom, without a let if it is a constant or a single variable."""
        size = _poly(value)
        if size.constant is not None:
            return Lit(int(size.constant), "i64")
        return size.atom if size.atom is not None else self.one(SizeOf(size), name)

    def as_poly(self, value: Index, through_checks: bool = False) -> Size:
        """The polynomial of an i64, as far as the definitions this builder emitted show it.

        A value that a `Check` certifies stays opaque, so that an index made of it depends on the check;
        `through_checks` looks through, to compare values.
        """
        if not isinstance(value, Var):
            return _poly(value)
        match self.definition(value):
            case SizeOf(size):
                return self._opened(size) if through_checks else size
            case Prim("add", (x, y)) if value.type == I64:
                return self.as_poly(x, through_checks) + self.as_poly(y, through_checks)
            case Prim("sub", (x, y)) if value.type == I64:
                return self.as_poly(x, through_checks) - self.as_poly(y, through_checks)
            case Prim("mul", (x, y)) if value.type == I64:
                return self.as_poly(x, through_checks) * self.as_poly(y, through_checks)
            case Prim("neg", (x,)) if value.type == I64:
                return -self.as_poly(x, through_checks)
            case Check(subjects=subjects) if through_checks:
                return self.as_poly(subjects[self._definitions[value].vars.index(value)], through_checks)
            case _:
                return poly(value)

    def _opened(self, size: Size) -> Size:
        return size.substitute(lambda v: self.as_poly(v, through_checks=True))

    def format(self, parts: Sequence[str], *args: Atom) -> Var:
        return self.one(Format(tuple(parts), args))

    def check(
        self,
        condition: Atom,
        code: str,
        parts: Sequence[str],
        values: Sequence[Atom] = (),
        subjects: Sequence[Atom] = (),
        types: Sequence[Type] | None = None,
    ) -> tuple[Var, ...]:
        """Ends the run unless the condition holds; gives the subjects, certified, of `types` if they say more."""
        return self.emit(Check(condition, code, tuple(parts), tuple(values), tuple(subjects)), types=types)

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def index(self, index: Sequence[Index]) -> tuple[Size, ...]:
        """Entries of an index as polynomials, looked through their definitions."""
        return tuple([self.as_poly(entry) for entry in index])

    def read(self, array: Var, index: Sequence[Index], name: str = "") -> Var:
        return self.one(Read(array, self.index(index)), name)

    def update(self, array: Var, index: Sequence[Index], value: Atom, name: str = "") -> Var:
        return self.one(Update(array, self.index(index), value), name)

    def comp(
        self,
        axes: Sequence[Axis | Index],
        body: Callable[..., Values],
        destinations: Sequence[Destination] | Callable[..., Sequence[Destination]] | None = None,
        names: Sequence[str] = (),
    ) -> tuple[Var, ...]:
        """A comprehension; `body` gets the variables of the axes, and so does `destinations` if it is a function.

        An axis may be given as its size. Without destinations each value makes an array over all axes, which then must
        be such sizes.
        """
        full = tuple(
            [a if isinstance(a, Axis) else axis(self.as_poly(a), name="ijkl"[min(n, 3)]) for n, a in enumerate(axes)]
        )
        vars = [a.var for a in full]
        block = self.block(lambda: body(*vars))
        chosen: Sequence[Destination]
        if destinations is None:
            shape = []
            for a in full:
                if len(a.highs) != 1 or any(low != 0 for low in a.lows):
                    raise IRError("a destination is needed for axes that do not run from 0 to a size")
                shape.append(a.highs[0])
            everything = Keep(tuple(shape), tuple([poly(v) for v in vars]), "set")
            chosen = [everything] * len(block.results)
        else:
            chosen = destinations(*vars) if callable(destinations) else destinations
        return self.emit(Comp(full, block, tuple(chosen)), names)

    def map(self, axes: Sequence[Axis | Index], body: Callable[..., Atom], name: str = "") -> Var:
        """The array of `body` at every point."""
        (out,) = self.comp(axes, body, names=(name,) if name else ())
        return out

    def reduce(
        self, axes: Sequence[Axis | Index], body: Callable[..., Atom], monoid: str = "sum", name: str = ""
    ) -> Var:
        """The reduction of `body` over all points, a scalar."""
        (out,) = self.comp(axes, body, [Keep((), (), monoid)], names=(name,) if name else ())
        return out

    def scan(self, monoid: str, array: Var, name: str = "") -> Var:
        return self.one(Scan(monoid, array), name)

    def view(self, array: Var, shape: Sequence[Index], index: Callable[..., Sequence[Index]], name: str = "") -> Var:
        """y[axes] = x[index(axes)]."""
        axes = tuple([fresh("ijkl"[min(n, 3)], I64) for n in range(len(shape))])
        sizes = self.index(shape)
        return self.one(View(array, axes, sizes, self.index(index(*axes))), name)

    def reshape(self, array: Var, shape: Sequence[Index], name: str = "") -> Var:
        return self.one(Reshape(array, self.index(shape)), name)

    def concat(self, *arrays: Var, name: str = "") -> Var:
        return self.one(Concat(arrays), name)

    def compact(self, mask: Var, names: Sequence[str] = ()) -> tuple[Var, Var]:
        """How many elements are true, and their positions."""
        k, positions = self.emit(Compact(mask), names)
        return k, positions

    def copy(self, array: Var, name: str = "") -> Var:
        return self.one(Copy(array), name)

    def empty(self, dtype: str, shape: Sequence[Index], name: str = "") -> Var:
        """An array of numbers, each of which is written before it is read."""
        return self.one(Empty(dtype, tuple([self.as_poly(s) for s in shape])), name)

    def contract(
        self, a: Var, b: Var, left: Sequence[int], right: Sequence[int], out: Sequence[int], name: str = ""
    ) -> Var:
        return self.one(Contract(a, b, tuple(left), tuple(right), tuple(out)), name)

    def library(self, operation: str, *args: Atom, name: str = "") -> Var:
        """A library operation of one result."""
        return self.one(Library(operation, args), name)

    def full(self, shape: Sequence[Index], value: Atom, name: str = "") -> Var:
        """An array of one value."""
        return self.map(shape, lambda *_: value, name)

    def spread(self, shape: Sequence[Index], value: Atom) -> Var:
        """An array of one value, which is stored once and seen everywhere."""
        return self.view(self.full((1,), value), shape, lambda *_: (0,))

    # ---- control -----------------------------------------------------------------------------------------------------
    def for_(
        self,
        low: Index,
        high: Index,
        init: Sequence[Atom],
        body: Callable[..., Values],
        *,
        params: Sequence[Var] | None = None,
        names: Sequence[str] = (),
        early: bool = False,
    ) -> tuple[Var, ...]:
        """A counted loop; `body` gets the index and the state and returns the next state (first a bool if `early`).

        params: the state's variables where their types differ from those of `init`, which are the default.
        """
        index = fresh("i", I64)
        state = self._state(init, params, names)
        block = self.block(lambda: body(index, *state))
        op = For(index, self.as_poly(low), self.as_poly(high), state, tuple(init), block, early)
        return self.emit(op)

    def while_(
        self,
        init: Sequence[Atom],
        condition: Callable[..., Atom],
        body: Callable[..., Values],
        *,
        params: Sequence[Var] | None = None,
        names: Sequence[str] = (),
        early: bool = False,
    ) -> tuple[Var, ...]:
        """A loop while `condition` of the state holds; otherwise as `for_`."""
        state = self._state(init, params, names)
        test = self.block(lambda: condition(*state))
        return self.emit(While(state, tuple(init), test, self.block(lambda: body(*state)), early))

    def _state(self, init: Sequence[Atom], params: Sequence[Var] | None, names: Sequence[str]) -> tuple[Var, ...]:
        if params is not None:
            return tuple(params)
        named = [*names, *(a.name if isinstance(a, Var) else "s" for a in init[len(names) :])]
        return tuple([fresh(n, a.type) for n, a in zip(named, init, strict=True)])

    def if_(
        self,
        condition: Atom,
        then: Callable[[], Values],
        otherwise: Callable[[], Values],
        *,
        results: Sequence[Var] | None = None,
        names: Sequence[str] = (),
        rare: bool = False,
    ) -> tuple[Var, ...]:
        """A branch. results: the variables that it binds, if their types are to be other than `joined_vars` finds."""
        op = If(condition, self.block(then), self.block(otherwise), rare=rare)
        if results is None:
            return self.emit(op, names)
        self.emit_as(results, op)
        return tuple(results)

    def call(self, function: str, *args: Atom) -> tuple[Var, ...]:
        return self.emit(Call(function, args))

    def vjp(
        self, function: str, args: Sequence[Atom], wrt: Sequence[int], cotangents: Sequence[Atom | None]
    ) -> tuple[Var, ...]:
        return self.emit(Vjp(function, tuple(args), tuple(wrt), tuple(cotangents)))

    def jvp(self, function: str, args: Sequence[Atom], tangents: Sequence[Atom | None]) -> tuple[Var, ...]:
        return self.emit(Jvp(function, tuple(args), tuple(tangents)))

    def stop(self, x: Atom) -> Var:
        return self.one(Stop(x))

    def effect(
        self, operation: str, token: Atom, args: Sequence[Atom], types: Sequence[Type] = (), static: Sequence[str] = ()
    ) -> tuple[Var, ...]:
        """Something that the world sees: gives the new token, then results of `types`."""
        return self.emit(Effect(operation, token, tuple(args), tuple(static)), types=types)


def _values(results: Values) -> tuple[Atom, ...]:
    return (results,) if isinstance(results, (Var, Lit)) else tuple(results)


def shape_of(array: Var) -> tuple[Size, ...]:
    """The sizes of an array."""
    return array_type(array).shape


__all__ = ["Add", "Array", "Builder", "Keep", "Scalar", "Token", "axis", "boolean", "f64", "i64", "shape_of", "text"]
