"""`dlang.lazy(x)`: an array or a number whose operations are recorded, and so are calls of functions of the language
with one among their arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dlang.diagnostics import error
from dlang.host.classes import fields_of
from dlang.host.values import NUMPY, dtype_name, is_taken
from dlang.lazy_modules import lazy_module
from dlang.ops.monoids import COMBINE, UFUNCS
from dlang.python.lazy.values import Apply, Node, compute, cotangent, is_float
from dlang.python.operators import Described, Plans, described, paths, whole
from dlang.specialize.frame import substituted
from dlang.specialize.structs import declaration
from dlang.typecheck import types as ty
from dlang.typecheck.types import Type

if TYPE_CHECKING:
    from dlang.python.function import Function
    from dlang.python.lazy import functions
else:
    functions = lazy_module("dlang.python.lazy.functions")


class Lazy(NDArrayOperatorsMixin):
    """An array, or a number, that is computed when its value is needed: by `value()`, `np.asarray`, `float`, `print`…

    Operators, NumPy's functions and functions of the language record what is to be done.
    """

    __slots__ = ("node",)
    __dlang_lazy__ = True
    __array_priority__ = 1000

    def __init__(self, node: Node) -> None:
        self.node = node

    # ---- what is known without a value -------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        assert self.node.shape is not None
        return self.node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.node.dtype)
        return dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a number has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        known = "computed" if self.node.value is not None else "not computed yet"
        return f"Lazy({self.dtype}{list(self.shape)}, {known})"

    # ---- values ------------------------------------------------------------------------------------------------------
    def value(self) -> Any:
        """The array, or the number of NumPy. The array can't be written to. Raises `DlangError`."""
        compute([self.node])
        return self.node.value[()] if not self.shape else self.node.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        compute([self.node])
        array = self.node.value.astype(dtype) if dtype is not None else self.node.value
        return array.copy() if copy and array is self.node.value else array

    def __float__(self) -> float:
        return float(self.value())

    def __int__(self) -> int:
        return int(self.value())

    def __index__(self) -> int:
        return int(self.value().__index__())

    def __bool__(self) -> bool:
        return bool(self.value())

    def __str__(self) -> str:
        return str(self.value())

    def __format__(self, spec: str) -> str:
        return format(self.value(), spec)

    def item(self) -> Any:
        return self.__array__().item()

    def tolist(self) -> Any:
        return self.__array__().tolist()

    # ---- derivatives -------------------------------------------------------------------------------------------------
    def grad(self, at: Lazy, seed: Any = None) -> Lazy:
        """The cotangent of something that this was computed from, given a seed, which is the cotangent of this.

        at: anything recorded earlier, an argument or what was computed on the way; all that does not depend on it is as
        it is. seed: an array of this shape; 1 if it is left out and this is a number. The result depends on the seed as
        on everything else, so it can be differentiated in turn.
        """
        if not isinstance(at, Lazy):
            raise TypeError(f"a derivative is with respect to something lazy, not {type(at).__name__}")
        for what, x in (("of", self), ("with respect to", at)):
            if not is_float(x.node):
                raise TypeError(f"there is no derivative {what} an array of {x.dtype}")
        if seed is None:
            if self.shape:
                raise TypeError(f"the derivative of an array takes a seed of its shape {list(self.shape)}")
            seed = self.dtype.type(1)
        given = lazy(seed)
        if given.shape != self.shape:
            raise ValueError(f"the seed has the shape {list(given.shape)}, not {list(self.shape)}")
        given = given.astype(self.dtype)
        pulled = cotangent(at.node, self.node, given.node)
        return lazy(np.zeros(at.shape, at.dtype)) if pulled is None else Lazy(pulled)

    # ---- what NumPy asks ---------------------------------------------------------------------------------------------
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        given = {k: v for k, v in settings.items() if v is not None}
        if method == "reduce" and ufunc in _REDUCED and given.keys() <= {"axis", "keepdims"}:
            return functions.reduced(_REDUCED[ufunc], inputs[0], settings.get("axis", 0), bool(given.get("keepdims")))
        if method == "__call__" and not given and ufunc is np.matmul:
            return functions.matmul(*inputs)
        if method == "__call__" and not given and ufunc in functions.UFUNCS:
            return functions.UFUNCS[ufunc](*inputs)
        more = f" with {', '.join(f'`{k}`' for k in given)}" if given else ""
        raise unknown(f"`numpy.{ufunc.__name__}{'' if method == '__call__' else '.' + method}`{more}")

    def __array_function__(self, function: Any, types: Any, args: Sequence[Any], settings: dict[str, Any]) -> Any:
        name = f"`{function.__module__}.{function.__name__}`"
        if function not in functions.FUNCTIONS:
            raise unknown(name)
        recorded = functions.FUNCTIONS[function]
        try:
            signature(recorded).bind(*args, **settings)
        except TypeError:
            raise unknown(f"{name} with these arguments") from None
        return recorded(*args, **settings)

    # ---- methods of arrays -------------------------------------------------------------------------------------------
    def astype(self, dtype: Any) -> Lazy:
        """As `numpy.ndarray.astype`; this itself if it has the dtype."""
        wanted = np.dtype(dtype)
        if wanted.kind == "b" != self.dtype.kind:
            return applied("{0} != 0", (self,), self.shape, wanted)
        return self if wanted == self.dtype else applied(f"{_dtype(wanted)}({{0}})", (self,), self.shape, wanted)

    def reshape(self, *shape: Any) -> Lazy:
        return functions.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Any:
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        return self.transpose()

    def __getitem__(self, index: Any) -> Lazy:
        return functions.item(self, index)

    def copy(self) -> Lazy:
        return self  # nothing is ever written to

    def flatten(self) -> Any:
        return self.ravel()

    # ---- methods that NumPy has as functions, too --------------------------------------------------------------------
    def sum(self, *args: Any, **settings: Any) -> Any:
        return np.sum(self, *args, **settings)

    def prod(self, *args: Any, **settings: Any) -> Any:
        return np.prod(self, *args, **settings)

    def mean(self, *args: Any, **settings: Any) -> Any:
        return np.mean(self, *args, **settings)

    def std(self, *args: Any, **settings: Any) -> Any:
        return np.std(self, *args, **settings)

    def var(self, *args: Any, **settings: Any) -> Any:
        return np.var(self, *args, **settings)

    def max(self, *args: Any, **settings: Any) -> Any:
        return np.max(self, *args, **settings)

    def min(self, *args: Any, **settings: Any) -> Any:
        return np.min(self, *args, **settings)

    def argmax(self, *args: Any, **settings: Any) -> Any:
        return np.argmax(self, *args, **settings)

    def argmin(self, *args: Any, **settings: Any) -> Any:
        return np.argmin(self, *args, **settings)

    def any(self, *args: Any, **settings: Any) -> Any:
        return np.any(self, *args, **settings)

    def all(self, *args: Any, **settings: Any) -> Any:
        return np.all(self, *args, **settings)

    def cumsum(self, *args: Any, **settings: Any) -> Any:
        return np.cumsum(self, *args, **settings)

    def argsort(self, *args: Any, **settings: Any) -> Any:
        return np.argsort(self, *args, **settings)

    def ravel(self, *args: Any, **settings: Any) -> Any:
        return np.ravel(self, *args, **settings)

    def squeeze(self, *args: Any, **settings: Any) -> Any:
        return np.squeeze(self, *args, **settings)

    def swapaxes(self, *args: Any, **settings: Any) -> Any:
        return np.swapaxes(self, *args, **settings)

    def take(self, *args: Any, **settings: Any) -> Any:
        return np.take(self, *args, **settings)

    def repeat(self, *args: Any, **settings: Any) -> Any:
        return np.repeat(self, *args, **settings)

    def diagonal(self, *args: Any, **settings: Any) -> Any:
        return np.diagonal(self, *args, **settings)

    def trace(self, *args: Any, **settings: Any) -> Any:
        return np.trace(self, *args, **settings)

    def clip(self, *args: Any, **settings: Any) -> Any:
        return np.clip(self, *args, **settings)

    def round(self, *args: Any, **settings: Any) -> Any:
        return np.round(self, *args, **settings)

    def dot(self, *args: Any, **settings: Any) -> Any:
        return np.dot(self, *args, **settings)

    # ---- operators that give the name to a new array: nothing is written to ------------------------------------------
    def __pow__(self, other: Any) -> Any:
        """NumPy's operator squares, where a function would not: squares of truth values are of another type."""
        if type(other) is int and other == 2 and self.dtype.kind == "b":
            return np.square(self)
        return super().__pow__(other)

    __iadd__ = NDArrayOperatorsMixin.__add__
    __isub__ = NDArrayOperatorsMixin.__sub__
    __imul__ = NDArrayOperatorsMixin.__mul__
    __itruediv__ = NDArrayOperatorsMixin.__truediv__
    __ifloordiv__ = NDArrayOperatorsMixin.__floordiv__
    __imod__ = NDArrayOperatorsMixin.__mod__
    __ipow__ = __pow__
    __imatmul__ = NDArrayOperatorsMixin.__matmul__
    __iand__ = NDArrayOperatorsMixin.__and__
    __ior__ = NDArrayOperatorsMixin.__or__
    __ixor__ = NDArrayOperatorsMixin.__xor__


def lazy(x: Any) -> Lazy:
    """An array, or a number, whose operations are recorded from now on. Raises TypeError for anything else.

    The array is not copied: it should not be written to while something that depends on it is not computed.
    """
    if isinstance(x, Lazy):
        return x
    array = np.asarray(x)
    if dtype_name(array.dtype) is None:
        raise TypeError(f"the language has no arrays of {array.dtype}")
    return Lazy(Node(array.shape, array.dtype, array))


def evaluate(*arrays: Lazy) -> None:
    """Computes several at once, what they share once. Raises TypeError for what is not lazy, and `DlangError`."""
    for array in arrays:
        if not isinstance(array, Lazy):
            raise TypeError(f"`dlang.evaluate` takes what `dlang.lazy` gives, not {type(array).__name__}")
    compute([a.node for a in arrays])


# ---- recording -------------------------------------------------------------------------------------------------------
def applied(
    expression: str, operands: Sequence[Lazy], shape: Sequence[int], dtype: Any, module: str | None = None
) -> Lazy:
    """An expression of operands, `{0}`, `{1}`…, whose shape and dtype are known."""
    apply = Apply(tuple(shape), np.dtype(dtype), expression=expression, operands=tuple([a.node for a in operands]))
    apply.module = module
    return Lazy(apply)


def _dtype(dtype: np.dtype[Any]) -> str:
    name = dtype_name(dtype)
    if name is None:
        raise TypeError(f"the language has no arrays of {dtype}")
    return name


_REDUCED = {getattr(np, UFUNCS[name]): name for name in COMBINE}


def unknown(what: str) -> Exception:
    return error("E0999", f"{what} can't be recorded", None, help=("compute the value first: `x.value()`",))


# ---- calls of functions of the language ------------------------------------------------------------------------------
def has_lazy(values: Iterable[Any]) -> bool:
    """Tells whether something lazy is among values, or in the tuples and structs among them."""
    return any(isinstance(v, Lazy) or (bool(parts := _parts(v)) and has_lazy(parts)) for v in values)


def _parts(value: Any) -> tuple[Any, ...]:
    """Returns the items of a tuple or a struct, but none of a tree: no tree that a call takes has lazy parts."""
    if isinstance(value, tuple):
        return value
    decl = declaration(value)
    struct = decl is not None and decl.is_struct
    return tuple([getattr(value, f) for f in fields_of(type(value))]) if struct else ()


def recorded(f: Function, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a call as something lazy, or a structure of such. Raises `DlangError`."""
    plans = Plans.of(f)
    given = {p.local.name: _widened(v, p.local.type) for p, v in f.assigned(tuple(args), dict(named)).items()}
    path = f.program.checked.table.path
    if f.program.checked.module.functions.get(f.decl.name) is not f.decl:
        raise unknown(f"a call of `{f.decl.name}`, a function that Python has made of another,")
    if path.startswith("<"):
        raise unknown(f"a call of `{f.decl.name}`, a function of a text and not of a file,")
    if f.draws():
        raise unknown(f"a call of `{f.decl.name}`, which draws random numbers,")
    leaves = described(f, {name: _stand_in(v) for name, v in given.items()}, plans.result)
    operands = tuple([_operand(v, f) for v in given.values()])
    arguments = ", ".join(f"{name} = {{{k}}}" for k, name in enumerate(given))
    text = f"{{m}}.{f.decl.name}({arguments})"
    if plans.result is None:
        (leaf,) = leaves
        return Lazy(Apply(leaf.shape, np.dtype(leaf.stand_in().dtype), expression=text, operands=operands, module=path))
    call = Apply(None, None, expression=text, operands=operands, module=path)
    parts = zip(paths(plans.result), leaves, strict=True)
    return whole(plans.result, iter([_part(call, where, leaf) for where, leaf in parts]))


def _widened(value: Any, t: Type) -> Any:
    """An argument with integers in i64 where its type says i64 and a call takes them for it."""
    t = ty.resolve(t)
    match t, value:
        case (ty.TypeCon(dtype), _) | (ty.TypeArray(ty.TypeCon(dtype)), _):
            if isinstance(value, Lazy | np.ndarray | np.generic) and dtype_name(value.dtype) != dtype:
                return value.astype(NUMPY[dtype]) if is_taken(dtype_name(value.dtype), dtype) else value
        case ty.TypeTuple(items), tuple() if len(items) == len(value):
            return tuple([_widened(v, i) for v, i in zip(value, items)])
        case ty.TypeData(decl, args), _ if decl.is_struct and declaration(value) is decl:
            by = dict(zip(decl.params, args, strict=True))
            types = [substituted(field, by) for _, field in decl.variants[0].fields]
            return type(value)(*[_widened(v, field) for v, field in zip(_parts(value), types, strict=True)])
    return value


def _stand_in(value: Any) -> Any:
    """A value of which no more is known than when it is recorded."""
    if isinstance(value, Lazy):
        name = dtype_name(value.dtype)
        assert name is not None
        return Described(name, value.shape).stand_in()
    if not has_lazy((value,)):
        return int(value) if isinstance(value, np.int64) else value
    parts = [_stand_in(p) for p in _parts(value)]
    return tuple(parts) if isinstance(value, tuple) else type(value)(*parts)


def _operand(value: Any, f: Function) -> Node:
    if isinstance(value, Lazy):
        return value.node
    if has_lazy((value,)):
        return _made(value, f)
    array = value if isinstance(value, np.ndarray | np.generic) else None
    if array is None and isinstance(value, bool | int | float):
        array = np.asarray(value)
    return Node(None, None, value) if array is None else Node(array.shape, array.dtype, array)


def _made(value: Any, f: Function) -> Node:
    """A tuple or a struct that is put together of recorded parts."""
    operands = tuple([_operand(p, f) for p in _parts(value)])
    decl = declaration(value)
    if decl is None:
        items = ", ".join(f"{{{k}}}" for k in range(len(operands)))
        return Apply(None, None, expression=f"({items},)" if len(operands) == 1 else f"({items})", operands=operands)
    names = [name for name, _ in decl.variants[0].fields]
    fields = ", ".join(f"{{{k}}}" if name is None else f"{name} = {{{k}}}" for k, name in enumerate(names))
    checked = f.program.checked
    table = checked.table if decl.module == checked.module.name else checked.modules.get(decl.module)
    if table is None:
        raise unknown(f"a `{decl.name}` of a module that `{f.decl.name}` does not know")
    return Apply(None, None, expression=f"{{m}}.{decl.name}({fields})", operands=operands, module=table.path)


def _part(call: Apply, where: str, leaf: Described) -> Lazy:
    return Lazy(Apply(leaf.shape, np.dtype(leaf.stand_in().dtype), expression=f"{{0}}{where}", operands=(call,)))
