"""Values of the reference interpreter, and scalar functions on them.

A value that is the same at all points under evaluation is a NumPy scalar, a Python `str`, or an array (an `ndarray` or
a `Version`). One that differs is, for a scalar, an `ndarray` with one element for each point, or else `Rows`, with an
array for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from dlang.inequalities import SUM
from dlang.ir.errors import IRError
from dlang.ir.terms import FLOATS, INTEGERS, Array, Atom, Lit, Scalar, Size, Token, Type, Var, is_handle
from dlang.ops import special
from dlang.ops.dtypes import DTYPES, TRUNCATED
from dlang.ops.primitives import PRIMITIVES
from dlang.ops.special import threefry

NDArray = np.ndarray[Any, Any]

# A float that NumPy does not have is kept in f32, rounded after every operation; a string is a Python object.
NUMPY: dict[str, Any] = {d.name: np.dtype(d.numpy).type if d.kind != "text" else object for d in DTYPES.values()}


def numpy_dtype(dtype: str) -> Any:
    """The dtype of NumPy in which values are kept; a node of a datatype is a Python object."""
    return NUMPY.get(dtype, object)


def never_written(dtype: str, shape: Sequence[int]) -> NDArray:
    """Room for numbers; what is read before it was written is NaN, or out of range as an index."""
    kind = numpy_dtype(dtype)
    if dtype in FLOATS:
        return np.full(shape, np.nan, kind)
    return np.full(shape, False if dtype == "bool" else np.iinfo(kind).max, kind)


# ---- representations -------------------------------------------------------------------------------------------------
@dataclass(slots=True, eq=False)
class Rows:
    """An array for each point: that of point p starts at data[base[p]], row-major in its own shape."""

    data: NDArray
    base: NDArray
    shape: tuple[int | NDArray, ...]


class Version:
    """One version of an array that is updated in place: an older version remembers what the newer one overwrote.

    So an update costs its own size, whatever still holds the old value (Baker's shallow binding).
    """

    __slots__ = ("data", "newer", "old", "slots")

    def __init__(self, data: NDArray) -> None:
        self.data: NDArray | None = data
        self.newer: Version | None = None
        self.slots: Any = None
        self.old: Any = None

    def read(self) -> NDArray:
        """The elements, to be used before the next update."""
        if self.data is not None:
            return self.data
        path: list[Version] = []
        version: Version | None = self
        while version is not None and version.data is None:
            path.append(version)
            version = version.newer
        assert version is not None
        for older in reversed(path):  # turn the links around, nearest to the data first
            data = version.data
            assert data is not None
            flat = data.reshape(-1)
            version.slots, version.old, version.newer = older.slots, _copied(flat[older.slots]), older
            flat[older.slots] = older.old
            older.data, version.data = data, None
            older.newer = older.slots = older.old = None
            version = older
        assert self.data is not None
        return self.data

    def updated(self, slots: Any, values: Any) -> Version:
        """The version with elements at flat positions replaced."""
        data = self.read()
        flat = data.reshape(-1)
        old = _copied(flat[slots])
        new = Version(put(flat, slots, values).reshape(data.shape))
        self.slots, self.old, self.newer, self.data = slots, old, new, None
        return new


def _copied(part: Any) -> Any:
    """Copies an element of an array of objects if it is an array itself."""
    return part.copy() if isinstance(part, np.ndarray) else part


def select(var: Var, value: Any, lanes: Any) -> Any:
    """The value of a variable at some of the points: `lanes` indexes them."""
    if type(value) is np.ndarray and type(var.type) is Scalar:
        return value[lanes]
    if type(value) is Rows:
        shape = tuple([s if isinstance(s, int) else s[lanes] for s in value.shape])
        return Rows(value.data, value.base[lanes], shape)
    return value


def at(atom: Atom, value: Any, lane: int) -> Any:
    """The value of an atom at one point."""
    if type(value) is np.ndarray and type(atom.type) is Scalar:
        return value[lane]
    if type(value) is Rows:
        shape = tuple([s if isinstance(s, int) else int(s[lane]) for s in value.shape])
        start = int(value.base[lane])
        return value.data[start : start + count_of(shape)].reshape(shape)
    return value


def array_of(value: Any) -> NDArray:
    """The elements of an array that is the same at all points."""
    return value.read() if type(value) is Version else value


def lanes_of(value: Any, n: int, dtype: str) -> NDArray:
    """A scalar's values at n points."""
    if type(value) is np.ndarray:
        return value
    out = np.empty(n, numpy_dtype(dtype) if isinstance(value, np.generic) else object)
    out.fill(value)
    return out


def boxed(values: NDArray) -> NDArray:
    """Scalars as an array of objects, each the scalar of NumPy that it is."""
    out = np.empty(values.size, object)
    out[:] = list(values.reshape(-1))
    return out.reshape(values.shape)


def put(data: NDArray, slots: Any, values: Any) -> NDArray:
    """Stores values in an array, or in one of objects in its place, if they are objects: scalars with derivatives."""
    if isinstance(values, np.ndarray):
        if values.dtype is not data.dtype and (values.dtype == object or data.dtype == object):
            values, data = _alike(values), _alike(data)
    elif not isinstance(values, np.generic):
        data = _alike(data)
    data[slots] = values
    return data


def _alike(data: NDArray) -> NDArray:
    return data if data.dtype == object else boxed(data)


def concatenated(arrays: Sequence[NDArray]) -> NDArray:
    """Arrays one after another; an array of objects if one of them is."""
    if any(a.dtype == object for a in arrays):
        arrays = [_alike(a) for a in arrays]
    return np.concatenate(arrays)


def rows_of(value: Any, n: int) -> Rows:
    """An array's values at n points."""
    if type(value) is Rows:
        return value
    array = release(value)  # a later update must not show
    return Rows(array.reshape(-1), np.zeros(n, np.int64), array.shape)


def merge_lanes(pieces: Sequence[tuple[NDArray, Any]], n: int, dtype: str) -> NDArray:
    """A scalar at n points from its values at disjoint sets of points."""
    out = np.empty(n, numpy_dtype(dtype))
    for lanes, value in pieces:
        out = put(out, lanes, value)
    return out


def lanes_from(values: Sequence[Any], dtype: str) -> NDArray:
    """A scalar at each point from its values there."""
    out = np.empty(len(values), numpy_dtype(dtype) if all(isinstance(v, np.generic) for v in values) else object)
    for k, value in enumerate(values):
        out[k] = value
    return out


def merge_rows(pieces: Sequence[tuple[NDArray, Any]], n: int, rank: int) -> Rows:
    """An array at n points from its values at disjoint sets of points."""
    base = np.zeros(n, np.int64)
    shape = [np.zeros(n, np.int64) for _ in range(rank)]
    data: list[NDArray] = []
    start = 0
    for lanes, value in pieces:
        rows = rows_of(value, len(lanes))
        base[lanes] = rows.base + start
        for axis, sizes in zip(shape, rows.shape, strict=True):
            axis[lanes] = sizes
        data.append(rows.data)
        start += len(rows.data)
    return Rows(concatenated(data), base, tuple([_uniform(s) for s in shape]))


def merged(pieces: Sequence[tuple[NDArray, Any]], n: int, type: Type) -> Any:
    """A value of a type at n points from its values at disjoint sets of points."""
    match type:
        case Token():
            return None
        case Array(_, shape):
            return merge_rows(pieces, n, len(shape))
        case Scalar(dtype):
            return merge_lanes(pieces, n, dtype)


def _uniform(sizes: NDArray) -> int | NDArray:
    return int(sizes[0]) if len(sizes) and (sizes == sizes[0]).all() else sizes


def count_of(shape: Sequence[int]) -> int:
    """The number of elements of a shape. Raises MemoryError where NumPy could not count them."""
    total, most = 1, 1
    for size in shape:
        total *= size
        most *= max(size, 1)
    if most >= 2**60:
        raise MemoryError
    return total


def size_of(size: Size, env: Mapping[Var, Any]) -> Any:
    """The value of a polynomial: an int, or an array of one for each point."""
    if len(size.terms) == 1:  # nearly always a variable or a number
        ((monomial, coefficient),) = size.terms.items()
        if len(monomial) < 2 and type(coefficient) is int:
            if not monomial:
                return coefficient
            value = env[monomial[0]]
            one = value if type(value) is np.ndarray else int(value)
            return one if coefficient == 1 else coefficient * one
    scale = 1
    for c in size.terms.values():
        if type(c) is not int:
            scale = lcm(scale, c.denominator)
    total: Any = 0
    for monomial, coefficient in size.terms.items():
        term: Any = coefficient if scale == 1 else int(coefficient * scale)
        for var in monomial:
            value = env[var]
            term = term * (value if type(value) is np.ndarray else int(value))
        total = total + term
    return total if scale == 1 else total // scale


Entry = int | Var | Size  # of an index, as `entry_of` prepares it


def entry_of(size: Size) -> Entry:
    """A polynomial as it is evaluated most quickly, by `position`."""
    constant = size.constant
    if type(constant) is int:
        return constant
    return size if size.atom is None else size.atom


def position(entry: Entry, env: Mapping[Var, Any]) -> Any:
    """The value of an entry, as of a polynomial."""
    if isinstance(entry, int):
        return entry
    if isinstance(entry, Var):
        value = env[entry]
        return value if type(value) is np.ndarray else int(value)
    return size_of(entry, env)


def extent_of(size: Size, env: Mapping[Var, Any]) -> Any:
    """How long an axis is, an int or an array: where its size is negative it has no elements, and a check follows."""
    value = size_of(size, env)
    return max(value, 0) if type(value) is int else np.maximum(value, 0)


def bound_of(size: Size, env: Mapping[Var, Any]) -> Any:
    """The end of a range. Raises MemoryError where it is computed and would be no i64."""
    end = size_of(size, env)
    if size.atom is None and abs(end) >= SUM:
        raise MemoryError
    return end


def flat_index(shape: Sequence[Any], index: Sequence[Any]) -> Any:
    """The row-major position of an index, for numbers or arrays of them; an error if it is out of range."""
    position: Any = 0
    for size, i in zip(shape, index, strict=True):
        if type(size) is not int:
            wrong = bool(np.any((i < 0) | (i >= size)))
        elif type(i) is int:
            wrong = not 0 <= i < size
        else:
            wrong = i.size > 0 and (i.min() < 0 or i.max() >= size)
        if wrong:
            raise IRError(f"index {_offender(i, size)} is out of range for an axis of size {size}")
        position = position * size + i
    return position


def _offender(i: Any, size: Any) -> Any:
    wrong = np.flatnonzero(np.atleast_1d((i < 0) | (i >= size)))
    return np.atleast_1d(np.broadcast_to(i, np.shape(i) or (1,)))[wrong[0] if np.ndim(i) else 0]


# ---- scalars ---------------------------------------------------------------------------------------------------------
def value_of(atom: Atom, env: Mapping[Var, Any]) -> Any:
    """The value of a variable or a literal."""
    return env[atom] if isinstance(atom, Var) else literal(atom)


def literal(lit: Lit) -> Any:
    """The value of a literal."""
    if lit.dtype == "str":
        return lit.value
    if is_handle(lit.dtype):
        return None
    if lit.dtype in INTEGERS:
        return np.int64(int(lit.value)) if lit.dtype == "i64" else wrap_int(int(lit.value), lit.dtype)
    return exact(NUMPY[lit.dtype](lit.value), lit.dtype)


def wrap_int(value: int, dtype: str) -> Any:
    """An integer modulo the range of a dtype."""
    return np.array(value & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).astype(NUMPY[dtype])[()]


def exact(result: Any, dtype: str) -> Any:
    """A result of NumPy as a value of a dtype: an array of points, or a scalar."""
    kind = numpy_dtype(dtype)
    if type(result) is kind:  # a scalar
        return to_bf16(result) if dtype in TRUNCATED else result
    if isinstance(result, np.ndarray) and result.ndim:
        result = result if result.dtype == kind else result.astype(kind)
        return to_bf16(result) if dtype in TRUNCATED else result
    if kind is object:
        return result.item() if isinstance(result, np.ndarray | np.generic) else result
    result = np.asarray(result).astype(kind)[()]
    return to_bf16(result) if dtype in TRUNCATED else result


def to_bf16(x: Any) -> Any:
    """Rounded to the nearest bf16, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(x), np.asarray(x, np.float32), rounded)[()]


_NAMES = {"np": np, "special": special, "threefry": threefry}
Function = Callable[..., Any]  # of scalars, or of arrays with one for each point
FUNCTIONS: dict[str, Function] = {
    name: eval(f"lambda x, y=None, z=None, w=None: {p.numpy}", _NAMES) for name, p in PRIMITIVES.items()
}


def convert(x: Any, source: str, target: str) -> Any:
    """Conversion between dtypes: a float to an integer truncates and saturates (NaN gives 0), integers wrap."""
    x = np.asarray(x)
    if target == "bool":
        return exact(x != 0, "bool")
    if source in FLOATS and target in INTEGERS:
        kind, info = NUMPY[target], np.iinfo(NUMPY[target])
        whole = np.trunc(x.astype(np.float64))
        above, below = whole >= float(int(info.max) + 1), whole < float(info.min)
        inside = np.where(above | below | np.isnan(whole), 0.0, whole).astype(kind)
        return exact(np.where(above, info.max, np.where(below, info.min, inside)).astype(kind), target)
    if target in TRUNCATED and source not in ("f32", "f16"):
        return to_bf16(to_odd(x.astype(np.float64)))
    return exact(x.astype(NUMPY[target]), target)


def to_odd(x: Any) -> Any:
    """An f64 in f32 with the last bit set where it is not exact: rounding that to fewer bits rounds only once."""
    near = x.astype(np.float32)
    bits = near.view(np.uint32)
    back = near.astype(np.float64)
    odd = np.where(np.abs(back) > np.abs(x), bits - np.uint32(1), bits) | np.uint32(1)
    return np.where((back == x) | np.isnan(x), bits, odd).astype(np.uint32).view(np.float32)


# ---- the border ------------------------------------------------------------------------------------------------------
def accept(value: Any, type: Type) -> Any:
    """A value from outside: a Python or NumPy scalar, a string, or an array."""
    match type:
        case Token():
            return None
        case Array(dtype, shape):
            array = np.ascontiguousarray(value, numpy_dtype(dtype))
            if array.ndim != len(shape):
                raise IRError(f"an array of {array.ndim} axes is given for one of {len(shape)}")
            return to_bf16(array) if dtype in TRUNCATED else array
        case Scalar(dtype) if is_handle(dtype):
            return value
        case _:
            return str(value) if type.dtype == "str" else exact(NUMPY[type.dtype](value), type.dtype)


def release(value: Any) -> Any:
    """A value for outside, not to be changed by a later run."""
    return value.read().copy() if type(value) is Version else value
