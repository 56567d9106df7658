"""Functions as operators of PyTorch: `f.to_torch()`.

There is one operator, `torch.ops.dlang.call`, for all functions, found by a key: so a graph that PyTorch has kept never
names an operator that is not there yet, as that of a derivative. Its arguments are the leaves: tensors, numbers, and a
text that says with a letter what each leaf is. Its derivative is itself, with the key of the function that pulls
cotangents back. Graphs hold the operator; where there is none, calls are made by `torch_derivatives.py`, which is
quicker, and which the transforms of `torch.func` see through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, wraps
from typing import Any, NoReturn

import numpy as np
import torch

from dlang.host.classes import same_class
from dlang.host.values import describe
from dlang.python.operators import (
    ARRAY,
    DEFAULT,
    FALSE,
    FLOAT,
    INTEGER,
    NEXT,
    TRUE,
    Operator,
    Plan,
    Plans,
    Struct,
    Target,
    aliases,
    draws,
    function_of,
    whole,
)
from dlang.python.torch_derivatives import invoke, slopes
from dlang.python.torch_targets import Call, key_of

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
        for here, name in others:
            if here in named:
                if name in named:
                    mismatch(f, args, named)
                named[name] = named.pop(here)
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
            made = traced(tensors, floats, integers, key, text)
        else:
            made = invoke(Call(key, text, floats, integers), tensors)
        return whole(result, iter(made))

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
    made = slopes(_invoke, ctx.call, ctx.saved_tensors, bars, ctx.needs_input_grad[0])
    return made, [] if not ctx.call.floats else None, [] if not ctx.call.integers else None, None, None


def _invoke(call: Call, tensors: Sequence[Any]) -> Sequence[Any]:
    made: Sequence[Any] = _operator()(list(tensors), call.floats, call.integers, call.key, call.letters)
    return made
