"""The algebra of scalars that an interpreter computes with: what primitives, reductions and libraries make of values.

Control, arrays and checks mean the same in any algebra. In this one scalars are those of NumPy; in that of
`derivatives.py` a float may carry derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dlang.host import lapack
from dlang.ir import anf
from dlang.ir.anf import HALF, Let
from dlang.ir.errors import IRError
from dlang.ir.values import FUNCTIONS, Function, NDArray, convert, exact, numpy_dtype
from dlang.ops import monoids

if TYPE_CHECKING:
    from dlang.interpret.code import Frame
    from dlang.interpret.interpreter import Interpreter


UFUNCS: dict[str, Any] = {name: getattr(np, ufunc) for name, ufunc in monoids.UFUNCS.items()}


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive whose result has a dtype. kind: the class of exact results, if there is one."""

    name: str
    dtype: str
    function: Function
    kind: type | None


def primitive_of(name: str, dtype: str) -> Primitive:
    return Primitive(name, dtype, FUNCTIONS[name], None if dtype == "bf16" else numpy_dtype(dtype))


class Algebra:
    """Computes with the scalars of NumPy, each the same at all points or an array with one for each, and with arrays.

    Another algebra overrides what it computes otherwise. most: how many points are evaluated at once.
    """

    most: ClassVar[int] = 1 << 20

    def primitive(self, p: Primitive, args: Sequence[Any]) -> Any:
        """A primitive of scalars."""
        result = p.function(*args)
        return result if type(result) is p.kind else exact(result, p.dtype)

    def convert(self, x: Any, source: str, target: str) -> Any:
        """Scalars, or an array, in another dtype."""
        return convert(x, source, target)

    def plain(self, value: Any, dtype: str) -> Any:
        """A value, or many, without what this algebra adds to NumPy's: for the world outside."""
        return value

    def stopped(self, value: Any, dtype: str) -> Any:
        """The same where the program stops derivatives."""
        return self.plain(value, dtype)

    def outgoing(self, value: Any, dtype: str, target: str) -> Any:
        """The same for a function outside."""
        return value

    def combined(self, monoid: str, x: Any, y: Any, dtype: str) -> NDArray:
        """The elements of two arrays combined, one by one."""
        out: NDArray = UFUNCS[monoid](x, y)
        return out

    def reduced(self, monoid: str, box: NDArray, axes: tuple[int, ...], dtype: str) -> NDArray:
        """The values of a box combined over some axes."""
        if monoid in monoids.RUNNING:  # of which NumPy would widen integers
            out: NDArray = UFUNCS[monoid].reduce(box, axis=axes, dtype=box.dtype)
        elif monoid in monoids.STAYS:
            last = np.moveaxis(box, axes, range(-len(axes), 0))
            flat = last.reshape(*last.shape[: -len(axes)], -1)
            out = (np.argmax if monoids.EXTREMA[monoid] == "max" else np.argmin)(flat, axis=-1)
        else:
            out = UFUNCS[monoid].reduce(box, axis=axes)
        return out

    def grouped(self, monoid: str, values: NDArray, starts: NDArray, dtype: str) -> NDArray:
        """The values of each group, which begins at a start, combined."""
        out: NDArray = UFUNCS[monoid].reduceat(values, starts, dtype=values.dtype)
        return out

    def running(self, monoid: str, array: NDArray, dtype: str) -> NDArray:
        """Running sums or products."""
        totals = UFUNCS[monoid].accumulate(array, dtype=np.float32 if dtype in HALF else array.dtype)
        out: NDArray = exact(totals, dtype)
        return out

    def contracted(self, op: anf.Contract, a: NDArray, b: NDArray, dtype: str) -> Any:
        """The sum of products that an operation says."""
        if a.dtype == np.float16:
            a, b = a.astype(np.float32), b.astype(np.float32)
        out = np.einsum(a, list(op.left), b, list(op.right), list(op.out), optimize=True)
        return exact(np.ascontiguousarray(out) if op.out else out, dtype)

    def library(self, name: str, args: Sequence[Any], dtypes: Sequence[str]) -> list[Any]:
        """The results of a library operation."""
        return lapack.perform(name, args)

    def derivative(self, run: Interpreter, op: anf.Derivative, let: Let, frame: Frame) -> list[Any]:
        """The results of a derivative of a function of the program, at one point."""
        raise IRError(f"{type(op).__name__} of {op.function} reached the interpreter before it was expanded")
