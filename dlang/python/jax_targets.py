"""Calls of functions as JAX has them, and the machine code that XLA calls for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.cache.store import digest
from dlang.driver import failure
from dlang.host.values import dtype_name, outside_dtype
from dlang.ir.crossing import leaf_count, leaves_of
from dlang.lazy_modules import jax, lazy_module
from dlang.python.bound import Bound
from dlang.python.kinds import JAX
from dlang.python.mapped import each_leaf, mapped
from dlang.python.operators import (
    ARRAY,
    DEFAULT,
    NEXT,
    Described,
    Plans,
    Target,
    described,
    function_of,
    given,
    leaves,
    refused,
)
from dlang.runtime.engine import CompiledProgram
from dlang.typecheck.headers import Param

if TYPE_CHECKING:
    from dlang.runtime import xla
else:
    xla = lazy_module("dlang.runtime.xla")


Shapes = Sequence[tuple[tuple[int, ...], str]]
"""Of arrays, their sizes and dtypes."""


@dataclass(frozen=True)
class Called:
    """A function with what of its arguments is no array. Functions are compared by identity."""

    f: Target
    letters: str
    floats: tuple[float, ...] = ()
    integers: tuple[int, ...] = ()
    seed: int | None = None

    @property
    def plans(self) -> Plans:
        return Plans.of(self.f)

    def arguments(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The arguments by name, without the seed."""
        return given(self.plans, self.letters, arrays, self.floats, self.integers)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The leaves of the result."""
        named = {} if self.seed is None else {"seed": self.seed}
        return list(leaves(self.plans.result, self.f(**self.arguments(arrays), **named)))

    def over(self, arrays: Shapes, batched: Sequence[bool]) -> Called | None:
        """The same over a further axis of some arrays; None where it has to be called once for each element.

        arrays: the sizes and dtypes of one element.
        """
        types = tuple([(dtype, len(shape)) for shape, dtype in arrays])
        f = mapped(self.f, self.letters, self.floats, self.integers, types, tuple(batched))
        return None if f is None else Called(f, each_leaf(self.letters), self.floats, self.integers)

    def describe(self, arrays: Sequence[Any]) -> list[Described]:
        """The dtypes and sizes of the leaves of the result."""
        if unknown := sorted({str(n) for a in arrays for n in a.shape if not isinstance(n, int)}):
            why = f"JAX traces it at sizes that are no numbers, {', '.join(unknown)}, and a program of XLA has all"
            raise refused(function_of(self.f).decl, why, "trace it once for each size")
        stand_ins = [Described(dtype_of(a), a.shape).stand_in() for a in arrays]
        return described(self.f, self.arguments(stand_ins), self.plans.result, JAX)


def dtype_of(array: Any) -> str:
    """The language's name of the dtype of an array of JAX."""
    return dtype_name(np.dtype(array.dtype)) or str(array.dtype)


@cache
def _targets() -> dict[str, Any]:
    """Returns the targets of XLA by name; None for what it can't call. They stay, as compiled programs of JAX may."""
    return {}


def target_name(what: Called, take: tuple[int, ...] | None, arrays: Shapes) -> str | None:
    """The name under which XLA calls a function at arrays of these sizes and dtypes; None if it has to ask Python.

    take: the leaves of the second half of the result that are wanted; None for all of the whole.
    """
    seen = repr((what.letters, what.floats, what.integers, what.seed, take, list(arrays)))
    name = f"dlang_{what.f.__name__}_{digest(what.f.key, seen)}"
    targets = _targets()
    if name not in targets:
        targets[name] = _registered(name, what, take, arrays)
    return name if targets[name] is not None else None


def _registered(name: str, what: Called, take: tuple[int, ...] | None, arrays: Shapes) -> Any:
    f = function_of(what.f)
    if f.asks_for_indices or _has_sizes_in_arrays(what):  # which only Python looks at
        return None
    stand_ins = [np.zeros(shape, outside_dtype(dtype)) for shape, dtype in arrays]
    values = f.assigned((), {**(what.f.named if isinstance(what.f, Bound) else {}), **what.arguments(stand_ins)})
    early: list[Any] = []
    if isinstance(what.f, Bound):
        prepared, found = f.matched(values, frozenset(what.f.named))
        kept = what.f.early_of(prepared, found)
        if kept is None:
            return None
        early = kept
    else:
        prepared, found = f.matched(values)
    runner = prepared.instance.runner
    buffers = _buffers(what, list(values), prepared.entry)
    if not isinstance(runner, CompiledProgram) or not _are_of(stand_ins, buffers, prepared.entry):
        return None
    whole = [
        Described(d.dtype, tuple(map(int, d.shape)))
        for d in described(what.f, what.arguments(stand_ins), what.plans.result)
    ]
    half = len(whole) // 2
    places = range(len(whole)) if take is None else [half + k for k in take]
    numbers = {place: k for k, place in enumerate(places)}
    made = xla.target(
        runner,
        prepared.entry.name,
        prepared.passed(found, what.seed or 0, early),
        buffers,
        [(d.dtype, d.shape, numbers.get(k)) for k, d in enumerate(whole)],
        failure,
    )
    if made is not None:
        capsule = jax.ffi.pycapsule(_pointer(made.address))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return made


def _has_sizes_in_arrays(what: Called) -> bool:
    """Tells whether a parameter that is a size is given as an array."""
    letters = dict(zip(what.plans.names, what.letters.split(NEXT)))
    params = function_of(what.f).decl.params
    return any(p.local.size is not None and letters.get(p.local.name) == ARRAY for p in params if not _is_opened(p))


def _is_opened(p: Param) -> bool:
    return p.local.size is not None and p.local.size.opened


def _buffers(what: Called, params: Sequence[Any], entry: Any) -> dict[int, int]:
    """Maps each argument of an entry that is an array to its number among the arrays. params: those given, in order."""
    letters = dict(zip(what.plans.names, what.letters.split(NEXT)))
    at, count = len(entry.sizes) + entry.seed, 0
    out: dict[int, int] = {}
    for p, part in zip(params, entry.border.params, strict=True):
        own = letters.get(p.local.name, DEFAULT)
        for k in range(leaf_count(part)):
            if own[k : k + 1] == ARRAY:
                out[at] = count
                count += 1
            at += 1
    return out


def _are_of(arrays: Sequence[Any], buffers: Mapping[int, int], entry: Any) -> bool:
    """Tells whether arrays have the dtypes of the leaves that they are, so that nothing has to widen them."""
    first = len(entry.sizes) + entry.seed
    dtypes = [leaf.dtype for leaf in leaves_of(entry.border.params)]
    return all(dtype_name(arrays[k].dtype) == dtypes[at - first] for at, k in buffers.items())


def _pointer(address: int) -> Any:
    """A function of C for JAX to wrap."""
    import ctypes

    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
