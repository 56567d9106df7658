"""Functions as operators of PyTorch: `f.to_torch()`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, NoReturn

import numpy as np
import torch
from torch.autograd import forward_ad

from dlang.diagnostics import error
from dlang.host.classes import same_class
from dlang.host.values import describe, dtype_name
from dlang.ops.dtypes import ELSEWHERE
from dlang.python.kinds import TORCH, Extent
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
    Struct,
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
    symbols,
    whole,
    with_tangents,
)

INTEGERS = (int, torch.SymInt)
ARRAYS = (np.ndarray, np.generic)


def to_torch(f: Target) -> Operator:
    """A function of PyTorch. Raises `DlangError` for one that can't be an operator."""
    plans = Plans.of(f)
    key = key_of(f)
    _operator()
    traced = _traced()
    names, params, defaults, result = plans.names, plans.params, plans.defaults, plans.result
    seeded, others = draws(f), aliases(f)

    # PyTorch's compiler traces what is here, so it is as plain as can be.
    def call(*args: Any, **named: Any) -> Any:
        for python_name, name in others:
            if python_name in named:
                if name in named:
                    mismatch(f, args, named)
                named[name] = named.pop(python_name)
        tensors: list[Any] = []
        floats: list[float] = []
        integers: list[int] = []
        letters = []
        used = len(args)
        for k, name in enumerate(names):
            if k < len(args) and name not in named:
                letters.append(take(params[k], args[k], f, name, tensors, floats, integers))
            elif k >= len(args) and name in named:
                used += 1
                letters.append(take(params[k], named[name], f, name, tensors, floats, integers))
            elif k >= len(args) and defaults[k]:
                letters.append(DEFAULT)
            else:
                mismatch(f, args, named)
        if seeded:
            if "seed" in named:
                used += 1
            elif not torch.compiler.is_compiling():
                function_of(f).default_seeds.note()
            integers.append(named.get("seed", 0))
        if used < len(args) + len(named):
            mismatch(f, args, named)
        text = NEXT.join(letters)
        if torch.compiler.is_compiling():
            results = traced(tensors, floats, integers, key, text)
        else:
            results = invoke(Call(key, text, floats, integers), tensors)
        return whole(result, iter(results))

    if not any(map(is_nested, params)):
        return Operator(f, call, to_torch)
    hidden = torch.compiler.disable(call)

    @wraps(call)
    def visible(*args: Any, **named: Any) -> Any:  # PyTorch's compiler, given what it is not to see, looks behind it
        return hidden(*args, **named)

    return Operator(f, visible, to_torch)


def take(
    plan: Plan, value: Any, f: Target, name: str, tensors: list[Any], floats: list[float], integers: list[Any]
) -> str:
    """Adds the leaves of a value to those of a call, and gives their letters.

    It closes over nothing, nor does anything in it: else a compiled graph would give all tensors here as results.
    """
    letters = ""
    if isinstance(plan, tuple):
        if not plan and value is None:
            return ""
        if not isinstance(value, tuple) or len(value) != len(plan):
            misfit(f, name, value)
        for k in range(len(plan)):
            letters += take(plan[k], value[k], f, name, tensors, floats, integers)
        return letters
    if plan is not None:
        if not torch.compiler.is_compiling() and not is_struct(value, plan):
            misfit(f, name, value)
        for k in range(len(plan.items)):
            letters += take(plan.items[k], getattr(value, plan.names[k]), f, name, tensors, floats, integers)
        return letters
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return ARRAY
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, float):
        floats.append(value)
        return FLOAT
    if isinstance(value, INTEGERS):
        integers.append(value)
        return INTEGER
    if not isinstance(value, ARRAYS):
        misfit(f, name, value)
    tensors.append(torch.as_tensor(value))
    return ARRAY


def is_nested(plan: Plan, inside: bool = False) -> bool:
    """Tells whether a struct is in a struct: PyTorch's compiler does not see the slots of objects in slots."""
    if plan is None:
        return False
    if isinstance(plan, tuple):
        return any(is_nested(p, inside) for p in plan)
    return inside or any(is_nested(p, inside=True) for p in plan.items)


def is_struct(value: Any, plan: Struct) -> bool:
    """Tells whether a value is of a struct, perhaps as another program made its class."""
    return same_class(type(value), plan.type)


def misfit(f: Target, name: str, value: Any) -> NoReturn:
    """Raises the `DlangError` of an argument that no operator takes."""
    what = f"takes tensors, numbers, tuples and structs, and `{name}` is given {describe(value)}"
    raise function_of(f).misuse(what)


def mismatch(f: Target, args: Sequence[Any], named: Mapping[str, Any]) -> NoReturn:
    """Raises the `DlangError` of a call with too few or too many arguments."""
    function = function_of(f)
    function.assigned(args, {k: v for k, v in named.items() if k != "seed" or not draws(f)})
    raise function.misuse("is given what it does not take")


# ---- the operator ----------------------------------------------------------------------------------------------------
@cache
def _operator() -> Any:
    """The operator, registered when it is first needed."""
    schema = "(Tensor[] tensors, float[] floats, SymInt[] integers, str key, str letters) -> Tensor[]"
    operator = torch.library.custom_op("dlang::call", _run, mutates_args=(), schema=schema)
    operator.register_fake(_describe)
    operator.register_autograd(_backward, setup_context=_save)
    return operator


@cache
def _traced() -> Any:
    """Returns the function that is a node of a graph: the operator, with the transforms of `torch.func` that are active
    there around it.

    PyTorch's compiler does not look into it, but runs it with its transforms when it takes the graph apart.
    """

    def call(tensors: list[Any], floats: list[float], integers: list[Any], key: str, letters: str) -> list[Any]:
        return list(invoke(Call(key, letters, floats, integers), tensors))

    return torch.compiler.allow_in_graph(call)


def _run(tensors: list[Any], floats: list[float], integers: list[int], key: str, letters: str) -> list[Any]:
    return Call(key, letters, floats, integers).run(tensors)


def _describe(tensors: list[Any], floats: list[float], integers: list[Any], key: str, letters: str) -> list[Any]:
    return Call(key, letters, floats, integers).describe(tensors)


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Any]) -> None:
    tensors, floats, integers, key, letters = inputs
    ctx.call = Call(key, letters, floats, integers)
    ctx.save_for_backward(*tensors)
    ctx.results = [(t.shape, t.dtype, t.device) for t in output]


def _backward(ctx: Any, cotangents: list[Any]) -> tuple[Any, ...]:
    bars = [
        torch.zeros(shape, dtype=dtype, device=device) if c is None else c
        for c, (shape, dtype, device) in zip(cotangents, ctx.results)
    ]
    cotangents_of = slopes(_invoke, ctx.call, ctx.saved_tensors, bars, ctx.needs_input_grad[0])
    return cotangents_of, [] if not ctx.call.floats else None, [] if not ctx.call.integers else None, None, None


def _invoke(call: Call, tensors: Sequence[Any]) -> Sequence[Any]:
    results: Sequence[Any] = _operator()(list(tensors), call.floats, call.integers, call.key, call.letters)
    return results


# ---- calls -----------------------------------------------------------------------------------------------------------
# Calls of functions as PyTorch has them: tensors, and a description of all else by which a graph can be kept.

PULL, PUSH = "|>"
"""In a key, between a function and the numbers of the parameters whose cotangents are wanted, or that have tangents."""

_DERIVED = re.compile(r"(.+)([|>])([\d,]+)")


# ---- functions by their keys -----------------------------------------------------------------------------------------
@cache
def _targets() -> dict[str, Target]:
    """Returns the targets that can be called, by key. They stay, as the operators of PyTorch do."""
    return {}


def key_of(f: Target) -> str:
    """The key of a function, under which calls find it from now on."""
    key = f"{f.__name__}#{f.key}"
    _targets().setdefault(key, f)
    return key


def derived(key: str, how: str, wanted: Sequence[int]) -> str:
    """The key of the function that pulls back, or that pushes, in some parameters."""
    return f"{key}{how}{','.join(map(str, wanted))}"


def target(key: str) -> Target:
    """The function of a key, derived when it is first asked for."""
    targets = _targets()
    if key not in targets:
        derived = _DERIVED.fullmatch(key)
        if derived is None:
            name = key.partition("#")[0]
            help = ("call `to_torch()` of it before the graph runs",)
            raise error("E0967", f"a graph calls `{name}`, which is not an operator in this process", None, help=help)
        base, how, wanted = derived.groups()
        f = target(base)
        names = Plans.of(f).names
        targets[key] = (pulled if how == PULL else pushed)(f, [names[int(k)] for k in wanted.split(",")])
    return targets[key]


# ---- calls -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Call:
    """The parts of a call besides tensors: its function, the kinds of leaves, the numbers among them, a seed."""

    key: str
    letters: str
    floats: Sequence[float]
    integers: Sequence[Any]

    @property
    def plans(self) -> Plans:
        return Plans.of(target(self.key))

    def over(self, tensors: Sequence[Any], batched: Sequence[bool]) -> Call | None:
        """The same over a further axis, the first, of some tensors; None where it has to be called for each element."""
        types = tuple([(_dtype(t), t.ndim - over) for t, over in zip(tensors, batched, strict=True)])
        numbers = tuple(self.floats), tuple(self.integers)
        f = mapped(target(self.key), self.letters, *numbers, types, tuple(batched))
        return None if f is None else Call(key_of(f), each_leaf(self.letters), self.floats, self.integers)

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """The leaves of the result, computed with the memory of the tensors."""
        return _unseen()(self, tensors) if "torch._dynamo" in sys.modules else self.computed(tensors)

    def computed(self, tensors: Sequence[Any]) -> list[Any]:
        """The same, where PyTorch's compiler may look at what is done."""
        f, plans = target(self.key), self.plans
        with torch.no_grad():
            integers = iter(self.integers)
            arguments = given(plans, self.letters, [t.detach() for t in tensors], self.floats, integers)
            if (seed := next(integers, None)) is not None:  # what no leaf has taken
                arguments["seed"] = int(seed)
            results = list(leaves(plans.result, f(**arguments)))
            return results if tensors else [TORCH.of(x) for x in results]

    def describe(self, tensors: Sequence[Any]) -> list[Any]:
        """Empty tensors of the dtypes and sizes of the results."""
        stand_ins = [Described(_dtype(t), tuple(map(_extent, t.shape))).stand_in() for t in tensors]
        arguments = given(self.plans, self.letters, stand_ins, self.floats, map(_extent, self.integers))
        device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
        return [
            torch.empty(symbols(d.shape), dtype=_torch_dtype(d.dtype), device=device)
            for d in described(target(self.key), arguments, self.plans.result, TORCH)
        ]


@cache
def _unseen() -> Any:
    """`Call.computed` without PyTorch's compiler, which else looks at all that runs where a graph is broken."""
    return torch.compiler.disable(Call.computed)


def _dtype(tensor: Any) -> str:
    """The language's name of the dtype of a tensor. One that it does not have keeps PyTorch's name."""
    name = str(tensor.dtype).removeprefix("torch.")
    return dtype_name(name) or name


def _torch_dtype(dtype: str) -> Any:
    return getattr(torch, ELSEWHERE[dtype])


def _extent(size: Any) -> int:
    """A size of a tensor that may be any number in a graph."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return Extent(int(size.node.require_hint()), size)


# ---- derivatives -----------------------------------------------------------------------------------------------------
# How PyTorch differentiates calls, and maps them over a further axis.
#
# A derivative is a call again, of a function of the language: `slopes` of the one that pulls back, `tangents` of the
# one that pushes. So calls can be differentiated as often as wanted, in any mixture of modes.

Invoke = Callable[[Call, Sequence[Any]], Any]
"""A function that computes a call of some tensors, so that PyTorch can differentiate it."""


def slopes(
    invoke: Invoke, call: Call, tensors: Sequence[Any], bars: Sequence[Any], needed: Sequence[bool]
) -> list[Any]:
    """The cotangents of tensors, None for those that need none. bars: of the results."""
    cotangents: list[Any] = [None] * len(needed)
    by_param, fixed = places(call.letters), call.plans.fixed
    wanted = [
        k for k, leaves in enumerate(by_param) if not fixed[k] and any(at is not None and needed[at] for at in leaves)
    ]
    if wanted:
        letters = NEXT.join([call.letters, ARRAY * len(bars)])
        pull = Call(derived(call.key, PULL, wanted), letters, call.floats, call.integers)
        pulled = invoke(pull, [*tensors, *bars])
        for at, slope in zip([at for k in wanted for at in by_param[k]], pulled, strict=True):
            if at is not None and needed[at]:
                cotangents[at] = slope
    return cotangents


def tangents(invoke: Invoke, call: Call, tensors: Sequence[Any], dots: Sequence[Any], results: int) -> list[Any]:
    """The tangents of results, None for those that have none. dots: of the tensors; results: how many there are."""
    by_param, fixed = places(call.letters), call.plans.fixed
    wanted = [
        k
        for k, leaves in enumerate(by_param)
        if not fixed[k] and any(at is not None and dots[at] is not None for at in leaves)
    ]
    if not wanted:
        return [None] * results
    letters, floats, integers = with_tangents(call.letters, wanted)
    count = call.letters.count(INTEGER)
    numbers = [*call.integers[:count], *integers, *call.integers[count:]]  # a seed stays the last
    push = Call(derived(call.key, PUSH, wanted), letters, [*call.floats, *floats], numbers)
    given = [at for k in wanted for at in by_param[k] if at is not None]
    pushed = [torch.zeros_like(tensors[at]) if dots[at] is None else dots[at] for at in given]
    return [dot if dot.is_floating_point() else None for dot in invoke(push, [*tensors, *pushed])[results:]]


# ---- calls that are no part of a graph -------------------------------------------------------------------------------
class Differentiated(torch.autograd.Function):
    """Computes the derivatives of a call for PyTorch, from what `_remember` has kept of it."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        expected = zip(cotangents, ctx.results, strict=True)
        bars = [torch.zeros(shape, dtype=t, device=d) if bar is None else bar for bar, (shape, t, d) in expected]
        return None, *slopes(invoke, ctx.call, ctx.saved_tensors, bars, ctx.needs_input_grad[1:])

    @staticmethod
    def jvp(ctx: Any, _: None, *dots: Any) -> Any:
        return tuple(tangents(invoke, ctx.call, ctx.saved_tensors, dots, len(ctx.results)))


class Eager(Differentiated):
    """A call that is made at once."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Any) -> Any:
        results = tuple(call.run(tensors))
        _remember(ctx, call, tensors, results)
        return results


class Transformed(Differentiated):
    """One in the form that the transforms of `torch.func` ask for."""

    @staticmethod
    def forward(call: Call, *tensors: Any) -> Any:
        return tuple(invoke(call, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        call, *tensors = inputs
        _remember(ctx, call, tensors, output)

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], call: Call, *tensors: Any) -> Any:
        """Another function of the language, or else the function once for each element."""
        moved = [t if axis is None else t.movedim(axis, 0) for t, axis in zip(tensors, axes[1:], strict=True)]

        over = call.over(moved, [axis is not None for axis in axes[1:]])
        if over is not None:
            results = invoke(over, moved)
            return tuple(results), (0,) * len(results)

        def element(k: int) -> Any:
            return invoke(call, [t if axis is None else t[k] for t, axis in zip(moved, axes[1:], strict=True)])

        if info.batch_size == 0:
            one = [t if axis is None else t.new_empty(t.shape[1:]) for t, axis in zip(moved, axes[1:], strict=True)]
            results = [t.new_empty((0, *t.shape)) for t in call.describe(one)]
        else:
            results = [torch.stack(items) for items in zip(*map(element, range(info.batch_size)), strict=True)]
        return tuple(results), (0,) * len(results)


def _remember(ctx: Any, call: Call, tensors: Sequence[Any], results: Sequence[Any]) -> None:
    ctx.call = call
    ctx.results = [(t.shape, t.dtype, t.device) for t in results]
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.set_materialize_grads(False)


def invoke(call: Call, tensors: Sequence[Any]) -> Any:
    """Computes a call, as whoever watches has to see it: who traces a graph sees the operator."""
    if torch._C._are_functorch_transforms_active():
        return Transformed.apply(call, *tensors)
    if _is_traced(tensors):
        return torch.ops.dlang.call(list(tensors), call.floats, call.integers, call.key, call.letters)
    if forward_ad._current_level >= 0 or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return Eager.apply(call, *tensors)
    return call.run(tensors)


def _is_traced(tensors: Sequence[Any]) -> bool:
    if torch._C._len_torch_dispatch_stack() or torch._C._is_tracing():
        return True
    return any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.is_meta for t in tensors)
