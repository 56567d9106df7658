"""An evaluator of the IR that goes one scalar at a time: slow, obvious, and the reference for derivatives.

    value, slope = Pointwise(program).run("f_and_its_gradient", [x])

Scalars are NumPy scalars, or `Traced` ones under a derivative; an array is an array of such objects. `Vjp`, `Jvp`,
`VjpForward` and `VjpBackward` run the function on traced arguments: `ad/` has no part in it. Rules of a function are
not used, its body is differentiated, so this tests rules too. Foreign functions and effects can't be passed by a
derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, product
from typing import Any

import numpy as np

from dlang.host import libraries
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.text import format_parts
from dlang.interpret.linear_algebra import OPERATIONS
from dlang.interpret.outside import call_outside
from dlang.interpret.pointwise_values import (
    NoDerivative,
    Recording,
    array,
    below,
    each,
    full,
    inside,
    is_float,
    joined,
    like,
    mapped,
    outside,
    rounded,
    scalars,
    tangent,
)
from dlang.interpret.traced import ZERO, Dual, Recorded, Tape, Traced, apply, cast, primal, widened
from dlang.ir import anf
from dlang.ir.anf import HALF, Atom, Block, Function, Let, Program, Token, Var, is_handle
from dlang.ir.errors import IRError
from dlang.ir.node import Node
from dlang.ir.reduction import identity
from dlang.ir.types import carries, dtype_of
from dlang.ir.values import accept, extent_of, literal, numpy_dtype, size_of
from dlang.ops.linear_algebra import OPERATIONS as LIBRARY
from dlang.ops.monoids import COMBINE, EXTREMA, ROUNDED, STAYS, result_dtype
from dlang.recursion import recursion

DEPTH = 1_000_000  # frames of Python
Env = dict[Var, Any]


class Pointwise:
    """Runs functions of a program, whose derivatives need not be expanded."""

    def __init__(self, program: Program, host: Host | None = None) -> None:
        self.program = program
        self.host = host if host is not None else Host()
        self._tags = count(1)

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Calls a function with NumPy or Python values for its parameters; a token is neither given nor returned.

        Raises RunError where the program refuses, NoDerivative where this evaluator has no derivative.
        """
        function = self.program.functions[name]
        params = [p for p in function.params if not isinstance(p.type, Token)]
        env: Env = dict.fromkeys(function.params)
        env.update({p: inside(accept(a, p.type), p.type) for p, a in zip(params, args, strict=True)})
        with recursion(DEPTH), np.errstate(all="ignore"):
            results = self._block(function.body, env)
        formals = zip(results, function.results, strict=True)
        return [outside(r, f.type) for r, f in formals if not isinstance(f.type, Token)]

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def _block(self, block: Block, env: Env) -> list[Any]:
        for let in block.lets:
            values = _OPS[type(let.op)](self, let.op, let, env)
            for var, value in zip(let.vars, values, strict=True):
                env[var] = value
        return [self._atom(r, env) for r in block.results]

    def _atom(self, atom: Atom, env: Env) -> Any:
        return env[atom] if isinstance(atom, Var) else literal(atom)

    def _sizes(self, sizes: Sequence[anf.Size], env: Env) -> tuple[int, ...]:
        return tuple([int(size_of(s, env)) for s in sizes])

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def _prim(self, op: anf.Prim, let: Let, env: Env) -> list[Any]:
        return [apply(op.name, [self._atom(a, env) for a in op.args], dtype_of(let.vars[0]))]

    def _cast(self, op: anf.Cast, let: Let, env: Env) -> list[Any]:
        return [cast(self._atom(op.arg, env), dtype_of(op.arg), op.dtype)]

    def _shape(self, sizes: Sequence[anf.Size], env: Env) -> tuple[int, ...]:
        return tuple([int(extent_of(s, env)) for s in sizes])

    def _size_of(self, op: anf.IndexExpr, let: Let, env: Env) -> list[Any]:
        return [np.int64(size_of(op.size, env))]

    def _format(self, op: anf.Format, let: Let, env: Env) -> list[Any]:
        return [format_parts(op.parts, self._plain(op.args, env))]

    def _stop(self, op: anf.StopGradient, let: Let, env: Env) -> list[Any]:
        return [mapped(primal, self._atom(op.arg, env))]

    def _check(self, op: anf.Assert, let: Let, env: Env) -> list[Any]:
        if not self._atom(op.condition, env):
            raise RunError(op.code, format_parts(op.parts, self._plain(op.values, env)), let.span)
        return [self._atom(s, env) for s in op.guarded]

    def _plain(self, atoms: Sequence[Atom], env: Env) -> list[Any]:
        return [outside(self._atom(a, env), a.type) for a in atoms]

    # ---- datatypes ---------------------------------------------------------------------------------------------------
    def _construct(self, op: anf.Construct, let: Let, env: Env) -> list[Any]:
        return [Node(op.variant.tag, tuple([self._atom(a, env) for a in op.args]))]

    def _tag(self, op: anf.Tag, let: Let, env: Env) -> list[Any]:
        return [np.int64(self._atom(op.node, env).tag)]

    def _fields(self, op: anf.Fields, let: Let, env: Env) -> list[Any]:
        node = self._atom(op.node, env)
        if node.tag != op.variant.tag:
            raise IRError(f"{op.node} is of the variant {node.tag}, not {op.variant.tag} ({let.span})")
        return list(node.fields)

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def _read(self, op: anf.Read, let: Let, env: Env) -> list[Any]:
        return [env[op.array][self._index(op.index, env[op.array].shape, env)]]

    def _index(self, index: Sequence[anf.Size], shape: Sequence[int], env: Env) -> tuple[int, ...]:
        found = self._sizes(index, env)
        if any(not 0 <= i < s for i, s in zip(found, shape, strict=True)):
            raise IRError(f"the index {found} is out of range for the shape {tuple(shape)}")
        return found

    def _update(self, op: anf.Update, let: Let, env: Env) -> list[Any]:
        out = env[op.array].copy()
        out[self._index(op.index, out.shape, env)] = self._atom(op.value, env)
        return [out]

    def _copy(self, op: anf.Copy, let: Let, env: Env) -> list[Any]:
        return [env[op.array]]

    def _empty(self, op: anf.Empty, let: Let, env: Env) -> list[Any]:
        return [np.full(self._shape(op.shape, env), None, object)]

    def _view(self, op: anf.View, let: Let, env: Env) -> list[Any]:
        out = np.empty(self._shape(op.shape, env), object)
        for at in np.ndindex(out.shape):
            env.update(zip(op.axes, map(np.int64, at), strict=True))
            out[at] = env[op.array][self._index(op.index, env[op.array].shape, env)]
        return [out]

    def _reshape(self, op: anf.Reshape, let: Let, env: Env) -> list[Any]:
        return [env[op.array].reshape(self._shape(op.shape, env))]

    def _concat(self, op: anf.Concat, let: Let, env: Env) -> list[Any]:
        return [np.concatenate([env[a] for a in op.arrays])]

    def _compact(self, op: anf.Compact, let: Let, env: Env) -> list[Any]:
        found = [np.int64(i) for i, hit in enumerate(env[op.mask]) if hit]
        return [np.int64(len(found)), array(found, (len(found),))]

    def _scan(self, op: anf.Scan, let: Let, env: Env) -> list[Any]:
        dtype = dtype_of(op.array)
        wide = "f32" if dtype in HALF else dtype
        total: Any = identity(op.monoid, wide)
        out = []
        for x in env[op.array]:
            total = apply(COMBINE[op.monoid], (total, cast(x, dtype, wide)), wide)
            out.append(cast(total, wide, dtype))
        return [array(out, (len(out),))]

    def _contract(self, op: anf.Contract, let: Let, env: Env) -> list[Any]:
        a, b = env[op.a], env[op.b]
        sizes = dict(zip((*op.left, *op.right), (*a.shape, *b.shape), strict=True))
        names = (*op.out, *[k for k in sizes if k not in op.out])
        dtype = dtype_of(op.a)
        wide = "f32" if dtype in HALF else dtype
        out = full(tuple([sizes[k] for k in op.out]), identity("sum", wide))
        for point in product(*[range(sizes[k]) for k in names]):
            at = dict(zip(names, point, strict=True))
            left = cast(a[tuple([at[k] for k in op.left])], dtype, wide)
            right = cast(b[tuple([at[k] for k in op.right])], dtype, wide)
            place = point[: len(op.out)]
            out[place] = apply("add", (out[place], apply("mul", (left, right), wide)), wide)
        to = wide if op.wide else dtype
        return [each(lambda x: cast(x, wide, to), out) if op.out else cast(out[()], wide, to)]

    def _library(self, op: anf.LinalgOp, let: Let, env: Env) -> list[Any]:
        plain = self._plain(op.args, env)
        values = [inside(v, like(v)) for v in libraries.perform(op.name, plain)]
        args = [self._atom(a, env) for a in op.args]
        if not LIBRARY[op.name].carries or not any(isinstance(x, Traced) for a in args for x in scalars(a)):
            return values
        if LIBRARY[op.name].informs and int(values[-1]):
            return values  # which are NaN; the program refuses them
        return OPERATIONS[op.name](args, values)

    # ---- comprehensions ----------------------------------------------------------------------------------------------
    def _comp(self, op: anf.Comp, let: Let, env: Env) -> list[Any]:
        sums = [_Sum(d, dtype_of(value), d.shape, self, env) for d, value in zip(op.destinations, op.body.results)]
        for total in sums:
            if isinstance(total.destination, anf.Reduce) and total.destination.after is not None:
                total.data = sums[total.destination.after].data
        for rank in self._points(op.axes, env, ()):
            for total, value in zip(sums, self._block(op.body, env), strict=True):
                total.take(self._index(total.destination.index, total.data.shape, env), value, rank)
        return [total.result() for total in sums]

    def _points(self, axes: Sequence[anf.Axis], env: Env, before: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Binds the axes to each point in turn; gives how far each is from its low end."""
        if not axes:
            yield before
            return
        low = max(self._sizes(axes[0].lows, env))
        for i in range(low, min(self._sizes(axes[0].highs, env))):
            env[axes[0].var] = np.int64(i)
            yield from self._points(axes[1:], env, (*before, i - low))

    # ---- control -----------------------------------------------------------------------------------------------------
    def _if(self, op: anf.If, let: Let, env: Env) -> list[Any]:
        return self._block(op.then if self._atom(op.condition, env) else op.otherwise, env)

    def _for(self, op: anf.For, let: Let, env: Env) -> list[Any]:
        state = [self._atom(a, env) for a in op.init]
        for i in range(*self._sizes((op.low, op.high), env)):
            env[op.index] = np.int64(i)
            env.update(zip(op.params, state, strict=True))
            state = self._block(op.body, env)
            if op.early and not state.pop(0):
                break
        return state

    def _while(self, op: anf.While, let: Let, env: Env) -> list[Any]:
        state = [self._atom(a, env) for a in op.init]
        while True:
            env.update(zip(op.params, state, strict=True))
            if not self._block(op.condition, env)[0]:
                return state
            state = self._block(op.body, env)
            if op.early and not state.pop(0):
                return state

    def _call(self, op: anf.Call, let: Let, env: Env) -> list[Any]:
        return self._called(self.program.functions[op.function], [self._atom(a, env) for a in op.args])

    def _called(self, function: Function, args: Sequence[Any]) -> list[Any]:
        return self._block(function.body, dict(zip(function.params, args, strict=True)))

    # ---- outside -----------------------------------------------------------------------------------------------------
    def _foreign(self, op: anf.Foreign, let: Let, env: Env) -> list[Any]:
        return self._outside(op.target, op.args, let, let.vars, env)

    def _outside(self, target: str, atoms: Sequence[Atom], let: Let, vars: Sequence[Var], env: Env) -> list[Any]:
        if any(isinstance(x, Traced) for a in atoms for x in scalars(self._atom(a, env))):
            raise NoDerivative(f"the foreign function `{target}`")
        results = call_outside(self.program, target, self._plain(atoms, env), atoms, vars, env, let.span)
        return [inside(r, v.type) for r, v in zip(results, vars, strict=True)]

    def _effect(self, op: anf.Effect, let: Let, env: Env) -> list[Any]:
        if op.name == "foreign":
            return [None, *self._outside(op.static[0], op.args, let, let.vars[1:], env)]
        args = self._plain(op.args, env)
        if op.name == "print":
            self.host.print(args[0])
            return [None]
        results = self.host.effect(op.name, op.static, args)
        return [None, *(inside(accept(r, v.type), v.type) for r, v in zip(results, let.vars[1:], strict=True))]

    # ---- derivatives -------------------------------------------------------------------------------------------------
    def _jvp(self, op: anf.Jvp, let: Let, env: Env) -> list[Any]:
        tag = next(self._tags)
        given = zip(op.args, op.tangents, strict=True)
        args = [
            self._atom(a, env)
            if t is None
            else joined(lambda x, dx: Dual(tag, x, widened(dx)), self._atom(a, env), self._atom(t, env))
            for a, t in given
        ]
        results = self._called(self.program.functions[op.function], args)
        values = [mapped(lambda x: below(x, tag), r) for r in results]
        tangents = [
            mapped(lambda x: tangent(x, tag), r) for r, v in zip(results, let.vars, strict=False) if carries(v.type)
        ]
        return [*values, *tangents]

    def _recorded(self, function: str, args: Sequence[Atom], wrt: Sequence[int], env: Env) -> Recording:
        tape = Tape(next(self._tags), [])
        values = [self._atom(a, env) for a in args]
        for k in wrt:
            values[k] = mapped(lambda x: tape.record(x, []) if is_float(x) else x, values[k])
        results = self._called(self.program.functions[function], values)
        return Recording(tape, tuple([values[k] for k in wrt]), tuple(results))

    def _record(self, op: anf.VjpForward, let: Let, env: Env) -> list[Any]:
        recording = self._recorded(op.function, op.args, op.wrt, env)
        tag = recording.tape.tag
        return [*[mapped(lambda x: below(x, tag), r) for r in recording.results], recording]

    def _pull(self, op: anf.VjpBackward, let: Let, env: Env) -> list[Any]:
        recording = self._atom(op.tape, env)
        assert isinstance(recording, Recording)
        return self._pulled(recording, op.cotangents, env)

    def _vjp(self, op: anf.Vjp, let: Let, env: Env) -> list[Any]:
        recording = self._recorded(op.function, op.args, op.wrt, env)
        tag = recording.tape.tag
        values = [mapped(lambda x: below(x, tag), r) for r in recording.results]
        return [*values, *self._pulled(recording, op.cotangents, env)]

    def _pulled(self, recording: Recording, cotangents: Sequence[Atom | None], env: Env) -> list[Any]:
        seeds: list[tuple[Any, Any]] = []
        for result, atom in zip(recording.results, cotangents, strict=True):
            if atom is not None:
                joined(lambda x, g: seeds.append((x, widened(g))), result, self._atom(atom, env))
        bars = recording.tape.cotangents(seeds)
        tag = recording.tape.tag

        def bar(x: Any) -> Any:
            if not isinstance(x, Recorded) or x.tag != tag:
                return x
            return rounded(bars.get(x.place, ZERO), primal(x))

        return [mapped(bar, a) for a in recording.args]


# ---- values ----------------------------------------------------------------------------------------------------------
class _Sum:
    """A destination of a comprehension, as its points arrive one by one."""

    def __init__(
        self, destination: anf.Destination, dtype: str, shape: Sequence[anf.Size], at: Pointwise, env: Env
    ) -> None:
        self.destination = destination
        self.monoid = destination.monoid if isinstance(destination, anf.Reduce) else "sum"
        self.dtype = dtype
        self.wide = "f32" if dtype in HALF and self.monoid in ROUNDED else dtype
        self.best: dict[tuple[int, ...], Any] = {}
        self.first: dict[tuple[int, ...], int] = {}
        if destination.into is not None:
            self.data = each(lambda x: cast(x, dtype, self.wide), env[destination.into])
        else:
            kind = result_dtype(self.monoid, self.wide)
            start = identity(self.monoid, kind)
            sizes = tuple([int(extent_of(s, env)) for s in shape])
            self.data = full(sizes, start if kind == "str" or is_handle(kind) else numpy_dtype(kind)(start))

    def take(self, at: tuple[int, ...], value: Any, rank: tuple[int, ...]) -> None:
        match self.monoid:
            case "set":
                self.data[at] = value
            case monoid if monoid in STAYS:
                position = self.first[at] = self.first.get(at, -1) + 1  # points arrive in row-major order
                new, old = primal(value), self.best.get(at)
                better = old is None or (new > old if EXTREMA[monoid] == "max" else new < old)
                if better or (new != new and old == old):
                    self.best[at] = new
                    self.data[at] = np.int64(position)
            case monoid if monoid in EXTREMA:
                new, old = primal(value), primal(self.data[at])
                first = self.destination.into is None and at not in self.first
                better = new > old if EXTREMA[monoid] == "max" else new < old
                if first or better or (new != new and old == old):
                    self.data[at] = value
                self.first[at] = 0
            case _:
                value = cast(value, self.dtype, self.wide) if self.wide != self.dtype else value
                self.data[at] = apply(COMBINE[self.monoid], (self.data[at], value), self.wide)

    def result(self) -> Any:
        if self.wide != self.dtype:
            self.data = each(lambda x: cast(x, self.wide, self.dtype), self.data)
        return self.data if self.data.shape else self.data[()]


_OPS: dict[type, Callable[..., list[Any]]] = {
    anf.Prim: Pointwise._prim,
    anf.Cast: Pointwise._cast,
    anf.IndexExpr: Pointwise._size_of,
    anf.Format: Pointwise._format,
    anf.StopGradient: Pointwise._stop,
    anf.Assert: Pointwise._check,
    anf.Construct: Pointwise._construct,
    anf.Tag: Pointwise._tag,
    anf.Fields: Pointwise._fields,
    anf.Read: Pointwise._read,
    anf.Update: Pointwise._update,
    anf.Copy: Pointwise._copy,
    anf.Empty: Pointwise._empty,
    anf.View: Pointwise._view,
    anf.Reshape: Pointwise._reshape,
    anf.Concat: Pointwise._concat,
    anf.Compact: Pointwise._compact,
    anf.Scan: Pointwise._scan,
    anf.Contract: Pointwise._contract,
    anf.LinalgOp: Pointwise._library,
    anf.Comp: Pointwise._comp,
    anf.If: Pointwise._if,
    anf.For: Pointwise._for,
    anf.While: Pointwise._while,
    anf.Call: Pointwise._call,
    anf.Foreign: Pointwise._foreign,
    anf.Effect: Pointwise._effect,
    anf.Jvp: Pointwise._jvp,
    anf.Vjp: Pointwise._vjp,
    anf.VjpForward: Pointwise._record,
    anf.VjpBackward: Pointwise._pull,
}
