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
from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.ir.rules import result_vars
from dlang.ir.substitution import refresh_vars
from dlang.ir.types import I64, array_type, dtype_of, joined_vars

Index = int | anf.Atom | anf.Size  # what can be given as a size, a bound or an entry of an index
Values = anf.Atom | Sequence[anf.Atom]  # what a callback returns for a block


def axis(high: Index, low: Index = 0, name: str = "i") -> anf.Axis:
    """A fresh axis low <= i < high."""
    return anf.Axis(anf.fresh(name, I64), (anf.poly(low),), (anf.poly(high),))


def f64(value: float) -> anf.Lit:
    return anf.Lit(float(value), "f64")


def i64(value: int) -> anf.Lit:
    return anf.Lit(value, "i64")


def boolean(value: bool) -> anf.Lit:
    return anf.Lit(value, "bool")


def text(value: str) -> anf.Lit:
    return anf.Lit(value, "str")


class Builder:
    """Emits lets into the innermost open block. `span` is where they are said to come from; change it as you go."""

    def __init__(self, functions: Mapping[str, anf.Function] | None = None, span: Span | None = None) -> None:
        self.functions: Mapping[str, anf.Function] = functions if functions is not None else {}
        self.span = span
        self.params: list[anf.Var] = []
        self._open: list[list[anf.Let]] = [[]]
        self._definitions: dict[anf.Var, anf.Let] = {}

    # ---- blocks and functions ----------------------------------------------------------------------------------------
    def param(self, name: str, type: anf.Type) -> anf.Var:
        """A parameter of the function under construction."""
        var = anf.fresh(name, type)
        self.params.append(var)
        return var

    def function(
        self, name: str, results: Sequence[anf.Atom], *, formals: Sequence[anf.Var] | None = None, label: str = ""
    ) -> anf.Function:
        """The function of the parameters and lets so far. `formals` name the results where one's type mentions one."""
        block = anf.Block(tuple(self._open[-1]), tuple(results))
        formals = tuple(formals) if formals is not None else self._formals(results)
        return anf.Function(name, tuple(self.params), formals, block, label or name, self.span)

    def _formals(self, results: Sequence[anf.Atom]) -> tuple[anf.Var, ...]:
        """Formal results: a size that is itself an earlier result, and no parameter, is that formal."""
        vars = [r if isinstance(r, anf.Var) else anf.fresh("r", r.type) for r in results]
        params = set(self.params)
        distinct = dict.fromkeys(v for v in vars if v not in params)
        named = dict(zip(distinct, refresh_vars(tuple(distinct), {}), strict=True))
        used: set[anf.Var] = set()
        out = []
        for var in vars:
            formal = named.get(var)
            if formal is None or formal in used:
                formal = anf.fresh(var.name, var.type if formal is None else formal.type)
            used.add(formal)
            out.append(formal)
        return tuple(out)

    @contextmanager
    def scope(self) -> Iterator[list[anf.Let]]:
        """Opens a nested block: what is emitted inside goes to the list that it gives."""
        lets: list[anf.Let] = []
        self._open.append(lets)
        try:
            yield lets
        finally:
            self._open.pop()

    def block(self, body: Callable[[], Values]) -> anf.Block:
        """The block of what `body` emits and returns."""
        with self.scope() as lets:
            results = body()
        return anf.Block(tuple(lets), _values(results))

    def append(self, let: anf.Let) -> None:
        """Emits a let that exists already."""
        self._open[-1].append(let)
        for var in let.vars:
            self._definitions[var] = let

    def inline(self, block: anf.Block) -> tuple[anf.Atom, ...]:
        """Emits the lets of a block (whose bound variables must be its own) and gives its results."""
        for let in block.lets:
            self.append(let)
        return block.results

    def definition(self, var: anf.Var) -> anf.Op | None:
        """The operation that bound a variable, if this builder emitted it."""
        let = self._definitions.get(var)
        return None if let is None else let.op

    # ---- emitting ----------------------------------------------------------------------------------------------------
    def emit(
        self, op: anf.Op, names: Sequence[str] = (), types: Sequence[anf.Type] | None = None
    ) -> tuple[anf.Var, ...]:
        """Emits an operation and gives its results.

        types: those of the results where the operation does not determine them, as for a `Foreign`; for an `Effect`
        after its token.
        """
        if isinstance(op, anf.If):
            vars = joined_vars(op.then, op.otherwise, self._opened)
        else:
            vars = result_vars(op, self.functions)
        if isinstance(op, anf.Foreign | anf.Effect):
            vars = (*vars, *(anf.fresh("t", type) for type in types or ()))
        elif types is not None:
            vars = tuple(anf.fresh(v.name, type) for v, type in zip(vars, types, strict=True))
        for var, name in zip(vars, names, strict=False):
            var.name = name
        self.append(anf.Let(vars, op, self.span))
        return vars

    def emit_as(self, vars: Sequence[anf.Var], op: anf.Op) -> None:
        """Emits an operation that binds the given variables, of types that the caller vouches for."""
        self.append(anf.Let(tuple(vars), op, self.span))

    def one(self, op: anf.Op, name: str = "") -> anf.Var:
        """Emits an operation of one result and gives it."""
        (var,) = self.emit(op, (name,) if name else ())
        return var

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def prim(self, primitive: str, *args: anf.Atom, name: str = "") -> anf.Var:
        return self.one(anf.Prim(primitive, args), name)

    def add(self, x: anf.Atom, y: anf.Atom, name: str = "") -> anf.Var:
        return self.prim("add", x, y, name=name)

    def sub(self, x: anf.Atom, y: anf.Atom, name: str = "") -> anf.Var:
        return self.prim("sub", x, y, name=name)

    def mul(self, x: anf.Atom, y: anf.Atom, name: str = "") -> anf.Var:
        return self.prim("mul", x, y, name=name)

    def select(self, condition: anf.Atom, x: anf.Atom, y: anf.Atom, name: str = "") -> anf.Var:
        return self.prim("select", condition, x, y, name=name)

    def cast(self, dtype: str, x: anf.Atom, name: str = "") -> anf.Atom:
        """A conversion; the atom itself if it has that dtype."""
        return x if dtype_of(x) == dtype else self.one(anf.Cast(dtype, x), name)

    def size(self, value: Index, name: str = "n") -> anf.Atom:
        """The value of a polynomial as an atom, without a let if it is a constant or a single variable."""
        size = anf.poly(value)
        if size.constant is not None:
            return anf.Lit(int(size.constant), "i64")
        return size.atom if size.atom is not None else self.one(anf.IndexExpr(size), name)

    def bound(self, bounds: Sequence[anf.Size], primitive: str) -> anf.Size:
        """The largest (`maximum`) or the least (`minimum`) of several bounds."""
        bound, *others = bounds
        for other in others:
            bound = anf.poly(self.prim(primitive, self.size(bound), self.size(other)))
        return bound

    def as_poly(self, value: Index, through_checks: bool = False) -> anf.Size:
        """The polynomial of an i64, as far as the definitions this builder emitted show it.

        A value that an `Assert` certifies stays opaque, so that an index made of it depends on the check;
        `through_checks` looks through, to compare values.
        """
        if not isinstance(value, anf.Var):
            return anf.poly(value)
        match self.definition(value):
            case anf.IndexExpr(size):
                return self._opened(size) if through_checks else size
            case anf.Prim("add", (x, y)) if value.type == I64:
                return self.as_poly(x, through_checks) + self.as_poly(y, through_checks)
            case anf.Prim("sub", (x, y)) if value.type == I64:
                return self.as_poly(x, through_checks) - self.as_poly(y, through_checks)
            case anf.Prim("mul", (x, y)) if value.type == I64:
                return self.as_poly(x, through_checks) * self.as_poly(y, through_checks)
            case anf.Prim("neg", (x,)) if value.type == I64:
                return -self.as_poly(x, through_checks)
            case anf.Assert(guarded=guarded) if through_checks:
                return self.as_poly(guarded[self._definitions[value].vars.index(value)], through_checks)
            case _:
                return anf.poly(value)

    def _opened(self, size: anf.Size) -> anf.Size:
        return size.substitute(lambda v: self.as_poly(v, through_checks=True))

    def format(self, parts: Sequence[str], *args: anf.Atom) -> anf.Var:
        return self.one(anf.Format(tuple(parts), args))

    def check(
        self,
        condition: anf.Atom,
        code: str,
        parts: Sequence[str],
        values: Sequence[anf.Atom] = (),
        guarded: Sequence[anf.Atom] = (),
        types: Sequence[anf.Type] | None = None,
    ) -> tuple[anf.Var, ...]:
        """Ends the run unless the condition holds; gives the guarded values, certified, of `types` if they say more."""
        return self.emit(anf.Assert(condition, code, tuple(parts), tuple(values), tuple(guarded)), types=types)

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def index(self, index: Sequence[Index]) -> tuple[anf.Size, ...]:
        """Entries of an index as polynomials, looked through their definitions."""
        return tuple([self.as_poly(entry) for entry in index])

    def read(self, array: anf.Var, index: Sequence[Index], name: str = "") -> anf.Var:
        return self.one(anf.Read(array, self.index(index)), name)

    def update(self, array: anf.Var, index: Sequence[Index], value: anf.Atom, name: str = "") -> anf.Var:
        return self.one(anf.Update(array, self.index(index), value), name)

    def comp(
        self,
        axes: Sequence[anf.Axis | Index],
        body: Callable[..., Values],
        destinations: Sequence[anf.Destination] | Callable[..., Sequence[anf.Destination]] | None = None,
        names: Sequence[str] = (),
    ) -> tuple[anf.Var, ...]:
        """A comprehension; `body` gets the variables of the axes, and so does `destinations` if it is a function.

        An axis may be given as its size. Without destinations each value makes an array over all axes, which then must
        be such sizes.
        """
        full = tuple(
            [
                a if isinstance(a, anf.Axis) else axis(self.as_poly(a), name="ijkl"[min(n, 3)])
                for n, a in enumerate(axes)
            ]
        )
        vars = [a.var for a in full]
        block = self.block(lambda: body(*vars))
        chosen: Sequence[anf.Destination]
        if destinations is None:
            shape = []
            for a in full:
                if len(a.highs) != 1 or any(low != 0 for low in a.lows):
                    raise IRError("a destination is needed for axes that do not run from 0 to a size")
                shape.append(a.highs[0])
            everything = anf.Reduce(tuple(shape), tuple([anf.poly(v) for v in vars]), "set")
            chosen = [everything] * len(block.results)
        else:
            chosen = destinations(*vars) if callable(destinations) else destinations
        return self.emit(anf.Comp(full, block, tuple(chosen)), names)

    def map(self, axes: Sequence[anf.Axis | Index], body: Callable[..., anf.Atom], name: str = "") -> anf.Var:
        """The array of `body` at every point."""
        (out,) = self.comp(axes, body, names=(name,) if name else ())
        return out

    def reduce(
        self, axes: Sequence[anf.Axis | Index], body: Callable[..., anf.Atom], monoid: str = "sum", name: str = ""
    ) -> anf.Var:
        """The reduction of `body` over all points, a scalar."""
        (out,) = self.comp(axes, body, [anf.Reduce((), (), monoid)], names=(name,) if name else ())
        return out

    def scan(self, monoid: str, array: anf.Var, name: str = "") -> anf.Var:
        return self.one(anf.Scan(monoid, array), name)

    def view(
        self, array: anf.Var, shape: Sequence[Index], index: Callable[..., Sequence[Index]], name: str = ""
    ) -> anf.Var:
        """y[axes] = x[index(axes)]."""
        axes = tuple([anf.fresh("ijkl"[min(n, 3)], I64) for n in range(len(shape))])
        sizes = self.index(shape)
        return self.one(anf.View(array, axes, sizes, self.index(index(*axes))), name)

    def reshape(self, array: anf.Var, shape: Sequence[Index], name: str = "") -> anf.Var:
        return self.one(anf.Reshape(array, self.index(shape)), name)

    def concat(self, *arrays: anf.Var, name: str = "") -> anf.Var:
        return self.one(anf.Concat(arrays), name)

    def compact(self, mask: anf.Var, names: Sequence[str] = ()) -> tuple[anf.Var, anf.Var]:
        """How many elements are true, and their positions."""
        k, positions = self.emit(anf.Compact(mask), names)
        return k, positions

    def copy(self, array: anf.Var, name: str = "") -> anf.Var:
        return self.one(anf.Copy(array), name)

    def empty(self, dtype: str, shape: Sequence[Index], name: str = "") -> anf.Var:
        """An array of numbers, each of which is written before it is read."""
        return self.one(anf.Empty(dtype, tuple([self.as_poly(s) for s in shape])), name)

    def contract(
        self, a: anf.Var, b: anf.Var, left: Sequence[int], right: Sequence[int], out: Sequence[int], name: str = ""
    ) -> anf.Var:
        return self.one(anf.Contract(a, b, tuple(left), tuple(right), tuple(out)), name)

    def library(self, operation: str, *args: anf.Atom, name: str = "") -> anf.Var:
        """A library operation of one result."""
        return self.one(anf.LinalgOp(operation, args), name)

    def full(self, shape: Sequence[Index], value: anf.Atom, name: str = "") -> anf.Var:
        """An array of one value."""
        return self.map(shape, lambda *_: value, name)

    def spread(self, shape: Sequence[Index], value: anf.Atom) -> anf.Var:
        """An array of one value, which is stored once and seen everywhere."""
        return self.view(self.full((1,), value), shape, lambda *_: (0,))

    # ---- control -----------------------------------------------------------------------------------------------------
    def for_(
        self,
        low: Index,
        high: Index,
        init: Sequence[anf.Atom],
        body: Callable[..., Values],
        *,
        params: Sequence[anf.Var] | None = None,
        names: Sequence[str] = (),
        early: bool = False,
    ) -> tuple[anf.Var, ...]:
        """A counted loop; `body` gets the index and the state and returns the next state (first a bool if `early`).

        params: the state's variables where their types differ from those of `init`, which are the default.
        """
        index = anf.fresh("i", I64)
        state = self._state(init, params, names)
        block = self.block(lambda: body(index, *state))
        op = anf.For(index, self.as_poly(low), self.as_poly(high), state, tuple(init), block, early)
        return self.emit(op)

    def while_(
        self,
        init: Sequence[anf.Atom],
        condition: Callable[..., anf.Atom],
        body: Callable[..., Values],
        *,
        params: Sequence[anf.Var] | None = None,
        names: Sequence[str] = (),
        early: bool = False,
    ) -> tuple[anf.Var, ...]:
        """A loop while `condition` of the state holds; otherwise as `for_`."""
        state = self._state(init, params, names)
        test = self.block(lambda: condition(*state))
        return self.emit(anf.While(state, tuple(init), test, self.block(lambda: body(*state)), early))

    def _state(
        self, init: Sequence[anf.Atom], params: Sequence[anf.Var] | None, names: Sequence[str]
    ) -> tuple[anf.Var, ...]:
        if params is not None:
            return tuple(params)
        named = [*names, *(a.name if isinstance(a, anf.Var) else "s" for a in init[len(names) :])]
        return tuple([anf.fresh(n, a.type) for n, a in zip(named, init, strict=True)])

    def if_(
        self,
        condition: anf.Atom,
        then: Callable[[], Values],
        otherwise: Callable[[], Values],
        *,
        results: Sequence[anf.Var] | None = None,
        names: Sequence[str] = (),
        cold: bool = False,
    ) -> tuple[anf.Var, ...]:
        """A branch. results: the variables that it binds, if their types are to be other than `joined_vars` finds."""
        op = anf.If(condition, self.block(then), self.block(otherwise), cold=cold)
        if results is None:
            return self.emit(op, names)
        self.emit_as(results, op)
        return tuple(results)

    def call(self, function: str, *args: anf.Atom) -> tuple[anf.Var, ...]:
        return self.emit(anf.Call(function, args))

    def vjp(
        self, function: str, args: Sequence[anf.Atom], wrt: Sequence[int], cotangents: Sequence[anf.Atom | None]
    ) -> tuple[anf.Var, ...]:
        return self.emit(anf.Vjp(function, tuple(args), tuple(wrt), tuple(cotangents)))

    def jvp(self, function: str, args: Sequence[anf.Atom], tangents: Sequence[anf.Atom | None]) -> tuple[anf.Var, ...]:
        return self.emit(anf.Jvp(function, tuple(args), tuple(tangents)))

    def stop(self, x: anf.Atom) -> anf.Var:
        return self.one(anf.StopGradient(x))

    def effect(
        self,
        operation: str,
        token: anf.Atom,
        args: Sequence[anf.Atom],
        types: Sequence[anf.Type] = (),
        static: Sequence[str] = (),
    ) -> tuple[anf.Var, ...]:
        """Something that the world sees: gives the new token, then results of `types`."""
        return self.emit(anf.Effect(operation, token, tuple(args), tuple(static)), types=types)


def _values(results: Values) -> tuple[anf.Atom, ...]:
    return (results,) if isinstance(results, (anf.Var, anf.Lit)) else tuple(results)


def shape_of(array: anf.Var) -> tuple[anf.Size, ...]:
    """The sizes of an array."""
    return array_type(array).shape


__all__ = ["Builder", "axis", "boolean", "f64", "i64", "shape_of", "text"]


def opened(functions: Mapping[str, anf.Function], f: anf.Function) -> tuple[Builder, list[anf.Var]]:
    """A builder of a function with the parameters of another, and these."""
    b = Builder(functions, f.span)
    b.params = list(refresh_vars(f.params, {}))
    return b, list(b.params)
