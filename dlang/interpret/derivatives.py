"""The algebra of scalars that carry derivatives, the reference for these: slow and obvious.

    value, slope = Interpreter(program, host, Differentiable()).run("f_and_its_gradient", [x])

`Vjp`, `Jvp`, `VjpForward` and `VjpBackward` run the function on traced arguments: `ad/` has no part in it. Rules of a
function are not used, its body is differentiated, so this tests rules too. Foreign functions and effects can't be
passed by a derivative.

A float without derivatives is a NumPy scalar, and an array of such is NumPy's: what has no derivatives is computed as
the interpreter computes it. Floats with derivatives are objects (`traced.py`), in arrays of objects, and are computed
one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dlang.interpret.algebra import Algebra, Primitive
from dlang.interpret.traced import (
    OPERATIONS,
    ZERO,
    Dual,
    NoDerivative,
    Recorded,
    Recording,
    Tape,
    Traced,
    apply,
    below,
    cast,
    is_float,
    primal,
    rounded,
    tangent,
    widened,
)
from dlang.ir import anf
from dlang.ir.anf import FLOATS, HALF, Atom, Let, is_handle
from dlang.ir.crossing import Node
from dlang.ir.types import carries, dtype_of
from dlang.ir.values import NDArray, Version, numpy_dtype, release, value_of
from dlang.ops.linear_algebra import OPERATIONS as LIBRARY
from dlang.ops.monoids import CHOOSING, COMBINE, EXTREMA

if TYPE_CHECKING:
    from dlang.interpret.code import Frame
    from dlang.interpret.interpreter import Interpreter


@dataclass
class Differentiable(Algebra):
    """The algebra of one interpreter, in which each derivative under way has a tag of its own.

    stops: whether `stop_gradient` stops derivatives. Without it they are those of the value alone.
    """

    most: ClassVar[int] = 1 << 13  # each takes as long as many of NumPy's
    stops: bool = True
    tags: Iterator[int] = field(default_factory=lambda: count(1))

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def primitive(self, p: Primitive, args: Sequence[Any]) -> Any:
        if not any(map(is_traced, args)):
            return super().primitive(p, args)
        lengths = [len(a) for a in args if isinstance(a, np.ndarray)]
        if not lengths:
            return apply(p.name, args, p.dtype)
        columns = [a if isinstance(a, np.ndarray) else [a] * lengths[0] for a in args]
        return array([apply(p.name, xs, p.dtype) for xs in zip(*columns, strict=True)], (lengths[0],), p.dtype)

    def convert(self, x: Any, source: str, target: str) -> Any:
        if not is_traced(x):
            return super().convert(x, source, target)
        if isinstance(x, np.ndarray):
            return array([cast(each, source, target) for each in x.reshape(-1)], x.shape, target)
        return cast(x, source, target)

    def plain(self, value: Any, dtype: str) -> Any:
        value = release(value)
        if dtype in FLOATS and isinstance(value, np.ndarray):
            return array(list(map(primal, value.reshape(-1))), value.shape, dtype) if is_traced(value) else value
        return mapped(primal, value) if dtype in FLOATS or is_handle(dtype) else value

    def stopped(self, value: Any, dtype: str) -> Any:
        return self.plain(value, dtype) if self.stops else value

    def outgoing(self, value: Any, dtype: str, target: str) -> Any:
        if any(isinstance(x, Traced) for x in scalars(value)):
            raise NoDerivative(f"the foreign function `{target}`")
        return self.plain(value, dtype)

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def combined(self, monoid: str, x: Any, y: Any, dtype: str) -> NDArray:
        if dtype not in FLOATS or not (is_traced(x) or is_traced(y)):
            return super().combined(monoid, x, y, dtype)
        return array([_both(monoid, a, b, dtype) for a, b in zip(x, y, strict=True)], x.shape, dtype)

    def reduced(self, monoid: str, box: NDArray, axes: tuple[int, ...], dtype: str) -> NDArray:
        if dtype not in FLOATS or not is_traced(box):
            return super().reduced(monoid, box, axes, dtype)
        last = np.moveaxis(box, axes, range(-len(axes), 0))
        shape = last.shape[: -len(axes)]
        rows = last.reshape(int(np.prod(shape)), -1)
        return array([_all(monoid, row, dtype) for row in rows], shape, dtype)

    def grouped(self, monoid: str, values: NDArray, starts: NDArray, dtype: str) -> NDArray:
        if dtype not in FLOATS or not is_traced(values):
            return super().grouped(monoid, values, starts, dtype)
        return array([_all(monoid, group, dtype) for group in np.split(values, starts[1:])], starts.shape, dtype)

    def running(self, monoid: str, values: NDArray, dtype: str) -> NDArray:
        if not is_traced(values):
            return super().running(monoid, values, dtype)
        wide = "f32" if dtype in HALF else dtype
        totals: list[Any] = []
        for each in values:
            x = cast(each, dtype, wide)
            totals.append(_both(monoid, totals[-1], x, wide) if totals else x)
        return array([cast(x, wide, dtype) for x in totals], values.shape, dtype)

    def contracted(self, op: anf.Contract, a: NDArray, b: NDArray, dtype: str) -> Any:
        if not (is_traced(a) or is_traced(b)):
            return super().contracted(op, a, b, dtype)
        sizes = dict(zip((*op.left, *op.right), (*a.shape, *b.shape), strict=True))
        summed = [k for k in sizes if k not in op.out]
        source = dtype_of(op.a)
        wide = "f32" if source in HALF else source
        elements = []
        for kept in product(*[range(sizes[k]) for k in op.out]):
            total: Any = numpy_dtype(wide)(0)
            for point in product(*[range(sizes[k]) for k in summed]):
                at = dict(zip((*op.out, *summed), (*kept, *point), strict=True))
                left = cast(a[tuple([at[k] for k in op.left])], source, wide)
                right = cast(b[tuple([at[k] for k in op.right])], source, wide)
                total = apply("add", (total, apply("mul", (left, right), wide)), wide)
            elements.append(cast(total, wide, dtype))
        return array(elements, tuple([sizes[k] for k in op.out]), dtype) if op.out else elements[0]

    def library(self, name: str, args: Sequence[Any], dtypes: Sequence[str]) -> list[Any]:
        values = super().library(name, [self.plain(a, d) for a, d in zip(args, dtypes, strict=True)], dtypes)
        if not LIBRARY[name].carries or not any(isinstance(x, Traced) for a in args for x in scalars(a)):
            return values
        if LIBRARY[name].informs and int(values[-1]):
            return values  # which are NaN; the program refuses them
        return OPERATIONS[name](list(args), values)

    # ---- derivatives -------------------------------------------------------------------------------------------------
    def derivative(self, run: Interpreter, op: anf.Derivative, let: Let, frame: Frame) -> list[Any]:
        match op:
            case anf.Jvp():
                return self._jvp(run, op, let, frame)
            case anf.Vjp():
                recording = self._recorded(run, op, let, frame)
                return [*_results(recording), *_pulled(recording, op.cotangents, frame)]
            case anf.VjpForward():
                recording = self._recorded(run, op, let, frame)
                return [*_results(recording), recording]
            case anf.VjpBackward():
                recording = value_of(op.tape, frame.env)
                assert isinstance(recording, Recording)
                return _pulled(recording, op.cotangents, frame)

    def _jvp(self, run: Interpreter, op: anf.Jvp, let: Let, frame: Frame) -> list[Any]:
        tag = next(self.tags)

        def dual(x: Any, dx: Any) -> Any:
            return Dual(tag, x, widened(dx)) if is_float(x) else x

        args = [release(value_of(a, frame.env)) for a in op.args]
        given = [None if t is None else release(value_of(t, frame.env)) for t in op.tangents]
        args = [x if dx is None else joined(dual, x, dx) for x, dx in zip(args, given, strict=True)]
        results = run.called(op.function, args, let, None)
        values = [mapped(lambda x: below(x, tag), r) for r in results]
        tangents = [
            mapped(lambda x: tangent(x, tag), r) for r, v in zip(results, let.vars, strict=False) if carries(v.type)
        ]
        return [*values, *tangents]

    def _recorded(self, run: Interpreter, op: anf.Vjp | anf.VjpForward, let: Let, frame: Frame) -> Recording:
        tape = Tape(next(self.tags), [])
        values = [release(value_of(a, frame.env)) for a in op.args]
        for k in op.wrt:
            values[k] = mapped(lambda x: tape.record(x, []) if is_float(x) else x, values[k])
        results = run.called(op.function, values, let, None)
        return Recording(tape, tuple([values[k] for k in op.wrt]), tuple(results))


def _results(recording: Recording) -> list[Any]:
    return [mapped(lambda x: below(x, recording.tape.tag), r) for r in recording.results]


def _pulled(recording: Recording, cotangents: Sequence[Atom | None], frame: Frame) -> list[Any]:
    """The cotangents of the arguments, from those of the results."""
    seeds: list[tuple[Any, Any]] = []

    def seed(x: Any, bar: Any) -> Any:
        if is_float(x):
            seeds.append((x, widened(bar)))
        return x

    for result, atom in zip(recording.results, cotangents, strict=True):
        if atom is not None:
            joined(seed, result, release(value_of(atom, frame.env)))
    bars = recording.tape.cotangents(seeds)
    tag = recording.tape.tag

    def bar(x: Any) -> Any:
        if not isinstance(x, Recorded) or x.tag != tag:
            return x
        return rounded(bars.get(x.place, ZERO), primal(x))

    return [mapped(bar, a) for a in recording.args]


# ---- reductions ------------------------------------------------------------------------------------------------------
def _both(monoid: str, x: Any, y: Any, dtype: str) -> Any:
    """Two values combined. The derivative of an extremum is that of the first."""
    if monoid not in CHOOSING:
        return apply(COMBINE[monoid], (x, y), dtype)
    old, new = primal(x), primal(y)
    better = new > old if EXTREMA[monoid] == "max" else new < old
    return y if better or (new != new and old == old) else x


def _all(monoid: str, values: NDArray, dtype: str) -> Any:
    first, *others = values
    for x in others:
        first = _both(monoid, first, x, dtype)
    return first


# ---- values ----------------------------------------------------------------------------------------------------------
def is_traced(x: Any) -> bool:
    """Tells whether a scalar, or any of many, may have derivatives: then it is an object, or in an array of these."""
    return x.dtype == object if isinstance(x, np.ndarray) else isinstance(x, Traced)


def array(items: list[Any], shape: tuple[int, ...], dtype: str) -> NDArray:
    """Scalars as an array: of objects if one of them has derivatives."""
    out = np.empty(len(items), object if any(isinstance(x, Traced) for x in items) else numpy_dtype(dtype))
    out[:] = items
    return out.reshape(shape)


def scalars(value: Any) -> Iterator[Any]:
    """The scalars of a value that may have derivatives, those in nodes included."""
    if isinstance(value, np.ndarray):
        for x in value.reshape(-1) if value.dtype == object else ():
            yield from scalars(x)
    elif isinstance(value, Node):
        for x in value.fields:
            yield from scalars(x)
    else:
        yield value


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A value of the same structure of other floats."""
    return joined(lambda x, _: function(x), value, value)


def joined(function: Callable[[Any, Any], Any], value: Any, other: Any) -> Any:
    """The same of the floats of two values, such as one and its tangent."""
    if type(value) is Version:
        value, other = value.read(), release(other)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biu" or not value.size:
            return value
        pairs = zip(value.reshape(-1), other.reshape(-1), strict=True)
        items = [joined(function, x, y) for x, y in pairs]
        out = np.empty(value.size, object)
        out[:] = items
        kinds = {type(x) for x in items}
        kind = kinds.pop() if len(kinds) == 1 else object
        return (out.astype(kind) if issubclass(kind, np.generic) else out).reshape(value.shape)
    if isinstance(value, Node):
        pairs = zip(value.fields, other.fields, strict=True)
        return Node(value.tag, tuple([joined(function, x, y) for x, y in pairs]))
    return function(value, other)
