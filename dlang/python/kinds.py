"""The libraries whose arrays Python passes: what a function gives is of the kind that it was given.

Arrays of PyTorch, of JAX and of any library of the array API standard are read where they lie, as NumPy sees their
memory, and results are handed over the same way. No library is imported here: one whose arrays are among the arguments
has been.

The rule: results are arrays of the library whose arrays are among the arguments, NumPy's beside them not counted; with
arrays of two such libraries, or of none, they are NumPy's. Structs and tuples are looked into, enums are not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, error
from dlang.host.classes import fields_of
from dlang.host.placed import is_own, placed
from dlang.host.values import BF16, bfloat16
from dlang.lazy_modules import jax, torch
from dlang.ops.dtypes import ELSEWHERE
from dlang.typecheck.headers import Param

_NUMBERS = (bool, int, float, np.generic)
_PLAIN = frozenset((np.ndarray, bool, int, float, str, type(None), np.float64, np.float32, np.int64, np.bool_))


@dataclass(frozen=True, slots=True)
class Kind:
    """A library. seen: an array of it in the memory of the host as one of NumPy over the same memory, or why that can't
    be, with what helps; made: an array of NumPy as one of it; there: the same of an array on a device. conversion: what
    to do with an array that should have another dtype. on_device: whether an array is in the memory of one.
    """

    name: str
    seen: Callable[[Any], Any]
    made: Callable[[Any], Any]
    there: Callable[[Any], Any]
    conversion: Callable[[str], str]
    on_device: Callable[[Any], bool] = lambda array: placed(array) is not None

    def of(self, value: Any) -> Any:
        """A value that a function gives, with arrays and numbers of this kind in it, where they are not in enums."""
        kind = type(value)
        if kind is tuple:
            return tuple([self.of(v) for v in value])
        if kind is list:
            return [self.of(v) for v in value]
        if kind is np.ndarray:
            return self.made(value) if value.dtype != object else value
        if isinstance(value, _NUMBERS):
            return self.made(np.asarray(value))
        if is_own(kind):
            return self.there(value)
        if hasattr(kind, "__dlang__"):
            return kind(*[self.of(getattr(value, name)) for name in fields_of(kind)])
        return value


class Unseen(Exception):
    """Why an array can't be read. help: what to do about it."""

    def __init__(self, why: str, *help: str) -> None:
        super().__init__(why)
        self.help = help


# ---- PyTorch ---------------------------------------------------------------------------------------------------------
_TO_TORCH = "an operator that PyTorch differentiates is `f.to_torch()`"


def _seen_by_torch(tensor: Any) -> Any:
    _keep_gradient(tensor)
    if tensor.layout is not torch.strided:
        raise Unseen(f"its layout is {tensor.layout}", "pass `.to_dense()` of it")
    try:
        strided = tensor.detach().resolve_conj().resolve_neg()
        if strided.dtype is torch.bfloat16:
            return strided.view(torch.int16).numpy().view(_bf16())
        return strided.numpy()
    except (RuntimeError, TypeError) as e:  # one that is traced, or on a device that is not CUDA's
        raise Unseen(f"PyTorch does not hand it over: {str(e).splitlines()[0]}", _TO_TORCH) from e


def _made_for_torch(array: Any) -> Any:
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype.name == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _torch_there(array: Any) -> Any:
    return torch.from_dlpack(array)


def _is_on_gpu(tensor: Any) -> bool:
    if tensor.is_cuda:
        _keep_gradient(tensor)
    return bool(tensor.is_cuda)


def _keep_gradient(tensor: Any) -> None:
    """Refuses a tensor that requires a gradient where PyTorch records what is done with it."""
    if tensor.requires_grad and torch.is_grad_enabled():
        raise Unseen("it requires a gradient, which a plain call would lose", _TO_TORCH, "or pass `.detach()` of it")


def _converted_by_torch(dtype: str) -> str:
    return f"convert it: `.to(torch.{ELSEWHERE[dtype]})`"


TORCH = Kind("PyTorch", _seen_by_torch, _made_for_torch, _torch_there, _converted_by_torch, _is_on_gpu)


# ---- JAX -------------------------------------------------------------------------------------------------------------
X64 = 'have JAX keep 64 bits: `jax.config.update("jax_enable_x64", True)`'


def _seen_by_jax(array: Any) -> Any:
    if isinstance(array, jax.core.Tracer):
        help = ("a function that JAX can trace and differentiate is `f.to_jax()`",)
        raise Unseen("JAX is tracing it, so that it has no numbers yet", *help)
    try:
        return np.asarray(array)
    except TypeError as e:  # keys of random numbers, which have no numbers of their own
        raise Unseen(f"JAX does not hand it over: {e}") from e


def _made_for_jax(array: Any) -> Any:
    if array.dtype.itemsize == 8 and array.dtype.kind in "iuf" and not jax.config.jax_enable_x64:
        raise Unseen(f"a result is {array.dtype}, and JAX has numbers of 32 bits only", X64)
    if array.dtype.name == BF16 or not array.flags.writeable:  # what NumPy does not export by DLPack
        return jax.numpy.asarray(array)
    return jax.numpy.from_dlpack(array)


def _jax_there(array: Any) -> Any:
    return jax.numpy.from_dlpack(array)


def _converted_by_jax(dtype: str) -> str:
    if dtype in ("f64", "i64", "u64") and not jax.config.jax_enable_x64:
        return X64
    return f"convert it: `.astype(jax.numpy.{ELSEWHERE[dtype]})`"


JAX = Kind("JAX", _seen_by_jax, _made_for_jax, _jax_there, _converted_by_jax)


# ---- the array API standard ------------------------------------------------------------------------------------------
def _standard(namespace: Any) -> Kind:
    """A library by the namespace of its functions, as its arrays name it."""

    def seen(array: Any) -> Any:
        try:
            return np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
        except Exception as e:  # whatever that library raises
            raise Unseen(f"its library does not hand it over: {e}", "pass an array of NumPy") from e

    def made(array: Any) -> Any:
        try:
            return namespace.from_dlpack(array)
        except (AttributeError, BufferError, TypeError, ValueError):
            return namespace.asarray(array)

    name = str(getattr(namespace, "__name__", namespace))
    return Kind(name, seen, made, made, lambda dtype: f"convert it: `{name}.astype(…, {name}.{ELSEWHERE[dtype]})`")


def _bf16() -> Any:
    dtype = bfloat16()
    if dtype is None:
        raise Unseen("it is in bf16, which NumPy has only with the package `ml_dtypes`", "install `ml_dtypes`")
    return dtype


def kind_of(value: Any) -> Kind | None:
    """The library that an array is of; None for what is none, and for arrays of NumPy and CuPy."""
    if isinstance(value, np.ndarray | np.generic | type) or is_own(type(value)):
        return None
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return TORCH
    if jax is not None and isinstance(value, getattr(jax, "Array", ())):
        return JAX
    namespace = getattr(value, "__array_namespace__", None)
    return _standard(namespace()) if callable(namespace) else None


# ---- arguments -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Borrowed:
    """Arguments with arrays of NumPy in place of others, but for those on a device. kinds: the libraries of these, by
    their names; of: by the argument where the first of one was found.
    """

    args: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    of: dict[str, Kind] = field(default_factory=dict)
    on_device: bool = False

    def called(
        self,
        quickly: Callable[..., Any],
        there: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        retold: Callable[[DlangError, Borrowed], DlangError],
    ) -> Any:
        """The result of a call with these arguments, as the caller wants it.

        quickly: calls the function; there: calls it where arrays are on a device; retold: says its failure in the words
        of the library.
        """
        try:
            if self.on_device:
                return self.given(there(self.args, dict(self.named)))
            return self.given(quickly(*self.args, **self.named))
        except DlangError as e:
            raise retold(e, self) from e.__cause__

    def given(self, result: Any) -> Any:
        """A result as the caller wants it. Raises `DlangError` where its library has no such array."""
        if len(self.kinds) != 1:
            return result
        (kind,) = self.kinds.values()
        try:
            return kind.of(result)
        except Unseen as e:
            raise error("E0966", f"the result can't be handed to {kind.name}: {e}", None, help=e.help) from e

    def _take(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple:
            items = [self._take(v, name) for v in value]
            return value if all(a is b for a, b in zip(items, value)) else tuple(items)
        if kind is list:
            if not value or type(value[0]) in _PLAIN or type(value[0]) is list:
                return value
            return [self._take(v, name) for v in value]
        if hasattr(kind, "__dlang__"):
            before = [getattr(value, n) for n in fields_of(kind)]
            after = [self._take(v, name) for v in before]
            return value if all(a is b for a, b in zip(before, after)) else kind(*after)
        if getattr(kind, "__dlang_lazy__", False):
            raise Unseen("it is lazy, and only calls of whole functions are recorded", "pass its value: `x.value()`")
        library = kind_of(value)
        if library is None:
            return value
        self.kinds[library.name] = library
        self.of.setdefault(name, library)
        if library.on_device(value):
            self.on_device = True
            return value
        return library.seen(value)


def borrowed(params: Sequence[Param], args: tuple[Any, ...], named: Mapping[str, Any]) -> Borrowed | None:
    """The arguments of a call as arrays of NumPy; None if that is what they are. params: for messages.

    Raises `DlangError` for an array that can't be read.
    """
    if not named and all(type(a) in _PLAIN for a in args):
        return None
    out = Borrowed()
    taken: list[Any] = []
    name = ""
    try:
        for k, a in enumerate(args):
            name = params[k].local.name if k < len(params) else str(k)
            taken.append(out._take(a, name))
        for name, a in named.items():
            out.named[name] = out._take(a, name)
    except Unseen as e:
        raise unread(name, e) from e
    out.args = tuple(taken)
    return out if out.kinds else None


def unread(name: str, why: Unseen) -> DlangError:
    """An argument that a call can't read."""
    return error("E0966", f"argument `{name}` can't be read: {why}", None, help=why.help)


# ---- trees -----------------------------------------------------------------------------------------------------------
# Structs and variants as nodes of the trees of JAX and PyTorch, in a process that has loaded these.
#
# A class is made known to a library with the first object that Python makes of it after that: nothing is imported here.

_DONE = "__dlang_trees__"


def register(value: Any) -> None:
    """Makes the class of a value known to the libraries that are loaded and do not know it yet."""
    kind = type(value)
    done = getattr(kind, _DONE)
    if "jax" in sys.modules and "jax" not in done:
        _for_jax(kind)
    if "torch" in sys.modules and "torch" not in done:
        _for_torch(kind)


def _for_jax(kind: Any) -> None:
    register = getattr(sys.modules.get("jax.tree_util"), "register_dataclass", None)
    if register is None:  # it is being loaded
        return
    setattr(kind, _DONE, (*getattr(kind, _DONE), "jax"))
    register(kind, data_fields=list(fields_of(kind)), meta_fields=[])


def _for_torch(kind: Any) -> None:
    register = getattr(sys.modules.get("torch.utils._pytree"), "register_pytree_node", None)
    if register is None:
        return
    setattr(kind, _DONE, (*getattr(kind, _DONE), "torch"))
    names = list(fields_of(kind))
    name = f"{kind.__module__}.{kind.__qualname__}"

    def taken_apart(value: Any) -> tuple[list[Any], None]:
        return [getattr(value, n) for n in names], None

    def put_together(items: Any, context: None) -> Any:
        return kind(*items)

    register(kind, taken_apart, put_together, serialized_type_name=f"{name}.{id(kind)}")


MEMBERS = {"__post_init__": register, _DONE: ()}
"""The members that a class needs to be a pytree."""


# ---- sizes of any program --------------------------------------------------------------------------------------------
# Sizes that remember how they came about, where another library traces a program of any size.


class Extent(int):
    """A size with the expression that it stands for in another library. It counts as the number that it has now; what
    is computed of it has the expression computed of its own.
    """

    symbol: Any

    def __new__(cls, now: int, symbol: Any) -> Extent:
        extent = super().__new__(cls, now)
        extent.symbol = symbol
        return extent

    def __add__(self, other: int) -> Extent:
        return Extent(int(self) + int(other), self.symbol + symbol_of(other))

    def __sub__(self, other: int) -> Extent:
        return Extent(int(self) - int(other), self.symbol - symbol_of(other))

    def __rsub__(self, other: int) -> Extent:
        return Extent(int(other) - int(self), symbol_of(other) - self.symbol)

    def __mul__(self, other: int) -> Extent:
        return Extent(int(self) * int(other), self.symbol * symbol_of(other))

    def __floordiv__(self, other: int) -> Extent:
        return Extent(int(self) // int(other), self.symbol // symbol_of(other))

    def __rfloordiv__(self, other: int) -> Extent:
        return Extent(int(other) // int(self), symbol_of(other) // self.symbol)

    __radd__ = __add__
    __rmul__ = __mul__


def symbol_of(size: int) -> Any:
    """The expression of a size; a plain number is its own."""
    return size.symbol if isinstance(size, Extent) else int(size)
