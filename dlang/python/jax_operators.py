"""Functions as primitives of JAX: `f.to_jax()`.

    call    a function at its arguments
    push    the tangent of its result, linear in those of its arguments

The derivative of `call` is `push`, in forward mode. `push` is a function of the language as well, so it has a
derivative of the same kind; and its transpose is `call` of the function that pulls cotangents back. So JAX has forward
and reverse mode, of any order and in any mixture. Arguments are the arrays among the leaves; all else is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dlang.cache.store import digest
from dlang.diagnostics import error
from dlang.driver import failure
from dlang.host.classes import same_class
from dlang.host.values import BF16, describe, dtype_name, outside_dtype
from dlang.ir.crossing import leaf_count, leaves_of
from dlang.lazy_modules import jax, lazy_module
from dlang.python.bound import Bound
from dlang.python.kinds import JAX, X64
from dlang.python.operators import (
    ARRAY,
    DEFAULT,
    FALSE,
    FLOAT,
    INTEGER,
    NEXT,
    TRUE,
    Described,
    Operator,
    Plan,
    Plans,
    Target,
    aliases,
    described,
    draws,
    each_leaf,
    function_of,
    given,
    leaves,
    mapped,
    places,
    pulled,
    pushed,
    refused,
    whole,
    with_tangents,
)
from dlang.runtime.engine import CompiledProgram
from dlang.typecheck.headers import Param

if TYPE_CHECKING:
    from dlang.runtime import xla
else:
    xla = lazy_module("dlang.runtime.xla")


@dataclass(frozen=True)
class Pushed:
    """A pushforward: tangents of the parameters `wanted` through a function, to the leaves `take` of its result."""

    base: Called
    wanted: tuple[int, ...]
    take: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        return [self.base.plans.names[k] for k in self.wanted]

    def arrays(self) -> list[int]:
        """Lists the arrays whose tangents are given."""
        by_param = places(self.base.letters)
        return [at for k in self.wanted for at in by_param[k] if at is not None]

    def over(self, arrays: Shapes, batched: Sequence[bool]) -> Pushed | None:
        """The same over a further axis, as `Called.over`."""
        count = self.base.letters.count(ARRAY)
        base = self.base.over(arrays[:count], batched[:count])
        if base is None:
            return None
        leaves = [k for k, letter in enumerate(base.letters.split(NEXT)) if letter == ARRAY]
        return Pushed(base, tuple([leaves[at] for at in self.arrays()]), self.take)

    def whole(self) -> Called:
        """The function that gives the result and its tangent. Numbers that are no arrays have the tangent 0."""
        letters, floats, integers = with_tangents(self.base.letters, self.wanted)
        f = pushed(self.base.f, self.names)
        return Called(f, letters, (*self.base.floats, *floats), (*self.base.integers, *integers), self.base.seed)

    def back(self, results: int) -> Called:
        """The function that pulls a cotangent of the result back. results: how many leaves that has."""
        letters = NEXT.join([self.base.letters, ARRAY * results])
        f = pulled(self.base.f, self.names)
        return Called(f, letters, self.base.floats, self.base.integers, self.base.seed)


# ---- the function that JAX sees --------------------------------------------------------------------------------------
def to_jax(f: Target) -> Operator:
    """A function of JAX. Raises `DlangError` for one that can't be an operator."""
    plans, function = Plans.of(f), function_of(f)
    call_p, _ = _primitives()
    others = aliases(f)

    def call(*args: Any, **named: Any) -> Any:
        for python_name, name in others:
            if python_name in named:
                if name in named:
                    _misfit(f, args, named)
                named[name] = named.pop(python_name)
        seed = None
        if draws(f) and "seed" not in plans.names:
            if "seed" not in named:
                function.default_seeds.note()
            seed = named.pop("seed", 0)
        if seed is not None and not isinstance(seed, int):
            raise function.misuse("takes a number of Python's as `seed`: one that JAX traces is none")
        by_order = dict(zip(plans.names, args))
        if len(args) > len(plans.names) or by_order.keys() & named.keys() or named.keys() - set(plans.names):
            _misfit(f, args, named)
        values = {**by_order, **named}
        arrays: list[Any] = []
        floats: list[float] = []
        integers: list[int] = []

        def unfit(name: str, value: Any) -> NoReturn:
            what = f"takes arrays, numbers, tuples and structs, and `{name}` is given {describe(value)}"
            raise function.misuse(what)

        def take(plan: Plan, value: Any, name: str) -> str:
            if plan is not None and not _is(plan, value):
                unfit(name, value)
            if isinstance(plan, tuple):
                return "".join([take(p, v, name) for p, v in zip(plan, value or ())])
            if plan is not None:
                return "".join([take(p, getattr(value, n), name) for p, n in zip(plan.items, plan.names)])
            match value:
                case jax.Array() | np.ndarray() | np.generic():
                    arrays.append(jax.numpy.asarray(_native(value)))
                    return ARRAY
                case bool():
                    return TRUE if value else FALSE
                case float():
                    floats.append(value)
                    return FLOAT
                case int():
                    integers.append(value)
                    return INTEGER
            unfit(name, value)

        letters = []
        for name, plan, default in zip(plans.names, plans.params, plans.defaults):
            if name not in values and not default:
                _misfit(f, args, named)
            letters.append(take(plan, values[name], name) if name in values else DEFAULT)
        called = Called(f, NEXT.join(letters), tuple(floats), tuple(integers), seed)
        return whole(plans.result, iter(_bound(call_p, arrays, called)))

    return Operator(f, call, to_jax)


def _native(value: Any) -> Any:
    """An array of NumPy in the order of bytes of this machine, which is the only one that JAX knows."""
    swapped = isinstance(value, np.ndarray) and not value.dtype.isnative
    return value.astype(value.dtype.newbyteorder("=")) if swapped else value


def _is(plan: Plan, value: Any) -> bool:
    """Tells whether a value is a tuple of as many items, or of the struct."""
    if isinstance(plan, tuple):
        return (isinstance(value, tuple) and len(value) == len(plan)) or (not plan and value is None)
    return plan is not None and same_class(type(value), plan.type)


def _misfit(f: Target, args: Sequence[Any], named: dict[str, Any]) -> NoReturn:
    function = function_of(f)
    function.assigned(args, named)
    raise function.misuse("is given what it does not take")


# ---- the primitives --------------------------------------------------------------------------------------------------
@cache
def _primitives() -> tuple[Any, Any]:
    """`call` and `push`, made when they are first needed."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    call_p, push_p = Primitive("dlang_call"), Primitive("dlang_push")
    for p, run, abstract in ((call_p, _run, _describe), (push_p, _run_push, _describe_push)):
        p.multiple_results = True
        p.def_impl(run)
        p.def_abstract_eval(abstract)
        batching.primitive_batchers[p] = partial(_mapped, p)
        mlir.register_lowering(p, mlir.lower_fun(partial(_lowered, p), multiple_results=True))
        mlir.register_lowering(p, mlir.lower_fun(partial(_compiled, p), multiple_results=True), platform="cpu")
    ad.primitive_jvps[call_p] = _derivative
    ad.primitive_jvps[push_p] = _derivative_of_push
    ad.primitive_transposes[push_p] = _transposed
    return call_p, push_p


def _bound(primitive: Any, arrays: Sequence[Any], what: Called | Pushed) -> Any:
    """A call of a primitive. In a `shard_map`, all arrays are to vary over the same axes of the mesh."""
    axes = [jax.typeof(a).manual_axis_type.varying for a in arrays]
    missing = [tuple(sorted(frozenset().union(*axes) - varying)) for varying in axes]
    ready = [jax.lax.pcast(a, more, to="varying") if more else a for a, more in zip(arrays, missing)]
    return primitive.bind(*ready, what=what)


def _run(*arrays: Any, what: Called) -> list[Any]:
    """Calls the function with the memory of the arrays, and gives arrays of JAX."""
    results = what.run(arrays)
    return results if arrays else list(map(JAX.of, results))


def _run_push(*arrays: Any, what: Pushed) -> list[Any]:
    results = _run(*arrays, what=what.whole())
    return [results[len(results) // 2 + k] for k in what.take]


def _describe(*arrays: Any, what: Called) -> list[Any]:
    from jax.core import ShapedArray
    from jax.sharding import NamedSharding, PartitionSpec

    place: dict[str, Any] = {}
    if arrays and arrays[0].manual_axis_type.varying:  # in a `shard_map`, results vary as the arguments do
        whole = NamedSharding(arrays[0].sharding.mesh, PartitionSpec())
        place = {"manual_axis_type": arrays[0].manual_axis_type, "sharding": whole}
    return [ShapedArray(d.shape, _own_dtype(d.dtype), **place) for d in what.describe(arrays)]


def _describe_push(*arrays: Any, what: Pushed) -> list[Any]:
    results = _describe(*arrays, what=what.whole())
    return [results[len(results) // 2 + k] for k in what.take]


def _lowered(primitive: Any, *arrays: Any, what: Called | Pushed) -> list[Any]:
    """Lowers a call where XLA can't call the function itself: the program calls Python, which calls it."""
    shapes = primitive.abstract_eval(*[jax.typeof(a) for a in arrays], what=what)[0]

    def host(*given: Any) -> list[Any]:
        if isinstance(what, Called):
            return list(map(np.asarray, what.run(list(map(np.asarray, given)))))
        results = what.whole().run(list(map(np.asarray, given)))
        return [np.asarray(results[len(results) // 2 + k]) for k in what.take]

    wanted = [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes]
    returned: list[Any] = jax.pure_callback(host, wanted, *arrays, vmap_method="sequential")
    return returned


def _compiled(primitive: Any, *arrays: Any, what: Called | Pushed) -> list[Any]:
    """Lowers a call for the processor: XLA calls machine code."""
    called, take = (what, None) if isinstance(what, Called) else (what.whole(), what.take)
    name = target_name(called, take, [(a.shape, dtype_of(a)) for a in arrays])
    if name is None:
        return _lowered(primitive, *arrays, what=what)
    shapes = primitive.abstract_eval(*[jax.typeof(a) for a in arrays], what=what)[0]
    results = jax.ffi.ffi_call(name, [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes])(*arrays)
    return list(results)


def _mapped(primitive: Any, arrays: Sequence[Any], axes: Sequence[Any], what: Called | Pushed) -> tuple[Any, Any]:
    """Over a further axis it is another function of the language, or else called once for each element."""
    moved = [a if axis is None else jax.numpy.moveaxis(a, axis, 0) for a, axis in zip(arrays, axes)]
    (size,) = {a.shape[0] for a, axis in zip(moved, axes) if axis is not None}
    over = [axis is not None for axis in axes]
    if isinstance(what, Pushed):  # an argument and its tangent are both mapped, or none is
        pairs = list(zip(what.arrays(), range(what.base.letters.count(ARRAY), len(moved))))
        for k, dot in pairs:
            over[k] = over[dot] = over[k] or over[dot]
    wide = [
        a if axis is not None or not o else jax.numpy.broadcast_to(a, (size, *a.shape))
        for a, axis, o in zip(moved, axes, over)
    ]
    batched = what.over([(a.shape[1:] if o else a.shape, dtype_of(a)) for a, o in zip(wide, over)], over)
    if batched is not None:
        results = _bound(primitive, wide, batched)
        return results, [0] * len(results)
    mapped = [a for a, axis in zip(moved, axes) if axis is not None]

    def one(elements: Any) -> Any:
        elements_left = iter(elements)
        return _bound(primitive, [a if axis is None else next(elements_left) for a, axis in zip(moved, axes)], what)

    results = jax.lax.map(one, mapped)
    return results, [0] * len(results)


# ---- derivatives -----------------------------------------------------------------------------------------------------
def _derivative(primals: Sequence[Any], tangents: Sequence[Any], what: Called) -> tuple[Any, Any]:
    call_p, _ = _primitives()
    values = _bound(call_p, primals, what)
    take = [k for k, v in enumerate(values) if _is_float(v.dtype)]
    return values, _along(primals, tangents, what, values, take, take)


def _derivative_of_push(primals: Sequence[Any], tangents: Sequence[Any], what: Pushed) -> tuple[Any, Any]:
    _, push_p = _primitives()
    values = _bound(push_p, primals, what)
    inner = what.whole()
    half = len(list(_result_leaves(inner.plans.result))) // 2
    return values, _along(primals, tangents, inner, values, [half + k for k in what.take], range(len(values)))


def _along(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    what: Called,
    values: Sequence[Any],
    take: Sequence[int],
    where: Sequence[int],
) -> list[Any]:
    """The tangents of values. take: the leaves of the result that have some; where: which values they are."""
    from jax.interpreters import ad

    _, push_p = _primitives()
    out = [ad.Zero(jax.typeof(v).to_tangent_aval()) for v in values]
    by_param = places(what.letters)
    wanted = [
        k
        for k, leaves in enumerate(by_param)
        if not what.plans.fixed[k] and any(at is not None and type(tangents[at]) is not ad.Zero for at in leaves)
    ]
    if not wanted or not take:
        return out
    dots = []
    for k in wanted:
        for at in by_param[k]:
            if at is None:
                continue
            if _is_float(primals[at].dtype):
                dots.append(ad.instantiate_zeros(tangents[at]))
            else:
                dots.append(jax.numpy.zeros(primals[at].shape, primals[at].dtype))
    pushed = _bound(push_p, [*primals, *dots], Pushed(what, tuple(wanted), tuple(take)))
    for place, dot in zip(where, pushed):
        out[place] = dot
    return out


def _transposed(bars: Sequence[Any], *arrays: Any, what: Pushed) -> list[Any]:
    """The cotangents of the tangents that were pushed: those of the parameters, pulled back."""
    from jax.interpreters import ad

    call_p, _ = _primitives()
    count = what.base.letters.count(ARRAY)
    primals, dots = arrays[:count], arrays[count:]
    results = what.base.describe(primals)
    full = [jax.numpy.zeros(d.shape, _own_dtype(d.dtype)) for d in results]
    for k, bar in zip(what.take, bars):
        if type(bar) is not ad.Zero:
            full[k] = bar
    pulled = _bound(call_p, [*primals, *full], what.back(len(full)))
    letters = what.base.letters.split(NEXT)
    array_cotangents = [m for m, c in zip(pulled, "".join([letters[k] for k in what.wanted])) if c == ARRAY]
    return [None] * count + [m if ad.is_undefined_primal(d) else None for m, d in zip(array_cotangents, dots)]


# ---- dtypes ----------------------------------------------------------------------------------------------------------
def _own_dtype(dtype: str) -> Any:
    """A dtype for JAX. Raises `DlangError` where it does not have it."""
    wanted = outside_dtype(dtype)
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise error("E0966", f"a result is {dtype}, and JAX has numbers of 32 bits only", None, help=(X64,))
    return wanted


def _is_float(dtype: Any) -> bool:
    known: np.dtype[Any] = np.dtype(dtype)
    return known.kind == "f" or known.name == BF16


def _result_leaves(plan: Plan) -> list[None]:
    if plan is None:
        return [None]
    items = plan if isinstance(plan, tuple) else plan.items
    return [leaf for item in items for leaf in _result_leaves(item)]


# ---- calls of XLA ----------------------------------------------------------------------------------------------------
# Calls of functions as JAX has them, and the machine code that XLA calls for them.

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
        prepared, leaves = f.matched(values, frozenset(what.f.named))
        kept = what.f.early_of(prepared, leaves)
        if kept is None:
            return None
        early = kept
    else:
        prepared, leaves = f.matched(values)
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
    handler = xla.target(
        runner,
        prepared.entry.name,
        prepared.passed(leaves, what.seed or 0, early),
        buffers,
        [(d.dtype, d.shape, numbers.get(k)) for k, d in enumerate(whole)],
        failure,
    )
    if handler is not None:
        capsule = jax.ffi.pycapsule(_pointer(handler.address))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return handler


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
    for p, part in zip(params, entry.layout.params, strict=True):
        param_letters = letters.get(p.local.name, DEFAULT)
        for k in range(leaf_count(part)):
            if param_letters[k : k + 1] == ARRAY:
                out[at] = count
                count += 1
            at += 1
    return out


def _are_of(arrays: Sequence[Any], buffers: Mapping[int, int], entry: Any) -> bool:
    """Tells whether arrays have the dtypes of the leaves that they are, so that nothing has to widen them."""
    first = len(entry.sizes) + entry.seed
    dtypes = [leaf.dtype for leaf in leaves_of(entry.layout.params)]
    return all(dtype_name(arrays[k].dtype) == dtypes[at - first] for at, k in buffers.items())


def _pointer(address: int) -> Any:
    """A function of C for JAX to wrap."""
    import ctypes

    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
