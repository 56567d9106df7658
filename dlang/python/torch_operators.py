"""Functions as operators of PyTorch: `f.to_torch()`.

There is one operator, `torch.ops.dlang.call`, for all functions, found by a key: so a graph that PyTorch has kept never
names an operator that is not there yet, as that of a derivative. Its arguments are the leaves: tensors, numbers, and a
text that says with a letter what each leaf is. Its derivative is itself, with the key of the function that pulls
cotangents back; so it can be differentiated as often as wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, NoReturn

import numpy as np

from dlang.diagnostics import error
from dlang.python.extents import Extent
from dlang.python.kinds import TORCH, Unseen, unread
from dlang.python.operators import (
    ARRAY,
    DEFAULT,
    FALSE,
    FLOAT,
    INTEGER,
    NEXT,
    TRUE,
    Described,
    Plan,
    Plans,
    Struct,
    Target,
    described,
    draws,
    function_of,
    given,
    leaves,
    pulled,
    symbols,
    whole,
)
from dlang.runtime.inward import same_class
from dlang.runtime.values import BF16, NUMPY, dtype_name

PULL = "|"
"""In a key, between a function and the numbers of the parameters whose cotangents are wanted."""


def to_torch(f: Target) -> Callable[..., Any]:
    """A function of PyTorch. Raises `DlangError` for one that can't be an operator, and where PyTorch is missing."""
    try:
        import torch
    except ImportError as e:
        raise error("E0969", "PyTorch is not installed", None, help=("pip install torch",)) from e
    plans = Plans.of(f)
    key = f"{f.__name__}#{f.key}"
    _targets().setdefault(key, f)
    operator = _operator()
    names, params, defaults, result = plans.names, plans.params, plans.defaults, plans.result
    seeded = draws(f)

    # PyTorch's compiler traces what is here, so it is as plain as can be.
    def call(*args: Any, **named: Any) -> Any:
        tensors: list[Any] = []
        floats: list[float] = []
        integers: list[int] = []

        def take(plan: Plan, value: Any, name: str) -> str:
            if isinstance(plan, tuple):
                if not plan and value is None:
                    return ""
                if not isinstance(value, tuple) or len(value) != len(plan):
                    misfit(f, name)
                return "".join([take(p, v, name) for p, v in zip(plan, value)])
            if plan is not None:
                if not torch.compiler.is_compiling() and not is_struct(value, plan):
                    misfit(f, name)
                return "".join([take(p, getattr(value, n), name) for p, n in zip(plan.items, plan.names)])
            if isinstance(value, torch.Tensor):
                tensors.append(value)
                return ARRAY
            if isinstance(value, bool):
                return TRUE if value else FALSE
            if isinstance(value, float):
                floats.append(value)
                return FLOAT
            if isinstance(value, int | torch.SymInt):
                integers.append(value)
                return INTEGER
            if isinstance(value, np.ndarray | np.generic):
                tensors.append(torch.as_tensor(value))
                return ARRAY
            misfit(f, name)

        letters = []
        used = len(args)
        for k, name in enumerate(names):
            if k < len(args) and name not in named:
                letters.append(take(params[k], args[k], name))
            elif k >= len(args) and name in named:
                used += 1
                letters.append(take(params[k], named[name], name))
            elif k >= len(args) and defaults[k]:
                letters.append(DEFAULT)
            else:
                misfit(f, "", args, named)
        if seeded and "seed" in named:
            used += 1
            integers.append(named["seed"])
        if used < len(args) + len(named):
            misfit(f, "", args, named)
        return whole(result, iter(operator(tensors, floats, integers, key, NEXT.join(letters))))

    call.__name__ = call.__qualname__ = f.__name__
    call.__doc__ = f.__doc__
    if not any(map(is_nested, params)):
        return call
    hidden = torch.compiler.disable(call)

    @wraps(call)
    def visible(*args: Any, **named: Any) -> Any:  # PyTorch's compiler, given what it is not to see, looks behind it
        return hidden(*args, **named)

    return visible


def is_nested(plan: Plan, inside: bool = False) -> bool:
    """Whether a struct is in a struct: PyTorch's compiler does not see the slots of objects in slots."""
    if plan is None:
        return False
    if isinstance(plan, tuple):
        return any(is_nested(p, inside) for p in plan)
    return inside or any(is_nested(p, inside=True) for p in plan.items)


def is_struct(value: Any, plan: Struct) -> bool:
    """Whether a value is of a struct, perhaps as another program made its class."""
    return same_class(type(value), plan.type)


def misfit(f: Target, name: str, args: Sequence[Any] = (), named: Mapping[str, Any] | None = None) -> NoReturn:
    """Raises the `DlangError` of a call that can't be. name: of the argument that does not fit, if it is one."""
    function = function_of(f)
    if name:
        raise function.misuse(f"takes tensors, numbers, tuples and structs, and `{name}` is given something else")
    function.assigned(args, {k: v for k, v in (named or {}).items() if k != "seed" or not draws(f)})
    raise function.misuse("is given what it does not take")


# ---- the operator ----------------------------------------------------------------------------------------------------
@cache
def _targets() -> dict[str, Target]:
    """What can be called, by key. It stays, as the operators of PyTorch do."""
    return {}


def _target(key: str) -> Target:
    """The function of a key, derived when it is first asked for."""
    targets = _targets()
    if key not in targets:
        base, _, wanted = key.rpartition(PULL)
        if not base:
            name = key.partition("#")[0]
            help = ("call `to_torch()` of it before the graph runs",)
            raise error("E0967", f"a graph calls `{name}`, which is not an operator in this process", None, help=help)
        f = _target(base)
        names = Plans.of(f).names
        targets[key] = pulled(f, [names[int(k)] for k in wanted.split(",")])
    return targets[key]


@cache
def _operator() -> Any:
    """The operator, registered when it is first needed."""
    import torch

    schema = "(Tensor[] tensors, float[] floats, SymInt[] integers, str key, str letters) -> Tensor[]"
    operator = torch.library.custom_op("dlang::call", _run, mutates_args=(), schema=schema)
    operator.register_fake(_describe)
    operator.register_autograd(_backward, setup_context=_save)
    return operator


def _run(tensors: list[Any], floats: list[float], integers: list[int], key: str, letters: str) -> list[Any]:
    """Calls the function with the memory of the tensors."""
    import torch

    f = _target(key)
    plans = Plans.of(f)
    with torch.no_grad():
        try:
            seen = [t.detach() if t.is_cuda else TORCH.seen(t) for t in tensors]
            arguments = given(plans, letters, seen, floats, left := iter(integers))
            seed = next(left, None)  # what no leaf has taken
            result = f(**arguments) if seed is None else f(**arguments, seed=int(seed))
            return [TORCH.of(x) for x in leaves(plans.result, result)]
        except Unseen as e:
            raise unread(f.__name__, e) from e


def _describe(tensors: list[Any], floats: list[float], integers: list[Any], key: str, letters: str) -> list[Any]:
    """Empty tensors of the dtypes and sizes of the results."""
    import torch

    f = _target(key)
    plans = Plans.of(f)
    stand_ins = [Described(_dtype(t), tuple(map(_extent, t.shape))).stand_in() for t in tensors]
    arguments = given(plans, letters, stand_ins, floats, map(_extent, integers))
    device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
    return [
        torch.empty(symbols(d.shape), dtype=_torch_dtype(d.dtype), device=device)
        for d in described(f, arguments, plans.result)
    ]


def _dtype(tensor: Any) -> str:
    """The language's name of the dtype of a tensor. One that it does not have keeps PyTorch's name."""
    name = str(tensor.dtype).removeprefix("torch.")
    return dtype_name(name) or name


def _torch_dtype(dtype: str) -> Any:
    import torch

    return getattr(torch, BF16 if dtype == "bf16" else NUMPY[dtype].name)


def _extent(size: Any) -> int:
    """A size of a tensor that may be any number in a graph."""
    import torch

    if not isinstance(size, torch.SymInt):
        return int(size)
    return Extent(int(size.node.require_hint()), size)


# ---- its derivative --------------------------------------------------------------------------------------------------
def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Any]) -> None:
    tensors, ctx.floats, ctx.integers, ctx.key, ctx.letters = inputs
    ctx.save_for_backward(*tensors)
    ctx.results = [(t.shape, t.dtype, t.device) for t in output]


def _backward(ctx: Any, cotangents: list[Any]) -> tuple[Any, ...]:
    import torch

    f = _target(ctx.key)
    plans = Plans.of(f)
    letters = ctx.letters.split(NEXT)
    needed = ctx.needs_input_grad[0]
    firsts = [sum(own.count(ARRAY) for own in letters[:k]) for k in range(len(letters))]
    wanted = [
        k
        for k, own in enumerate(letters)
        if not plans.fixed[k] and any(needed[firsts[k] : firsts[k] + own.count(ARRAY)])
    ]
    slopes: list[Any] = [None] * len(needed)
    if wanted:
        bars = [
            torch.zeros(shape, dtype=dtype, device=device) if c is None else c
            for c, (shape, dtype, device) in zip(cotangents, ctx.results)
        ]
        key = f"{ctx.key}{PULL}{','.join(map(str, wanted))}"
        text = NEXT.join([*letters, ARRAY * len(bars)])
        made = iter(_operator()([*ctx.saved_tensors, *bars], ctx.floats, ctx.integers, key, text))
        for k in wanted:
            at = firsts[k]
            for letter in letters[k]:
                slope = next(made)
                if letter == ARRAY:
                    slopes[at] = slope if needed[at] else None
                    at += 1
    return slopes, [] if not ctx.floats else None, [] if not ctx.integers else None, None, None
